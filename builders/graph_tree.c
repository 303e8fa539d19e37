/* graph_tree.c: the tree of a graph's clusters, for builders that take parents. */
#include "hga_builders.h"

#include <string.h>

static const char *const kinds[] = {"node", "cluster"};

/* From each root down and along the siblings: the leaves as they are met. */
static void walk(const hga_tree *t, const hga_id *child, const hga_id *sibling, hga_id *leaf)
{
    hga_id at = 0;
    for (hga_id root = 0; root < t->n; root++)
        for (hga_id v = t->parent[root] < 0 ? root : -1; v >= 0;) {
            if (v < t->n_leaves) leaf[at++] = v;
            if (child[v] >= 0) {
                v = child[v];
                continue;
            }
            while (v != root && sibling[v] < 0) v = t->parent[v];
            v = v == root ? -1 : sibling[v];
        }
}

static hga_status list_leaves(const hga_allocator *a, hga_tree *t)
{
    hga_status st = HGA_OK;
    hga_id *child = NULL, *sibling = NULL;
    HGA_TRY(hga_new(a, t->n, sizeof *child, &child));
    HGA_TRY(hga_new(a, t->n, sizeof *sibling, &sibling));
    for (hga_id v = 0; v < t->n; v++) child[v] = sibling[v] = -1;
    for (hga_id v = t->n; v-- > 0;)
        if (t->parent[v] >= 0) sibling[v] = child[t->parent[v]], child[t->parent[v]] = v;
    walk(t, child, sibling, t->leaf_node);
done:
    hga_delete(a, child, t->n, sizeof *child);
    hga_delete(a, sibling, t->n, sizeof *sibling);
    return st;
}

static hga_status copy_parents(const hga_allocator *a, const hga_graph *coarse, hga_tree *t)
{
    hga_status st = HGA_OK;
    hga_nodes nodes = hga_graph_nodes(coarse);
    t->n = nodes.n, t->n_leaves = nodes.level_ptr[1];
    HGA_TRY(hga_new(a, t->n, sizeof *t->parent, &t->parent));
    HGA_TRY(hga_new(a, t->n_leaves, sizeof *t->leaf_node, &t->leaf_node));
    HGA_TRY(hga_new_zero(a, t->n, sizeof *t->kind, &t->kind));
    for (hga_id v = 0; v < t->n; v++) {
        t->parent[v] = nodes.parent ? nodes.parent[v] : -1;
        t->kind[v] = v >= t->n_leaves;
    }
    t->kind_name = kinds, t->n_kinds = 2;
    HGA_TRY(list_leaves(a, t));
done:
    return st;
}

hga_status hga_tree_from_graph(const hga_allocator *a, const hga_graph *g, const hga_id *size, hga_id n_sizes,
                               hga_tree *out)
{
    hga_graph *coarse = NULL;
    memset(out, 0, sizeof *out);
    if (a) out->allocator = *a;
    hga_status st = hga_graph_coarsen(g, size, n_sizes, &coarse);
    if (!st) st = copy_parents(a, coarse, out);
    hga_graph_destroy(coarse);
    if (st) hga_tree_clear(out);
    return st;
}
