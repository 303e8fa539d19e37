/* Gradients: the plain ones against finite differences of the oracle in double, the fast ones against the plain. */
#include "slopes.h"

/* The library's loss in double is the oracle's, at the tensors and beside them. */
static void loss_is_the_oracles(problem *p, uint64_t seed)
{
    static const hga_gradient_input inputs[N_SLOW_INPUTS] = {
        [SLOW_QUERY] = HGA_GRADIENT_QUERY,
        [SLOW_KEY] = HGA_GRADIENT_KEY,
        [SLOW_VALUE] = HGA_GRADIENT_VALUE,
        [SLOW_REL_KEY] = HGA_GRADIENT_TABLE + HGA_TABLE_REL_KEY,
        [SLOW_REL_BIAS] = HGA_GRADIENT_TABLE + HGA_TABLE_REL_BIAS,
        [SLOW_EDGE_BIAS] = HGA_GRADIENT_TABLE + HGA_TABLE_EDGE_BIAS,
        [SLOW_NODE_POS] = HGA_GRADIENT_TABLE + HGA_TABLE_NODE_POS,
        [SLOW_TYPE_SCALE] = HGA_GRADIENT_TABLE + HGA_TABLE_TYPE_SCALE,
        [SLOW_SCALE] = HGA_GRADIENT_TABLE + HGA_TABLE_SCALE,
        [SLOW_LOG_MASS] = HGA_GRADIENT_TABLE + HGA_TABLE_LOG_MASS};
    slope s = slope_create(p, seed);
    slow_inputs in = slow_inputs_of(p->graph, &p->program, &p->shape, &p->io);
    hga_options options = {.gradient = 1};
    hga_plan *plan;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &options, &plan));
    uint64_t rng = seed;
    for (int i = 0; i < N_SLOW_INPUTS; i++) {
        if (!s.n[i] || inputs[i] == HGA_GRADIENT_NONE) continue;
        int64_t j = random_below(&rng, s.n[i]);
        double got, x = in.of[i][j];
        assert_ok(hga_plan_loss(plan, &p->io, &s.grad, inputs[i], j, 0.25, &got));
        in.of[i][j] = x + 0.25;
        double want = slow_loss(&s, &in);
        in.of[i][j] = x;
        if (!(fabs(got - want) <= 1e-6 * fmax(1, fabs(want))))
            fail_msg("%s: input %d entry %lld moved: loss %.12g, not %.12g", p->name, i, (long long)j, got, want);
    }
    hga_plan_destroy(plan);
    slow_inputs_clear(&in), slope_clear(&s);
}

static void plain_is_the_slope(problem *p, uint64_t seed)
{
    slope s = slope_create(p, seed);
    slope_run(&s, (hga_options){.generic = 1, .threads = 1});
    assert_is_the_slope(&s, 2e-6);
    slope_clear(&s);
}

static void plain_gradients_are_slopes(void **state)
{
    (void)state;
    each_variant(plain_is_the_slope, 13, 6);
}

static void loss_in_double_is_the_oracles(void **state)
{
    (void)state;
    each_variant(loss_is_the_oracles, 19, 6);
}

static void fast_is_plain(problem *p, uint64_t seed)
{
    slope plain = slope_create(p, seed), fast = slope_create(p, seed);
    slope_run(&plain, (hga_options){.generic = 1, .threads = 1});
    slope_run(&fast, (hga_options){.threads = 1 + (hga_id)(seed % 3)});
    assert_same_slopes(&plain, &fast, 2e-5);
    slope_clear(&plain), slope_clear(&fast);
}

static void fast_gradients_are_the_plain_ones(void **state)
{
    (void)state;
    each_variant(fast_is_plain, 37, 8);
    each_variant(fast_is_plain, 150, 3);
}

/* Means over neighbours, which then go up or down the tree in place, are attended to. Up they leave the tokens as they
   are; down the tokens take their parents', whose own are gone. */
static void handed_on(hga_id along, problem *p)
{
    hga_id q, k, v, mean, out;
    hga_program built;
    *p = (problem){.shape = {.n_heads = 2, .dim = 4, .dim_v = 3}};
    snprintf(p->name, sizeof p->name, "means %s the tree", along == HGA_TREE_UP ? "up" : "down");
    assert_ok(hga_build("htransformer block=4", 24, &p->graph, &built));
    hga_program *program = &p->program;
    hga_program_init(program);
    assert_ok(hga_program_add_field(program, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_NODES, HGA_ROWS_NODES, &q));
    assert_ok(hga_program_add_field(program, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_NODES, HGA_ROWS_NODES, &k));
    assert_ok(hga_program_add_field(program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_NODES, HGA_ROWS_NODES, &v));
    assert_ok(
        hga_program_add_field(program, "mean", HGA_WIDTH_VALUE, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &mean));
    assert_ok(hga_program_add_field(program, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_NODES, HGA_ROWS_NODES, &out));
    assert_ok(hga_program_mean(program, 0, v, mean, 0));
    assert_ok(hga_program_mean(program, along, mean, mean, 0));
    assert_ok(hga_program_attend(program, 0, q, k, mean, out, 0));
    problem_fill(p, 9);
}

static void means_in_place_have_slopes_in_either_direction(void **state)
{
    (void)state;
    for (int down = 0; down < 2; down++) {
        problem p;
        handed_on(down ? HGA_TREE_DOWN : HGA_TREE_UP, &p);
        problem_run(&p), assert_equals_slow(&p, 1e-5);
        plain_is_the_slope(&p, 3), loss_is_the_oracles(&p, 3), fast_is_plain(&p, 3);
        problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_gradients_are_slopes),
        cmocka_unit_test(loss_in_double_is_the_oracles),
        cmocka_unit_test(fast_gradients_are_the_plain_ones),
        cmocka_unit_test(means_in_place_have_slopes_in_either_direction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
