/* preorder.c: the preorder of a forest of parents. */
#include "hga_graph.h"

static hga_status check_parents(hga_id n, const hga_id *parent)
{
    if (n < 0) return hga_fail(HGA_EINVAL, "a forest of %d nodes", n);
    for (hga_id v = 0; v < n; v++)
        if (parent[v] < -1 || parent[v] >= n)
            return hga_fail(HGA_EINVAL, "parent of node %d: %d is not a node (0 .. %d) nor -1", v, parent[v], n - 1);
    return HGA_OK;
}

/* Each node's first child and next sibling; -1: none. */
static void link_families(hga_id n, const hga_id *parent, hga_id *child, hga_id *sibling)
{
    for (hga_id v = 0; v < n; v++) child[v] = sibling[v] = -1;
    for (hga_id v = n; v-- > 0;)
        if (parent[v] >= 0) sibling[v] = child[parent[v]], child[parent[v]] = v;
}

/* Depth first from each root; a ring has no root, so it is not visited. Returns the number of nodes visited. */
static hga_id walk_trees(hga_id n, const hga_id *parent, const hga_id *child, const hga_id *sibling, hga_id *order)
{
    hga_id met = 0;
    for (hga_id root = 0; root < n; root++)
        for (hga_id v = parent[root] < 0 ? root : -1; v >= 0;) {
            order[met++] = v;
            if (child[v] >= 0) {
                v = child[v];
                continue;
            }
            while (v != root && sibling[v] < 0) v = parent[v];
            v = v == root ? -1 : sibling[v];
        }
    return met;
}

/* A node on a ring: n steps up from a node that was not visited end on one. */
static hga_id on_a_ring(hga_id n, const hga_id *parent, const hga_id *order, hga_id n_met, hga_id *met)
{
    hga_id v = 0;
    for (hga_id i = 0; i < n; i++) met[i] = 0;
    for (hga_id i = 0; i < n_met; i++) met[order[i]] = 1;
    while (met[v]) v++;
    for (hga_id step = 0; step < n; step++) v = parent[v];
    return v;
}

hga_status hga_forest_preorder(const hga_allocator *a, hga_id n, const hga_id *parent, hga_id *order)
{
    hga_status st = HGA_OK;
    hga_id *child = NULL, *sibling = NULL;
    HGA_TRY(check_parents(n, parent));
    HGA_TRY(hga_new(a, n, sizeof *child, &child));
    HGA_TRY(hga_new(a, n, sizeof *sibling, &sibling));
    link_families(n, parent, child, sibling);
    hga_id met = walk_trees(n, parent, child, sibling, order);
    if (met < n)
        st = hga_fail(HGA_EINVAL, "parent: node %d is its own ancestor", on_a_ring(n, parent, order, met, child));
done:
    hga_delete(a, child, n, sizeof *child);
    hga_delete(a, sibling, n, sizeof *sibling);
    return st;
}
