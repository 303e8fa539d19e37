/* A row's bits depend on the graph around it: not on how many tokens follow, on the panel that it is computed in, nor
   on who computes it. */
#include "by_hand.h"

#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef hga_status causal_build(hga_id n, hga_graph **g, hga_program *p);

static hga_status dense(hga_id n, hga_graph **g, hga_program *p)
{
    hga_dense d;
    hga_defaults(&d);
    d.n_tokens = n, d.causal = 1;
    return hga_build_dense(&d, g, p);
}

static hga_status back_to(hga_id n, hga_id left, hga_graph **g, hga_program *p)
{
    hga_window w;
    hga_defaults(&w);
    w.n_tokens = n, w.left = left, w.right = 0, w.causal = 1;
    return hga_build_window(&w, g, p);
}
static hga_status window_64(hga_id n, hga_graph **g, hga_program *p) { return back_to(n, 64, g, p); }
static hga_status window_301(hga_id n, hga_graph **g, hga_program *p) { return back_to(n, 301, g, p); }
static hga_status window_1000(hga_id n, hga_graph **g, hga_program *p) { return back_to(n, 1000, g, p); }

static hga_status strided(hga_id n, hga_graph **g, hga_program *p)
{
    hga_window w;
    hga_defaults(&w);
    w.n_tokens = n, w.left = 100, w.right = 0, w.causal = 1, w.stride = 7;
    return hga_build_window(&w, g, p);
}

/* Sinks beside classes, some of them of one token. */
static hga_status strided_far(hga_id n, hga_graph **g, hga_program *p)
{
    hga_window w;
    hga_defaults(&w);
    w.n_tokens = n, w.left = -1, w.right = 0, w.causal = 1, w.stride = 64, w.global = 5;
    return hga_build_window(&w, g, p);
}

static hga_status dilated(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_dilated(&(hga_dilated){.n_tokens = n, .causal = 1}, g, p);
}

/* Classes of unequal sizes, and of one token each. */
static hga_status dilated_oddly(hga_id n, hga_graph **g, hga_program *p)
{
    static const hga_id segments[] = {100, 1000, 7}, dilations[] = {3, 7, 7};
    hga_dilated d = {
        .n_tokens = n, .segments = segments, .n_segments = 3, .dilations = dilations, .n_dilations = 3, .causal = 1};
    return hga_build_dilated(&d, g, p);
}

static hga_status back_in_line(hga_id n, hga_id kernel, hga_id dilation, hga_graph **g, hga_program *p)
{
    static const hga_id yes = 1;
    hga_neighbourhood x = {.shape = &n, .n_axes = 1, .kernel = &kernel, .n_kernel = 1, .causal = &yes, .n_causal = 1};
    x.dilation = &dilation, x.n_dilation = 1;
    return hga_build_neighbourhood(&x, g, p);
}
static hga_status line_65(hga_id n, hga_graph **g, hga_program *p) { return back_in_line(n, 65, 1, g, p); }
static hga_status line_dilated(hga_id n, hga_graph **g, hga_program *p) { return back_in_line(n, 20, 9, g, p); }

/* Packed texts, of which the last one goes on. */
static hga_status packed(hga_id n, hga_graph **g, hga_program *p)
{
    int32_t *segment = memory(n, sizeof *segment);
    for (hga_id i = 0; i < n; i++) segment[i] = i / 90 + i / 250;
    hga_segmented s = {.n_tokens = n, .query_segment = segment, .causal = 1};
    hga_status st = hga_build_segments(&s, g, p);
    free(segment);
    return st;
}

static hga_status global(hga_id n, hga_graph **g, hga_program *p)
{
    hga_window w;
    hga_defaults(&w);
    w.n_tokens = n, w.left = 70, w.right = 0, w.causal = 1, w.global = 5;
    return hga_build_window(&w, g, p);
}

static hga_status spans(hga_id n, hga_id k, hga_bpt_rule rule, hga_graph **g, hga_program *p)
{
    hga_bpt b;
    hga_defaults(&b);
    b.n_tokens = n, b.k = k, b.causal = 1, b.rule = rule;
    return hga_build_bpt(&b, g, p);
}
static hga_status spans_2(hga_id n, hga_graph **g, hga_program *p) { return spans(n, 2, HGA_BPT_SHIFTED, g, p); }
static hga_status spans_4(hga_id n, hga_graph **g, hga_program *p) { return spans(n, 4, HGA_BPT_SHIFTED, g, p); }
static hga_status spans_64(hga_id n, hga_graph **g, hga_program *p) { return spans(n, 64, HGA_BPT_SHIFTED, g, p); }
static hga_status spans_text(hga_id n, hga_graph **g, hga_program *p) { return spans(n, 3, HGA_BPT_TEXT, g, p); }

static hga_status blocks(hga_id n, hga_id block, hga_htransformer_structure structure, hga_graph **g, hga_program *p)
{
    hga_htransformer h;
    hga_defaults(&h);
    h.n_tokens = n, h.block = block, h.causal = 1, h.structure = structure, h.relative = 1;
    return hga_build_htransformer(&h, g, p);
}
static hga_status neighbours_16(hga_id n, hga_graph **g, hga_program *p) { return blocks(n, 16, HGA_NEIGHBOURS, g, p); }
static hga_status neighbours_64(hga_id n, hga_graph **g, hga_program *p) { return blocks(n, 64, HGA_NEIGHBOURS, g, p); }
static hga_status neighbours_256(hga_id n, hga_graph **g, hga_program *p)
{
    return blocks(n, 256, HGA_NEIGHBOURS, g, p);
}
static hga_status neighbours_12(hga_id n, hga_graph **g, hga_program *p) { return blocks(n, 12, HGA_NEIGHBOURS, g, p); }
static hga_status neighbours_7(hga_id n, hga_graph **g, hga_program *p) { return blocks(n, 7, HGA_NEIGHBOURS, g, p); }
static hga_status neighbours_1(hga_id n, hga_graph **g, hga_program *p) { return blocks(n, 1, HGA_NEIGHBOURS, g, p); }
static hga_status siblings_3(hga_id n, hga_graph **g, hga_program *p) { return blocks(n, 3, HGA_SIBLINGS, g, p); }
static hga_status siblings_16(hga_id n, hga_graph **g, hga_program *p) { return blocks(n, 16, HGA_SIBLINGS, g, p); }

static hga_status frontier(hga_id n, hga_id branching, hga_graph **g, hga_program *p)
{
    hga_hsa h;
    hga_defaults(&h);
    h.n_tokens = n, h.branching = &branching, h.n_branching = 1, h.causal = 1, h.mode = HGA_HSA_FRONTIER;
    return hga_build_hsa(&h, g, p);
}
static hga_status frontier_3(hga_id n, hga_graph **g, hga_program *p) { return frontier(n, 3, g, p); }
static hga_status frontier_4(hga_id n, hga_graph **g, hga_program *p) { return frontier(n, 4, g, p); }
static hga_status frontier_16(hga_id n, hga_graph **g, hga_program *p) { return frontier(n, 16, g, p); }

static hga_status fenwick(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_fenwick(&(hga_fenwick){.n_tokens = n}, g, p);
}

/* Tokens go to leaves here and there; a token's leaf does not depend on those behind it. */
static hga_status leaves(hga_id n, hga_graph **g, hga_program *p)
{
    int32_t *leaf = memory(n, sizeof *leaf);
    uint64_t rng = 5;
    for (hga_id i = 0; i < n; i++) leaf[i] = (int32_t)random_below(&rng, 8);
    hga_treeformer t;
    hga_defaults(&t);
    t.n_queries = n, t.height = 3, t.query_leaf = leaf, t.causal = 1;
    hga_status st = hga_build_treeformer_fine(&t, g, p);
    free(leaf);
    return st;
}

/* Texts of 150 tokens each, whole rectangles: some of a panel's size have it for themselves, others share one. */
static hga_status texts(hga_id n, hga_graph **g, hga_program *p)
{
    enum { TEXT = 150 };
    hga_id first = n / TEXT * TEXT;
    const hga_block block[] = {{.n_dst = TEXT, .n_src = TEXT, .count = n / TEXT, .dst_step = TEXT, .src_step = TEXT},
                               {.dst = first, .n_dst = n - first, .src = first, .n_src = n - first}};
    *g = blocks_over(n, block, 2);
    return hga_program_attention(p, 0);
}

static hga_status all_to_all(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_dense(&(hga_dense){.n_tokens = n}, g, p);
}

/* The first N_IN_ORDER are builders' causal graphs, who all tell what tokens that are appended change: nothing. Of the
   others what is not causal comes last. */
static const struct {
    const char *name;
    causal_build *build;
} causal[] = {{"dense", dense},
              {"window 64", window_64},
              {"window 301", window_301},
              {"window 1000", window_1000},
              {"global", global},
              {"spans k = 2", spans_2},
              {"spans k = 4", spans_4},
              {"spans k = 64", spans_64},
              {"spans of a text", spans_text},
              {"neighbours 1", neighbours_1},
              {"neighbours 7", neighbours_7},
              {"neighbours 16", neighbours_16},
              {"neighbours 64", neighbours_64},
              {"neighbours 256", neighbours_256},
              {"neighbours 12", neighbours_12},
              {"siblings 3", siblings_3},
              {"siblings 16", siblings_16},
              {"frontier 3", frontier_3},
              {"frontier 4", frontier_4},
              {"frontier 16", frontier_16},
              {"fenwick", fenwick},
              {"strided", strided},
              {"strided far", strided_far},
              {"dilated", dilated},
              {"dilated oddly", dilated_oddly},
              {"line of 65", line_65},
              {"line, dilated", line_dilated},
              {"packed", packed},
              {"leaves", leaves},
              {"texts", texts},
              {"all to all", all_to_all}};
enum { N_CAUSAL = sizeof causal / sizeof *causal, N_IN_ORDER = 28, HEADS = 2, DIM = 8, COLUMNS = HEADS * DIM };

static void open_problem(problem *p, causal_build *build, hga_id n)
{
    *p = (problem){.shape = {.n_heads = HEADS, .dim = DIM}};
    assert_ok(build(n, &p->graph, &p->program));
    problem_fill_by_node(p);
}

static void run_with_panels(problem *p, const hga_options *o, hga_id panel, float *out)
{
    hga_plan *plan;
    hga_workspace *own;
    hga_io io = p->io;
    io.out.data = out;
    assert_ok(plan_make(p->graph, &p->program, &p->shape, o, panel, NULL, &plan));
    assert_ok(hga_workspace_create(plan, &own));
    assert_ok(hga_plan_execute(plan, own, &io));
    hga_workspace_destroy(own), hga_plan_destroy(plan);
}

/* Rows [0, n) have the same bits. */
static void check_rows(const char *name, const char *what, const float *got, const float *want, hga_id n)
{
    for (hga_id v = 0; v < n; v++)
        if (memcmp(got + (int64_t)v * COLUMNS, want + (int64_t)v * COLUMNS, COLUMNS * sizeof *got))
            fail_msg("%s: row %d has other bits %s", name, v, what);
}

/* Tables by type, which are the same for all lengths where types are. */
static void open_with_tables(problem *p, int i, hga_id n, int tables)
{
    open_problem(p, causal[i].build, n);
    if (tables) problem_fill_tables(p, 8, 1, 1, 0);
}

static void check_prefixes(int i, hga_id longest, int tables, const hga_options *o)
{
    static const hga_id lengths[] = {17,  20,  31,  33,  47,  65,  79,   101,  127,  129,  201,  255,
                                     257, 333, 511, 513, 777, 999, 1001, 1535, 2047, 2049, 3001, 4095};
    problem whole;
    char what[64];
    open_with_tables(&whole, i, longest, tables);
    float *want = problem_out(&whole, o, NULL);
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths && lengths[l] < longest; l++) {
        problem p;
        if (passed_over(i + (int)l)) continue;
        open_with_tables(&p, i, lengths[l], tables);
        float *got = problem_out(&p, o, NULL);
        snprintf(what, sizeof what, "among %d tokens and among %d", lengths[l], longest);
        check_rows(causal[i].name, what, got, want, lengths[l]);
        free(got), problem_clear(&p);
    }
    free(want), problem_clear(&whole);
}

static void rows_do_not_hang_on_what_follows(void **state)
{
    static const hga_options small[] = {
        {.threads = 1, .isa = "ref"}, {.threads = 3, .precision = HGA_PRECISION_BF16}, {.threads = 1, .generic = 1}};
    (void)state;
    for (int i = 0; i < N_IN_ORDER; i++) {
        check_prefixes(i, 4096, 0, &(hga_options){.threads = 1});
        check_prefixes(i, 2600, 1, &(hga_options){.threads = 2});
        for (int o = 0; o < 3; o++) check_prefixes(i, 600, o, &small[o]);
    }
}

static void check_panels(int i, hga_id n, hga_precision precision)
{
    problem p;
    char what[64];
    open_problem(&p, causal[i].build, n);
    float *want = problem_out(&p, &(hga_options){.threads = 1, .precision = precision}, NULL),
          *got = memory(out_count(&p), sizeof *got);
    for (hga_id panel = 16; panel <= 256; panel *= 4) {
        run_with_panels(&p, &(hga_options){.threads = 2, .precision = precision}, panel, got);
        snprintf(what, sizeof what, "in panels of %d among %d", panel, n);
        check_rows(causal[i].name, what, got, want, (hga_id)p.n_out);
    }
    free(want), free(got), problem_clear(&p);
}

static void rows_do_not_hang_on_the_panel(void **state)
{
    (void)state;
    for (int i = 0; i < N_CAUSAL; i++) {
        for (hga_id n = 333; n <= 3000; n += 1234)
            if (!passed_over(i + n)) check_panels(i, n, HGA_PRECISION_F32);
        check_panels(i, 999, HGA_PRECISION_BF16);
    }
}

/* Few rows and many threads: panels go to several threads, some heads each. The longest share of each wave, all in all,
   is well below all work; whatever the heads, bits stay. */
static void heads_are_shared_out_where_rows_are_few(void **state)
{
    static const hga_shape shapes[] = {{.n_heads = 8, .dim = 64},
                                       {.n_heads = 12, .n_kv_heads = 3, .dim = 16},
                                       {.n_heads = 5, .dim = 9, .dim_v = 21},
                                       {.n_heads = 2, .n_kv_heads = 1, .dim = 16}};
    static const char *const names[] = {"dense",           "dense_causal", "dense_cross", "window_global",
                                        "neighbours_wide", "bpt_wide",     "fine",        "hsa_frontier_wide"};
    (void)state;
    for (int i = 0; i < 8; i++)
        for (int s = 0; s < 4; s++) {
            problem p;
            hga_plan *plan;
            if (passed_over(4 * i + s)) continue;
            variant_build(variant_named(names[i]), 123, 9, &shapes[s], &p);
            for (int tables = 0; tables < 2; tables++) {
                float *want = problem_out(&p, &(hga_options){.threads = 1}, NULL);
                for (hga_id threads = 2; threads < 24; threads += threads) {
                    float *got = problem_out(&p, &(hga_options){.threads = threads}, NULL);
                    assert_same_bits(p.name, got, want, out_count(&p));
                    free(got);
                }
                free(want);
                problem_fill_tables(&p, 8, 1, 1, 1);
            }
            if (i < 3 && s == 0) {
                assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.threads = 8}, &plan));
                double share = waves_longest_shares(plan);
                if (share > 0.3) fail_msg("%s: the longest shares are %.2f of all work", p.name, share);
                hga_plan_destroy(plan);
            }
            problem_clear(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_do_not_hang_on_what_follows),
                                       cmocka_unit_test(rows_do_not_hang_on_the_panel),
                                       cmocka_unit_test(heads_are_shared_out_where_rows_are_few)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
