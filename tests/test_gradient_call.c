/* What hga_plan_gradient promises besides its numbers: bits at any thread count, zeros where nothing is seen, what is
   left out and added to, rows with strides. */
#include "random_program.h"
#include "halves.h"
#include "slopes.h"

static const hga_shape grouped = {.n_heads = 4, .n_kv_heads = 2, .dim = 6, .dim_v = 5};

/* 1, 2, 3, 5 and 8 threads: one result. */
static void threads_change_no_bit(problem *p, uint64_t seed)
{
    slope one = slope_create(p, seed), many = slope_create(p, seed);
    slope_run(&one, (hga_options){.threads = 1});
    for (hga_id i = 0, threads; i < 4; i++) {
        threads = (const hga_id[]){2, 3, 5, 8}[i];
        slope_run(&many, (hga_options){.threads = threads});
        for (int j = 0; j < N_SLOW_INPUTS; j++) assert_same_bits(p->name, many.of[j], one.of[j], one.n[j]);
    }
    slope_clear(&one), slope_clear(&many);
}

static void bits_are_equal_at_any_thread_count(void **state)
{
    (void)state;
    each_variant(threads_change_no_bit, 70, 3);
}

/* Heads that the threads do not share out evenly, a single key/value head for all, and strips: one result, and strips
   forced to 1, 2 and 8 differ in rounding alone. */
static void strips_change_rounding_alone(void **state)
{
    (void)state;
    static const char *const words[] = {"dense",
                                        "dense causal=1",
                                        "bpt k=4",
                                        "window left=40 right=3 global=1",
                                        "htransformer block=16",
                                        "hsa branching=4,4"};
    static const hga_shape shapes[] = {{.n_heads = 2, .n_kv_heads = 1, .dim = 6, .dim_v = 5},
                                       {.n_heads = 3, .dim = 20, .pos_dim = 2},
                                       {.n_heads = 8, .n_kv_heads = 1, .dim = 5}};
    for (size_t i = 0; i < 3 * sizeof words / sizeof words[0]; i++) {
        if (passed_over((int)i)) continue;
        problem p = {.shape = shapes[i % 3]};
        snprintf(p.name, sizeof p.name, "%s", words[i / 3]);
        assert_ok(hga_build(words[i / 3], shortened(400), &p.graph, &p.program));
        problem_fill(&p, i), problem_fill_tables(&p, i, 1, 1, 0);
        slope whole = slope_create(&p, i), one = slope_create(&p, i), many = slope_create(&p, i);
        slope_run(&whole, (hga_options){.threads = 1, .gradient_row_ranges = 1});
        for (hga_id strips = 2; strips <= 8; strips += 6) {
            slope_run(&one, (hga_options){.threads = 1, .gradient_row_ranges = strips});
            assert_same_slopes(&whole, &one, 1e-6);
            for (hga_id j = 0; j < 4; j++) {
                slope_run(&many, (hga_options){.threads = (hga_id[]){2, 3, 5, 8}[j], .gradient_row_ranges = strips});
                for (int k = 0; k < N_SLOW_INPUTS; k++) assert_same_bits(p.name, many.of[k], one.of[k], one.n[k]);
            }
        }
        slope_clear(&whole), slope_clear(&one), slope_clear(&many), problem_clear(&p);
    }
}

/* d out[t] / d input[s] is exactly zero for s > t: only token t's output has a gradient, only earlier inputs get
   one. */
static void later_inputs_have_no_gradient(problem *p, hga_id t, hga_options options)
{
    slope s = slope_create(p, 5);
    int64_t row = (int64_t)p->shape.n_heads * p->shape.dim_v;
    for (int64_t i = 0; i < out_count(p); i++) s.d_out[i] = i / row == t ? s.d_out[i] : 0;
    for (int64_t i = 0; s.d_lse && i < lse_count(p); i++) s.d_lse[i] = i / p->shape.n_heads == t ? s.d_lse[i] : 0;
    slope_run(&s, options);
    double before = 0;
    for (int i = SLOW_QUERY; i <= SLOW_VALUE; i++) {
        int64_t columns = s.n[i] / p->n_query;
        for (int64_t j = 0; j < s.n[i]; j++) {
            if (j / columns <= t) before += fabs((double)s.of[i][j]);
            if (j / columns > t && s.of[i][j] != 0)
                fail_msg("%s: output %d depends on row %lld of input %d", p->name, t, (long long)(j / columns), i);
        }
    }
    assert_true(before > 0);
    slope_clear(&s);
}

static void causal_gradients_are_exactly_zero(void **state)
{
    (void)state;
    static const char *const words[] = {"dense causal=1", "window left=5 causal=1", "htransformer block=4 causal=1",
                                        "hsa branching=2,3 causal=1", "fenwick"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        problem p = {.shape = grouped};
        snprintf(p.name, sizeof p.name, "%s", words[i]);
        assert_ok(hga_build(words[i], 40, &p.graph, &p.program));
        problem_fill(&p, 3);
        for (hga_id t = 0; t < 40; t += 13) {
            later_inputs_have_no_gradient(&p, t, (hga_options){.threads = 2});
            later_inputs_have_no_gradient(&p, t, (hga_options){.generic = 1});
        }
        problem_clear(&p);
    }
}

/* Rows of more edges than rows are cut after: what is dropped is dropped in whole rows. */
static void long_rows_drop_weights(void **state)
{
    (void)state;
    problem p = {.shape = grouped};
    assert_ok(hga_build("window left=2 right=2 global=1", 200, &p.graph, &p.program));
    problem_fill(&p, 3);
    slope plain = slope_create(&p, 3), fast = slope_create(&p, 3);
    slope_run(&plain, (hga_options){.generic = 1, .threads = 1, .dropout = 0.3f});
    slope_run(&fast, (hga_options){.threads = 2, .dropout = 0.3f, .cut_edges = 32});
    assert_same_slopes(&plain, &fast, 2e-5);
    slope_clear(&plain), slope_clear(&fast), problem_clear(&p);
}

/* With accumulate twice the gradient is what once and once give. */
static void accumulating_adds(void **state)
{
    (void)state;
    for (int generic = 0; generic < 2; generic++) {
        problem p = problem_named("neighbours_relative", 40, 2, &grouped);
        slope once = slope_create(&p, 2), twice = slope_create(&p, 2);
        hga_options options = {.generic = generic, .threads = 2};
        slope_run(&once, options);
        for (int i = 0; i < N_SLOW_INPUTS; i++)
            for (int64_t j = 0; j < twice.n[i]; j++) twice.of[i][j] = 0;
        twice.grad.accumulate = 1;
        slope_run(&twice, options), slope_run(&twice, options);
        for (int i = 0; i < N_SLOW_INPUTS; i++)
            for (int64_t j = 0; j < once.n[i]; j++) once.of[i][j] *= 2;
        assert_same_slopes(&once, &twice, 1e-6);
        slope_clear(&once), slope_clear(&twice), problem_clear(&p);
    }
}

/* What is not wanted is not written, and what is wanted has the bits it has otherwise. */
static void gradients_are_wanted_one_by_one(void **state)
{
    (void)state;
    problem p = problem_named("bpt", 30, 4, &grouped);
    slope all = slope_create(&p, 4);
    slope_run(&all, (hga_options){.threads = 1});
    for (int i = SLOW_QUERY; i <= SLOW_VALUE; i++) {
        slope one = slope_create(&p, 4);
        one.grad = (hga_grad_io){.d_out = one.grad.d_out, .d_lse = one.grad.d_lse};
        hga_tensor t = {.data = one.of[i], .rows = p.n_query};
        if (i == SLOW_QUERY) one.grad.d_query = t;
        if (i == SLOW_KEY) one.grad.d_key = t;
        if (i == SLOW_VALUE) one.grad.d_value = t;
        slope_run(&one, (hga_options){.threads = 1});
        assert_same_bits("wanted alone", one.of[i], all.of[i], all.n[i]);
        for (int j = 0; j < N_SLOW_INPUTS; j++)
            for (int64_t k = 0; j != i && k < one.n[j]; k++) assert_true(isnan(one.of[j][k]));
        slope_clear(&one);
    }
    slope_clear(&all), problem_clear(&p);
}

/* Rows that stand apart, heads too: the same bits, and nothing between them is touched. */
static void gradients_have_strides(void **state)
{
    (void)state;
    problem p = problem_named("dense", 20, 6, &grouped);
    slope packed = slope_create(&p, 6), apart = slope_create(&p, 6);
    hga_id heads = p.shape.n_heads, dim = p.shape.dim, head = dim + 3, row = heads * head + 7;
    float *wide = memory((int64_t)p.n_query * row, sizeof *wide);
    for (int64_t i = 0; i < (int64_t)p.n_query * row; i++) wide[i] = 42;
    slope_run(&packed, (hga_options){.threads = 2});
    apart.grad.d_query = (hga_tensor){.data = wide, .rows = p.n_query, .row_stride = row, .head_stride = head};
    slope_run(&apart, (hga_options){.threads = 2});
    for (int64_t i = 0; i < (int64_t)p.n_query * row; i++) {
        int64_t c = i % row % head, h = i % row / head;
        float want = h < heads && c < dim ? packed.of[SLOW_QUERY][(i / row * heads + h) * dim + c] : 42;
        assert_true(wide[i] == want);
    }
    free(wide), slope_clear(&packed), slope_clear(&apart), problem_clear(&p);
}

/* Where the machine multiplies pairs of bfloat16, tiles round the weights, too: outputs are off by as much as
   test_bf16.c allows, and so are gradients, which outputs go into. */
static double near_rounded(void)
{
    int pairs;
    assert_ok(hga_isa_pairs(NULL, &pairs));
    return pairs ? 2e-2 : 5e-5;
}

/* Rounding to bfloat16 is passed straight through, and both ways round the same. */
static void rounded_operands_have_the_plain_gradient(problem *p, uint64_t seed)
{
    slope plain = slope_create(p, seed), fast = slope_create(p, seed);
    slope_run(&plain, (hga_options){.generic = 1, .precision = HGA_PRECISION_BF16});
    slope_run(&fast, (hga_options){.precision = HGA_PRECISION_BF16});
    assert_same_slopes(&plain, &fast, near_rounded());
    slope_clear(&plain), slope_clear(&fast);
}

static void bf16_goes_straight_through(void **state)
{
    (void)state;
    each_variant(rounded_operands_have_the_plain_gradient, 33, 3);
}

/* The execution in between is the plain executor's, of rounded rows. */
static void check_dropped_gradients(problem *p, uint64_t seed)
{
    hga_options options = {.precision = HGA_PRECISION_BF16, .dropout = 0.3f, .threads = 1}, plain = options;
    slope want = slope_create(p, seed), one = slope_create(p, seed), more = slope_create(p, seed);
    plain.generic = 1;
    p->io.seed = seed;
    slope_run(&want, plain), slope_run(&one, options);
    assert_same_slopes(&want, &one, near_rounded());
    options.threads = 3;
    slope_run(&more, options);
    for (int i = 0; i < N_SLOW_INPUTS; i++) assert_same_bits(p->name, more.of[i], one.of[i], one.n[i]);
    slope_clear(&want), slope_clear(&one), slope_clear(&more);
}

static void gradients_of_dropout_in_bf16_are_the_plain_ones(void **state)
{
    (void)state;
    each_variant(check_dropped_gradients, 33, 3);
}

/* n floats rounded to 16 bits, at `half`, and back in their place. */
static hga_tensor halved(hga_dtype type, float *x, int64_t n, int64_t rows)
{
    uint16_t *half = memory(n, sizeof *half);
    for (int64_t at = 0; at < n; at += 16) {
        hga_id some = (hga_id)(n - at < 16 ? n - at : 16);
        narrow_row(type == HGA_F16, x + at, half + at, some), widen_row(type == HGA_F16, half + at, x + at, some);
    }
    return (hga_tensor){.data = half, .rows = rows, .dtype = type};
}

/* Query, value and the given gradient of 16 bits, and two of the gradients: the bits of the same numbers in float32,
   rounded where they go. */
static void tensors_of_16_bits(problem *p, uint64_t seed)
{
    hga_dtype type = seed % 2 ? HGA_F16 : HGA_BF16;
    hga_options options = {.threads = 1 + (hga_id)(seed % 2), .generic = seed % 3 == 2};
    slope wide = slope_create(p, seed), half = slope_create(p, seed);
    hga_tensor was_query = p->io.query, was_value = p->io.value;
    hga_tensor query = halved(type, p->io.query.data, wide.n[SLOW_QUERY], p->n_query),
               value = halved(type, p->io.value.data, wide.n[SLOW_VALUE], p->n_value),
               d_out = halved(type, wide.d_out, out_count(p), p->n_out);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        wide.grad.accumulate = half.grad.accumulate = accumulate;
        p->io.query = was_query, p->io.value = was_value;
        slope_run(&wide, options);
        hga_tensor d_query = halved(type, wide.of[SLOW_QUERY], wide.n[SLOW_QUERY], p->n_query);
        if (!accumulate) half.grad.d_query = halved(type, half.of[SLOW_QUERY], half.n[SLOW_QUERY], p->n_query);
        half.grad.d_out = d_out, p->io.query = query, p->io.value = value;
        slope_run(&half, options);
        assert_memory_equal(half.grad.d_query.data, d_query.data, (size_t)wide.n[SLOW_QUERY] * sizeof(uint16_t));
        assert_same_bits(p->name, half.of[SLOW_KEY], wide.of[SLOW_KEY], wide.n[SLOW_KEY]);
        assert_same_bits(p->name, half.of[SLOW_VALUE], wide.of[SLOW_VALUE], wide.n[SLOW_VALUE]);
        free(d_query.data);
    }
    p->io.query = was_query, p->io.value = was_value;
    free(query.data), free(value.data), free(d_out.data), free(half.grad.d_query.data);
    slope_clear(&wide), slope_clear(&half);
}

static void gradients_of_16_bits_are_those_of_the_same_numbers(void **state)
{
    (void)state;
    each_variant(tensors_of_16_bits, 33, 3);
}

/* What is given as an output of 16 bits stands in the formulas: the gradient is that of the output in float32 to its
   rounding. */
static void an_output_of_16_bits_is_near(void **state)
{
    (void)state;
    problem p = problem_named("bpt", 50, 4, &grouped);
    slope wide = slope_create(&p, 4), half = slope_create(&p, 4);
    slope_run(&wide, (hga_options){.threads = 1});
    hga_tensor was = p.io.out;
    p.io.out = (hga_tensor){.data = memory(out_count(&p), sizeof(uint16_t)), .rows = p.n_out, .dtype = HGA_F16};
    slope_run(&half, (hga_options){.threads = 1});
    assert_same_slopes(&wide, &half, 2e-3);
    free(p.io.out.data), p.io.out = was;
    slope_clear(&wide), slope_clear(&half), problem_clear(&p);
}

/* Random programs of every kind of stage over random graphs with every kind of edge. */
static void random_programs_go_back_as_the_plain_ones(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 150; seed++) {
        uint64_t rng = seed * 7 + 1;
        problem p = {.shape = {.n_heads = 2, .n_kv_heads = 1 + (hga_id)(seed % 2), .dim = 5, .dim_v = 4}};
        snprintf(p.name, sizeof p.name, "random program %d", (int)seed);
        p.graph = random_graph(seed, 5 + random_below(&rng, 60), (unsigned)random_below(&rng, 64));
        p.program = random_program(&rng);
        problem_fill(&p, seed);
        problem_fill_tables(&p, seed, seed % 2 == 0, seed % 3 == 0, seed % 5 == 1);
        if (find_stage(&p.program, HGA_SCALED)) {
            p.io.type_scale.rows = hga_graph_relation(p.graph, 0).n_types;
            float *scales = p.owned[p.n_owned++] = random_floats(seed, 1, p.io.type_scale.rows);
            scales[0] = seed % 4 ? scales[0] : 0; /* has a gradient as well */
            p.io.type_scale.data = scales;
        }
        slope plain = slope_create(&p, seed), fast = slope_create(&p, seed);
        float dropout = seed % 4 == 3 ? 0.2f : 0;
        slope_run(&plain, (hga_options){.generic = 1, .dropout = dropout});
        slope_run(&fast, (hga_options){.threads = 1 + (hga_id)(seed % 3), .dropout = dropout});
        assert_same_slopes(&plain, &fast, 2e-5);
        slope_clear(&plain), slope_clear(&fast), problem_clear(&p);
    }
}

/* ---- what is not finite ---- */

/* Token TOKEN's row, head 0, of an array of rows; is some number of it none? */
static int is_spoilt(const float *x, hga_id token, const hga_shape *s)
{
    int spoilt = 0;
    for (hga_id c = 0; c < s->dim; c++) spoilt |= isnan(x[(ptrdiff_t)token * s->n_heads * s->dim + c]);
    return spoilt;
}

/* A query or key that is no number has no gradients either, whichever way they go: zeros would say that all is well. */
static void what_is_not_finite_shows_in_gradients(void **state)
{
    (void)state;
    static const char *const words[] = {"dense",   "window left=8 right=8", "htransformer block=4",
                                        "bpt k=2", "hsa branching=2,4",     "htransformer block=4 causal=1"};
    enum { TOKEN = 5 };
    for (size_t i = 0; i < 4 * sizeof words / sizeof *words; i++) {
        problem p = {.shape = {.n_heads = 2, .dim = 16}};
        snprintf(p.name, sizeof p.name, "%s", words[i / 4]);
        assert_ok(hga_build(words[i / 4], 64, &p.graph, &p.program));
        problem_fill(&p, 1);
        int of_key = i % 2 != 0;
        ((float *)(of_key ? p.io.key : p.io.query).data)[TOKEN * 32 + 3] = NAN;
        slope s = slope_create(&p, 1);
        slope_run(&s, (hga_options){.threads = 1, .generic = i % 4 > 1});
        if (!is_spoilt(s.of[SLOW_QUERY], TOKEN, &p.shape) || !is_spoilt(s.of[SLOW_KEY], TOKEN, &p.shape))
            fail_msg("%s, %s: a %s that is no number has gradients", p.name, i % 4 > 1 ? "plain" : "fast",
                     of_key ? "key" : "query");
        slope_clear(&s), problem_clear(&p);
    }
}

/* Slopes of a bias that all edges of a row have add up to nothing, but for what rounding the output leaves: the same
   by the plain way and in tiles. */
static void outputs_of_16_bits_stand_as_they_were_rounded(void **state)
{
    (void)state;
    problem p = {.shape = {.n_heads = 2, .dim = 8}, .name = "dense, an output of bfloat16"};
    assert_ok(hga_build("dense", 64, &p.graph, &p.program));
    problem_fill(&p, 3), problem_fill_tables(&p, 3, 0, 1, 0);
    p.io.out.dtype = HGA_BF16;
    slope plain = slope_create(&p, 5), fast = slope_create(&p, 5);
    if (plain.d_lse) memset(plain.d_lse, 0, (size_t)lse_count(&p) * sizeof(float));
    if (fast.d_lse) memset(fast.d_lse, 0, (size_t)lse_count(&p) * sizeof(float));
    slope_run(&plain, (hga_options){.generic = 1, .threads = 1});
    slope_run(&fast, (hga_options){.threads = 1});
    assert_true(fabs((double)fast.of[SLOW_REL_BIAS][0]) > 5e-3);
    for (int h = 0; h < 2; h++)
        assert_true(fabs((double)(plain.of[SLOW_REL_BIAS][h] - fast.of[SLOW_REL_BIAS][h])) < 5e-4);
    slope_clear(&plain), slope_clear(&fast), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_equal_at_any_thread_count),
        cmocka_unit_test(strips_change_rounding_alone),
        cmocka_unit_test(causal_gradients_are_exactly_zero),
        cmocka_unit_test(long_rows_drop_weights),
        cmocka_unit_test(outputs_of_16_bits_stand_as_they_were_rounded),
        cmocka_unit_test(accumulating_adds),
        cmocka_unit_test(gradients_are_wanted_one_by_one),
        cmocka_unit_test(gradients_have_strides),
        cmocka_unit_test(bf16_goes_straight_through),
        cmocka_unit_test(gradients_of_dropout_in_bf16_are_the_plain_ones),
        cmocka_unit_test(gradients_of_16_bits_are_those_of_the_same_numbers),
        cmocka_unit_test(an_output_of_16_bits_is_near),
        cmocka_unit_test(random_programs_go_back_as_the_plain_ones),
        cmocka_unit_test(what_is_not_finite_shows_in_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
