/* test_exchange_ways.c: whatever way a gradient goes, ranks that share heads have its bits, whatever the call has:
   what orders its sums is found for all heads, on every rank. */
#include "exchange_back.h"
#include "plan.h"
#include "way_cases.h"

/* The way of one process' plan. */
static void expect_way(const problem *p, hga_options options, const char *name)
{
    hga_plan *plan;
    options.gradient = 1;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &options, &plan));
    assert_string_equal(way_of(plan, &p->io, &(hga_grad_io){0}), name);
    hga_plan_destroy(plan);
}

static void hold_on_ranks(const problem *p, const char *what, hga_options options, int accumulate)
{
    static const hga_id counts[] = {2, 3, 8};
    uint64_t rng = 1;
    holding h = {p, what, options, PACKED, accumulate, &strict};
    whole want = go_back_whole(p, &options, PACKED, accumulate);
    for (int i = 0; i < 3; i++) {
        hga_id cuts[MOST_RANKS + 1];
        cut_anywhere(tokens_of(p), counts[i], &rng, cuts);
        hold_back(&h, cuts, counts[i], &want);
    }
    close_whole(&want);
}

/* What a shape leaves out, said. */
static hga_shape whole_shape(hga_shape s)
{
    if (!s.n_kv_heads) s.n_kv_heads = s.n_heads;
    if (!s.dim_v) s.dim_v = s.dim;
    return s;
}

enum { TYPES = 1, POSITIONS = 2, BIASES = 4, DROPS = 8, ALL = 16 };

/* A fourth of what it may bring, another one for each row and shape. */
static void hold_whatever_it_brings(const row *r, const hga_shape *shape, unsigned turn)
{
    for (unsigned i = 0; i < ALL / 4; i++) {
        unsigned call_has = (5 * i + 3 * turn) % ALL;
        hga_shape with = whole_shape(*shape);
        hga_options options = r->options;
        options.threads = 1 + (hga_id)call_has % 3;
        if (call_has & POSITIONS) with.pos_dim = 3;
        if (call_has & DROPS) options.dropout = 0.3f;
        if (passed_over((int)call_has)) continue;
        problem p = problem_of(r, &with);
        problem_fill_tables(&p, 2, call_has & TYPES, call_has & TYPES,
                            call_has & BIASES ? call_has & TYPES ? p.shape.n_heads : 1 : 0);
        p.io.seed = 4;
        char what[60];
        snprintf(what, sizeof what, "with %u, %d heads of %d", call_has, (int)p.shape.n_heads, (int)p.shape.dim);
        if (call_has == 0) expect_way(&p, options, r->way);
        hold_on_ranks(&p, what, options, (int)call_has % 2);
        problem_clear(&p);
    }
}

/* Heads that fill vectors together, and do not on a rank alone. */
static const hga_shape together[] = {{.n_heads = 8, .dim = 4, .dim_v = 8}, {.n_heads = 16, .dim = 1, .dim_v = 2}};

static void every_way_has_its_bits(void **state)
{
    (void)state;
    for (int i = 0; i < N_ROWS; i++) {
        const row *r = &rows[i];
        int any_heads = !r->modifiers;
        hold_whatever_it_brings(r, &r->shape, (unsigned)i), hold_whatever_it_brings(r, &r->grouped, (unsigned)i + 2);
        for (int k = 0; k < 2 && any_heads; k++) hold_whatever_it_brings(r, &together[k], (unsigned)(i + 3 + k));
    }
}

/* ---- what depends on the number of heads ---- */

/* As many heads as make one process cut rows, subtrees and families otherwise than a rank's few would. */
static void sums_are_cut_as_for_all_heads(void **state)
{
    static const struct {
        const char *words;
        hga_id n;
        hga_shape shape;
        hga_options options;
    } cases[] = {
        {"window left=70 right=70", 4096, {.n_heads = 8, .dim = 4}, {.threads = 1}},
        {"window left=70 right=70", 4096, {.n_heads = 4, .n_kv_heads = 2, .dim = 4}, {.threads = 2}},
        {"htransformer block=16", 4096, {.n_heads = 8, .dim = 4}, {.threads = 1}},
        {"fenwick", 3000, {.n_heads = 4, .n_kv_heads = 2, .dim = 4}, {.threads = 2}},
        {"hsa branching=40,40", 1600, {.n_heads = 32, .n_kv_heads = 8, .dim = 4}, {.threads = 1}},
        {"hsa branching=60", 600, {.n_heads = 24, .dim = 4}, {.threads = 1, .dropout = 0.2f}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        problem p = {.shape = whole_shape(cases[i].shape)};
        if (passed_over((int)i)) continue;
        snprintf(p.name, sizeof p.name, "%s", cases[i].words);
        assert_ok(hga_build(cases[i].words, cases[i].n, &p.graph, &p.program));
        problem_fill(&p, 1);
        hold_on_ranks(&p, "many heads", cases[i].options, 0);
        problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_has_its_bits),
        cmocka_unit_test(sums_are_cut_as_for_all_heads),
    };
    alarm(getenv("HGA_TEST_QUICK") ? 900 : 300); /* a rank that hangs ends the test */
    return cmocka_run_group_tests_name("exchange_ways", tests, NULL, NULL);
}
