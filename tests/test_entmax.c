/* Entmax in softmax's place: against known answers, the oracle's bisection and finite differences, in weights, JSON and
   words; and what is refused with it. */
#include "by_hand.h"
#include "slopes.h"

static const hga_shape shapes[] = {{.n_heads = 2, .dim = 4},
                                   {.n_heads = 4, .n_kv_heads = 2, .dim = 5, .dim_v = 3},
                                   {.n_heads = 1, .dim = 8, .pos_dim = 2}};
static const double alphas[] = {1.5, 2, 1.05, 1.3};

/* No state is merged into another, and energies are of no causal graph. */
static int takes_entmax(const problem *x)
{
    const hga_program *p = &x->program;
    for (hga_id i = 0; i < p->n_stages; i++) {
        hga_message m = p->stage[i].message;
        if (m == HGA_STATE || (m == HGA_ENERGY && hga_graph_nodes(x->graph).claims & HGA_CLAIM_CAUSAL)) return 0;
        if (m == HGA_SCORE && p->stage[i].update != HGA_REPLACE) return 0;
    }
    return find_stage(p, HGA_SCORE) != NULL;
}

static void put_entmax(problem *p, double alpha)
{
    assert_ok(hga_program_normalise(&p->program, HGA_NORMALISER_ENTMAX, alpha));
    p->io.lse.data = NULL;
}

static void refused(const problem *p, const char *because)
{
    assert_status(HGA_EPROGRAM, hga_attention(p->graph, &p->program, &p->shape, &p->options, &p->io));
    if (!strstr(hga_error_detail(), because)) fail_msg("'%s' does not say '%s'", hga_error_detail(), because);
}

/* n queries of one head and dim 1, each 1, on m keys that are their scores; the rows of values are the unit vectors, so
   that outputs are weights. */
enum { MOST_KEYS = 6 };
static problem scores_alone(int queries, int keys, const float *scores)
{
    hga_dense d;
    hga_defaults(&d);
    problem p = {.name = "dense", .shape = {.n_heads = 1, .dim = 1, .dim_v = MOST_KEYS}, .options = {.threads = 1}};
    d.n_tokens = queries, d.n_keys = keys;
    assert_ok(hga_build_dense(&d, &p.graph, &p.program));
    problem_fill(&p, 1);
    float *q = p.io.query.data, *k = p.io.key.data, *v = p.io.value.data;
    for (int i = 0; i < queries; i++) q[i] = 1;
    for (int j = 0; j < keys; j++) {
        k[j] = scores[j];
        for (int c = 0; c < MOST_KEYS; c++) v[j * MOST_KEYS + c] = c == j;
    }
    return p;
}

static void assert_weights(double alpha, int keys, const float *scores, const double *want)
{
    for (int generic = 0; generic < 2; generic++) {
        problem p = scores_alone(1, keys, scores);
        put_entmax(&p, alpha);
        p.options.generic = generic;
        float *got = problem_out(&p, &p.options, NULL);
        for (int j = 0; j < keys; j++)
            if (!(want[j] == 0 ? got[j] == 0 : fabs((double)got[j] - want[j]) < 1e-6))
                fail_msg("alpha %g: weight %d is %g, not %g", alpha, j, (double)got[j], want[j]);
        free(got), problem_clear(&p);
    }
}

/* alpha 2: [s - tau]+, tau = (sum of the support - 1) / its size. alpha 1.5: [s / 2 - tau]+^2. */
static void weights_are_the_known_ones(void **state)
{
    (void)state;
    assert_weights(2, 4, (const float[]){1, 0.5f, -1, 0}, (const double[]){0.75, 0.25, 0, 0});
    assert_weights(2, 3, (const float[]){3, 1, 0}, (const double[]){1, 0, 0});
    assert_weights(2, 4, (const float[]){2, 2, 0.5f, 2}, (const double[]){1. / 3, 1. / 3, 0, 1. / 3});
    assert_weights(1.5, 3, (const float[]){2, 2, -1}, (const double[]){0.5, 0.5, 0});
    assert_weights(1.5, 2, (const float[]){0.4f, 0}, (const double[]){0.640, 0.360}); /* 0.8^2 and 0.6^2 */
    assert_weights(1.5, 2, (const float[]){2.5f, 0}, (const double[]){1, 0});
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++) {
        assert_weights(alphas[a], 1, (const float[]){-3}, (const double[]){1});
        assert_weights(alphas[a], 5, (const float[]){0, -1000, 0, 0, 0}, (const double[]){0.25, 0, 0.25, 0.25, 0.25});
    }
}

/* The row of the output is that of softmax in the limit, and alpha 1 is softmax, log-sum-exp and all. */
static void alpha_one_is_softmax(void **state)
{
    (void)state;
    const float scores[] = {1, 0.5f, -0.5f, 0.25f, -1};
    problem p = scores_alone(1, 5, scores);
    float *lse, *softmax = problem_out(&p, &p.options, &lse), *one_lse;
    assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_ENTMAX, 1));
    float *one = problem_out(&p, &p.options, &one_lse);
    assert_memory_equal(one, softmax, MOST_KEYS * sizeof *one);
    assert_memory_equal(one_lse, lse, sizeof *lse);
    double far = 0, off = 0;
    for (int i = 0; i < 2; i++) {
        put_entmax(&p, i ? 1.05 : 1.5);
        float *out = problem_out(&p, &p.options, NULL);
        far = off, off = 0;
        for (int j = 0; j < 5; j++) off = fmax(off, fabs((double)out[j] - (double)softmax[j]));
        free(out);
    }
    assert_true(off < 0.02 && off < 0.15 * far);
    free(lse), free(softmax), free(one_lse), free(one), problem_clear(&p);
}

/* Values of what has no weight are not looked at. */
static void only_the_supports_values_are_read(void **state)
{
    (void)state;
    for (int generic = 0; generic < 2; generic++) {
        problem p = scores_alone(2, 4, (const float[]){4, 4, 0, -2});
        float *v = p.io.value.data;
        for (int c = 0; c < MOST_KEYS; c++) v[2 * MOST_KEYS + c] = NAN, v[3 * MOST_KEYS + c] = INFINITY;
        put_entmax(&p, 1.5);
        p.options.generic = generic;
        float *got = problem_out(&p, &p.options, NULL);
        for (int c = 0; c < MOST_KEYS; c++) assert_true(fabs((double)got[c] - (c < 2 ? 0.5 : 0)) < 1e-6);
        free(got), problem_clear(&p);
    }
}

/* An edge of weight 3 is three edges (of three types), so that keys of equal scores share by weight. */
static void a_weight_counts_tokens(void **state)
{
    (void)state;
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++) {
        problem p[2];
        for (int i = 0; i < 2; i++) {
            hga_builder *b = tokens_alone(4);
            hga_id near;
            p[i] = (problem){.name = "weights", .shape = {.n_heads = 2, .dim = 3}, .options = {.threads = 1}};
            assert_ok(hga_builder_add_relation(b, "near", &near));
            for (hga_id u = 0; u < 4; u++)
                for (int32_t type = 0; type < (i && u == 1 ? 3 : 1); type++)
                    assert_ok(hga_builder_add_edge(b, near, u, 2, type, u == 1 && !i ? 3 : 1));
            p[i].graph = finished(b);
            assert_ok(hga_program_attention(&p[i].program, near));
            problem_fill(&p[i], 5), put_entmax(&p[i], alphas[a]);
        }
        float *once = problem_out(&p[0], &p[0].options, NULL), *thrice = problem_out(&p[1], &p[1].options, NULL);
        assert_near_floats("weights", once, thrice, out_count(&p[0]), 1e-6);
        for (int c = 0; c < 6; c++) assert_true(once[c] == 0); /* token 0 has no edges */
        free(once), free(thrice), problem_clear(&p[0]), problem_clear(&p[1]);
    }
}

/* Every variant that merges no states; rows in pieces have one threshold. */
static void variants_of_entmax_are_the_oracles(void **state)
{
    (void)state;
    int n = 0;
    for (int i = 0; i < n_variants(); i++)
        for (uint64_t seed = 0; seed < 8; seed++) {
            problem p;
            variant_build(i, 37, seed, &shapes[seed % 3], &p);
            problem_fill_tables(&p, seed, seed % 2 == 0, seed % 3 == 0, seed % 4 == 1);
            if (takes_entmax(&p)) {
                put_entmax(&p, alphas[(seed + (uint64_t)i) % 4]);
                p.options.threads = 1 + (hga_id)(seed % 3);
                p.options.cut_edges = seed % 2 ? 0 : 5;
                float *got = problem_out(&p, &p.options, NULL);
                double *want;
                slow_execute(p.graph, &p.program, &p.shape, &p.io, &want, NULL);
                assert_near(p.name, got, want, out_count(&p), 2e-5);
                free(got), free(want), n++;
            }
            problem_clear(&p);
        }
    assert_true(n > 40);
}

/* Edges of any sort, weights, types, positions, empty rows. */
static problem random_problem(uint64_t seed, hga_id n)
{
    problem p = {.name = "random", .shape = shapes[seed % 3], .options = {.threads = 1 + (hga_id)(seed % 2)}};
    p.graph = random_graph(
        seed, n, (unsigned)(WITH_BLOCKS | WITH_EDGES) | (seed % 2 ? WITH_TYPES : 0u) | (seed % 3 ? WITH_WEIGHTS : 0u));
    attention a = attention_on_nodes(&p.program);
    assert_ok(hga_program_attend(&p.program, 0, a.query, a.key, a.value, a.out, seed % 4 < 2));
    problem_fill(&p, seed), problem_fill_tables(&p, seed, seed % 2 == 0, seed % 5 == 1, 0);
    put_entmax(&p, alphas[seed / 2 % 4]);
    return p;
}

static void random_graphs_are_the_oracles(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        problem p = random_problem(seed, 3 + (hga_id)(seed % 50));
        double *want;
        if (seed % 3 == 0) p.options.cut_edges = 3;
        float *got = problem_out(&p, &p.options, NULL);
        slow_execute(p.graph, &p.program, &p.shape, &p.io, &want, NULL);
        assert_near(p.name, got, want, out_count(&p), 2e-5);
        free(got), free(want), problem_clear(&p);
    }
}

/* A cap, slopes, both or nothing. */
static void modify(problem *p, uint64_t seed, operands *m)
{
    static const float slopes[] = {0.5f, 0.05f, 0, 0.2f};
    *m = (operands){.softcap = seed % 2 ? 0.8f : 0};
    if (seed % 4 > 1 && has_positions(p->graph)) m->slopes = slopes;
    bring_to(&p->io, m);
}

/* Whatever the instruction set, the precision, what is dropped, how heads share, which rows are wanted, and what is
   done with scores. */
static void rows_are_the_plain_ones(void **state)
{
    (void)state;
    operands m;
    static const char *const isas[] = {NULL, FLOAT_ISAS};
    int tried = 0;
    for (uint64_t seed = 0; seed < 64; seed++) {
        problem p = random_problem(seed, 20 + (hga_id)(seed % 90));
        hga_options fast = {.threads = 1 + (hga_id)(seed % 3),
                            .isa = isas[seed % 4],
                            .precision = seed % 5 == 0 ? HGA_PRECISION_BF16 : HGA_PRECISION_F32,
                            .dropout = seed % 3 == 1 ? 0.3f : 0,
                            .cut_edges = seed % 4 == 3 ? 7 : 0,
                            .rows = seed % 7 == 2 ? HGA_SOME_ROWS : HGA_EVERY_ROW};
        hga_options plain = {
            .threads = 1, .generic = 1, .dropout = fast.dropout, .rows = fast.rows, .precision = fast.precision};
        p.io.seed = seed;
        modify(&p, seed / 8, &m);
        p.io.rows = fast.rows ? SOME_ROWS(3, 11) : NULL;
        float *got = NULL, *want = problem_out(&p, &plain, NULL);
        hga_plan *plan;
        if (hga_plan_create(p.graph, &p.program, &p.shape, &fast, &plan) == HGA_OK) { /* the machine has it */
            hga_plan_destroy(plan);
            got = problem_out(&p, &fast, NULL), tried++;
            int64_t row = out_count(&p) / p.n_out, first = fast.rows ? 3 : 0, n = fast.rows ? 11 : p.n_out;
            assert_near_floats(p.name, got + first * row, want + first * row, n * row, 1e-5);
        }
        free(got), free(want), problem_clear(&p);
    }
    assert_true(tried >= 32);
}

/* Chunks, pieces and threads do not show in a row's threshold. */
static void a_long_row_has_one_threshold(void **state)
{
    (void)state;
    hga_dense d;
    hga_defaults(&d);
    problem p = {.name = "long", .shape = {.n_heads = 2, .dim = 6}};
    d.n_tokens = 3, d.n_keys = 5000;
    assert_ok(hga_build_dense(&d, &p.graph, &p.program));
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++) {
        if (!a) problem_fill(&p, 9);
        put_entmax(&p, alphas[a]);
        float *cut = problem_out(&p, &(hga_options){.threads = 3, .cut_edges = 64}, NULL),
              *plain = problem_out(&p, &(hga_options){.threads = 1, .generic = 1}, NULL);
        assert_near_floats("long rows", cut, plain, out_count(&p), 1e-5);
        free(cut), free(plain);
    }
    problem_clear(&p);
}

/* The slope has kinks where a key enters the support, so steps are small. */
static void check_slopes(problem *p, uint64_t seed)
{
    slope s = slope_create(p, seed);
    slope_run(&s, (hga_options){.threads = 1 + (hga_id)(seed % 2)});
    assert_is_the_slope_by(&s, 1e-5, 1e-6);
    slope_clear(&s);
}

static void slopes_of_entmax(problem *p, uint64_t seed)
{
    if (!takes_entmax(p)) return;
    put_entmax(p, alphas[seed % 4]);
    check_slopes(p, seed);
}

static void gradients_of_entmax_are_slopes(void **state)
{
    (void)state;
    each_variant(slopes_of_entmax, 11, 4);
    for (uint64_t seed = 0; seed < 16; seed++) {
        if (passed_over((int)seed)) continue;
        problem p = random_problem(seed, 3 + (hga_id)(seed % 20));
        check_slopes(&p, seed), problem_clear(&p);
    }
}

/* ---- weights ---- */

static hga_status count_zeros(const hga_weight *w, void *context)
{
    ((int *)context)[w->weight == 0]++;
    return HGA_OK;
}

static void what_a_token_pays_sums_to_one_and_has_zeros(void **state)
{
    (void)state;
    static const char *const names[] = {"window", "bpt", "dense"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        problem p;
        int seen[2] = {0, 0};
        variant_build(variant_named(names[i]), 60, 7, &shapes[0], &p);
        put_entmax(&p, 2);
        p.io.scale.data = &(float){3};
        hga_id n_keys = hga_graph_nodes(p.graph).n_keys;
        double *share = memory(n_keys, sizeof *share), sum = 0;
        assert_ok(hga_program_weights(&p.program, p.graph, &p.shape, &p.io, 17, 1, count_zeros, seen, share));
        for (hga_id j = 0; j < n_keys; j++) sum += share[j];
        assert_true(fabs(sum - 1) < 1e-12);
        assert_true(seen[0] > 0 && seen[1] > 0);
        free(share), problem_clear(&p);
    }
}

/* ---- words ---- */

static void json_and_explanations_say_entmax(void **state)
{
    (void)state;
    problem p;
    hga_program back;
    hga_plan *plan;
    char *text;
    variant_build(variant_named("window"), 20, 1, &shapes[0], &p);
    put_entmax(&p, 1.25);
    assert_ok(hga_program_to_json(&p.program, p.graph, &text));
    assert_non_null(strstr(text, "\"normaliser\": \"entmax\""));
    assert_non_null(strstr(text, "\"alpha\": 1.25"));
    assert_ok(hga_program_from_json(text, p.graph, &back));
    assert_true(find_stage(&back, HGA_SCORE)->alpha == 1.25);
    char *word = strstr(text, "1.25");
    memcpy(word, "3.25", 4);
    assert_status(HGA_EPROGRAM, hga_program_from_json(text, p.graph, &back));
    assert_non_null(strstr(hga_error_detail(), "entmax's alpha is 3.25, not 1 and not from 1.05 to 2"));
    hga_text_free(text);
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.gradient = 1}, &plan));
    assert_ok(hga_plan_explain(plan, NULL, HGA_TEXT, &text));
    assert_non_null(strstr(text, "entmax"));
    hga_text_free(text), hga_plan_destroy(plan), problem_clear(&p);
}

/* ---- what is refused ---- */

static void what_merges_states_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *variant, *because;
    } rows[] = {{"hsa_causal_self", "entmax of energies is not defined on causal graphs"},
                {"neighbours", "spread merges states, and those of entmax cannot be merged"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        problem p;
        variant_build(variant_named(rows[i].variant), 100, 1, &shapes[0], &p);
        put_entmax(&p, 1.5);
        refused(&p, rows[i].because);
        assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_ENTMAX, 1)); /* softmax */
        assert_ok(hga_attention(p.graph, &p.program, &p.shape, &p.options, &p.io));
        problem_clear(&p);
    }
}

static void what_has_no_meaning_is_refused_by_name(void **state)
{
    (void)state;
    problem p;
    hga_program none;
    variant_build(variant_named("window"), 30, 1, &shapes[0], &p);
    static const double bad[] = {0, 0.5, 1.04, 2.001, -1, INFINITY, NAN};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) put_entmax(&p, bad[i]), refused(&p, "entmax's alpha is");
    assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_SOFTMAX, 1.5));
    refused(&p, "alpha 1.5, which softmax has not");
    put_entmax(&p, 1.5), p.program.has_lse = 1;
    refused(&p, "the program promises an LSE, which normaliser entmax has not");
    p.program.has_lse = 0;
    operands m = {.normaliser_bias = 1};
    bring_to(&p.io, &m);
    assert_status(HGA_EUNSUPPORTED, hga_attention(p.graph, &p.program, &p.shape, &p.options, &p.io));
    assert_non_null(strstr(hga_error_detail(), "normaliser_bias: the program's normaliser has no bias"));
    bring_to(&p.io, NULL);
    const hga_stage *s = find_stage(&p.program, HGA_SCORE);
    assert_ok(hga_program_attend_more(&p.program, s->relation, s->query, s->key, s->value, s->out, 0));
    put_entmax(&p, 2);
    refused(&p, "attend more merges states, and those of entmax cannot be merged");
    p.program.stage[p.program.n_stages - 1].alpha = 1.5;
    refused(&p, "alpha 1.5, where a stage before it has 2");
    hga_program_init(&none);
    assert_status(HGA_EPROGRAM, hga_program_normalise(&none, HGA_NORMALISER_ENTMAX, 1.5));
    assert_non_null(strstr(hga_error_detail(), "no stage attends"));
    problem_clear(&p);
}

/* Each allocation that fails is told and leaves nothing behind. */
static void failures_are_told(void **state)
{
    (void)state;
    problem p;
    variant_build(variant_named("hsa"), 21, 1, &shapes[0], &p); /* test_ways.c has the others */
    put_entmax(&p, 1.5);
    slope s = slope_create(&p, 1);
    assert_failures_are_told(&s, 0, 4);
    slope_clear(&s), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_the_known_ones),
        cmocka_unit_test(alpha_one_is_softmax),
        cmocka_unit_test(only_the_supports_values_are_read),
        cmocka_unit_test(a_weight_counts_tokens),
        cmocka_unit_test(variants_of_entmax_are_the_oracles),
        cmocka_unit_test(random_graphs_are_the_oracles),
        cmocka_unit_test(rows_are_the_plain_ones),
        cmocka_unit_test(a_long_row_has_one_threshold),
        cmocka_unit_test(gradients_of_entmax_are_slopes),
        cmocka_unit_test(what_a_token_pays_sums_to_one_and_has_zeros),
        cmocka_unit_test(json_and_explanations_say_entmax),
        cmocka_unit_test(what_merges_states_is_refused_by_name),
        cmocka_unit_test(what_has_no_meaning_is_refused_by_name),
        cmocka_unit_test(failures_are_told),
    };
    return cmocka_run_group_tests_name("entmax", tests, NULL, NULL);
}
