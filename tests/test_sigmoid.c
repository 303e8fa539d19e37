/* Sigmoids in softmax's place: against plain loops, the oracle and finite differences, in weights, JSON and words; and
   what is refused with them. */
#include "by_hand.h"
#include "isas.h"
#include "slopes.h"

static const hga_shape shapes[] = {{.n_heads = 2, .dim = 4},
                                   {.n_heads = 4, .n_kv_heads = 2, .dim = 5, .dim_v = 3},
                                   {.n_heads = 1, .dim = 8, .pos_dim = 2}};

/* Has the program what a sigmoid can take the place of? */
static int takes_sigmoids(const hga_program *p)
{
    return find_stage(p, HGA_SCORE) && !find_stage(p, HGA_ENERGY) && !find_stage(p, HGA_GATE);
}

static void put_sigmoids(problem *p, const operands *m)
{
    for (hga_id i = 0; i < p->program.n_stages; i++)
        if (p->program.stage[i].message == HGA_SCORE) p->program.stage[i].normaliser = HGA_NORMALISER_SIGMOID;
    p->program.has_lse = 0;
    p->io.lse.data = NULL, bring_to(&p->io, m);
}

static void refused(const problem *p, hga_status status, const char *because)
{
    assert_status(status, hga_attention(p->graph, &p->program, &p->shape, &p->options, &p->io));
    if (!strstr(hga_error_detail(), because)) fail_msg("'%s' does not say '%s'", hga_error_detail(), because);
}

/* Three loops, nothing of ours but the tensors. */
static void a_dense_sigmoid_is_its_formula(void **state)
{
    enum { N = 9, M = 14, DIM = 5, DIM_V = 3 };
    (void)state;
    hga_dense d;
    hga_defaults(&d);
    problem p = {.name = "dense", .shape = {.n_heads = 1, .dim = DIM, .dim_v = DIM_V}, .options = {.threads = 1}};
    operands m = {.normaliser_bias = -1.25f};
    d.n_tokens = N, d.n_keys = M;
    assert_ok(hga_build_dense(&d, &p.graph, &p.program));
    problem_fill(&p, 3), put_sigmoids(&p, &m);
    float *got = problem_out(&p, &p.options, NULL);
    const float *q = p.io.query.data, *k = p.io.key.data, *v = p.io.value.data;
    for (int i = 0; i < N; i++)
        for (int c = 0; c < DIM_V; c++) {
            double sum = 0;
            for (int j = 0; j < M; j++) {
                double dot = 0;
                for (int x = 0; x < DIM; x++) dot += (double)q[i * DIM + x] * (double)k[j * DIM + x];
                sum += (double)v[j * DIM_V + c] / (1 + exp(-(dot / sqrt(DIM) - 1.25)));
            }
            assert_true(fabs(sum - (double)got[i * DIM_V + c]) < 1e-5);
        }
    free(got), problem_clear(&p);
}

/* Every variant that has no energies: hierarchies' states are added, coarse keys count by their mass. */
static void variants_of_sigmoids_are_the_oracles(void **state)
{
    (void)state;
    int n = 0;
    for (int i = 0; i < n_variants(); i++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            problem p;
            operands m = {.normaliser_bias = 0.5f * (float)seed - 1};
            variant_build(i, 37, seed, &shapes[seed % 3], &p);
            problem_fill_tables(&p, seed, seed % 2 == 0, seed % 3 == 0, seed % 4 == 1);
            if (takes_sigmoids(&p.program)) {
                put_sigmoids(&p, &m);
                p.options.threads = 1 + (hga_id)(seed % 3);
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

static void slopes_of_sigmoids(problem *p, uint64_t seed)
{
    operands m = {.normaliser_bias = 0.75f - 0.5f * (float)(seed % 4)};
    if (!takes_sigmoids(&p->program)) return;
    put_sigmoids(p, &m);
    slope s = slope_create(p, seed);
    slope_run(&s, (hga_options){.threads = 1 + (hga_id)(seed % 2)});
    assert_is_the_slope(&s, 4e-6);
    slope_clear(&s);
}

static void gradients_of_sigmoids_are_slopes(void **state)
{
    (void)state;
    each_variant(slopes_of_sigmoids, 13, 6);
}

/* What goes in tiles, pieces and rows, on each instruction set, with what calls bring. */
static void gradients_of_many_tokens_are_the_plain_ones(void **state)
{
    (void)state;
    static const char *const words[] = {"dense", "window left=70 right=70", "bpt k=4", "bpt k=2 causal=1"};
    static const float slopes[] = {0.1f, 0.02f, 0};
    char buffer[16];
    for (int i = 0; i < 16; i++) {
        problem p = {.shape = {.n_heads = 3, .dim = 24, .dim_v = 17}, .options = {.dropout = i / 4 == 2 ? 0.25f : 0}};
        operands m = {.normaliser_bias = -1, .softcap = i / 4 == 1 ? 2.0f : 0, .slopes = i / 4 == 3 ? slopes : NULL};
        snprintf(p.name, sizeof p.name, "%s, %d", words[i % 4], i / 4);
        assert_ok(hga_build(words[i % 4], 300, &p.graph, &p.program));
        problem_fill(&p, (uint64_t)i);
        problem_fill_tables(&p, (uint64_t)i, i / 4 == 1, i / 4 == 2, i / 4 == 3);
        put_sigmoids(&p, &m);
        slope plain = slope_create(&p, 3), fast = slope_create(&p, 3);
        slope_run(&plain, (hga_options){.threads = 2, .generic = 1, .dropout = p.options.dropout});
        for (int j = 0; isa_name(j, buffer, sizeof buffer); j++) {
            slope_run(&fast, (hga_options){.threads = 1 + j % 3, .isa = buffer, .dropout = p.options.dropout});
            assert_same_slopes(&plain, &fast, 2e-5);
        }
        slope_clear(&plain), slope_clear(&fast), problem_clear(&p);
    }
}

/* ---- counts, and states that are added ---- */

enum { SOFTCAP = 1, SLOPES = 2, TYPES = 4, EDGE_BIASES = 8, DROPS = 16, SHARED_KEYS = 32, N_OPTIONS = 64 };

/* Edges listed one by one, with weights. */
static void open_weighted(problem *p, hga_id n)
{
    hga_id edges;
    hga_builder *b = tokens_alone(n);
    assert_ok(hga_builder_add_relation(b, "edges", &edges));
    for (hga_id e = 0; e < 9 * n; e++)
        assert_ok(hga_builder_add_edge(b, edges, e * 7 % (n - 1), e * 13 % n, 0, 0.25f * (float)(1 + e % 11)));
    p->graph = finished(b);
    assert_ok(hga_program_attention(&p->program, 0));
}

/* A wide block of weight 0.5, beside a window of weight 3. */
static void open_blocks(problem *p, hga_id n)
{
    const hga_block block[] = {{.n_dst = n, .n_src = n / 2, .weight = 0.5f},
                               {.dst = n / 2, .n_dst = n / 2, .src = n / 2, .n_src = n / 2, .weight = 3}};
    p->graph = blocks_over(n, block, 2);
    assert_ok(hga_program_attention(&p->program, 0));
}

#define WEIGHTED "edges with weights"
#define BLOCKS   "blocks with weights"
static const char *const counted[] = {"htransformer block=8",
                                      "htransformer block=16 causal=1",
                                      "hsa branching=2,4,8 causal=1",
                                      "fenwick",
                                      "hsa branching=4 causal=1",
                                      WEIGHTED,
                                      BLOCKS};
enum { N_COUNTED = sizeof counted / sizeof *counted, WEIGHTED_EDGES = N_COUNTED - 2 };

static problem counted_problem(int which, unsigned has, operands *m)
{
    static const float slopes[] = {0.1f, 0.02f, 0, 0.5f};
    const char *words = counted[which];
    problem p = {.shape = {.n_heads = 4, .n_kv_heads = has & SHARED_KEYS ? 2 : 4, .dim = 16, .dim_v = 24}};
    snprintf(p.name, sizeof p.name, "%s, %x", words, has);
    if (strcmp(words, WEIGHTED) == 0)
        open_weighted(&p, 200);
    else if (strcmp(words, BLOCKS) == 0)
        open_blocks(&p, 300);
    else
        assert_ok(hga_build(words, 300, &p.graph, &p.program));
    problem_fill(&p, 3);
    problem_fill_tables(&p, 3, (has & TYPES) != 0, (has & TYPES) != 0, has & EDGE_BIASES ? 4 : 0);
    *m = (operands){
        .normaliser_bias = -1.25f, .softcap = has & SOFTCAP ? 2.0f : 0, .slopes = has & SLOPES ? slopes : NULL};
    put_sigmoids(&p, m);
    return p;
}

/* The greatest size of a number, at least 1: outputs are sums, as large as there are tokens. */
static double greatest(const float *x, int64_t n)
{
    double most = 1;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs((double)x[i]));
    return most;
}

/* Whether options go together: at most three at a time. */
static int are_three(unsigned has) { return __builtin_popcount(has) <= 3; }

/* Forward and backward, as in double, and the same bits by any threads, on one instruction set after the other. */
static void counted_sigmoids_are_the_plain_ones(void **state)
{
    (void)state;
    char buffer[16];
    int n_isas = 0;
    while (isa_name(n_isas, buffer, sizeof buffer)) n_isas++;
    for (int i = 0; i < N_COUNTED; i++)
        for (unsigned has = 0; has < N_OPTIONS; has++) {
            operands m;
            if (!are_three(has) || every_other_passed_over(__builtin_popcount(has))) continue;
            problem p = counted_problem(i, has, &m);
            hga_options options = {.dropout = has & DROPS ? 0.25f : 0};
            slope plain = slope_create(&p, 3), fast = slope_create(&p, 3), again = slope_create(&p, 3);
            options.threads = 2, options.generic = 1;
            slope_run(&plain, options);
            float *want = problem_out(&p, &options, NULL);
            options.generic = 0;
            isa_name((i + (int)has) % n_isas, buffer, sizeof buffer);
            options.isa = buffer, options.threads = 1;
            slope_run(&fast, options);
            float *got = problem_out(&p, &options, NULL);
            assert_near_floats(p.name, got, want, out_count(&p), 2e-6 * greatest(want, out_count(&p)));
            assert_same_slopes(&plain, &fast, 2e-5);
            options.threads = 2 + (hga_id)has % 2;
            slope_run(&again, options);
            float *other = problem_out(&p, &options, NULL);
            assert_same_bits(p.name, got, other, out_count(&p));
            for (int k = SLOW_QUERY; k <= SLOW_VALUE; k++) assert_same_bits(p.name, fast.of[k], again.of[k], fast.n[k]);
            free(got), free(other), free(want);
            slope_clear(&plain), slope_clear(&fast), slope_clear(&again), problem_clear(&p);
        }
}

/* None of these plans is plain any more. */
static void counted_sigmoids_are_fused(void **state)
{
    (void)state;
    for (int i = 0; i < N_COUNTED; i++) {
        operands m;
        hga_plan *plan;
        char *text;
        problem p = counted_problem(i, 0, &m);
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.gradient = 1}, &plan));
        assert_ok(hga_plan_explain(plan, NULL, HGA_TEXT, &text));
        if (strstr(text, "plain sigmoid") || strstr(text, "plain state sum")) fail_msg("%s is plain", p.name);
        assert_null(plain_because(plan));
        hga_text_free(text), hga_plan_destroy(plan), problem_clear(&p);
    }
}

static double relative_difference(const float *a, const float *b, int64_t n)
{
    double size = 0;
    for (int64_t j = 0; j < n; j++) size = fmax(size, fabs((double)a[j]));
    return max_difference_floats(a, b, n) / size;
}

/* Where weights are all but 1, what they lack of it is not what a difference in float leaves of it. */
static void small_gradients_of_weights_near_one_are_right(void **state)
{
    (void)state;
    static const char *const words[] = {"dense", "window left=3 right=0"};
    char buffer[16];
    for (int i = 0; i < 2; i++) {
        problem p = {.name = "near one", .shape = {.n_heads = 2, .dim = 8}};
        operands m = {.normaliser_bias = 15};
        assert_ok(hga_build(words[i], 90, &p.graph, &p.program));
        problem_fill(&p, 5), put_sigmoids(&p, &m);
        slope plain = slope_create(&p, 3), fast = slope_create(&p, 3);
        slope_run(&plain, (hga_options){.threads = 1, .generic = 1});
        for (int j = 0; isa_name(j, buffer, sizeof buffer); j++) {
            slope_run(&fast, (hga_options){.threads = 1, .isa = buffer});
            for (int k = SLOW_QUERY; k <= SLOW_KEY; k++)
                assert_true(relative_difference(plain.of[k], fast.of[k], plain.n[k]) < 2e-5);
        }
        slope_clear(&plain), slope_clear(&fast), problem_clear(&p);
    }
}

/* Whatever is given for it, in a tile's lanes as by itself. */
static void a_row_without_edges_asks_for_nothing(void **state)
{
    enum { N = 40, DIM = 8, EMPTY = 21 };
    (void)state;
    char buffer[16];
    const hga_block block[] = {{.n_dst = EMPTY, .n_src = N}, {.dst = EMPTY + 1, .n_dst = N - EMPTY - 1, .n_src = N}};
    problem p = {.name = "a row without edges", .shape = {.n_heads = 2, .dim = DIM}};
    p.graph = blocks_over(N, block, 2);
    assert_ok(hga_program_attention(&p.program, 0));
    problem_fill(&p, 1), put_sigmoids(&p, &(operands){.normaliser_bias = -1});
    slope s = slope_create(&p, 3);
    for (int c = 0; c < 2 * DIM; c++) s.d_out[EMPTY * 2 * DIM + c] = NAN;
    for (int i = 0; isa_name(i, buffer, sizeof buffer); i++) {
        float *out = problem_out(&p, &(hga_options){.threads = 1, .isa = buffer}, NULL);
        for (int c = 0; c < 2 * DIM; c++) assert_true(out[EMPTY * 2 * DIM + c] == 0);
        slope_run(&s, (hga_options){.threads = 1, .isa = buffer});
        for (int k = SLOW_QUERY; k <= SLOW_VALUE; k++)
            for (int64_t j = 0; j < s.n[k]; j++) assert_true(isfinite(s.of[k][j]));
        free(out);
    }
    slope_clear(&s), problem_clear(&p);
}

/* Edges get weights, and lose them again: results are those of the new edges, with a new plan's bits. */
static void an_update_has_a_new_plans_bits(void **state)
{
    enum { N = 40 };
    (void)state;
    hga_plan *plan;
    hga_workspace *w;
    hga_graph *graph[3];
    for (int i = 0; i < 3; i++)
        graph[i] = blocks_over(N, &(hga_block){.n_dst = N, .n_src = N, .weight = i == 1 ? 0.5f : 1}, 1);
    problem p = {.name = "an update", .shape = {.n_heads = 2, .dim = 8}, .graph = graph[2]};
    assert_ok(hga_program_attention(&p.program, 0));
    problem_fill(&p, 1), put_sigmoids(&p, &(operands){.normaliser_bias = -1});
    assert_ok(hga_plan_create(graph[0], &p.program, &p.shape, &(hga_options){.threads = 1}, &plan));
    assert_ok(hga_plan_update(plan, graph[1]));
    double *want;
    for (int i = 1; i < 3; i++) {
        if (i == 2) assert_ok(hga_plan_update(plan, graph[2]));
        assert_ok(hga_workspace_create(plan, &w));
        assert_ok(hga_plan_execute(plan, w, &p.io));
        slow_execute(graph[i], &p.program, &p.shape, &p.io, &want, NULL);
        assert_near("updated", p.io.out.data, want, out_count(&p), 2e-5);
        hga_workspace_destroy(w), free(want);
    }
    float *fresh = problem_out(&p, &(hga_options){.threads = 1}, NULL);
    assert_same_bits("updated", p.io.out.data, fresh, out_count(&p));
    hga_plan_destroy(plan), free(fresh);
    hga_graph_destroy(graph[0]), hga_graph_destroy(graph[1]), problem_clear(&p);
}

/* ---- weights ---- */

/* What a token pays is what its output is made of: values of ones give the sum of its weights. */
static void weights_are_what_outputs_are_made_of(void **state)
{
    (void)state;
    static const char *const names[] = {"neighbours", "bpt", "window"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        problem p;
        operands m = {.normaliser_bias = -0.5f};
        variant_build(variant_named(names[i]), 41, 7, &shapes[0], &p);
        put_sigmoids(&p, &m);
        float *v = p.io.value.data;
        for (int64_t j = 0; j < p.n_value * 2 * 4; j++) v[j] = 1;
        float *out = problem_out(&p, &p.options, NULL);
        hga_id n_keys = hga_graph_nodes(p.graph).n_keys;
        double *share = memory(n_keys, sizeof *share), sum = 0;
        assert_ok(hga_program_weights(&p.program, p.graph, &p.shape, &p.io, 17, 1, NULL, NULL, share));
        for (hga_id j = 0; j < n_keys; j++) sum += share[j];
        assert_true(fabs(sum - (double)out[(17 * 2 + 1) * 4]) < 1e-4 * sum);
        assert_true(fabs(sum - 1) > 0.1);
        free(share), free(out), problem_clear(&p);
    }
}

/* ---- words ---- */

static void json_and_explanations_say_sigmoid(void **state)
{
    (void)state;
    problem p;
    hga_program back;
    hga_plan *plan;
    char *text;
    variant_build(variant_named("neighbours"), 20, 1, &shapes[0], &p);
    assert_ok(hga_program_to_json(&p.program, p.graph, &text));
    assert_null(strstr(text, "normaliser"));
    hga_text_free(text), put_sigmoids(&p, NULL);
    assert_ok(hga_program_to_json(&p.program, p.graph, &text));
    assert_non_null(strstr(text, "\"normaliser\": \"sigmoid\""));
    assert_ok(hga_program_from_json(text, p.graph, &back));
    for (hga_id i = 0; i < back.n_stages; i++)
        assert_int_equal(back.stage[i].normaliser, p.program.stage[i].normaliser);
    hga_graph *read;
    assert_ok(hga_program_write_file(&p.program, p.graph, "sigmoid.json"));
    assert_ok(hga_program_read_file(NULL, "sigmoid.json", &read, &back));
    assert_int_equal(find_stage(&back, HGA_SCORE)->normaliser, HGA_NORMALISER_SIGMOID);
    hga_graph_destroy(read);
    FILE *file = fopen("sigmoid.json", "r");
    char head[200] = "";
    assert_true(file && fread(head, 1, sizeof head - 1, file) > 0);
    assert_non_null(strstr(head, "\"schema\": 2"));
    fclose(file), remove("sigmoid.json");
    char *word = strstr(text, "sigmoid");
    memcpy(word, "softmin", 7);
    assert_status(HGA_EFORMAT, hga_program_from_json(text, p.graph, &back));
    assert_non_null(strstr(hga_error_detail(), "'normaliser' cannot be 'softmin'"));
    hga_text_free(text);
    for (int generic = 0; generic < 2; generic++) {
        hga_options o = {.gradient = 1, .generic = generic};
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan));
        assert_ok(hga_plan_explain(plan, NULL, HGA_TEXT, &text));
        assert_true((strstr(text, "plain sigmoid") != NULL) == generic);
        assert_true((strstr(text, "rows state sum") != NULL) == !generic);
        hga_text_free(text), hga_plan_destroy(plan);
    }
    problem_clear(&p);
}

/* ---- what is refused ---- */

static hga_stage *find_coarsening(problem *p)
{
    hga_stage *s = p->program.stage;
    while (s->message != HGA_COPY) s++;
    return s;
}

static void what_has_no_meaning_is_refused_by_name(void **state)
{
    (void)state;
    problem p;
    operands m = {.normaliser_bias = NAN};
    variant_build(variant_named("hsa"), 20, 1, &shapes[0], &p);
    put_sigmoids(&p, NULL);
    refused(&p, HGA_EPROGRAM, "reads log-sum-exps, which normaliser sigmoid has not");
    problem_clear(&p);
    variant_build(variant_named("neighbours"), 100, 1, &shapes[0], &p);
    put_sigmoids(&p, &m);
    refused(&p, HGA_EINVAL, "normaliser_bias nan is not finite");
    bring_to(&p.io, NULL), p.program.has_lse = 1;
    refused(&p, HGA_EPROGRAM, "the program promises an LSE, which normaliser sigmoid has not");
    p.program.has_lse = 0;
    find_coarsening(&p)->normaliser = HGA_NORMALISER_SIGMOID;
    refused(&p, HGA_EPROGRAM, "has no normaliser sigmoid");
    problem_clear(&p);
    variant_build(variant_named("window"), 30, 1, &shapes[0], &p);
    put_sigmoids(&p, NULL);
    const hga_stage *s = find_stage(&p.program, HGA_SCORE);
    assert_ok(hga_program_attend_more(&p.program, s->relation, s->query, s->key, s->value, s->out, 0));
    refused(&p, HGA_EPROGRAM, "normaliser softmax, where a stage before it has sigmoid");
    problem_clear(&p);
}

/* Each allocation that fails is told and leaves nothing behind. */
static void failures_are_told(void **state)
{
    (void)state;
    operands m;
    problem p = counted_problem(WEIGHTED_EDGES, 0, &m);
    slope s = slope_create(&p, 1);
    assert_failures_are_told(&s, 0, 4);
    slope_clear(&s), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dense_sigmoid_is_its_formula),
        cmocka_unit_test(variants_of_sigmoids_are_the_oracles),
        cmocka_unit_test(gradients_of_sigmoids_are_slopes),
        cmocka_unit_test(gradients_of_many_tokens_are_the_plain_ones),
        cmocka_unit_test(counted_sigmoids_are_the_plain_ones),
        cmocka_unit_test(counted_sigmoids_are_fused),
        cmocka_unit_test(small_gradients_of_weights_near_one_are_right),
        cmocka_unit_test(a_row_without_edges_asks_for_nothing),
        cmocka_unit_test(an_update_has_a_new_plans_bits),
        cmocka_unit_test(weights_are_what_outputs_are_made_of),
        cmocka_unit_test(json_and_explanations_say_sigmoid),
        cmocka_unit_test(what_has_no_meaning_is_refused_by_name),
        cmocka_unit_test(failures_are_told),
    };
    return cmocka_run_group_tests_name("sigmoid", tests, NULL, NULL);
}
