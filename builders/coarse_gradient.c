/* coarse_gradient.c: the gradients of TC-attention (Treeformer, eq. 4) for the paths of its queries and keys. A query's
   term of level l is multiplied by the probability that it reaches its node, a key's share of the node's mean likewise;
   the gradients are those of these products. */
#include "hga_builders.h"

#include <math.h>
#include <string.h>

/* Every node's mean of values, sum of gradients, and number of keys, of one head. */
typedef struct node_sums {
    const hga_treeformer *tree;
    const hga_coarse_grad *g;
    hga_id head;
    int64_t n, *keys;
    double *mean, *adjoint; /* [n][dim_v] */
} node_sums;

static hga_id children_of(const hga_treeformer *t, hga_id l) { return t->branching ? t->branching[l] : 2; }
static hga_id keys_of(const hga_treeformer *t) { return t->n_keys ? t->n_keys : t->n_queries; }
static const int32_t *key_leaves(const hga_treeformer *t) { return t->key_leaf ? t->key_leaf : t->query_leaf; }

/* The nodes of a leaf's path, root first; nodes are numbered level by level. */
static void path_of(const hga_treeformer *t, int64_t leaf, int64_t *node)
{
    int64_t first = hga_route_nodes(t->height, t->branching), nodes = 1;
    for (hga_id l = 0; l < t->height; l++) nodes *= children_of(t, l);
    for (hga_id l = t->height + 1; l-- > 0;) {
        first -= nodes;
        node[l] = first + leaf;
        if (l) leaf /= children_of(t, l - 1), nodes /= children_of(t, l - 1);
    }
}

static void add_floats(double *to, const float *x, hga_id n)
{
    for (hga_id c = 0; c < n; c++) to[c] += (double)x[c];
}

/* Computes for one head's nodes the number of keys, the mean of their values, and the sum of their queries' gradients.
   */
static void sum_nodes(node_sums *s)
{
    const hga_treeformer *t = s->tree;
    hga_id heads = t->n_tree_heads, columns = s->g->dim_v;
    int64_t node[64];
    memset(s->keys, 0, (size_t)s->n * sizeof *s->keys);
    memset(s->mean, 0, (size_t)(s->n * columns) * sizeof *s->mean);
    memset(s->adjoint, 0, (size_t)(s->n * columns) * sizeof *s->adjoint);
    for (int64_t u = s->head; u < (int64_t)keys_of(t) * heads; u += heads) {
        if (key_leaves(t)[u] < 0) continue;
        path_of(t, key_leaves(t)[u], node);
        for (hga_id l = 0; l <= t->height; l++)
            s->keys[node[l]]++, add_floats(s->mean + node[l] * columns, s->g->value + u * columns, columns);
    }
    for (int64_t i = s->head; i < (int64_t)t->n_queries * heads; i += heads) {
        if (t->query_leaf[i] < 0) continue;
        path_of(t, t->query_leaf[i], node);
        for (hga_id l = 0; l <= t->height; l++)
            add_floats(s->adjoint + node[l] * columns, s->g->d_out + i * columns, columns);
    }
    for (int64_t j = 0; j < s->n; j++)
        for (hga_id c = 0; s->keys[j] && c < columns; c++) s->mean[j * columns + c] /= (double)s->keys[j];
}

/* d_out . mean of the node, for a query. */
static double of_query(const node_sums *s, int64_t i, int64_t node)
{
    hga_id columns = s->g->dim_v;
    double sum = 0;
    for (hga_id c = 0; c < columns; c++) sum += (double)s->g->d_out[i * columns + c] * s->mean[node * columns + c];
    return sum;
}

/* The gradient of the node's queries for the key's share of its mean. */
static double of_key(const node_sums *s, int64_t u, int64_t node)
{
    hga_id columns = s->g->dim_v;
    double sum = 0;
    for (hga_id c = 0; s->keys[node] && c < columns; c++)
        sum += s->adjoint[node * columns + c] * ((double)s->g->value[u * columns + c] - s->mean[node * columns + c]);
    return s->keys[node] ? sum / (double)s->keys[node] : 0;
}

/* The gradients of one row's path, or of all nodes. */
static void path_gradients(const node_sums *s, double (*of)(const node_sums *s, int64_t i, int64_t node), int64_t i,
                           int32_t leaf, float *to)
{
    const hga_treeformer *t = s->tree;
    int64_t node[64], nodes = 1, at = 0;
    if (leaf >= 0) path_of(t, leaf, node);
    for (hga_id l = 0; l <= t->height; l++) {
        if (!s->g->dense) to[l] = leaf < 0 ? 0 : (float)((double)s->g->alpha[l] * of(s, i, node[l]));
        for (int64_t j = 0; s->g->dense && j < nodes; j++, at++)
            to[at] = leaf < 0 ? 0 : (float)((double)s->g->alpha[l] * of(s, i, at));
        if (l < t->height) nodes *= children_of(t, l);
    }
}

/* Refuses impossible trees and calls without a required array. */
static hga_status check_coarse_grad(const hga_treeformer *t, const hga_coarse_grad *g)
{
    hga_status st = hga_check_reserved("hga_treeformer", t->reserved, sizeof t->reserved);
    if (!st) st = hga_check_reserved("hga_coarse_grad", g->reserved, sizeof g->reserved);
    if (st) return st;
    if (t->height < 0 || t->height > 31) return hga_fail(HGA_EINVAL, "height is %d, not 0 to 31", t->height);
    if (t->n_tree_heads < 1) return hga_fail(HGA_EINVAL, "n_tree_heads is %d; it must be at least 1", t->n_tree_heads);
    if (g->dim_v < 1) return hga_fail(HGA_EINVAL, "dim_v is %d; it must be at least 1", g->dim_v);
    if (hga_route_nodes(t->height, t->branching) < 0)
        return hga_fail(HGA_EINVAL, "height %d: no tree, or more than %d leaves", t->height, INT32_MAX);
    if (!g->value || !g->d_out || !g->alpha || !t->query_leaf)
        return hga_fail(HGA_EINVAL, "no %s",
                        !g->value   ? "value"
                        : !g->d_out ? "d_out"
                        : !g->alpha ? "alpha"
                                    : "query_leaf");
    return HGA_OK;
}

static hga_status check_row_leaves(const hga_treeformer *t, const int32_t *leaf, hga_id rows)
{
    int64_t leaves = 1;
    for (hga_id l = 0; l < t->height; l++) leaves *= children_of(t, l);
    for (int64_t i = 0; i < (int64_t)rows * t->n_tree_heads; i++)
        if (leaf[i] < -1 || leaf[i] >= leaves)
            return hga_fail(HGA_EINVAL, "leaf %d of row %lld, of %lld leaves", leaf[i],
                            (long long)(i / t->n_tree_heads), (long long)leaves);
    return HGA_OK;
}

hga_status hga_coarse_gradient(const hga_treeformer *t, const hga_coarse_grad *g)
{
    hga_status st = check_coarse_grad(t, g);
    if (st) return st;

    node_sums s = {.tree = t, .g = g, .n = hga_route_nodes(t->height, t->branching)};
    hga_id heads = t->n_tree_heads;
    int64_t wide = g->dense ? s.n : t->height + 1;
    HGA_TRY(check_row_leaves(t, t->query_leaf, t->n_queries));
    HGA_TRY(check_row_leaves(t, key_leaves(t), keys_of(t)));
    HGA_TRY(hga_new(t->allocator, s.n, sizeof *s.keys, &s.keys));
    HGA_TRY(hga_new(t->allocator, s.n * g->dim_v, sizeof *s.mean, &s.mean));
    HGA_TRY(hga_new(t->allocator, s.n * g->dim_v, sizeof *s.adjoint, &s.adjoint));
    for (s.head = 0; s.head < heads; s.head++) {
        sum_nodes(&s);
        for (int64_t i = s.head; g->d_query && i < (int64_t)t->n_queries * heads; i += heads)
            path_gradients(&s, of_query, i, t->query_leaf[i], g->d_query + i * wide);
        for (int64_t u = s.head; g->d_key && u < (int64_t)keys_of(t) * heads; u += heads)
            path_gradients(&s, of_key, u, key_leaves(t)[u], g->d_key + u * wide);
    }
done:
    hga_delete(t->allocator, s.keys, s.n, sizeof *s.keys);
    hga_delete(t->allocator, s.mean, s.n * g->dim_v, sizeof *s.mean);
    hga_delete(t->allocator, s.adjoint, s.n * g->dim_v, sizeof *s.adjoint);
    return st;
}

/* ---- balance ---- */

/* The entropy of a distribution of counts, in nats; 0 without counts. */
static double entropy_of(const int64_t *count, hga_id n)
{
    double all = 0, sum = 0;
    for (hga_id i = 0; i < n; i++) all += (double)count[i];
    for (hga_id i = 0; i < n; i++)
        if (count[i]) sum -= (double)count[i] / all * log((double)count[i] / all);
    return sum;
}

hga_status hga_leaf_histogram(const int32_t *leaf, hga_id n, hga_id n_heads, hga_id n_leaves, int64_t *count,
                              double *entropy)
{
    if (n < 0 || n_heads < 1 || n_leaves < 1)
        return hga_fail(HGA_EINVAL, "%d rows, %d heads, %d leaves", n, n_heads, n_leaves);
    if (!count || (n > 0 && !leaf)) return hga_fail(HGA_EINVAL, "no %s", count ? "leaf" : "count");
    memset(count, 0, (size_t)n_heads * (size_t)n_leaves * sizeof *count);
    for (int64_t i = 0; i < (int64_t)n * n_heads; i++) {
        if (leaf[i] < -1 || leaf[i] >= n_leaves)
            return hga_fail(HGA_EINVAL, "leaf %d of row %lld, of %d leaves", leaf[i], (long long)(i / n_heads),
                            n_leaves);
        if (leaf[i] >= 0) count[i % n_heads * n_leaves + leaf[i]]++;
    }
    for (hga_id h = 0; entropy && h < n_heads; h++) entropy[h] = entropy_of(count + (int64_t)h * n_leaves, n_leaves);
    return HGA_OK;
}
