/* Which plans give threads blocks of tokens in turn: those whose rows see all that is before them, through means. */
#include "plan.h"
#include "testing.h"

#include <stdlib.h>

enum { HEADS = 8, DIM = 64 };

/* Tokens of a block; 0: each thread has one run. */
static hga_id cyclic_of(const char *words, hga_id n_tokens, hga_options options)
{
    hga_graph *g;
    hga_program p;
    hga_plan *plan;
    assert_ok(hga_build(words, n_tokens, &g, &p));
    assert_ok(hga_plan_create(g, &p, &(hga_shape){.n_heads = HEADS, .dim = DIM}, &options, &plan));
    const hga_id cyclic = plan->team.cyclic;
    hga_plan_destroy(plan), hga_graph_destroy(g);
    return cyclic;
}

static int teardown(void **state)
{
    (void)state;
    return unsetenv("HGA_TUNING");
}

/* A token's keys and values, and those of the nodes that it adds: 8 kB in these. */
static void blocks_have_the_bytes_that_the_processor_names(void **state)
{
    (void)state;
    setenv("HGA_TUNING", "cyclic_bytes=1048576", 1);
    assert_int_equal(cyclic_of("fenwick", 16384, (hga_options){.threads = 2}), 128);
    setenv("HGA_TUNING", "cyclic_bytes=262143", 1);
    assert_int_equal(cyclic_of("fenwick", 16384, (hga_options){.threads = 2}), 64); /* the least */
}

static void rows_that_see_the_past_through_means_go_by_blocks(void **state)
{
    static const struct {
        const char *words;
        int cyclic;
    } rows[] = {{"fenwick", 1},
                {"hsa branching=4 causal=1", 1},
                {"hsa branching=4", 0},                  /* sees what comes, too */
                {"htransformer block=16 causal=1", 0},   /* takes from above */
                {"window left=64 right=0 causal=1", 0}}; /* has no means */
    (void)state;
    setenv("HGA_TUNING", "cyclic_bytes=1048576", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (cyclic_of(rows[i].words, 16384, (hga_options){.threads = 2}) != 128 * rows[i].cyclic)
            fail_msg("%s: not %s blocks", rows[i].words, rows[i].cyclic ? "by" : "without");
}

static void few_blocks_one_thread_or_several_domains_have_runs(void **state)
{
    (void)state;
    setenv("HGA_TUNING", "cyclic_bytes=1048576", 1);
    assert_int_equal(cyclic_of("fenwick", 4096, (hga_options){.threads = 2}), 128);
    assert_int_equal(cyclic_of("fenwick", 4095, (hga_options){.threads = 2}), 0);
    assert_int_equal(cyclic_of("fenwick", 4096, (hga_options){.threads = 3}), 0);
    assert_int_equal(cyclic_of("fenwick", 16384, (hga_options){.threads = 1}), 0);
    assert_int_equal(cyclic_of("fenwick", 16384, (hga_options){.threads = 2, .topology = "numa:2 core:1 pu:1"}), 0);
}

/* A block waits for the one before it, and for the means of several that end there: not for those behind it. */
static void waves_are_rounds_and_few_more(void **state)
{
    enum { TOKENS = 16384, BLOCK = 64, THREADS = 2 };
    (void)state;
    hga_graph *g;
    hga_program p;
    hga_plan *plan;
    setenv("HGA_TUNING", "cyclic_bytes=524288", 1);
    assert_ok(hga_build("fenwick", TOKENS, &g, &p));
    assert_ok(
        hga_plan_create(g, &p, &(hga_shape){.n_heads = HEADS, .dim = DIM}, &(hga_options){.threads = THREADS}, &plan));
    assert_int_equal(plan->team.cyclic, BLOCK);
    assert_in_range(plan->waves.n, TOKENS / BLOCK / THREADS, TOKENS / BLOCK / THREADS + 4);
    hga_plan_destroy(plan), hga_graph_destroy(g);
}

/* A panel is all its first token's thread's: of two blocks it would leave nothing to the other thread. */
static void threads_share_the_work_of_small_blocks(void **state)
{
    (void)state;
    hga_graph *g;
    hga_program p;
    hga_plan *plan;
    setenv("HGA_TUNING", "cyclic_bytes=1024", 1);
    assert_ok(hga_build("fenwick", 16384, &g, &p));
    assert_ok(hga_plan_create(g, &p, &(hga_shape){.n_heads = 1, .dim = 16}, &(hga_options){.threads = 2}, &plan));
    assert_int_equal(plan->team.cyclic, 64);
    assert_true(waves_longest_shares(plan) < 0.6);
    hga_plan_destroy(plan), hga_graph_destroy(g);
}

/* Of eight texts side by side two threads have four each. */
static void texts_of_their_own_stay_runs(void **state)
{
    enum { TEXTS = 8, EACH = 2048 };
    (void)state;
    hga_graph *g, *all;
    const hga_graph *texts[TEXTS];
    hga_program p;
    hga_plan *plan;
    setenv("HGA_TUNING", "cyclic_bytes=1048576", 1);
    assert_ok(hga_build("fenwick", EACH, &g, &p));
    for (int i = 0; i < TEXTS; i++) texts[i] = g;
    assert_ok(hga_graph_concat(texts, TEXTS, &all, NULL));
    assert_true(hga_graph_nodes(all).claims & HGA_CLAIM_CAUSAL);
    assert_ok(
        hga_plan_create(all, &p, &(hga_shape){.n_heads = HEADS, .dim = DIM}, &(hga_options){.threads = 2}, &plan));
    assert_int_equal(plan->team.cyclic, 0);
    hga_plan_destroy(plan), hga_graph_destroy(all), hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(blocks_have_the_bytes_that_the_processor_names, teardown),
        cmocka_unit_test_teardown(rows_that_see_the_past_through_means_go_by_blocks, teardown),
        cmocka_unit_test_teardown(few_blocks_one_thread_or_several_domains_have_runs, teardown),
        cmocka_unit_test_teardown(waves_are_rounds_and_few_more, teardown),
        cmocka_unit_test_teardown(threads_share_the_work_of_small_blocks, teardown),
        cmocka_unit_test_teardown(texts_of_their_own_stay_runs, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
