/* linkage.c: the tree of a hierarchical clustering in the form of scipy.cluster.hierarchy.linkage. */
#include "hga_documents.h"

#include <math.h>
#include <string.h>

/* Checks a cluster of merge i: an integer below n + i without a parent. */
static hga_status check_cluster(const hga_tree *t, hga_id n, hga_id i, double cluster)
{
    if (!(cluster >= 0 && cluster < (double)n + i) || cluster != floor(cluster))
        return hga_fail(HGA_EFORMAT, "linkage: merge %d joins %g; there are the clusters 0 .. %d", i, cluster,
                        n + i - 1);
    if (t->parent[(hga_id)cluster] >= 0)
        return hga_fail(HGA_EFORMAT, "linkage: merge %d joins %g, which merge %d has joined", i, cluster,
                        t->parent[(hga_id)cluster] - n);
    return HGA_OK;
}

hga_status hga_tree_linkage(const hga_allocator *a, const double *linkage, hga_id n_merges, hga_tree *out)
{
    static const char *const kinds[] = {"observation", "cluster"};
    hga_status st = HGA_OK;
    memset(out, 0, sizeof *out);
    if (a) out->allocator = *a;
    if (!linkage || n_merges < 1 || n_merges > (INT32_MAX - 8) / 2)
        return hga_fail(HGA_EINVAL, "a linkage of %d merges", n_merges);
    hga_id n = n_merges + 1;
    out->n = n + n_merges, out->n_leaves = n, out->kind_name = kinds, out->n_kinds = 2;
    HGA_TRY(hga_new(a, out->n, sizeof *out->parent, &out->parent));
    HGA_TRY(hga_new_zero(a, out->n, sizeof *out->kind, &out->kind));
    HGA_TRY(hga_new(a, n, sizeof *out->leaf_node, &out->leaf_node));
    for (hga_id v = 0; v < out->n; v++) out->parent[v] = -1, out->kind[v] = v >= n;
    for (hga_id v = 0; v < n; v++) out->leaf_node[v] = v;
    for (hga_id i = 0; i < n_merges; i++)
        for (int side = 0; side < 2; side++) {
            double cluster = linkage[4 * (int64_t)i + side];
            HGA_TRY(check_cluster(out, n, i, cluster));
            out->parent[(hga_id)cluster] = n + i;
        }
done:
    if (st) hga_tree_clear(out);
    return st;
}
