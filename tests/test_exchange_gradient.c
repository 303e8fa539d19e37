/* test_exchange_gradient.c: ranks that are threads of one process have the gradients of one process, of their rows and
   of tables, bit by bit, whatever is cut where. */
#include "exchange_back.h"
#include "plan.h"
#include "random_program.h"

/* ---- every variant ---- */

static void every_variant_has_the_gradients_of_one_process(void **state)
{
    static const hga_id counts[] = {1, 2, 3, 4, 7, 8};
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        hga_id cuts[MOST_RANKS + 1];
        uint64_t rng = (uint64_t)i;
        if (passed_over(i)) continue;
        variant_build(i, 150, 3 + (uint64_t)i, &narrow, &p);
        if (!is_cross(&p)) {
            holding h = {&p, "plain", {.threads = 1, .generic = 1}, PACKED, i % 2, &strict}, fast = h;
            fast.what = "fast", fast.o.generic = 0;
            whole want = go_back_whole(&p, &h.o, PACKED, h.accumulate),
                  wanted = go_back_whole(&p, &fast.o, PACKED, h.accumulate);
            for (int c = 0; c < 6; c++) {
                cut_evenly(tokens_of(&p), counts[c], 16, cuts);
                int turn = (c + i) % 2;
                hold_back(turn ? &fast : &h, cuts, counts[c], turn ? &wanted : &want);
                cut_anywhere(tokens_of(&p), counts[c], &rng, cuts);
                hold_back(turn ? &h : &fast, cuts, counts[c], turn ? &want : &wanted);
            }
            close_whole(&wanted);
            close_whole(&want);
        }
        problem_clear(&p);
    }
}

/* ---- options ---- */

static const hga_options settings[] = {{.threads = 3},
                                       {.threads = 2, .precision = HGA_PRECISION_BF16},
                                       {.threads = 1, .isa = "ref"},
                                       {.threads = 2, .cut_edges = 24},
                                       {.threads = 2, .generic = 1},
                                       {.threads = 1, .strict_rows = 1, .gradient_row_ranges = 5},
                                       {.threads = 2, .dropout = 0.25f},
                                       {.threads = 1, .precision = HGA_PRECISION_BF16, .dropout = 0.5f}};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

static void options_and_layouts_change_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++)
        for (int s = 0; s < N_SETTINGS; s++) {
            problem p;
            hga_id cuts[MOST_RANKS + 1], n_ranks = 2 + (i + s) % 4;
            uint64_t rng = (uint64_t)(i * N_SETTINGS + s);
            if (passed_over(i + s)) continue;
            variant_build(i, 100 + 7 * s, 3 + (uint64_t)i, &narrow, &p);
            p.io.seed = 5, p.io.layer = 3;
            if (!is_cross(&p)) {
                char what[40];
                holding h = {&p, what, settings[s], (layout)((i + s) % N_LAYOUTS), s % 2, &strict};
                snprintf(what, sizeof what, "setting %d, layout %d", s, (int)h.l);
                whole want = go_back_whole(&p, &h.o, h.l, h.accumulate);
                s % 2 ? cut_evenly(tokens_of(&p), n_ranks, 16, cuts) : cut_anywhere(tokens_of(&p), n_ranks, &rng, cuts);
                hold_back(&h, cuts, n_ranks, &want);
                close_whole(&want);
            }
            problem_clear(&p);
        }
}

/* Tables of types and edges, positions, softcaps, sinks and slopes, where the program can have them. */
static void tables_have_the_gradients_of_all_ranks(void **state)
{
    static const float sink[] = {0.5f, -1, 2, -INFINITY}, slopes[] = {0.1f, 0, 0.02f, 1};
    hga_shape shape = narrow;
    (void)state;
    shape.pos_dim = 3;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        hga_id cuts[MOST_RANKS + 1];
        if (passed_over(i)) continue;
        variant_build(i, 130, 3 + (uint64_t)i, &shape, &p);
        const hga_stage *attends = find_stage(&p.program, HGA_SCORE);
        int energies = find_stage(&p.program, HGA_ENERGY) != NULL, all_heads = p.shape.n_heads == 4;
        operands m = {.softcap = energies ? 0 : 3};
        if (p.program.has_lse && all_heads) m.sink = sink;
        double *at = memory(hga_graph_nodes(p.graph).n, sizeof *at);
        int has_distances = hga_graph_positions(p.graph, at) == HGA_OK;
        free(at);
        if (!energies && all_heads && has_distances) m.slopes = slopes;
        for (int dropped = 0; attends && !is_cross(&p) && dropped < 2; dropped++) {
            problem_fill_tables(&p, 9, 1, 1, dropped ? p.shape.n_heads : 1);
            bring_to(&p.io, &m), p.io.seed = 8;
            holding h = {&p,     "tables and modifiers", {.threads = 2, .dropout = dropped ? 0.3f : 0}, PACKED, dropped,
                         &strict};
            whole want = go_back_whole(&p, &h.o, PACKED, h.accumulate);
            cut_evenly(tokens_of(&p), 3, 16, cuts);
            hold_back(&h, cuts, 3, &want);
            close_whole(&want);
        }
        problem_clear(&p);
    }
}

/* ---- any graph and program ---- */

static void fill_scales(problem *p)
{
    int32_t n = 1;
    for (hga_id r = 0; r < hga_graph_nodes(p->graph).n_relations; r++)
        if (hga_graph_relation(p->graph, r).n_types > n) n = hga_graph_relation(p->graph, r).n_types;
    p->io.type_scale.data = p->owned[p->n_owned++] = random_floats(7, 1, n);
    p->io.type_scale.rows = n;
}

static void random_programs_on_random_graphs_cut_anywhere(void **state)
{
    int held = 0;
    (void)state;
    for (int seed = 1; seed <= thinned(300); seed++) {
        uint64_t rng = (uint64_t)seed;
        problem p = {.shape = {.n_heads = 2, .n_kv_heads = 2, .dim = 5, .dim_v = 3}};
        hga_plan *plan = NULL;
        hga_id cuts[MOST_RANKS + 1], n_ranks = 1 + random_below(&rng, MOST_RANKS);
        snprintf(p.name, sizeof p.name, "random program %d", seed);
        p.graph = random_graph((uint64_t)seed, 1 + random_below(&rng, 120), 1 + (unsigned)random_below(&rng, 63));
        p.program = random_program(&rng);
        hga_options o = {.threads = 1 + random_below(&rng, 3), .generic = seed % 2, .rows = HGA_ROWS_THAT_STAY};
        if (hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan) == HGA_OK && !is_cross(&p)) {
            o.rows = HGA_EVERY_ROW, held++;
            problem_fill(&p, rng);
            problem_fill_tables(&p, rng, 0, 0, 0);
            fill_scales(&p);
            holding h = {&p, "cut anywhere", o, PACKED, 0, &strict};
            whole want = go_back_whole(&p, &o, PACKED, 0);
            cut_anywhere(tokens_of(&p), n_ranks, &rng, cuts);
            hold_back(&h, cuts, n_ranks, &want);
            close_whole(&want);
        }
        hga_plan_destroy(plan);
        problem_clear(&p);
    }
    assert_true(held > thinned(150));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_has_the_gradients_of_one_process),
        cmocka_unit_test(options_and_layouts_change_nothing),
        cmocka_unit_test(tables_have_the_gradients_of_all_ranks),
        cmocka_unit_test(random_programs_on_random_graphs_cut_anywhere),
    };
    alarm(getenv("HGA_TEST_QUICK") ? 900 : 300); /* a rank that hangs ends the test */
    return cmocka_run_group_tests_name("exchange_gradient", tests, NULL, NULL);
}
