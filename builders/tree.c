/* tree.c: the trees of sets and records, and hga_tree_clear for every tree. */
#include "hga_builders.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;
static const char *const set_kinds[] = {"element", "set"};
static const char *const record_kinds[] = {"key", "value", "field", "record"};

void hga_tree_clear(hga_tree *tree)
{
    if (!tree) return;
    const hga_allocator a = tree->allocator;
    hga_delete(&a, tree->parent, tree->n, sizeof *tree->parent);
    hga_delete(&a, tree->leaf_node, tree->n_leaves, sizeof *tree->leaf_node);
    hga_delete(&a, tree->pos, (int64_t)tree->n * tree->pos_dim, sizeof *tree->pos);
    hga_delete(&a, tree->leaf_begin, tree->n_leaves, sizeof *tree->leaf_begin);
    hga_delete(&a, tree->leaf_end, tree->n_leaves, sizeof *tree->leaf_end);
    hga_delete(&a, tree->kind, tree->n, sizeof *tree->kind);
    hga_delete(&a, tree->name_at, tree->n, sizeof *tree->name_at);
    hga_delete(&a, tree->name_text, tree->name_capacity, 1);
    memset(tree, 0, sizeof *tree);
}

/* An empty tree of that many nodes; leaves are the nodes 0 .. n_leaves - 1. */
static hga_status start(const hga_allocator *a, hga_id n, hga_id n_leaves, hga_id pos_dim, hga_tree *t)
{
    hga_status st = HGA_OK;
    t->n = n, t->n_leaves = n_leaves, t->pos_dim = pos_dim;
    HGA_TRY(hga_new(a, n, sizeof *t->parent, &t->parent));
    HGA_TRY(hga_new(a, n_leaves, sizeof *t->leaf_node, &t->leaf_node));
    HGA_TRY(hga_new_zero(a, n, sizeof *t->kind, &t->kind));
    HGA_TRY(hga_new_zero(a, (int64_t)n * pos_dim, sizeof *t->pos, &t->pos));
    for (hga_id i = 0; i < n_leaves; i++) t->leaf_node[i] = i;
done:
    return st;
}

static void name_kinds(hga_tree *t, const char *const *names, hga_id n)
{
    t->kind_name = names;
    t->n_kinds = n;
}

hga_status hga_tree_set(const hga_allocator *a, hga_id n, hga_tree *out)
{
    hga_status st = HGA_OK;
    memset(out, 0, sizeof *out);
    if (a) out->allocator = *a;
    if (n < 1 || n > INT32_MAX - 3)
        return hga_fail(HGA_EINVAL, "a set of %d elements; there must be at least 1 and at most %d", n, INT32_MAX - 3);
    HGA_TRY(start(a, n + 1, n, 0, out));
    for (hga_id i = 0; i < n; i++) out->parent[i] = n;
    out->parent[n] = -1;
    out->kind[n] = 1;
    name_kinds(out, set_kinds, 2);
done:
    if (st) hga_tree_clear(out);
    return st;
}

/* leaves of a record: a key and its values for each field */
static hga_status count_leaves(hga_id n_fields, const hga_id *n_values, hga_id *leaves)
{
    int64_t n = n_fields;
    if (n_fields < 1) return hga_fail(HGA_EINVAL, "a record of %d fields; there must be at least 1", n_fields);
    if (!n_values) return hga_fail(HGA_EINVAL, "n_values is NULL");
    for (hga_id f = 0; f < n_fields; f++) {
        if (n_values[f] < 1)
            return hga_fail(HGA_EINVAL, "field %d has %d values; there must be at least 1", f, n_values[f]);
        n += n_values[f];
        if (n + n_fields > INT32_MAX - 3)
            return hga_fail(HGA_EOVERFLOW, "field %d: more than %d nodes", f, INT32_MAX - 3);
    }
    *leaves = (hga_id)n;
    return HGA_OK;
}

/* the family of field f: its key, then its values; returns the next free leaf */
static hga_id add_family(hga_tree *t, hga_id leaf, hga_id field, hga_id n_values)
{
    for (hga_id i = 0; i <= n_values; i++) {
        float *e = t->pos + (int64_t)(leaf + i) * 3;
        double angle = pi * (i - 1) / n_values;
        t->parent[leaf + i] = field;
        t->kind[leaf + i] = i > 0;
        e[0] = i == 0 ? 1.f : 0.f;
        e[1] = i == 0 ? 0.f : (float)cos(angle);
        e[2] = i == 0 ? 0.f : (float)sin(angle);
    }
    return leaf + n_values + 1;
}

hga_status hga_tree_record(const hga_allocator *a, hga_id n_fields, const hga_id *n_values, hga_tree *out)
{
    hga_status st = HGA_OK;
    hga_id leaves = 0, leaf = 0;
    memset(out, 0, sizeof *out);
    if (a) out->allocator = *a;
    HGA_TRY(count_leaves(n_fields, n_values, &leaves));
    hga_id root = leaves + n_fields;
    HGA_TRY(start(a, root + 1, leaves, 3, out));
    for (hga_id f = 0; f < n_fields; f++) {
        leaf = add_family(out, leaf, leaves + f, n_values[f]);
        out->parent[leaves + f] = root;
        out->kind[leaves + f] = 2;
    }
    out->parent[root] = -1;
    out->kind[root] = 3;
    name_kinds(out, record_kinds, 4);
done:
    if (st) hga_tree_clear(out);
    return st;
}

const char *hga_tree_name(const hga_tree *tree, hga_id node)
{
    return tree->name_at && node >= 0 && node < tree->n && tree->name_at[node] >= 0
               ? tree->name_text + tree->name_at[node]
               : NULL;
}
