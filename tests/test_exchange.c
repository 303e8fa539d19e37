/* test_exchange.c: ranks that are threads of one process compute what one process does, bit by bit, whatever is cut
   where; they send what hga_halo says. */
#include "exchange.h"
#include "plan.h"
#include "random_program.h"
#include "scorings.h"

#include <math.h>

/* ---- every variant ---- */

static void every_variant_has_the_bits_of_one_process(void **state)
{
    static const hga_id counts[] = {1, 2, 3, 4, 7, 8};
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        hga_id cuts[MOST_RANKS + 1];
        uint64_t rng = (uint64_t)i;
        if (passed_over(i)) continue;
        variant_build(i, 330 + i, 3 + (uint64_t)i, &narrow, &p);
        if (is_cross(&p)) {
            problem_clear(&p);
            continue;
        }
        hga_options o = {.threads = 1};
        tensors want = run_whole(&p, &o, PACKED);
        for (int c = 0; c < 6; c++) {
            cut_evenly(tokens_of(&p), counts[c], 16, cuts);
            hold(&p, "cut at sixteens", &o, PACKED, cuts, counts[c], &strict, &want);
            cut_anywhere(tokens_of(&p), counts[c], &rng, cuts);
            hold(&p, "cut anywhere", &o, PACKED, cuts, counts[c], &strict, &want);
        }
        close_tensors(&want);
        problem_clear(&p);
    }
}

/* ---- options ---- */

static const hga_options settings[] = {{.threads = 3},
                                       {.threads = 2, .precision = HGA_PRECISION_BF16},
                                       {.threads = 1, .isa = "ref"},
                                       {.threads = 2, .cut_edges = 24},
                                       {.threads = 2, .generic = 1},
                                       {.threads = 1, .strict_rows = 1},
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
            variant_build(i, 150 + 7 * s, 3 + (uint64_t)i, &narrow, &p);
            layout l = (layout)((i + s) % N_LAYOUTS);
            p.io.seed = 5, p.io.layer = 3;
            if (is_cross(&p)) {
                problem_clear(&p);
                continue;
            }
            char what[40];
            snprintf(what, sizeof what, "setting %d, layout %d", s, (int)l);
            tensors want = run_whole(&p, &settings[s], l);
            s % 2 ? cut_evenly(tokens_of(&p), n_ranks, 16, cuts) : cut_anywhere(tokens_of(&p), n_ranks, &rng, cuts);
            hold(&p, what, &settings[s], l, cuts, n_ranks, &strict, &want);
            close_tensors(&want);
            problem_clear(&p);
        }
}

/* At 1200a31 ranks refused them over coarse keys. */
static void every_scoring_in_bfloat16_has_the_bits_of_one_process(void **state)
{
    (void)state;
    int n = 0;
    for (int i = 0; i < n_variants(); i++)
        for (int k = 0; k < N_SCORINGS; k++) {
            problem p;
            hga_id cuts[MOST_RANKS + 1], n_ranks = 2 + (i + k) % 4;
            uint64_t rng = (uint64_t)(i * N_SCORINGS + k);
            if (passed_over(i + k) || !scored_build(i, &scorings[k], 90, &narrow, &p)) continue;
            int refused = scorings[k].normaliser == HGA_NORMALISER_ENTMAX && program_has_energies(&p.program);
            if (!is_cross(&p) && !refused) {
                tensors want = run_whole(&p, &p.options, PACKED);
                cut_anywhere(tokens_of(&p), n_ranks, &rng, cuts);
                hold(&p, scorings[k].name, &p.options, PACKED, cuts, n_ranks, &strict, &want);
                close_tensors(&want), n++;
            }
            problem_clear(&p);
        }
    assert_true(n > 0);
}

/* Tables of types and edges, positions, softcaps, sinks and slopes, where the program can have them. */
static void tables_and_modifiers_are_every_ranks(void **state)
{
    static const float sink[] = {0.5f, -1, 2, -INFINITY}, slopes[] = {0.1f, 0, 0.02f, 1};
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        hga_id cuts[MOST_RANKS + 1];
        if (passed_over(i)) continue;
        variant_build(i, 170, 3 + (uint64_t)i, &narrow, &p);
        const hga_stage *attends = find_stage(&p.program, HGA_SCORE);
        int energies = find_stage(&p.program, HGA_ENERGY) != NULL, whole = p.shape.n_heads == 4;
        operands m = {.softcap = energies ? 0 : 3};
        if (p.program.has_lse && whole) m.sink = sink;
        double *at = memory(hga_graph_nodes(p.graph).n, sizeof *at);
        int has_distances = hga_graph_positions(p.graph, at) == HGA_OK;
        free(at);
        if (!energies && whole && has_distances) m.slopes = slopes;
        if (attends && !is_cross(&p)) {
            problem_fill_tables(&p, 9, 1, 1, 1);
            bring_to(&p.io, &m);
            hga_options o = {.threads = 2};
            tensors want = run_whole(&p, &o, PACKED);
            cut_evenly(tokens_of(&p), 3, 16, cuts);
            hold(&p, "tables and modifiers", &o, PACKED, cuts, 3, &strict, &want);
            close_tensors(&want);
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
    for (int seed = 1; seed <= thinned(400); seed++) {
        uint64_t rng = (uint64_t)seed;
        problem p = {.shape = {.n_heads = 2, .n_kv_heads = 2, .dim = 5, .dim_v = 3}};
        hga_plan *plan = NULL;
        hga_id cuts[MOST_RANKS + 1], n_ranks = 1 + random_below(&rng, MOST_RANKS);
        snprintf(p.name, sizeof p.name, "random program %d", seed);
        p.graph = random_graph((uint64_t)seed, 1 + random_below(&rng, 200), 1 + (unsigned)random_below(&rng, 63));
        p.program = random_program(&rng);
        hga_options o = {
            .threads = 1 + random_below(&rng, 3), .generic = random_below(&rng, 4) == 0, .rows = HGA_ROWS_THAT_STAY};
        if (hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan) == HGA_OK && !is_cross(&p)) {
            o.rows = HGA_EVERY_ROW, held++;
            problem_fill(&p, rng);
            problem_fill_tables(&p, rng, 0, 0, 0);
            fill_scales(&p);
            tensors want = run_whole(&p, &o, PACKED);
            cut_anywhere(tokens_of(&p), n_ranks, &rng, cuts);
            hold(&p, "cut anywhere", &o, PACKED, cuts, n_ranks, &strict, &want);
            close_tensors(&want);
        }
        hga_plan_destroy(plan);
        problem_clear(&p);
    }
    assert_true(held > thinned(200));
}

static void a_rank_that_is_late_changes_nothing(void **state)
{
    static const char *const names[] = {"window", "bpt", "neighbours", "hsa", "fenwick"};
    (void)state;
    for (int i = 0; i < 5; i++) {
        problem p;
        hga_id cuts[MOST_RANKS + 1];
        variant_build(variant_named(names[i]), 260, 3, &narrow, &p);
        hga_options o = {.threads = 1};
        tensors want = run_whole(&p, &o, PACKED);
        cut_evenly(tokens_of(&p), 5, 16, cuts);
        for (uint64_t seed = 0; seed < 4; seed++)
            hold(&p, "late", &o, PACKED, cuts, 5, &(hga_dist_wire){.most_delay = 3e-3, .seed = seed, .fill = 1}, &want);
        close_tensors(&want);
        problem_clear(&p);
    }
}

/* Nodes whose values come from nodes below another rank's: the first stage goes up three levels, and each waits for
   rows of the other rank. Rows of all levels in one message would wait for each other. */
static void levels_of_the_first_stage_wait_for_each_other(void **state)
{
    (void)state;
    static const hga_id first[] = {0, 8, 12, 14, 16}, n[] = {8, 4, 2, 2},
                        below[] = {0, 2, 4, 6, /* level 2: */ 11, 8, /* level 3: */ 13, 12};
    hga_id along, down, level, cuts[] = {0, 4, 8};
    hga_builder *b = tokens_alone(8);
    problem p = {.name = "a stage whose levels wait", .shape = narrow};
    for (int l = 1; l < 4; l++) {
        assert_ok(hga_builder_add_level(b, n[l], &level));
        assert_ok(hga_builder_set_families(b, level, first[l - 1], n[l - 1], n[l - 1] / n[l]));
    }
    assert_ok(hga_builder_add_relation(b, "along", &along));
    assert_ok(hga_builder_add_relation(b, "down", &down));
    for (hga_id v = 8; v < 16; v++) assert_ok(hga_builder_add_edge(b, along, below[v - 8], v, 0, 1));
    for (hga_id v = 0; v < 8; v++)
        for (hga_id root = 14; root < 16; root++) assert_ok(hga_builder_add_edge(b, down, root, v, 0, 1));
    p.graph = finished(b);
    hga_program_init(&p.program);
    hga_id value = field(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES);
    hga_id sum = field(&p.program, "sum", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    assert_ok(hga_program_coarsen_along(&p.program, along, value));
    assert_ok(hga_program_weighted_sum(&p.program, down, value, sum));
    problem_fill(&p, 1);
    p.io.type_scale.data = (const float[]){0.5f}, p.io.type_scale.rows = 1;
    hga_options o = {.threads = 1};
    tensors want = run_whole(&p, &o, PACKED);
    hold(&p, "levels", &o, PACKED, cuts, 2, &strict, &want);
    close_tensors(&want), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_of_the_first_stage_wait_for_each_other),
        cmocka_unit_test(every_variant_has_the_bits_of_one_process),
        cmocka_unit_test(options_and_layouts_change_nothing),
        cmocka_unit_test(every_scoring_in_bfloat16_has_the_bits_of_one_process),
        cmocka_unit_test(tables_and_modifiers_are_every_ranks),
        cmocka_unit_test(random_programs_on_random_graphs_cut_anywhere),
        cmocka_unit_test(a_rank_that_is_late_changes_nothing),
    };
    alarm(getenv("HGA_TEST_QUICK") ? 600 : 120); /* a rank that hangs ends the test */
    return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
