/* BP-Transformer against the authors' graph builder (the edges it gets wrong left out), two other readings of the
   paper, and eq (13) in double. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows [n][3] = source, destination, type as sorted edges, without the rows listed in `skip`. */
static edge *golden_edges(golden *c, const char *array, const char *skip, int64_t *n)
{
    const int32_t *row = golden_ints(c, array);
    int64_t rows = golden_dim(c, array, 0), skipped = 0, kept = 0;
    edge *e = memory(rows, sizeof *e);
    const int32_t *bad = skip && golden_has(c, skip) ? golden_ints(c, skip) : NULL;
    int64_t n_bad = bad ? golden_count(c, skip) : 0;
    for (int64_t i = 0; i < rows; i++) {
        if (skipped < n_bad && bad[skipped] == i)
            skipped++;
        else
            e[kept++] = (edge){.src = row[3 * i], .dst = row[3 * i + 1], .type = row[3 * i + 2]};
    }
    assert_int_equal(skipped, n_bad);
    sort_edges(e, kept);
    *n = kept;
    return e;
}

static hga_graph *build(const golden *c, hga_bpt_rule rule, const char *causal, hga_program *program)
{
    hga_bpt b;
    hga_defaults(&b);
    hga_graph *g;
    b.n_tokens = (hga_id)golden_int(c, "n"), b.k = (hga_id)golden_int(c, "k"),
    b.clip = (hga_id)golden_int(c, "clip_dist");
    b.rule = rule, b.causal = golden_true(c, causal);
    assert_ok(hga_build_bpt(&b, &g, program));
    return g;
}

static void compare_edges(const char *name, golden *c, const hga_graph *g, const char *array, const char *skip)
{
    int64_t n_got, n_want;
    edge *got = all_rows(g, hga_graph_find_relation(g, "near"), &n_got), *want = golden_edges(c, array, skip, &n_want);
    assert_same_edges(name, got, n_got, want, n_want);
    assert_int_equal(hga_graph_relation(g, hga_graph_find_relation(g, "near")).n_edges, n_want);
    free(got), free(want);
}

/* The graph is the authors' one, edge for edge, but for the edges their aliasing bug makes; a node's position is its
   last token. */
static void graph_is_the_authors(void **state)
{
    golden *c = golden_open("bpt_graph", *state);
    hga_program program;
    hga_graph *g = build(c, HGA_BPT_SHIFTED, "causal(triu)", &program);
    hga_nodes nodes = hga_graph_nodes(g);
    assert_int_equal(nodes.n, golden_int(c, "num_nodes"));
    assert_int_equal(hga_bpt_nodes((hga_id)golden_int(c, "n")), nodes.n);
    assert_int_equal(hga_bpt_tokens(nodes.n), golden_int(c, "n"));
    for (hga_id v = 0; v < nodes.n; v++) assert_int_equal(nodes.span_last[v], golden_ints(c, "pos")[v]);
    compare_edges(*state, c, g, "edges_src_dst_type", "buggy_edge_rows");
    hga_graph_destroy(g);
    golden_close(c);
}

/* The paper's sentence (text) and its Algorithm 1, edge for edge. */
static void reading_is_the_papers(void **state)
{
    const char *name = *state;
    golden *c = golden_open("bpt_graph_readings", name);
    hga_program program;
    hga_graph *g = build(c, strncmp(name, "text", 4) == 0 ? HGA_BPT_TEXT : HGA_BPT_ALGORITHM1, "causal", &program);
    compare_edges(name, c, g, "edges_src_dst_type", NULL);
    hga_graph_destroy(g);
    golden_close(c);
}

/* Attention on the mended graph with and without relative keys is eq (13) in double. */
static void attention_is_equation_13(void **state)
{
    golden *c = golden_open("bpt_gsa", *state);
    problem p = {.shape = {.n_heads = (hga_id)golden_int(c, "heads"), .dim = (hga_id)golden_int(c, "head_dim")}};
    snprintf(p.name, sizeof p.name, "%s", (char *)*state);
    p.graph = build(c, HGA_BPT_SHIFTED, "causal", &p.program);
    compare_edges(*state, c, p.graph, "edges_fixed", NULL);
    problem_fill(&p, 1);
    assert_int_equal(out_count(&p), golden_count(c, "out_fixed_graph_f64"));
    p.io.query.data = (void *)(uintptr_t)golden_floats(c, "q");
    p.io.key.data = (void *)(uintptr_t)golden_floats(c, "k");
    p.io.value.data = (void *)(uintptr_t)golden_floats(c, "v");
    problem_run(&p);
    assert_near("without relative keys", p.io.out.data, golden_doubles(c, "out_fixed_graph_norel_f64"), out_count(&p),
                golden_tolerance(c));
    p.io.rel_key.data = golden_floats(c, "rel_k"), p.io.rel_key.rows = (hga_id)golden_dim(c, "rel_k", 0);
    problem_run(&p);
    assert_near("with relative keys", p.io.out.data, golden_doubles(c, "out_fixed_graph_f64"), out_count(&p),
                golden_tolerance(c));
    problem_clear(&p);
    golden_close(c);
}

static void compare_degrees(golden *c, const hga_graph *g)
{
    hga_id n = hga_graph_nodes(g).n;
    hga_pos *degree = memory(n, sizeof *degree);
    hga_graph_degrees(g, hga_graph_find_relation(g, "near"), 0, n, degree);
    for (hga_id v = 0; v < n; v++) assert_int_equal(degree[v], golden_ints(c, "in_degree_fixed")[v]);
    free(degree);
}

/* Thousands of tokens: degrees, chosen rows and checksums of the whole output. */
static void large_case(void **state)
{
    golden *c = golden_open("bpt_gsa", *state);
    uint64_t seed = golden_seed(c);
    problem p = {.shape = {.n_heads = 1, .dim = 8}};
    snprintf(p.name, sizeof p.name, "%s", (char *)*state);
    p.graph = build(c, HGA_BPT_SHIFTED, "causal", &p.program);
    assert_int_equal(hga_graph_relation(p.graph, 0).n_edges, golden_int(c, "num_edges_fixed"));
    compare_degrees(c, p.graph);
    problem_fill(&p, seed);
    p.io.rel_key.rows = (hga_id)((2 * golden_int(c, "k") + 1) * (golden_int(c, "clip_dist") + 1));
    p.io.rel_key.data = p.owned[p.n_owned++] = random_floats(seed + 3, 1, (int64_t)p.io.rel_key.rows * p.shape.dim);
    problem_run(&p);
    assert_golden_rows(c, "out_rows_f64", p.io.out.data, p.shape.dim);
    assert_golden_checksums(c, "checksums_full_output", p.io.out.data, out_count(&p));
    problem_clear(&p);
    golden_close(c);
}

int main(void)
{
    int failures = golden_run("bpt_graph", "", graph_is_the_authors);
    failures += golden_run("bpt_graph_readings", "", reading_is_the_papers);
    failures += golden_run("bpt_gsa", "bidir", attention_is_equation_13);
    failures += golden_run("bpt_gsa", "causal", attention_is_equation_13);
    failures += golden_run("bpt_gsa", "large", large_case);
    return failures != 0;
}
