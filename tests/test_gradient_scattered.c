/* Edges listed one by one, which go back from their rows and from their sources, all heads at once, or, where scores
   have other parts, a head at a time. */
#include "kernels.h"
#include "machine.h"
#include "slopes.h"

enum { ROWS = 300, SOURCES = 90, HUB = 7, UNSEEN = 8, WIDE = 13 };

/* Rows without edges and one with many, a source that more rows see than a kernel takes at once and one that none
   sees, the same edge twice, weights. */
static void add_edges(hga_builder *b, uint64_t *rng, hga_id near, hga_id first, hga_id sources)
{
    for (hga_id v = 0; v < ROWS; v++) {
        if (v % 11 == 5) continue;
        assert_ok(hga_builder_add_edge(b, near, first + HUB, v, v % 4, 0.5f));
        for (hga_id i = 0, u, n = v == WIDE ? 200 : v % 12; i < n; i++) {
            if ((u = random_below(rng, sources)) == UNSEEN) continue;
            float weight = 0.25f * (float)(1 + u % 6);
            assert_ok(hga_builder_add_edge(b, near, first + u, v, i % 5, weight));
            if (i == 3) assert_ok(hga_builder_add_edge(b, near, first + u, v, i % 5, weight));
        }
    }
}

/* Queries and keys are the same tokens or, where `cross` says so, others; scores have sources' masses, or not. */
static problem scattered_problem(uint64_t seed, hga_shape shape, int cross, int by_mass)
{
    problem p = {.shape = shape};
    uint64_t rng = seed;
    hga_id near, first = cross ? ROWS : 0, sources = cross ? SOURCES : ROWS, q, k, v, out;
    hga_builder *b;
    snprintf(p.name, sizeof p.name, "scattered edges %llu", (unsigned long long)seed);
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, cross ? ROWS + SOURCES : ROWS, NULL));
    if (cross) assert_ok(hga_builder_set_tokens(b, 0, ROWS, first, SOURCES));
    for (hga_id i = 0; i < sources; i++) assert_ok(hga_builder_set_mass(b, first + i, 0.5f + (float)(i % 7)));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    add_edges(b, &rng, near, first, sources);
    hga_program_init(&p.program);
    assert_ok(hga_program_add_field(&p.program, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES,
                                    HGA_ROWS_QUERIES, &q));
    assert_ok(hga_program_add_field(&p.program, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_KEYS, &k));
    assert_ok(
        hga_program_add_field(&p.program, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_KEYS, &v));
    assert_ok(hga_program_add_field(&p.program, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES,
                                    &out));
    assert_ok(hga_program_attend(&p.program, near, q, k, v, out, by_mass));
    assert_ok(hga_builder_finish(b, &p.graph));
    hga_builder_destroy(b);
    problem_fill(&p, seed);
    return p;
}

static const hga_shape shapes[] = {{.n_heads = 2, .dim = 16},
                                   {.n_heads = 6, .n_kv_heads = 2, .dim = 5, .dim_v = 19},
                                   {.n_heads = 3, .n_kv_heads = 1, .dim = 33, .dim_v = 8, .pos_dim = 3},
                                   {.n_heads = 12, .n_kv_heads = 4, .dim = 64, .dim_v = 32},
                                   {.n_heads = 8, .dim = 8, .dim_v = 4}, /* heads side by side in a vector .. */
                                   {.n_heads = 16, .dim = 2, .dim_v = 1},
                                   {.n_heads = 5, .dim = 1, .dim_v = 8}, /* .. and not to its end */
                                   {.n_heads = 1, .dim = 16},
                                   {.n_heads = 6, .n_kv_heads = 3, .dim = 1, .dim_v = 4}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* Of any shape, products and sums. */
static void plain_scores_go_with_all_heads(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * N_SHAPES; i++) {
        problem p = scattered_problem(1, shapes[i / 2], 0, 1);
        hga_plan *plan;
        if (i % 2) p.program.scores = HGA_SCORES_ADDITIVE;
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.gradient = 1}, &plan));
        assert_string_equal(way_back(plan), "row by row and source by source, all heads together");
        hga_plan_destroy(plan), problem_clear(&p);
    }
}

/* Rows of the same number of edges, to tokens anywhere. */
static problem even_rows(hga_id n, hga_id degree, hga_shape shape)
{
    problem p = {.name = "even rows", .shape = shape};
    uint64_t rng = 5;
    hga_id near;
    hga_builder *b;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, n, NULL));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id v = 0; v < n; v++)
        for (hga_id i = 0; i < degree; i++) assert_ok(hga_builder_add_edge(b, near, random_below(&rng, n), v, 0, 1));
    assert_ok(hga_builder_finish(b, &p.graph));
    hga_builder_destroy(b);
    assert_ok(hga_program_attention(&p.program, near));
    problem_fill(&p, 1);
    return p;
}

/* Of two solvers the faster one goes, by estimate, and the other one's reason has both times; gradients are the plain
   ones. */
static void the_faster_solver_goes(void **state)
{
    (void)state;
    static const char *const all_heads = "row by row and source by source, all heads together", *const by_heads =
                                                                                                    "a head at a time";
    static const struct {
        hga_id n, degree;
        hga_shape shape;
        int together;
    } cases[] = {{600, 3, {.n_heads = 8, .dim = 8}, 1},
                 {600, 40, {.n_heads = 8, .dim = 8}, 1},
                 {600, 3, {.n_heads = 2, .dim = 64}, 1},
                 {600, 40, {.n_heads = 2, .dim = 64}, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        problem p = even_rows(cases[i].n, cases[i].degree, cases[i].shape);
        const char *name, *refusal, *other = cases[i].together ? by_heads : all_heads;
        hga_plan *plan;
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.gradient = 1}, &plan));
        assert_string_equal(way_back(plan), cases[i].together ? all_heads : by_heads);
        for (hga_id j = 0; (name = hga_plan_gradient_tried(plan, NULL, NULL, j, &refusal)); j++)
            if (!strcmp(name, other)) assert_non_null(strstr(refusal, "it takes longer: about "));
        slope plain = slope_create(&p, 1), fast = slope_create(&p, 1);
        slope_run(&plain, (hga_options){.generic = 1}), slope_run(&fast, (hga_options){.threads = 2});
        assert_same_slopes(&plain, &fast, 4e-5); /* the scale's is a sum over 192,000 pairs */
        slope_clear(&plain), slope_clear(&fast), hga_plan_destroy(plan), problem_clear(&p);
    }
}

/* With all that scores may have, products or sums: the gradients of the plain way, by every instruction set; the same
   bits at any number of threads, in strips or not, when something is added or not. */
static void scattered_edges_have_plain_gradients(void **state)
{
    (void)state;
    static const char *const isas[] = {FLOAT_ISAS};
    static float vectors[12 * 64];
    operands m = {.additive = vectors};
    for (size_t j = 0; j < sizeof vectors / sizeof *vectors; j++) vectors[j] = 0.0625f * (float)(j * 7 % 17) - 0.5f;
    for (uint64_t seed = 0; seed < 6 * N_SHAPES; seed++) {
        if (every_other_passed_over((int)(seed + seed / 4 + seed / N_SHAPES))) continue;
        problem p = scattered_problem(seed, shapes[seed % N_SHAPES], seed / 4 % 2 == 1, seed / 2 % 2 == 1);
        if (seed / N_SHAPES % 3 == 1) p.program.scores = HGA_SCORES_ADDITIVE, p.program.negative_slope = 0.2f;
        if (seed / N_SHAPES == 1) bring_to(&p.io, &m); /* else vectors are ones */
        if (seed >= 4 * N_SHAPES) problem_fill_tables(&p, seed, seed % 3 != 1, 1, seed % 2 ? 1 : p.shape.n_heads);
        float dropout = seed % 5 == 1 ? 0.3f : 0;
        slope plain = slope_create(&p, seed), one = slope_create(&p, seed), more = slope_create(&p, seed);
        slope_run(&plain, (hga_options){.generic = 1, .dropout = dropout});
        for (int i = 0; i < 3; i++) {
            if (isa_kernels(isas[i], &(const kernel_table *){NULL})) continue;
            slope_run(&one, (hga_options){.threads = 1, .isa = isas[i], .dropout = dropout});
            assert_same_slopes(&plain, &one, 2e-5);
        }
        for (hga_id threads = 1; threads < 6; threads++) {
            slope_run(&one, (hga_options){.threads = 1, .gradient_row_ranges = threads, .dropout = dropout});
            slope_run(&more, (hga_options){.threads = threads, .gradient_row_ranges = threads, .dropout = dropout});
            assert_same_slopes(&plain, &one, 2e-5);
            assert_same_slopes(&one, &more, 0);
        }
        slope_clear(&plain), slope_clear(&one), slope_clear(&more), problem_clear(&p);
    }
}

/* What is not asked for is not needed for the rest, and what was there stays under what is added. */
static void parts_of_the_gradients_are_the_same(void **state)
{
    (void)state;
    for (uint64_t which = 0; which < 8 * 3; which++) {
        problem p = scattered_problem(which, shapes[which % N_SHAPES], 0, 0);
        slope all = slope_create(&p, which), some = slope_create(&p, which);
        hga_tensor *wanted[] = {&some.grad.d_query, &some.grad.d_key, &some.grad.d_value};
        slope_run(&all, (hga_options){.threads = 1});
        some.grad.accumulate = 1, some.grad.d_scale = some.grad.d_log_mass = NULL;
        for (int i = 0; i < 3; i++) {
            for (int64_t j = 0; j < some.n[i]; j++) some.of[i][j] = 1;
            if (!(which >> i & 1u)) wanted[i]->data = NULL;
        }
        slope_run(&some, (hga_options){.threads = 2});
        for (int i = 0; i < 3; i++) {
            double size = 1;
            for (int64_t j = 0; j < some.n[i]; j++) size = fmax(size, fabs((double)all.of[i][j]));
            for (int64_t j = 0; j < some.n[i]; j++) {
                double want = which >> i & 1u ? 1 + (double)all.of[i][j] : 1;
                if (!(fabs((double)some.of[i][j] - want) <= 4e-6 * size))
                    fail_msg("%s, input %d entry %lld: %.9g, not %.9g", p.name, i, (long long)j, (double)some.of[i][j],
                             want);
            }
        }
        slope_clear(&all), slope_clear(&some), problem_clear(&p);
    }
}

/* Of rows that are not asked for nothing is looked at. */
static void some_rows_give_what_they_give_alone(void **state)
{
    (void)state;
    enum { FIRST = 70, N = 60 };
    problem p = scattered_problem(3, shapes[0], 1, 1);
    slope whole = slope_create(&p, 1), some = slope_create(&p, 1);
    for (int64_t i = 0, row = out_count(&p) / ROWS; i < out_count(&p); i++)
        if (i / row < FIRST || i / row >= FIRST + N) whole.d_out[i] = 0, some.d_out[i] = NAN;
    slope_run(&whole, (hga_options){.generic = 1});
    for (int64_t i = 0; i < out_count(&p); i++) ((float *)p.io.out.data)[i] = NAN;
    p.io.rows = SOME_ROWS(FIRST, N);
    slope_run(&some, (hga_options){.threads = 2, .rows = HGA_SOME_ROWS});
    assert_same_slopes(&whole, &some, 2e-5);
    slope_clear(&whole), slope_clear(&some), problem_clear(&p);
}

/* A tensor of the caller's own that no stage reads has gradients of zero. */
static void what_nobody_reads_has_gradients_of_zero(void **state)
{
    (void)state;
    problem p = scattered_problem(1, shapes[0], 0, 0);
    hga_id user;
    float x[ROWS * 2 * 16] = {0}, d[ROWS * 2 * 16];
    assert_ok(
        hga_program_add_field(&p.program, "user", HGA_WIDTH_KV_KEY, HGA_IO_USER, HGA_ROWS_KEYS, HGA_ROWS_KEYS, &user));
    p.io.user[0] = (hga_tensor){.data = x, .rows = ROWS};
    slope s = slope_create(&p, 1);
    s.grad.d_user[0] = (hga_tensor){.data = d, .rows = ROWS};
    memset(d, 0xff, sizeof d);
    slope_run(&s, (hga_options){.threads = 1});
    for (size_t i = 0; i < sizeof d / sizeof *d; i++) assert_true(d[i] == 0);
    slope_clear(&s), problem_clear(&p);
}

/* A program that attends tokens alone is given a graph whose spans have edges, too: they have no rows of queries, and
   nothing is asked of them. */
static void edges_into_nodes_without_rows_change_nothing(void **state)
{
    (void)state;
    enum { TOKENS = 40, SPANS = 10 };
    problem p = {.name = "edges into spans", .shape = {.n_heads = 4, .n_kv_heads = 2, .dim = 16}};
    uint64_t rng = 1;
    hga_id near, spans;
    hga_builder *b;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, TOKENS, NULL));
    assert_ok(hga_builder_add_level(b, SPANS, &spans));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id v = 0; v < TOKENS + SPANS; v++)
        for (hga_id i = 0; i < 9; i++) {
            hga_id u = v < TOKENS || i < 5 ? random_below(&rng, TOKENS) : spans + i;
            assert_ok(hga_builder_add_edge(b, near, u, v, 0, 0.5f));
        }
    assert_ok(hga_program_attention(&p.program, near));
    assert_ok(hga_builder_finish(b, &p.graph));
    hga_builder_destroy(b);
    problem_fill(&p, 1);
    slope s = slope_create(&p, 1), plain = slope_create(&p, 1);
    slope_run(&plain, (hga_options){.generic = 1});
    for (hga_id threads = 1; threads < 3; threads++) {
        slope_run(&s, (hga_options){.threads = threads});
        assert_same_slopes(&plain, &s, 2e-5);
    }
    slope_clear(&s), slope_clear(&plain), problem_clear(&p);
}

/* A row whose scores are all -inf asks for nothing, whatever it holds: its sources have the gradients that they have
   without it, and it has none. */
static void a_row_without_weights_may_hold_anything(void **state)
{
    (void)state;
    enum { DIM = 16 };
    problem p = {.name = "a row without weights", .shape = {.n_heads = 2, .dim = DIM}};
    hga_id near;
    hga_builder *b;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 4, NULL));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id v = 0; v < 4; v++)
        for (hga_id u = v % 2; u < 3; u++) assert_ok(hga_builder_add_edge(b, near, u, v, 0, 1));
    assert_ok(hga_program_attention(&p.program, near));
    assert_ok(hga_builder_finish(b, &p.graph));
    hga_builder_destroy(b);
    problem_fill(&p, 1);
    float *q = p.io.query.data, *k = p.io.key.data;
    for (int i = 0; i < 4 * 2 * DIM; i += DIM) k[i] = -1;
    for (int i = 2 * DIM; i < 4 * DIM; i += DIM) q[i] = INFINITY; /* row 1 */
    slope s = slope_create(&p, 1), plain = slope_create(&p, 1);
    for (int i = 2 * DIM; i < 4 * DIM; i++) s.d_out[i] = plain.d_out[i] = NAN;
    slope_run(&s, (hga_options){.threads = 1});
    slope_run(&plain, (hga_options){.generic = 1});
    assert_same_slopes(&plain, &s, 2e-5);
    for (int i = 2 * DIM; i < 4 * DIM; i++) assert_true(s.of[SLOW_QUERY][i] == 0);
    assert_true(isfinite(s.of[SLOW_SCALE][0]));
    slope_clear(&s), slope_clear(&plain), problem_clear(&p);
}

/* Each allocation that fails is told, nothing stays behind, and what is taken at once is what the plan says, which
   keeps something of each edge; a call that wants masses' gradients does not. */
static void memory_is_told_and_given_back(void **state)
{
    (void)state;
    for (int with_masses = 0; with_masses < 2; with_masses++) {
        problem p = scattered_problem(4, shapes[3], 0, 1);
        slope s = slope_create(&p, 1);
        if (!with_masses) s.grad.d_log_mass = NULL;
        assert_failures_are_told(&s, with_masses ? 0.2 : 0.9, with_masses ? 0.3 : 1.05);
        slope_clear(&s), problem_clear(&p);
    }
}

/* What the first pass keeps for the second, where it does, and when memory is asked for rows: a call that wants masses'
   gradients keeps nothing. */
static void what_is_kept_of_edges_changes_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * N_SHAPES; i++) {
        problem p = scattered_problem((uint64_t)i, shapes[i / 2], i % 2, 0);
        slope keeps = slope_create(&p, 1), finds = slope_create(&p, 1);
        keeps.grad.d_log_mass = NULL;
        assert_int_equal(setenv("HGA_TUNING", "far_sources=0", 1), 0);
        slope_run(&keeps, (hga_options){.threads = 2});
        assert_int_equal(unsetenv("HGA_TUNING"), 0);
        slope_run(&finds, (hga_options){.threads = 1});
        for (int j = 0; j < 3; j++) assert_same_bits(p.name, keeps.of[j], finds.of[j], keeps.n[j]);
        slope_clear(&keeps), slope_clear(&finds), problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_scores_go_with_all_heads),
        cmocka_unit_test(the_faster_solver_goes),
        cmocka_unit_test(some_rows_give_what_they_give_alone),
        cmocka_unit_test(what_nobody_reads_has_gradients_of_zero),
        cmocka_unit_test(a_row_without_weights_may_hold_anything),
        cmocka_unit_test(edges_into_nodes_without_rows_change_nothing),
        cmocka_unit_test(scattered_edges_have_plain_gradients),
        cmocka_unit_test(memory_is_told_and_given_back),
        cmocka_unit_test(what_is_kept_of_edges_changes_no_bit),
        cmocka_unit_test(parts_of_the_gradients_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
