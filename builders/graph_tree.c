/* graph_tree.c: the tree of a graph's clusters, for builders that take parents. */
#include "hga_builders.h"

#include <string.h>

static const char *const kinds[] = {"node", "cluster"};

/* Lists the leaves in preorder. */
static hga_status list_leaves(const hga_allocator *a, hga_tree *t)
{
    hga_status st = HGA_OK;
    hga_id *order = NULL, at = 0;
    HGA_TRY(hga_new(a, t->n, sizeof *order, &order));
    HGA_TRY(hga_forest_preorder(a, t->n, t->parent, order));
    for (hga_id i = 0; i < t->n; i++)
        if (order[i] < t->n_leaves) t->leaf_node[at++] = order[i];
done:
    hga_delete(a, order, t->n, sizeof *order);
    return st;
}

/* A tree whose leaves are the coarse graph's tokens. */
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
    hga_status st = hga_graph_coarsen(g, size, n_sizes, NULL, NULL, &coarse);
    if (!st) st = copy_parents(a, coarse, out);
    hga_graph_destroy(coarse);
    if (st) hga_tree_clear(out);
    return st;
}
