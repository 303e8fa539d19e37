/* Facts that hold whatever the numbers are: on ones, on constants, on degenerate trees, of cut rows and segments. */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const hga_id sizes[] = {1, 2, 3, 5, 8, 13, 31, 64, 100, 150};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static hga_shape plain_shape(void) { return (hga_shape){.n_heads = 2, .dim = 8, .dim_v = 5, .pos_dim = 3}; }

static void set_all(hga_tensor *t, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++) ((float *)t->data)[i] = value;
}

/* ---- weights sum to one ---- */

/* Rows are 1 where the softmax has anything to sum, else 0. */
static void check_ones(const problem *p)
{
    const float *out = p->io.out.data, *lse = p->io.lse.data;
    hga_id dim_v = p->shape.dim_v;
    for (int64_t i = 0; i < lse_count(p); i++) {
        int empty = lse ? lse[i] == -INFINITY : p->n_out == 1 && out[i * dim_v] == 0;
        for (hga_id c = 0; c < dim_v; c++)
            if (!(fabs((double)out[i * dim_v + c] - (empty ? 0 : 1)) <= (empty ? 0 : 1e-5)))
                fail_msg("%s: row %lld is %.9g", p->name, (long long)i, (double)out[i * dim_v + c]);
    }
}

static void values_of_one_give_one(void **state)
{
    (void)state;
    hga_shape shape = plain_shape();
    for (int i = 0; i < n_variants(); i++)
        for (int s = 0; s < N_SIZES; s++) {
            problem p;
            variant_build(i, sizes[s], (uint64_t)(100 + s), &shape, &p);
            if (find_stage(&p.program, HGA_SCORE)) {
                set_all(&p.io.value, p.n_value * p.shape.n_heads * shape.dim_v, 1);
                problem_run(&p);
                check_ones(&p);
            }
            problem_clear(&p);
        }
}

/* ---- equal to plain attention ---- */

/* Query and key of every token below a node of `level` become those of its first token. */
static void make_constant(problem *p, hga_id level)
{
    hga_nodes nodes = hga_graph_nodes(p->graph);
    int64_t row = (int64_t)p->shape.n_heads * p->shape.dim;
    float *q = p->io.query.data, *k = p->io.key.data;
    for (hga_id v = nodes.level_ptr[level]; v < nodes.level_ptr[level + 1]; v++)
        for (hga_id t = nodes.span_first[v] + 1; t <= nodes.span_last[v]; t++) {
            memcpy(q + t * row, q + nodes.span_first[v] * row, (size_t)row * sizeof *q);
            memcpy(k + t * row, k + nodes.span_first[v] * row, (size_t)row * sizeof *k);
        }
}

/* The same for every tree below a root's children, for trees that may be ragged. */
static void make_constant_below_root(problem *p)
{
    hga_nodes nodes = hga_graph_nodes(p->graph);
    int64_t row = (int64_t)p->shape.n_heads * p->shape.dim;
    float *q = p->io.query.data, *k = p->io.key.data;
    for (hga_id v = 0; nodes.parent && v < nodes.n; v++) {
        if (nodes.parent[v] < 0 || nodes.parent[nodes.parent[v]] >= 0) continue;
        for (hga_id t = nodes.span_first[v] + 1; t <= nodes.span_last[v]; t++) {
            memcpy(q + t * row, q + nodes.span_first[v] * row, (size_t)row * sizeof *q);
            memcpy(k + t * row, k + nodes.span_first[v] * row, (size_t)row * sizeof *k);
        }
    }
}

/* -INFINITY where key j - query i is left out. */
typedef int leaves_out(int64_t i, int64_t j);

static int nothing(int64_t i, int64_t j)
{
    (void)i, (void)j;
    return 0;
}

static int later_keys(int64_t i, int64_t j) { return j > i; }

static int itself(int64_t i, int64_t j) { return i == j; }

/* The problem's output is softmax attention without the pairs left out, plus a bias by pair where there is one. */
static void assert_is_dense(problem *p, leaves_out *out,
                            float (*bias_of)(const problem *p, int64_t i, int64_t j, hga_id h), int64_t n_rows)
{
    int64_t n = p->n_query, m = p->n_key, heads = p->shape.n_heads, dim_v = p->shape.dim_v;
    float *bias = memory(n * m * heads, sizeof *bias);
    double *want = memory(n * heads * dim_v, sizeof *want);
    for (int64_t e = 0; e < n * m * heads; e++) {
        int64_t i = e / heads / m, j = e / heads % m;
        bias[e] = out(i, j) ? -INFINITY : bias_of ? bias_of(p, i, j, (hga_id)(e % heads)) : 0;
    }
    slow_dense(p->io.query.data, p->io.key.data, p->io.value.data, bias, n, m, heads, p->shape.dim, dim_v, want);
    problem_run(p);
    assert_near(p->name, p->io.out.data, want, n_rows * heads * dim_v, 2e-5);
    free(bias), free(want);
}

static void dense_is_softmax(void **state)
{
    (void)state;
    hga_shape shape = plain_shape();
    for (int s = 0; s < N_SIZES; s++) {
        problem p;
        variant_build(variant_named("dense"), sizes[s], 7, &shape, &p);
        assert_is_dense(&p, nothing, NULL, p.n_out);
        problem_clear(&p);
        variant_build(variant_named("dense_causal"), sizes[s], 7, &shape, &p);
        assert_is_dense(&p, later_keys, NULL, p.n_out);
        problem_clear(&p);
        variant_build(variant_named("dense_cross"), sizes[s], 7, &shape, &p);
        assert_is_dense(&p, nothing, NULL, p.n_out);
        problem_clear(&p);
    }
}

/* Where queries and keys do not change inside the coarsest nodes, means lose nothing: log mass counts the tokens. */
static void constants_on_the_hierarchy_give_dense(void **state)
{
    static const char *const names[] = {"neighbours", "neighbours_causal", "siblings", "siblings_causal"};
    (void)state;
    hga_shape shape = plain_shape();
    for (int i = 0; i < 4; i++)
        for (int s = 0; s < N_SIZES; s++)
            for (uint64_t seed = 1; seed < 6; seed++) {
                problem p;
                variant_build(variant_named(names[i]), sizes[s], seed, &shape, &p);
                make_constant(&p, hga_graph_nodes(p.graph).n_levels - 1);
                assert_is_dense(&p, i % 2 ? later_keys : nothing, NULL, p.n_out);
                problem_clear(&p);
            }
}

static void constants_below_the_root_give_softmax_without_diagonal(void **state)
{
    (void)state;
    hga_shape shape = plain_shape();
    shape.pos_dim = 0;
    for (int s = 1; s < N_SIZES; s++)
        for (uint64_t seed = 1; seed < 6; seed++) {
            problem p;
            variant_build(variant_named("hsa"), sizes[s], seed, &shape, &p);
            make_constant_below_root(&p);
            assert_is_dense(&p, itself, NULL, p.n_out);
            problem_clear(&p);
        }
}

static void build_families(problem *p, const hga_id *parent, hga_id n, hga_id *node_of, const hga_shape *shape)
{
    hga_hsa h;
    hga_defaults(&h);
    memset(p, 0, sizeof *p);
    h.parent = parent, h.n_parent = n, h.node_of = node_of;
    p->shape = *shape;
    assert_ok(hga_build_hsa(&h, &p->graph, &p->program));
    problem_fill(p, 77);
}

static void one_family_is_softmax_without_diagonal(void **state)
{
    (void)state;
    hga_shape shape = plain_shape();
    shape.pos_dim = 0;
    for (int s = 0; s < N_SIZES; s++) {
        problem p;
        hga_id n = sizes[s], *parent = memory(n + 1, sizeof *parent);
        for (hga_id v = 0; v < n; v++) parent[v] = n;
        parent[n] = -1;
        build_families(&p, parent, n + 1, NULL, &shape);
        snprintf(p.name, sizeof p.name, "one family of %d", n);
        assert_is_dense(&p, itself, NULL, p.n_out);
        free(parent);
        problem_clear(&p);
    }
}

static void one_leaf_is_dense(void **state)
{
    (void)state;
    for (int s = 0; s < N_SIZES; s++) {
        int32_t *leaf = memory(sizes[s], sizeof *leaf);
        problem p = {.shape = plain_shape()};
        hga_treeformer t;
        hga_defaults(&t);
        for (hga_id i = 0; i < sizes[s]; i++) leaf[i] = 5;
        t.n_queries = sizes[s], t.height = 3, t.query_leaf = leaf;
        p.shape.pos_dim = 0;
        assert_ok(hga_build_treeformer_fine(&t, &p.graph, &p.program));
        problem_fill(&p, 9);
        snprintf(p.name, sizeof p.name, "one leaf of %d", sizes[s]);
        assert_is_dense(&p, nothing, NULL, p.n_out);
        free(leaf);
        problem_clear(&p);
    }
}

/* The bias of the tree relative position: 0 is the token itself, 2s + 1 its left neighbour number s, 2s + 2 the right
   one. */
static float relative_bias(const problem *p, int64_t i, int64_t j, hga_id h)
{
    int64_t type = j == i ? 0 : j < i ? 2 * (i - j - 1) + 1 : 2 * (j - i - 1) + 2;
    return p->io.rel_bias.data[type * p->shape.n_heads + h];
}

/* With k >= n a token sees every other token itself. Span rows and rows of other nodes' values take no part. */
static void wide_bpt_is_dense_with_relative_bias(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++)
        for (int s = 0; s < N_SIZES; s++) {
            problem p = {.shape = plain_shape()};
            hga_bpt b;
            hga_defaults(&b);
            b.n_tokens = sizes[s], b.k = sizes[s] + (hga_id)s % 2, b.causal = causal;
            p.shape.pos_dim = 0;
            snprintf(p.name, sizeof p.name, "bpt of %d tokens, k = %d, causal = %d", b.n_tokens, b.k, causal);
            assert_ok(hga_build_bpt(&b, &p.graph, &p.program));
            problem_fill(&p, 11);
            problem_fill_tables(&p, 13, 0, 1, 0);
            p.n_query = p.n_key = sizes[s]; /* the oracle sees the tokens alone */
            assert_is_dense(&p, causal ? later_keys : nothing, relative_bias, sizes[s]);
            problem_clear(&p);
        }
}

/* ---- only children ---- */

/* A copy of the tree where every third node got one more node below it, which takes over its children (or is the new
   leaf). */
static hga_id *lengthen(const hga_id *parent, hga_id n, hga_id *longer)
{
    hga_id *new = memory(2 * n, sizeof *new), count = n;
    memcpy(new, parent, (size_t)n * sizeof *new);
    for (hga_id v = 0; v < n; v += 3) {
        for (hga_id u = 0; u < count; u++)
            if (new[u] == v) new[u] = count;
        new[count++] = v;
    }
    *longer = count;
    return new;
}

/* node_pos of the graph from values by the caller's ids. */
static void place_positions(problem *p, const hga_id *node_of, hga_id n, uint64_t seed)
{
    hga_id columns = p->shape.pos_dim;
    float *by_id = random_floats(seed, 1, (int64_t)n * columns), *pos = memory((int64_t)n * columns, sizeof *pos);
    for (hga_id v = 0; v < n; v++)
        memcpy(pos + node_of[v] * columns, by_id + v * columns, (size_t)columns * sizeof *pos);
    free(by_id);
    p->io.node_pos.data = p->owned[p->n_owned++] = pos, p->io.node_pos.rows = hga_graph_nodes(p->graph).n;
}

static void only_children_change_nothing(void **state)
{
    (void)state;
    hga_shape shape = plain_shape();
    for (int s = 0; s < N_SIZES; s++)
        for (uint64_t seed = 1; seed < 4; seed++) {
            hga_id n, longer, *parent = random_tree(seed, sizes[s], &n), *chained = lengthen(parent, n, &longer);
            hga_id *node_of = memory(longer, sizeof *node_of);
            problem a, b;
            build_families(&a, parent, n, node_of, &shape);
            place_positions(&a, node_of, n, seed);
            build_families(&b, chained, longer, node_of, &shape);
            place_positions(&b, node_of, longer, seed);
            problem_run(&a), problem_run(&b);
            assert_near_floats("with only children", b.io.out.data, a.io.out.data, out_count(&a), 1e-5);
            free(parent), free(chained), free(node_of);
            problem_clear(&a), problem_clear(&b);
        }
}

/* ---- cut rows ---- */

/* Long rows are cut where cut_edges says, and the pieces' states merged: the same result up to rounding, whatever the
   threads the same bits. */
static void cutting_long_rows_changes_rounding_only(void **state)
{
    static const hga_pos cuts[] = {64, 65, 100, 200};
    (void)state;
    hga_shape shape = plain_shape();
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        if (passed_over(i)) continue;
        variant_build(i, 400, 3, &shape, &p);
        problem_run(&p);
        for (int c = 0; c < 4; c++) {
            float *one = problem_out(&p, &(hga_options){.threads = 1, .cut_edges = cuts[c]}, NULL);
            float *five = problem_out(&p, &(hga_options){.threads = 5, .cut_edges = cuts[c]}, NULL);
            assert_near_floats(p.name, one, p.io.out.data, out_count(&p), 1e-5);
            assert_same_bits(p.name, five, one, out_count(&p));
            free(one), free(five);
        }
        problem_clear(&p);
    }
}

/* ---- segments ---- */

enum { MOST_SEGMENTS = 4096 };

typedef struct told {
    hga_segment segment[MOST_SEGMENTS];
    hga_pos n;
} told;

static void list_segments(const hga_segments *s, void *context)
{
    told *t = context;
    assert_true(s->count > 0 && t->n + s->count <= MOST_SEGMENTS);
    for (hga_id i = 0; i < s->count; i++) t->segment[t->n++] = hga_segments_at(s, i);
}

static int by_bytes(const void *a, const void *b) { return memcmp(a, b, sizeof(hga_segment)); }

static void check_told(const hga_graph *g, hga_id relation, hga_id first, hga_id n)
{
    static told listed, visited;
    listed.n = hga_graph_segments(g, relation, first, n, listed.segment, MOST_SEGMENTS), visited.n = 0;
    hga_graph_visit_segments(g, relation, first, n, list_segments, &visited);
    assert_true(listed.n <= MOST_SEGMENTS);
    assert_int_equal(visited.n, listed.n);
    qsort(listed.segment, (size_t)listed.n, sizeof *listed.segment, by_bytes);
    qsort(visited.segment, (size_t)visited.n, sizeof *visited.segment, by_bytes);
    assert_memory_equal(visited.segment, listed.segment, (size_t)listed.n * sizeof *listed.segment);
}

static void segments_told_once_are_those_listed(void **state)
{
    (void)state;
    hga_shape shape = plain_shape();
    for (int i = 0; i < n_variants(); i++)
        for (int s = 0; s < N_SIZES; s++) {
            problem p;
            variant_build(i, sizes[s], (uint64_t)(100 + s), &shape, &p);
            hga_nodes nodes = hga_graph_nodes(p.graph);
            for (hga_id r = 0; r < nodes.n_relations; r++)
                for (hga_id first = 0; first < nodes.n; first += 7)
                    check_told(p.graph, r, first, nodes.n - first < 20 ? nodes.n - first : 20);
            problem_clear(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_one_give_one),
        cmocka_unit_test(dense_is_softmax),
        cmocka_unit_test(constants_on_the_hierarchy_give_dense),
        cmocka_unit_test(constants_below_the_root_give_softmax_without_diagonal),
        cmocka_unit_test(one_family_is_softmax_without_diagonal),
        cmocka_unit_test(one_leaf_is_dense),
        cmocka_unit_test(wide_bpt_is_dense_with_relative_bias),
        cmocka_unit_test(only_children_change_nothing),
        cmocka_unit_test(cutting_long_rows_changes_rounding_only),
        cmocka_unit_test(segments_told_once_are_those_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
