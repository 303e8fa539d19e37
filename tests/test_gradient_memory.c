/* The memory of gradients: what is said before is what is taken, at most twice the tensors, and linear in the tokens up
   to a million. */
#include "slopes.h"

static const char *const words[] = {"dense",    "window left=128 right=128", "htransformer block=16",
                                    "bpt k=64", "hsa branching=2,4,8,16",    "hsa branching=3 causal=1"};
enum { N_WORDS = sizeof words / sizeof words[0] };

static const hga_shape shape = {.n_heads = 8, .dim = 64};

/* Queries, keys, values, outputs, and their gradients. */
static double tensor_bytes(double n, const hga_shape *s)
{
    double kv_heads = s->n_kv_heads ? s->n_kv_heads : s->n_heads;
    return 4 * n * (s->n_heads + kv_heads) * s->dim * sizeof(float);
}

/* Bytes of the gradient and the tape; nothing is executed. */
static double bytes_of(const char *program, hga_id n, const hga_shape *s, hga_id threads)
{
    hga_graph *g;
    hga_program p;
    hga_plan *plan;
    assert_ok(hga_build(program, n, &g, &p));
    assert_ok(hga_plan_create(g, &p, s, &(hga_options){.gradient = 1, .threads = threads}, &plan));
    double bytes = (double)gradient_bytes(plan) + (double)hga_plan_tape_bytes(plan);
    hga_plan_destroy(plan), hga_graph_destroy(g);
    return bytes;
}

static void memory_is_linear_up_to_a_million_tokens(void **state)
{
    (void)state;
    for (int i = 1; i < N_WORDS; i++) {
        if (passed_over(i)) continue;
        double small = bytes_of(words[i], 1 << 16, &shape, 2), large = bytes_of(words[i], 1 << 20, &shape, 2);
        if (!(large <= 16.5 * small)) fail_msg("%s: %.0f bytes at 64k tokens, %.0f at 1M", words[i], small, large);
        if (!(large <= 2 * tensor_bytes(1 << 20, &shape))) fail_msg("%s: %.0f bytes at 1M tokens", words[i], large);
    }
}

/* Query heads of one key/value head that go side by side: tensors are fewer then. */
static void many_threads_on_grouped_heads_take_no_more(void **state)
{
    (void)state;
    const hga_shape grouped[] = {{.n_heads = 8, .n_kv_heads = 1, .dim = 64},
                                 {.n_heads = 8, .n_kv_heads = 2, .dim = 64}};
    for (int i = 0; i < 2; i++) {
        double four = bytes_of("htransformer block=16", 1 << 14, &grouped[i], 4),
               all = tensor_bytes(1 << 14, &grouped[i]);
        assert_true(four > 2 * bytes_of("htransformer block=16", 1 << 14, &grouped[i], 1));
        for (hga_id threads = 4; threads <= 16; threads += 3)
            assert_true(bytes_of("htransformer block=16", 1 << 14, &grouped[i], threads) <= 2 * all);
    }
}

/* ---- what is taken ---- */

/* The most that a gradient has taken at once, and what the plan said. */
static double taken(problem *p, double *said)
{
    filling m = {.byte = 0xff};
    hga_allocator a = filling_allocator(&m);
    hga_options options = {.gradient = 1, .threads = 1, .allocator = &a};
    hga_plan *plan;
    hga_workspace *workspace;
    slope s = slope_create(p, 1);
    s.grad.d_scale = s.grad.d_log_mass = NULL;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &options, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    hga_io io = p->io;
    io.tape = memory(hga_plan_tape_bytes(plan), 1);
    assert_ok(hga_plan_execute(plan, workspace, &io));
    int64_t before = m.bytes;
    m.most = before;
    assert_ok(hga_plan_gradient(plan, workspace, &io, &s.grad));
    *said = (double)gradient_bytes(plan);
    free(io.tape), slope_clear(&s), hga_workspace_destroy(workspace), hga_plan_destroy(plan);
    return (double)(m.most - before);
}

/* Besides that heads leave each other what they found, an eighth of the tensors at most. */
static void gradients_take_what_they_say(void **state)
{
    (void)state;
    enum { TOKENS = 4096 };
    for (int i = 0; i < N_WORDS; i++) {
        problem p = {.shape = shape};
        if (passed_over(i)) continue;
        snprintf(p.name, sizeof p.name, "%s", words[i]);
        assert_ok(hga_build(words[i], i ? TOKENS : TOKENS / 8, &p.graph, &p.program));
        problem_fill(&p, 1);
        double said, took = taken(&p, &said), found = tensor_bytes(i ? TOKENS : TOKENS / 8, &shape) / 8;
        if (!(took >= 0.9 * said && took <= 1.05 * said + found))
            fail_msg("%s: %.0f bytes were said, %.0f taken", words[i], said, took);
        problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_linear_up_to_a_million_tokens),
        cmocka_unit_test(many_threads_on_grouped_heads_take_no_more),
        cmocka_unit_test(gradients_take_what_they_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
