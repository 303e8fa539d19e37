/* test_promises.c: who may see whom: causality, and what graphs claim. */
#include "testing.h"

#include <stdlib.h>
#include <string.h>

static const hga_id sizes[] = {1, 2, 3, 5, 8, 13, 31, 64, 100, 150};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static hga_shape plain_shape(void) { return (hga_shape){.n_heads = 2, .dim = 8, .dim_v = 5, .pos_dim = 3}; }

/* ---- causality ---- */

static const char *const causal_words[] = {"dense causal=1",
                                           "window left=7 right=0 causal=1",
                                           "bpt k=2 causal=1",
                                           "htransformer block=3 causal=1 relative=1",
                                           "htransformer block=4 causal=1 structure=siblings",
                                           "hsa branching=3,2 causal=1 mode=frontier"};
enum { N_CAUSAL = sizeof causal_words / sizeof *causal_words };

static void open_prefix(problem *p, const char *words, hga_id n)
{
    *p = (problem){.shape = {.n_heads = 2, .dim = 8, .dim_v = 8}};
    assert_ok(hga_build(words, n, &p->graph, &p->program));
    problem_fill_by_node(p);
    problem_run(p);
}

/* In-edges of the first n tokens of the attended relation, ids counted within levels: dst = index, src = level * 10000
   + index. */
static edge *prefix_edges(const problem *p, hga_id n, int64_t *count)
{
    hga_csr csr;
    hga_id level;
    assert_ok(hga_graph_rows(p->graph, find_stage(&p->program, HGA_SCORE)->relation,
                             hga_graph_nodes(p->graph).query_first, n, &csr));
    edge *e = memory(csr.ptr[n], sizeof *e);
    for (hga_id v = 0; v < n; v++)
        for (hga_pos i = csr.ptr[v]; i < csr.ptr[v + 1]; i++) {
            hga_id index = index_in_level(p->graph, csr.src[i], &level);
            /* one side may have no tree: its tokens stand behind the other's */
            if (level == 0) index -= hga_graph_nodes(p->graph).key_first;
            e[i] = (edge){.dst = v, .src = level * 10000 + index, .type = csr.type[i]};
        }
    *count = csr.ptr[n];
    hga_csr_clear(&csr);
    sort_edges(e, *count);
    return e;
}

/* Appending tokens to a causal sequence leaves the in-edges and outputs of those before. */
static void causal_graphs_are_prefix_stable(void **state)
{
    static const hga_id lengths[] = {1, 2, 7, 12, 25, 48};
    (void)state;
    for (int b = 0; b < N_CAUSAL; b++) {
        problem longer;
        open_prefix(&longer, causal_words[b], 77);
        for (int i = 0; i < 6; i++) {
            problem p;
            int64_t n_got, n_want;
            open_prefix(&p, causal_words[b], lengths[i]);
            edge *got = prefix_edges(&longer, lengths[i], &n_got), *want = prefix_edges(&p, lengths[i], &n_want);
            assert_same_edges("prefix", got, n_got, want, n_want);
            assert_near_floats("prefix", longer.io.out.data, p.io.out.data, (int64_t)lengths[i] * 16, 1e-6);
            free(got), free(want);
            problem_clear(&p);
        }
        problem_clear(&longer);
    }
}

/* Random new values for the rows of a tensor whose nodes know token t. */
static void change_rows(problem *p, hga_binding binding, hga_tensor *tensor, int64_t columns, hga_id t)
{
    hga_nodes nodes = hga_graph_nodes(p->graph);
    for (hga_id f = 1; f <= p->program.n_fields; f++) {
        if (p->program.field[f].binding != binding) continue;
        hga_id n, *rows = row_nodes(p->graph, p->program.field[f].io, &n);
        for (hga_id i = 0; i < n; i++)
            if (nodes.span_first[rows[i]] <= t && t <= nodes.span_last[rows[i]])
                fill_random(991 + (uint64_t)i, 3, columns, (float *)tensor->data + i * columns);
        free(rows);
    }
}

/* How many output rows of nodes that end before token t change when q, k (and v) of token t change. */
static int rows_that_see(int variant, hga_id n, uint64_t seed, hga_id t)
{
    hga_shape shape = plain_shape();
    problem p;
    int moved = 0;
    variant_build(variant, n, seed, &shape, &p);
    int64_t q = (int64_t)p.shape.n_heads * p.shape.dim, v = (int64_t)p.shape.n_heads * p.shape.dim_v;
    hga_id n_rows = 0, *rows = NULL;
    for (hga_id f = 1; f <= p.program.n_fields; f++)
        if (p.program.field[f].binding == HGA_IO_OUT) rows = row_nodes(p.graph, p.program.field[f].io, &n_rows);
    float *before = problem_out(&p, &p.options, NULL);
    change_rows(&p, HGA_IO_QUERY, &p.io.query, q, t);
    change_rows(&p, HGA_IO_KEY, &p.io.key, q, t);
    change_rows(&p, HGA_IO_VALUE, &p.io.value, v, t);
    float *after = problem_out(&p, &p.options, NULL);
    hga_nodes nodes = hga_graph_nodes(p.graph);
    for (hga_id i = 0; i < n_rows; i++)
        moved += nodes.span_last[rows[i]] < t && memcmp(before + i * v, after + i * v, (size_t)v * sizeof *before) != 0;
    free(before), free(after), free(rows);
    problem_clear(&p);
    return moved;
}

/* Changing token t moves no output before it by a bit. */
static void causal_outputs_do_not_see_later_tokens(void **state)
{
    static const char *const names[] = {"dense_causal",      "window_causal",     "bpt_causal",
                                        "neighbours_causal", "siblings_causal",   "fine_causal",
                                        "hsa_frontier",      "hsa_frontier_wide", "neighbours_causal_wide"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (hga_id n = 9; n <= 150; n += 47)
            for (uint64_t seed = 1; seed < 5; seed++)
                for (hga_id t = 1; t < n; t += 1 + n / 12)
                    if (!passed_over(t + (int)seed) && rows_that_see(variant_named(names[i]), n, seed, t))
                        fail_msg("%s of %d tokens, seed %llu: an output sees token %d after it", names[i], n,
                                 (unsigned long long)seed, t);
}

/* The paper's own causal mode looks ahead through queries and keys, as its documentation says; the bidirectional ones
   must see everything. */
static void hsa_self_sees_later_tokens(void **state)
{
    (void)state;
    int moved = 0, all = 0;
    for (hga_id t = 1; t < 30; t++) {
        moved += rows_that_see(variant_named("hsa_causal_self"), 30, 2, t) > 0;
        all += rows_that_see(variant_named("hsa"), 30, 2, t) == t;
    }
    assert_true(moved > 0);
    assert_int_equal(all, 29);
}

/* Two variants of the papers break the promise their kind makes, and are there so that hga can say so. */
static int breaks_its_promise(const char *name)
{
    return strncmp(name, "bpt_algorithm1", 14) == 0 || strncmp(name, "hsa_causal_self", 15) == 0;
}

static void broken_promises_are_found(void **state)
{
    (void)state;
    hga_shape shape = plain_shape();
    problem p;
    hga_coverage c;
    hga_id token, sees;
    variant_build(variant_named("bpt_algorithm1"), 5, 3, &shape, &p);
    assert_true(hga_graph_nodes(p.graph).claims & HGA_CLAIM_SINGLE);
    assert_ok(hga_program_coverage(&p.program, p.graph, 0, &c));
    assert_true(c.more > 0);
    problem_clear(&p);
    variant_build(variant_named("hsa_causal_self"), 30, 4, &shape, &p);
    assert_true(hga_graph_nodes(p.graph).claims & HGA_CLAIM_CAUSAL);
    assert_ok(hga_program_influence(&p.program, p.graph, &token, &sees));
    assert_true(token >= 0 && sees > token);
    problem_clear(&p);
}

/* Everything but user's graphs promises something, and keeps it: no token sees a later one, no pair is covered twice,
   none is left out. */
static void check_claims(const problem *p)
{
    hga_nodes nodes = hga_graph_nodes(p->graph);
    hga_coverage c;
    hga_id token = -1, sees = -1;
    int self = nodes.query_first == nodes.key_first, causal = (nodes.claims & HGA_CLAIM_CAUSAL) != 0;
    if (causal && self) assert_ok(hga_program_influence(&p->program, p->graph, &token, &sees));
    if (token != -1) fail_msg("%s claims to be causal, but token %d sees %d", p->name, token, sees);
    if (!find_stage(&p->program, HGA_SCORE)) return;
    assert_ok(hga_program_coverage(&p->program, p->graph, causal, &c));
    if ((nodes.claims & HGA_CLAIM_SINGLE) && c.more)
        fail_msg("%s covers %lld pairs twice, such as %d and %d", p->name, (long long)c.more, c.token, c.other);
    if ((nodes.claims & HGA_CLAIM_COMPLETE) && c.none != c.none_diagonal)
        fail_msg("%s leaves out %lld pairs", p->name, (long long)(c.none - c.none_diagonal));
}

static void graphs_keep_what_they_claim(void **state)
{
    (void)state;
    hga_shape shape = plain_shape();
    for (int i = 0; i < n_variants(); i++)
        for (int s = 0; s < 8; s++)
            for (uint64_t seed = 1; seed < 5; seed++) {
                problem p;
                if (passed_over(i + s + (int)seed)) continue;
                variant_build(i, sizes[s], seed, &shape, &p);
                if (!breaks_its_promise(p.name)) check_claims(&p);
                problem_clear(&p);
            }
}

/* Every block size, odd ones too: each pair of tokens exactly once. */
static void blocks_of_any_size_cover_every_pair_once(void **state)
{
    (void)state;
    for (hga_id n = 1; n <= 40; n += 3)
        for (hga_id block = 1; block <= 9; block++)
            for (int kind = 0; kind < 4; kind++) {
                hga_htransformer h;
                hga_defaults(&h);
                hga_program program;
                hga_graph *g;
                hga_coverage c;
                h.n_tokens = n, h.block = block, h.causal = kind & 1,
                h.structure = kind & 2 ? HGA_SIBLINGS : HGA_NEIGHBOURS;
                assert_ok(hga_build_htransformer(&h, &g, &program));
                assert_ok(hga_program_coverage(&program, g, h.causal, &c));
                assert_int_equal(c.pairs, h.causal ? n * (n + 1) / 2 : n * n);
                assert_int_equal(c.once, c.pairs);
                if (h.causal) assert_int_equal(c.later, 0);
                hga_graph_destroy(g);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causal_graphs_are_prefix_stable), cmocka_unit_test(causal_outputs_do_not_see_later_tokens),
        cmocka_unit_test(hsa_self_sees_later_tokens),      cmocka_unit_test(graphs_keep_what_they_claim),
        cmocka_unit_test(broken_promises_are_found),       cmocka_unit_test(blocks_of_any_size_cover_every_pair_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
