/* Rows of entmax in floats: the kernel beside semantics/entmax.c in double, and gradients beside the plain ones, in
   every instruction set, with whatever a call brings. */
#include "by_hand.h"
#include "isas.h"
#include "machine.h"
#include "slopes.h"
#include "soften.h"

#include <math.h>

static const double alphas[] = {1.25, 1.5, 1.7, 2, 1.05, 4. / 3};
enum { N_ALPHAS = sizeof alphas / sizeof *alphas, MOST = 300 };

/* The kernels of each instruction set that this machine runs. */
#define FOR_EACH_ISA(k)    \
    char word[32];         \
    const kernel_table *k; \
    for (int isa = 0; isa_name(isa, word, sizeof word) && !isa_kernels(word, &k); isa++)

/* ---- the kernel ---- */

typedef struct kernel_row {
    hga_id n;
    float score[MOST], count[MOST];
    int counts; /* is any not 1? */
} kernel_row;

/* Weights and slopes of all edges, from semantics/: counts' logarithms are in the scores. */
static void weigh_in_double(const kernel_row *x, double alpha, double *weight, double *steep)
{
    double score[MOST], count[MOST], own[MOST], d_count[MOST];
    for (hga_id i = 0; i < x->n; i++) score[i] = (double)x->score[i], count[i] = (double)x->count[i];
    const soften_row r = {x->n, alpha, score, weight, count, own, d_count};
    entmax_weigh(&r);
    for (hga_id i = 0; i < x->n; i++) steep[i] = weight[i] == 0 ? 0 : weight[i] * pow(count[i] / weight[i], alpha - 1);
}

static void assert_kernel_weighs(const kernel_table *k, const kernel_row *x, double alpha)
{
    double weight[MOST], steep[MOST], got[MOST] = {0}, its[MOST] = {0};
    float score[MOST], p[MOST + KERNEL_PAD], u[MOST + KERNEL_PAD];
    hga_id place[MOST + KERNEL_PAD], before = -1;
    weigh_in_double(x, alpha, weight, steep);
    memcpy(score, x->score, sizeof score);
    const hga_id have = k->entmax(&(kernel_entmax){.n = x->n,
                                                   .alpha = (float)alpha,
                                                   .step = (float)(alpha - 1),
                                                   .unit = 1,
                                                   .score = score,
                                                   .count = x->counts ? x->count : NULL,
                                                   .index = place,
                                                   .weight = p,
                                                   .slope = u});
    for (hga_id i = 0; i < have; i++) {
        assert_true(place[i] > before && place[i] < x->n);
        before = place[i], got[before] = (double)p[i], its[before] = (double)u[i];
    }
    for (hga_id i = 0; i < x->n; i++) {
        if (isnan(weight[i]) ? isnan(got[i]) && isnan(its[i]) : fabs(got[i] - weight[i]) <= 2e-6) continue;
        fail_msg("%s, alpha %g, %d edges: weight %d is %.9g, not %.9g", k->isa, alpha, x->n, i, got[i], weight[i]);
    }
    for (hga_id i = 0; i < x->n; i++) /* steep at 0 */
        if (weight[i] > 1e-4 && !(fabs(its[i] - steep[i]) <= 2e-4 * steep[i]))
            fail_msg("%s, alpha %g: slope %d is %.9g, not %.9g", k->isa, alpha, i, its[i], steep[i]);
}

/* Some scores are equal, some are not there; `odd` is one more. */
static kernel_row row_of(uint64_t seed, hga_id n, int counts, float odd)
{
    uint64_t rng = seed;
    kernel_row x = {.n = n, .counts = counts};
    for (hga_id i = 0; i < n; i++) {
        x.count[i] = counts ? (float)(1 + random_below(&rng, 9)) / 2 : 1;
        x.score[i] = (float)random_below(&rng, 1000) / (float)(100 + 100 * (seed % 5)) + logf(x.count[i]);
        if (random_below(&rng, 7) == 0) x.score[i] = -INFINITY;
        if (i && random_below(&rng, 5) == 0) x.score[i] = x.score[i - 1], x.count[i] = x.count[i - 1];
    }
    if (odd != 0) x.score[random_below(&rng, n)] = odd;
    return x;
}

static void kernels_weigh_as_the_definition_does(void **state)
{
    (void)state;
    static const float odd[] = {0, -INFINITY, NAN, INFINITY, 0, 0, 30};
    FOR_EACH_ISA(k)
    {
        for (uint64_t seed = 0; seed < 400; seed++) {
            const kernel_row x = row_of(seed, 1 + (hga_id)(seed * 37 % MOST), seed % 3 == 0, odd[seed % 7]);
            assert_kernel_weighs(k, &x, alphas[seed / 2 % N_ALPHAS]);
        }
    }
}

static void equal_scores_share(void **state)
{
    (void)state;
    kernel_row equal = {.n = MOST}, none = {.n = 5}, one = {.n = 1, .score = {-3}, .count = {1}};
    for (hga_id i = 0; i < MOST; i++)
        equal.score[i] = 80, equal.count[i] = none.count[i] = 1, none.score[i] = -INFINITY;
    FOR_EACH_ISA(k)
    {
        for (int a = 0; a < N_ALPHAS; a++) {
            assert_kernel_weighs(k, &equal, alphas[a]);
            assert_kernel_weighs(k, &none, alphas[a]);
            assert_kernel_weighs(k, &one, alphas[a]);
        }
    }
}

/* ---- gradients ---- */

static const hga_shape shapes[] = {{.n_heads = 2, .dim = 4},
                                   {.n_heads = 4, .n_kv_heads = 2, .dim = 20, .dim_v = 3},
                                   {.n_heads = 1, .dim = 64, .pos_dim = 2}};

/* Edges of any sort, weights, types, masses, positions, empty rows; biases of edges, some of which are -inf. */
static problem random_problem(uint64_t seed, hga_id n)
{
    problem p = {.name = "random", .shape = shapes[seed % 3]};
    p.graph = random_graph(
        seed, n, (unsigned)(WITH_BLOCKS | WITH_EDGES) | (seed % 2 ? WITH_TYPES : 0u) | (seed % 3 ? WITH_WEIGHTS : 0u));
    attention a = attention_on_nodes(&p.program);
    assert_ok(hga_program_attend(&p.program, 0, a.query, a.key, a.value, a.out, seed % 4 < 2));
    problem_fill(&p, seed);
    problem_fill_tables(&p, seed, seed % 2 == 0, seed % 5 == 1, seed % 4 == 1 ? p.shape.n_heads : 0);
    float *bias = (float *)(uintptr_t)p.io.edge_bias.data;
    for (int64_t i = 0; bias && i < p.io.edge_bias.rows * p.io.edge_bias.columns; i += 11) bias[i] = -INFINITY;
    assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_ENTMAX, alphas[seed / 3 % 4]));
    p.io.lse.data = NULL;
    return p;
}

static void has_plain_gradients(uint64_t seed, const char *isa)
{
    static const float slopes[] = {0.5f, 0.05f, 0, 0.2f};
    problem p = random_problem(seed, 5 + (hga_id)(seed * 13 % 150));
    const operands m = {.softcap = seed % 2 ? 0.8f : 0,
                        .slopes = seed % 4 > 1 && has_positions(p.graph) ? slopes : NULL};
    hga_options options = {.threads = 1, .dropout = seed % 3 == 1 ? 0.3f : 0, .gradient_row_ranges = 3},
                plain = options;
    p.io.seed = seed, plain.generic = 1, options.isa = isa;
    bring_to(&p.io, &m);
    slope want = slope_create(&p, seed), one = slope_create(&p, seed), more = slope_create(&p, seed);
    slope_run(&want, plain), slope_run(&one, options);
    assert_same_slopes(&want, &one, 2e-4);
    options.threads = 2 + (hga_id)(seed % 3);
    slope_run(&more, options);
    assert_same_slopes(&one, &more, 0);
    slope_clear(&want), slope_clear(&one), slope_clear(&more), problem_clear(&p);
}

static void gradients_are_the_plain_ones(void **state)
{
    (void)state;
    FOR_EACH_ISA(k)
    {
        for (uint64_t seed = 0; seed < 48; seed++)
            if (!passed_over((int)seed)) has_plain_gradients(seed, k->isa);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_weigh_as_the_definition_does),
        cmocka_unit_test(equal_scores_share),
        cmocka_unit_test(gradients_are_the_plain_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
