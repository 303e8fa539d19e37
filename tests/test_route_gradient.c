/* Trees that learn: gradients of paths' probabilities against differences of the definition in double, what coarse
   attention asks of its paths likewise, and balance. */
#include "testing.h"

#include "hga_builders.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 9, HEADS = 2, DIM = 5, HEIGHT = 3, MOST_NODES = 64 };
static const hga_id branching[HEIGHT] = {3, 2, 3};

/* ---- the definition ---- */

typedef struct tree {
    const hga_id *branching;
    double *x, *weights, *bias; /* [N][HEADS][DIM], [HEADS][rows][DIM], [HEADS][rows] */
    int64_t rows, nodes;
    int32_t leaf[N * HEADS];
} tree;

static hga_id children(const tree *t, hga_id l) { return t->branching ? t->branching[l] : 2; }

/* The probability of child c of the node whose hyperplanes begin at `row`. */
static double chance(const tree *t, hga_id i, hga_id h, int64_t row, hga_id b, hga_id c)
{
    double e[8], sum = 0;
    for (hga_id k = 0; k < b; k++) {
        double f = 0;
        int64_t plane = t->branching ? row + k : row;
        for (hga_id j = 0; j < DIM; j++)
            f += t->weights[(h * t->rows + plane) * DIM + j] * t->x[(i * HEADS + h) * DIM + j];
        f += t->bias[h * t->rows + plane];
        e[k] = exp(!t->branching && k == 0 ? 0 : f);
        sum += e[k];
    }
    return e[c] / sum;
}

/* The probabilities that a row comes to every node, level after level. */
static void reach(const tree *t, hga_id i, hga_id h, double *p)
{
    int64_t first = 0, nodes = 1, row = 0;
    p[0] = 1;
    for (hga_id l = 0; l < HEIGHT; l++) {
        hga_id b = children(t, l), planes = t->branching ? b : 1;
        for (int64_t j = 0; j < nodes; j++)
            for (hga_id c = 0; c < b; c++)
                p[first + nodes + j * b + c] = p[first + j] * chance(t, i, h, row + j * planes, b, c);
        row += nodes * planes, first += nodes, nodes *= b;
    }
}

/* The node of a leaf at level l, counted through all levels. */
static int64_t node_at(const hga_id *branching_or_null, int64_t leaf, hga_id l)
{
    int64_t first = 0, nodes = 1;
    for (hga_id k = HEIGHT; k-- > l;) leaf /= branching_or_null ? branching_or_null[k] : 2;
    for (hga_id k = 0; k < l; k++) first += nodes, nodes *= branching_or_null ? branching_or_null[k] : 2;
    return first + leaf;
}

typedef struct input {
    float path[N * HEADS], level[N * HEADS * (HEIGHT + 1)], node[N * HEADS * MOST_NODES];
    int which; /* 1: path, 2: level, 4: node */
} input;

static double loss(const tree *t, const input *d)
{
    double sum = 0, p[MOST_NODES];
    for (hga_id i = 0; i < N; i++)
        for (hga_id h = 0; h < HEADS; h++) {
            int64_t at = i * HEADS + h;
            if (t->leaf[at] < 0) continue;
            reach(t, i, h, p);
            if (d->which & 1) sum += (double)d->path[at] * log(p[node_at(t->branching, t->leaf[at], HEIGHT)]);
            for (hga_id l = 0; d->which & 2 && l <= HEIGHT; l++)
                sum += (double)d->level[at * (HEIGHT + 1) + l] * log(p[node_at(t->branching, t->leaf[at], l)]);
            for (int64_t j = 0; d->which & 4 && j < t->nodes; j++) sum += (double)d->node[at * t->nodes + j] * p[j];
        }
    return sum;
}

static void assert_slopes(const char *what, tree *t, const input *d, double *x, const float *got, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double was = x[i], h = 1e-4;
        x[i] = was + h;
        double up = loss(t, d);
        x[i] = was - h;
        double want = (up - loss(t, d)) / (2 * h);
        x[i] = was;
        if (!(fabs(want - (double)got[i]) <= 2e-6 * fmax(1, fabs(want))))
            fail_msg("%s, given %d: entry %lld is %g, not %g", what, d->which, (long long)i, (double)got[i], want);
    }
}

static double *widened(const float *x, int64_t n)
{
    double *y = memory(n, sizeof *y);
    for (int64_t i = 0; i < n; i++) y[i] = (double)x[i];
    return y;
}

static void paths_have_the_slopes_of_their_probabilities(void **state)
{
    (void)state;
    for (int i = 0; i < 14; i++) {
        int k_ary = i >= 7;
        tree t = {.branching = k_ary ? branching : NULL};
        input d = {.which = i % 7 + 1};
        t.rows = hga_route_rows(HEIGHT, t.branching), t.nodes = hga_route_nodes(HEIGHT, t.branching);
        assert_int_equal(t.nodes, k_ary ? 1 + 3 + 6 + 18 : 15);
        float *x = random_floats(1, 1, N * HEADS * DIM), *w = random_floats(2, 1, HEADS * t.rows * DIM),
              *b = random_floats(3, 1, HEADS * t.rows), *dx = memory(N * HEADS * DIM, sizeof *dx),
              *dw = memory(HEADS * t.rows * DIM, sizeof *dw), *db = memory(HEADS * t.rows, sizeof *db),
              *g = random_floats(4, 1, N * HEADS * (2 + HEIGHT + MOST_NODES));
        memcpy(d.path, g, sizeof d.path), memcpy(d.level, g + N * HEADS, sizeof d.level);
        memcpy(d.node, g + N * HEADS * (2 + HEIGHT), sizeof d.node);
        hga_router r = {
            .height = HEIGHT, .dim = DIM, .n_heads = HEADS, .branching = t.branching, .weights = w, .bias = b};
        assert_ok(hga_route(&r, x, N, HEADS * DIM, DIM, t.leaf));
        t.leaf[3] = -1;
        hga_route_grad grad = {.x = x,
                               .n = N,
                               .row_stride = HEADS * DIM,
                               .head_stride = DIM,
                               .leaf = t.leaf,
                               .d_path = d.which & 1 ? d.path : NULL,
                               .d_level = d.which & 2 ? d.level : NULL,
                               .d_node = d.which & 4 ? d.node : NULL,
                               .d_weights = dw,
                               .d_bias = db,
                               .d_x = dx};
        memset(dw, 0xff, (size_t)(HEADS * t.rows * DIM) * sizeof *dw); /* to be overwritten */
        assert_ok(hga_route_gradient(&r, &grad));
        t.x = widened(x, N * HEADS * DIM), t.weights = widened(w, HEADS * t.rows * DIM);
        t.bias = widened(b, HEADS * t.rows);
        assert_slopes("x", &t, &d, t.x, dx, N * HEADS * DIM);
        assert_slopes("weights", &t, &d, t.weights, dw, HEADS * t.rows * DIM);
        assert_slopes("bias", &t, &d, t.bias, db, HEADS * t.rows);
        float once = dw[7];
        grad.accumulate = 1;
        assert_ok(hga_route_gradient(&r, &grad));
        assert_true(fabs((double)dw[7] - 2 * (double)once) <= 1e-5 * fabs((double)once));
        free(x), free(w), free(b), free(dx), free(dw), free(db), free(g), free(t.x), free(t.weights), free(t.bias);
    }
}

/* ---- what coarse attention asks ---- */

/* out by the definition with probabilities of their own, p of queries and q of keys to come to every node; a loss. */
static double coarse_loss(const hga_treeformer *t, const hga_coarse_grad *g, hga_id n_keys, int64_t nodes,
                          const double *p, const double *q)
{
    double sum = 0;
    for (hga_id h = 0; h < HEADS; h++)
        for (int64_t j = 0, l = 0, end = 1, wide = 1; j < nodes; j++) {
            if (j == end) wide *= t->branching ? t->branching[l] : 2, end += wide, l++;
            for (hga_id c = 0; c < g->dim_v; c++) {
                double above = 0, below = 0;
                for (hga_id u = 0; u < n_keys; u++) {
                    double w = q[(u * HEADS + h) * nodes + j];
                    above += w * (double)g->value[(u * HEADS + h) * g->dim_v + c], below += w;
                }
                for (hga_id i = 0; below > 0 && i < N; i++)
                    sum += (double)g->alpha[l] * p[(i * HEADS + h) * nodes + j] * above / below *
                           (double)g->d_out[(i * HEADS + h) * g->dim_v + c];
            }
        }
    return sum;
}

/* 1 at the nodes of the path. */
static double *indicators(const hga_treeformer *t, const int32_t *leaf, hga_id n, int64_t nodes)
{
    double *p = memory(n * HEADS * nodes, sizeof *p);
    for (int64_t i = 0; i < n * HEADS; i++) {
        for (int64_t j = 0; j < nodes; j++) p[i * nodes + j] = 0;
        for (hga_id l = 0; leaf[i] >= 0 && l <= HEIGHT; l++) p[i * nodes + node_at(t->branching, leaf[i], l)] = 1;
    }
    return p;
}

/* Entry j of row i: the slope of the loss in that probability. */
static void assert_asked(const hga_treeformer *t, const hga_coarse_grad *g, hga_id n_keys, int64_t nodes, double *p,
                         double *q, double *moved, const int32_t *leaf, hga_id n, const float *got)
{
    for (int64_t i = 0; i < (int64_t)n * HEADS; i++)
        for (int64_t j = 0; j < (g->dense ? nodes : HEIGHT + 1); j++) {
            double want = 0, h = 1e-3;
            int64_t node = g->dense ? j : leaf[i] < 0 ? 0 : node_at(t->branching, leaf[i], (hga_id)j);
            double *x = &moved[i * nodes + node], was = *x;
            int empty = 1; /* a node without keys has no mean, whoever may come */
            for (int64_t u = i % HEADS; u < (int64_t)n_keys * HEADS; u += HEADS) empty &= q[u * nodes + node] == 0;
            if (leaf[i] >= 0 && !empty) {
                *x = was + h, want = coarse_loss(t, g, n_keys, nodes, p, q);
                *x = was - h, want -= coarse_loss(t, g, n_keys, nodes, p, q);
                *x = was, want /= 2 * h;
            }
            float is = got[i * (g->dense ? nodes : HEIGHT + 1) + j];
            if (!(fabs(want - (double)is) <= 1e-5))
                fail_msg("row %lld, node %lld: %g, not %g", (long long)i, (long long)node, (double)is, want);
        }
}

static void coarse_paths_are_asked_for_by_their_definition(void **state)
{
    (void)state;
    enum { KEYS = 7, DIM_V = 3 };
    for (int i = 0; i < 4; i++) {
        hga_treeformer t = {.n_queries = N, .n_keys = KEYS, .n_tree_heads = HEADS, .height = HEIGHT};
        int32_t query_leaf[N * HEADS], key_leaf[KEYS * HEADS];
        uint64_t rng = (uint64_t)i;
        t.branching = i % 2 ? branching : NULL;
        int leaves = i % 2 ? 18 : 8;
        for (int j = 0; j < N * HEADS; j++) query_leaf[j] = random_below(&rng, leaves + 1) - 1;
        for (int j = 0; j < KEYS * HEADS; j++) key_leaf[j] = random_below(&rng, leaves + 1) - 1;
        t.query_leaf = query_leaf, t.key_leaf = key_leaf;
        int64_t nodes = hga_route_nodes(HEIGHT, t.branching), wide = i / 2 ? nodes : HEIGHT + 1;
        float *value = random_floats(1, 1, KEYS * HEADS * DIM_V), *d_out = random_floats(2, 1, N * HEADS * DIM_V),
              *alpha = random_floats(3, 1, HEIGHT + 1), *dq = memory(N * HEADS * wide, sizeof *dq),
              *dk = memory(KEYS * HEADS * wide, sizeof *dk);
        hga_coarse_grad g = {
            .dim_v = DIM_V, .value = value, .d_out = d_out, .alpha = alpha, .dense = i / 2, .d_query = dq, .d_key = dk};
        assert_ok(hga_coarse_gradient(&t, &g));
        double *p = indicators(&t, query_leaf, N, nodes), *q = indicators(&t, key_leaf, KEYS, nodes);
        assert_asked(&t, &g, KEYS, nodes, p, q, p, query_leaf, N, dq);
        assert_asked(&t, &g, KEYS, nodes, p, q, q, key_leaf, KEYS, dk);
        free(value), free(d_out), free(alpha), free(dq), free(dk), free(p), free(q);
    }
}

/* ---- balance, refusals ---- */

static void balance_is_counted(void **state)
{
    (void)state;
    static const int32_t leaf[] = {0, 2, 1, 2, 2, 2, 3, 2, -1, 2}; /* [5][2] */
    int64_t count[8];
    double entropy[2];
    static const int64_t want[8] = {1, 1, 1, 1, 0, 0, 5, 0};
    assert_ok(hga_leaf_histogram(leaf, 5, 2, 4, count, entropy));
    assert_memory_equal(count, want, sizeof want);
    assert_true(fabs(entropy[0] - log(4)) < 1e-12 && entropy[1] == 0);
    assert_int_equal(hga_leaf_histogram(leaf, 5, 2, 3, count, entropy), HGA_EINVAL);
    assert_non_null(strstr(hga_error_detail(), "leaf 3 of row 3"));
    assert_int_equal(hga_leaf_histogram(leaf, 5, 0, 4, count, NULL), HGA_EINVAL);
}

static void bad_paths_are_refused(void **state)
{
    (void)state;
    float x[2] = {1, 1}, w[2] = {1, -1}, b = 0, d = 1, dw[2];
    int32_t leaf = 1;
    hga_router r = {.height = 1, .dim = 2, .n_heads = 1, .weights = w, .bias = &b};
    hga_route_grad g = {.x = x, .n = 1, .row_stride = 2, .leaf = &leaf, .d_path = &d, .d_weights = dw};
    assert_ok(hga_route_gradient(&r, &g));
    leaf = 2;
    assert_int_equal(hga_route_gradient(&r, &g), HGA_EINVAL);
    assert_non_null(strstr(hga_error_detail(), "leaf 2"));
    leaf = 0, g.d_path = NULL;
    assert_int_equal(hga_route_gradient(&r, &g), HGA_EINVAL);
    g.d_path = &d, g.reserved[0] = 1;
    assert_int_equal(hga_route_gradient(&r, &g), HGA_EINVAL);
    g.reserved[0] = 0, g.x = NULL;
    assert_int_equal(hga_route_gradient(&r, &g), HGA_EINVAL);
    g.x = x, r.height = 40;
    assert_int_equal(hga_route_gradient(&r, &g), HGA_EINVAL);
    hga_treeformer t = {.n_queries = 1, .n_tree_heads = 1, .height = 1, .query_leaf = &leaf};
    hga_coarse_grad c = {.dim_v = 1, .value = x, .d_out = x, .alpha = w, .d_query = dw};
    assert_ok(hga_coarse_gradient(&t, &c));
    leaf = 5;
    assert_int_equal(hga_coarse_gradient(&t, &c), HGA_EINVAL);
    c.alpha = NULL;
    assert_int_equal(hga_coarse_gradient(&t, &c), HGA_EINVAL);
    assert_non_null(strstr(hga_error_detail(), "alpha"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_have_the_slopes_of_their_probabilities),
        cmocka_unit_test(coarse_paths_are_asked_for_by_their_definition),
        cmocka_unit_test(balance_is_counted),
        cmocka_unit_test(bad_paths_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
