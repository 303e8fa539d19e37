/* H-Transformer-1D against the authors' code (neighbours, section 5) and a literal transcription of appendix A
   (siblings). */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The hierarchy and shape that a case of the authors' code describes. */
static hga_htransformer neighbours_of(const golden *c, hga_shape *shape)
{
    hga_htransformer h;
    hga_defaults(&h);
    h.n_tokens = (hga_id)golden_int(c, "n");
    h.block = (hga_id)golden_int(c, golden_member(c, "num_clusters") ? "num_clusters" : "num_clusters_effective");
    h.linear = golden_member(c, "interpolation") && strcmp(golden_text(c, "interpolation"), "linear") == 0;
    h.relative = 1;
    *shape = (hga_shape){.n_heads = (hga_id)golden_int(c, "heads"), .dim = (hga_id)golden_int(c, "head_dim")};
    return h;
}

/* Fresh inputs from the case's arrays in place of random ones. */
static void take_inputs(problem *p, golden *c)
{
    p->io.query.data = (void *)(uintptr_t)golden_floats(c, "q");
    p->io.key.data = (void *)(uintptr_t)golden_floats(c, "k");
    p->io.value.data = (void *)(uintptr_t)golden_floats(c, "v");
}

/* The table of the case, one column repeated for every head where heads share it. */
static void take_bias(problem *p, golden *c)
{
    hga_id rows = (hga_id)golden_dim(c, "rpb_bias", 0), columns = (hga_id)golden_dim(c, "rpb_bias", 1),
           heads = p->shape.n_heads;
    float *bias = p->owned[p->n_owned++] = memory((int64_t)rows * heads, sizeof *bias);
    for (hga_id i = 0; i < rows * heads; i++)
        bias[i] = golden_floats(c, "rpb_bias")[i / heads * columns + (columns == 1 ? 0 : i % heads)];
    p->io.rel_bias.data = bias, p->io.rel_bias.rows = rows;
}

/* Edges listed as level, query, key (, type), the numbers counted within the level. */
static void compare_edges(const hga_graph *g, golden *c, const char *array)
{
    int64_t n_got, n_want = golden_dim(c, array, 0), columns = golden_dim(c, array, 1);
    edge *got = all_rows(g, hga_graph_find_relation(g, "near"), &n_got), *want = memory(n_want, sizeof *want);
    for (int64_t i = 0; i < n_want; i++) {
        const int32_t *row = golden_ints(c, array) + columns * i;
        hga_id first = hga_graph_nodes(g).level_ptr[row[0]];
        want[i] = (edge){.dst = first + row[1], .src = first + row[2], .type = columns == 4 ? row[3] : 0};
    }
    for (int64_t i = 0; columns == 3 && i < n_got; i++) got[i].type = 0;
    sort_edges(want, n_want);
    assert_same_edges(array, got, n_got, want, n_want);
    free(got), free(want);
}

/* Encoder, decoder and cross-attention cases within the tolerance; temperature T divides scores. */
static void output_is_the_authors(void **state)
{
    golden *c = golden_open("htransformer_neighbours", *state);
    problem p = {.n_owned = 0};
    hga_htransformer h = neighbours_of(c, &p.shape);
    h.causal = strncmp(*state, "dec", 3) == 0;
    h.n_keys = strncmp(*state, "cross", 5) == 0 ? h.n_tokens : 0;
    snprintf(p.name, sizeof p.name, "%s", (char *)*state);
    assert_ok(hga_build_htransformer(&h, &p.graph, &p.program));
    if (golden_has(c, "edges_level_qidx_kidx_relpos")) compare_edges(p.graph, c, "edges_level_qidx_kidx_relpos");
    problem_fill(&p, 1);
    take_inputs(&p, c);
    if (golden_has(c, "rpb_bias")) take_bias(&p, c);
    p.io.scale.data = &(float){(float)(1 / (golden_number(c, "softmax_temperature", 1) * sqrt(p.shape.dim)))};
    problem_run(&p);
    const char *want = golden_has(c, "out_exact_f64") ? "out_exact_f64" : "out_f64";
    assert_int_equal(golden_count(c, want), out_count(&p));
    assert_near(*state, p.io.out.data, golden_doubles(c, want), out_count(&p), golden_tolerance(c));
    problem_clear(&p);
    golden_close(c);
}

/* Linear interpolation shows a row its right neighbour: with a decoder it is refused, and the reason is told. */
static void causal_linear_is_refused(void **state)
{
    golden *c = golden_open("htransformer_neighbours", *state);
    hga_shape shape;
    hga_htransformer h = neighbours_of(c, &shape);
    hga_graph *g = NULL;
    hga_program program;
    h.causal = 1;
    assert_true(h.linear);
    assert_status(HGA_EUNSUPPORTED, hga_build_htransformer(&h, &g, &program));
    assert_null(g);
    golden_close(c);
}

static void large_case(void **state)
{
    golden *c = golden_open("htransformer_neighbours", *state);
    problem p = {.n_owned = 0};
    hga_htransformer h = neighbours_of(c, &p.shape);
    h.causal = strncmp(*state, "large_dec", 9) == 0;
    snprintf(p.name, sizeof p.name, "%s", (char *)*state);
    assert_ok(hga_build_htransformer(&h, &p.graph, &p.program));
    problem_fill(&p, golden_seed(c));
    problem_run(&p);
    assert_golden_rows(c, "out_rows_f64", p.io.out.data, (int64_t)p.shape.n_heads * p.shape.dim);
    assert_golden_checksums(c, "checksums_full_output", p.io.out.data, out_count(&p));
    problem_clear(&p);
    golden_close(c);
}

/* Appendix A: sibling blocks only; block sizes may be odd. */
static void output_is_appendix_a(void **state)
{
    golden *c = golden_open("htransformer_siblings", *state);
    problem p = {.shape = {.n_heads = 1, .dim = (hga_id)golden_int(c, "head_dim")}};
    hga_htransformer h;
    hga_defaults(&h);
    h.n_tokens = (hga_id)golden_int(c, "n"), h.block = (hga_id)golden_int(c, "Nr");
    h.structure = HGA_SIBLINGS, h.causal = strncmp(*state, "causal", 6) == 0;
    snprintf(p.name, sizeof p.name, "%s", (char *)*state);
    assert_ok(hga_build_htransformer(&h, &p.graph, &p.program));
    compare_edges(p.graph, c, "edges_level_qidx_kidx");
    problem_fill(&p, 1);
    take_inputs(&p, c);
    problem_run(&p);
    assert_near(*state, p.io.out.data, golden_doubles(c, "out_f64"), out_count(&p), golden_tolerance(c));
    problem_clear(&p);
    golden_close(c);
}

/* ---- any length and block, odd ones too: the graph written out from the definition ---- */

/* Nodes of one level of one side, and how many make a block there. */
typedef struct level {
    hga_id size, block;
} level;

static hga_id blocks_in(level l) { return (l.size + l.block - 1) / l.block; }

/* Each block of s nodes becomes ceil(s / 2); plain pairs where structure is siblings. Two halves form a block of the
   next level. */
static level coarser(level l, hga_id c, hga_htransformer_structure structure)
{
    level up = {.size = 0, .block = structure == HGA_NEIGHBOURS ? c + c % 2 : c};
    if (structure == HGA_SIBLINGS) up.size = (l.size + 1) / 2;
    for (hga_id at = 0; structure == HGA_NEIGHBOURS && at < l.size; at += l.block)
        up.size += ((l.size - at < l.block ? l.size - at : l.block) + 1) / 2;
    return up;
}

/* Does query i attend to key j at height l? `b` is the level's block, half of which was a block one level finer. */
static int attends(const hga_htransformer *h, hga_id l, hga_id b, hga_id i, hga_id j)
{
    hga_id apart = i / b - j / b;
    if (h->causal && (l == 0 ? j > i : apart <= 0)) return 0;
    if (h->structure == HGA_SIBLINGS) return i / b / 2 == j / b / 2 && (l == 0 || apart != 0);
    return abs(apart) <= 1 && (l == 0 || abs(i / (b / 2) - j / (b / 2)) > 1);
}

/* The near edges of all levels, ids as the graph numbers them: level by level, queries before keys. */
static edge *define_edges(const hga_htransformer *h, const hga_graph *g, int64_t *n)
{
    level q = {h->n_tokens, h->block}, k = {h->n_keys ? h->n_keys : h->n_tokens, h->block};
    int64_t capacity = 0;
    edge *e = NULL;
    hga_id offset = 2 * (h->structure == HGA_NEIGHBOURS ? h->block + h->block % 2 : h->block) - 1;
    *n = 0;
    for (hga_id l = 0; l < hga_graph_nodes(g).n_levels; l++) {
        hga_id first = hga_graph_nodes(g).level_ptr[l], first_key = first + (h->n_keys ? q.size : 0);
        capacity += (int64_t)q.size * k.size;
        e = realloc(e, (size_t)(capacity + 1) * sizeof *e);
        assert_non_null(e);
        for (hga_id i = 0; i < q.size; i++)
            for (hga_id j = 0; j < k.size; j++)
                if (attends(h, l, q.block, i, j))
                    e[(*n)++] = (edge){
                        .dst = first + i, .src = first_key + j, .type = h->relative ? j - i + offset : 0, .weight = 1};
        int top = blocks_in(q) <= 2 && blocks_in(k) <= 2;
        assert_int_equal(top, l + 1 == hga_graph_nodes(g).n_levels);
        q = coarser(q, h->block, h->structure), k = coarser(k, h->block, h->structure);
    }
    sort_edges(e, *n);
    return e;
}

static void check_definition(const hga_htransformer *h)
{
    char what[120];
    hga_graph *g;
    hga_program program;
    int64_t n_got, n_want;
    snprintf(what, sizeof what, "structure %d, %d queries, %d keys, block %d, causal %d", h->structure, h->n_tokens,
             h->n_keys, h->block, h->causal);
    assert_ok(hga_build_htransformer(h, &g, &program));
    edge *got = all_rows(g, hga_graph_find_relation(g, "near"), &n_got), *want = define_edges(h, g, &n_want);
    assert_same_edges(what, got, n_got, want, n_want);
    free(got), free(want);
    hga_graph_destroy(g);
}

static void near_is_its_definition(void **state)
{
    (void)state;
    for (hga_id n = 1; n < 60; n += 1 + n / 12)
        for (hga_id block = 1; block < 8; block++)
            for (int kind = 0; kind < 6; kind++) {
                hga_htransformer h;
                hga_defaults(&h);
                h.n_tokens = n, h.block = block, h.relative = 1, h.structure = kind % 2 ? HGA_SIBLINGS : HGA_NEIGHBOURS;
                h.causal = kind / 2 == 1, h.n_keys = kind / 2 == 2 ? 1 + (n * 7 + block) % 50 : 0;
                check_definition(&h);
            }
}

/* ---- relations between levels ---- */

/* Children of a node above the tokens. */
static hga_id children_of(const hga_nodes *nodes, hga_id v, hga_id *first)
{
    hga_id at = nodes->child_ptr[v - nodes->level_ptr[1]];
    *first = nodes->child_list ? nodes->child_list[at] : at;
    return nodes->child_ptr[v - nodes->level_ptr[1] + 1] - at;
}

/* Edges as the nodes alone define them, sorted; how many. */
typedef int64_t define_between(const hga_nodes *nodes, edge *want);

/* A causal coarse query is that of its first child, and of nothing else. */
static int64_t define_first_child(const hga_nodes *nodes, edge *want)
{
    int64_t n = 0;
    for (hga_id v = nodes->level_ptr[1]; v < nodes->n; v++, n++) {
        want[n] = (edge){.dst = v, .weight = 1};
        children_of(nodes, v, &want[n].src);
    }
    return n;
}

/* First children take x[j], second ones (x[j] + x[j + 1]) / 2, or x[j] where there is no x[j + 1]. */
static int64_t define_interpolation(const hga_nodes *nodes, edge *want)
{
    int64_t n = 0;
    for (hga_id l = 1; l < nodes->n_levels; l++)
        for (hga_id v = nodes->level_ptr[l]; v < nodes->level_ptr[l + 1]; v++) {
            hga_id first, children = children_of(nodes, v, &first);
            int last = v + 1 == nodes->level_ptr[l + 1];
            want[n++] = (edge){.dst = first, .src = v, .weight = 1};
            if (children > 1) want[n++] = (edge){.dst = first + 1, .src = v, .weight = last ? 1 : 0.5f};
            if (children > 1 && !last) want[n++] = (edge){.dst = first + 1, .src = v + 1, .weight = 0.5f};
        }
    sort_edges(want, n);
    return n;
}

/* For many lengths and blocks the relation is its definition, weights included. */
static void check_between(hga_htransformer h, const char *relation, define_between *define)
{
    for (h.n_tokens = 1; h.n_tokens < 50; h.n_tokens += 3)
        for (h.block = 1; h.block < 8; h.block++) {
            hga_graph *g;
            hga_program program;
            int64_t n_got;
            assert_ok(hga_build_htransformer(&h, &g, &program));
            hga_nodes nodes = hga_graph_nodes(g);
            edge *got = all_rows(g, hga_graph_find_relation(g, relation), &n_got),
                 *want = memory(3 * (int64_t)nodes.n, sizeof *want);
            assert_same_edges(relation, got, n_got, want, define(&nodes, want));
            for (int64_t i = 0; i < n_got; i++) assert_true(got[i].weight == want[i].weight);
            free(got), free(want);
            hga_graph_destroy(g);
        }
}

static void first_child_is_the_first_child(void **state)
{
    (void)state;
    hga_htransformer h;
    hga_defaults(&h);
    h.causal = 1;
    check_between(h, "first_child", define_first_child);
}

static void interpolation_is_linear(void **state)
{
    (void)state;
    hga_htransformer h;
    hga_defaults(&h);
    h.linear = 1;
    check_between(h, "interpolate", define_interpolation);
}

int main(void)
{
    int failures = golden_run("htransformer_neighbours", "enc", output_is_the_authors);
    failures += golden_run("htransformer_neighbours", "dec_linear", causal_linear_is_refused);
    failures += golden_run("htransformer_neighbours", "dec_n", output_is_the_authors);
    failures += golden_run("htransformer_neighbours", "dec_r", output_is_the_authors);
    failures += golden_run("htransformer_neighbours", "cross", output_is_the_authors);
    failures += golden_run("htransformer_neighbours", "stress", output_is_the_authors);
    failures += golden_run("htransformer_neighbours", "large", large_case);
    failures += golden_run("htransformer_siblings", "", output_is_appendix_a);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_is_its_definition),
        cmocka_unit_test(first_child_is_the_first_child),
        cmocka_unit_test(interpolation_is_linear),
    };
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    return failures != 0;
}
