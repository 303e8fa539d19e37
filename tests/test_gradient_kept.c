/* What a workspace keeps from one gradient to the next, found out about the graph: it changes no number, whatever was
   asked for before, and goes with the graph that it is about. */
#include "slopes.h"

static void assert_goes_as_alone(const seat *at, problem *p, hga_id threads)
{
    slope fresh = slope_create(p, 1), again = slope_create(p, 1);
    slope_run(&fresh, (hga_options){.threads = threads});
    assert_ok(seat_run_anew(at, &again));
    for (int i = 0; i < N_SLOW_INPUTS; i++) assert_same_bits(p->name, again.of[i], fresh.of[i], fresh.n[i]);
    slope_clear(&fresh), slope_clear(&again);
}

static const char *const words[] = {"bpt k=2", "window left=20 right=9", "bpt k=2 causal=1", "htransformer block=8"};
enum { N_WORDS = sizeof words / sizeof words[0], TOKENS = 420 };
static const hga_shape shape = {.n_heads = 4, .n_kv_heads = 2, .dim = 6, .dim_v = 5, .pos_dim = 2};

static problem problem_of(const char *word)
{
    problem p = {.shape = shape};
    snprintf(p.name, sizeof p.name, "%s", word);
    assert_ok(hga_build(word, shortened(TOKENS), &p.graph, &p.program));
    problem_fill(&p, 1), problem_fill_tables(&p, 1, 1, 1, 0);
    return p;
}

/* With all tables, with positions alone, with none, and with all again. */
static void other_tables_before_change_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * N_WORDS; i++) {
        if (passed_over(i)) continue;
        hga_id threads = i % 2 ? 3 : 1;
        problem all = problem_of(words[i / 2]), positions = all, none;
        positions.io.rel_key.data = positions.io.rel_bias.data = positions.io.edge_bias.data = NULL;
        none = positions, none.io.node_pos.data = NULL;
        problem *const turns[] = {&all, &positions, &none, &none, &all};
        seat at = seat_of(&none, (hga_options){.threads = threads});
        for (int j = 0; j < 5; j++) {
            turns[j]->io.edge_bias.data = NULL;
            assert_goes_as_alone(&at, turns[j], threads);
        }
        seat_clear(&at), problem_clear(&all);
    }
}

/* A plan that was given another graph knows nothing of the first. */
static void another_graph_is_found_anew(void **state)
{
    (void)state;
    problem wide = problem_of("window left=40 right=9"), narrow = problem_of("window left=3 right=2");
    wide.io.rel_key.data = wide.io.rel_bias.data = narrow.io.rel_key.data = narrow.io.rel_bias.data = NULL;
    wide.io.edge_bias.data = narrow.io.edge_bias.data = NULL;
    seat at = seat_of(&wide, (hga_options){.threads = 1});
    assert_goes_as_alone(&at, &wide, 1);
    assert_ok(hga_plan_update(at.plan, narrow.graph));
    assert_goes_as_alone(&at, &narrow, 1);
    seat_clear(&at), problem_clear(&wide), problem_clear(&narrow);
}

/* A call that found no memory on its way leaves nothing half known. */
static void a_failed_call_is_forgotten(void **state)
{
    (void)state;
    problem p = problem_of("bpt k=2");
    p.io.edge_bias.data = NULL;
    slope fresh = slope_create(&p, 1), again = slope_create(&p, 1);
    slope_run(&fresh, (hga_options){.threads = 1});
    hga_status st = HGA_ENOMEM;
    for (int64_t fails = 1; st; fails++) {
        filling memory_of = {.byte = 0xff};
        hga_allocator a = filling_allocator(&memory_of);
        seat at = seat_of(&p, (hga_options){.threads = 1, .allocator = &a});
        memory_of.asked = 0;
        memory_of.fails_from = fails;
        st = seat_run_anew(&at, &again);
        memory_of.fails_from = 0;
        assert_ok(seat_run_anew(&at, &again));
        for (int i = 0; i < N_SLOW_INPUTS; i++) assert_same_bits(p.name, again.of[i], fresh.of[i], fresh.n[i]);
        seat_clear(&at);
        assert_int_equal(memory_of.live, 0);
    }
    slope_clear(&fresh), slope_clear(&again), problem_clear(&p);
}

/* A second call of the same plan takes nothing for lists: what it found stays. */
static void a_second_call_allocates_less(void **state)
{
    (void)state;
    problem p = problem_of("bpt k=2");
    p.io.edge_bias.data = NULL;
    filling memory_of = {.byte = 0xff};
    hga_allocator a = filling_allocator(&memory_of);
    slope s = slope_create(&p, 1);
    seat at = seat_of(&p, (hga_options){.threads = 1, .allocator = &a});
    memory_of.asked = 0;
    assert_ok(seat_run_anew(&at, &s));
    int64_t first = memory_of.asked, live = memory_of.live;
    memory_of.asked = 0;
    assert_ok(seat_run_anew(&at, &s));
    assert_true(memory_of.asked < first);
    assert_int_equal(memory_of.live, live);
    slope_clear(&s), seat_clear(&at), problem_clear(&p);
    assert_int_equal(memory_of.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_tables_before_change_nothing),
        cmocka_unit_test(another_graph_is_found_anew),
        cmocka_unit_test(a_failed_call_is_forgotten),
        cmocka_unit_test(a_second_call_allocates_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
