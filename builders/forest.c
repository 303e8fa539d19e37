/* forest.c: the nodes of hierarchical self-attention: hopping windows over tokens, or a tree given by its parents.
   Nodes are numbered by height; within a level by their first token (leaves by the caller's ids with HGA_LEAVES_BY_ID).
   */
#include "forest.h"

void forest_clear(forest *f)
{
    hga_delete(f->a, f->level_size, f->n_levels, sizeof *f->level_size);
    hga_delete(f->a, f->first, f->n, sizeof *f->first);
    hga_delete(f->a, f->size, f->n, sizeof *f->size);
    hga_delete(f->a, f->family_ptr, (int64_t)f->n + 1, sizeof *f->family_ptr);
    hga_delete(f->a, f->order, f->n, sizeof *f->order);
}

static hga_status forest_allocate(forest *f)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_new_zero(f->a, f->n_levels, sizeof *f->level_size, &f->level_size));
    HGA_TRY(hga_new(f->a, f->n, sizeof *f->first, &f->first));
    HGA_TRY(hga_new(f->a, f->n, sizeof *f->size, &f->size));
    HGA_TRY(hga_new(f->a, (int64_t)f->n + 1, sizeof *f->family_ptr, &f->family_ptr));
done:
    return st;
}

/* ---- hopping windows ---- */

/* The last number is repeated, so it must be at least 2 to reach a root. */
static hga_status check_branching(const hga_hsa *p)
{
    if (p->n_tokens < 1) return hga_fail(HGA_EINVAL, "n_tokens is %d; it must be at least 1", p->n_tokens);
    if (p->n_branching < 1) return hga_fail(HGA_EINVAL, "n_branching is %d; it must be at least 1", p->n_branching);
    for (hga_id l = 0; l < p->n_branching; l++)
        if (p->branching[l] < 1)
            return hga_fail(HGA_EINVAL, "branching[%d] is %d; it must be at least 1", l, p->branching[l]);
    if (p->n_tokens > 1 && p->branching[p->n_branching - 1] < 2)
        return hga_fail(
            HGA_EINVAL,
            "branching[%d] is 1; the last number is repeated until one root is left, so it must be at least 2",
            p->n_branching - 1);
    return HGA_OK;
}

static hga_id window(const hga_hsa *p, hga_id level)
{
    return p->branching[level < p->n_branching ? level : p->n_branching - 1];
}

/* levels and nodes of the windows over n_tokens, until one node is left */
static hga_status count_windows(const hga_hsa *p, forest *f)
{
    int64_t m = p->n_tokens, n = m;
    hga_id l = 0;
    for (; m > 1; l++) {
        m = (m + window(p, l) - 1) / window(p, l);
        n += m;
        if (n > INT32_MAX - 2) return hga_fail(HGA_EOVERFLOW, "level %d: more than %d nodes", l + 1, INT32_MAX - 2);
    }
    f->n = (hga_id)n, f->n_tokens = p->n_tokens, f->n_roots = 1, f->n_levels = l + 1;
    return HGA_OK;
}

/* one level of m windows above the nodes child .. child + n - 1; each stands for the tokens of its children */
static void add_windows(forest *f, hga_id child, hga_id n, hga_id parent, hga_id m, hga_id each)
{
    for (hga_id i = 0; i < m; i++) {
        hga_id c = child + i * each, last = (int64_t)i * each + each < n ? c + each - 1 : child + n - 1;
        f->family_ptr[parent + i] = c;
        f->first[parent + i] = f->first[c];
        f->size[parent + i] = f->first[last] + f->size[last] - f->first[c];
    }
}

/* The forest of windows over tokens, one level above the other until one node is left. */
static hga_status plant_windows(const hga_hsa *p, forest *f)
{
    hga_status st = HGA_OK;
    HGA_TRY(check_branching(p));
    HGA_TRY(count_windows(p, f));
    HGA_TRY(forest_allocate(f));
    for (hga_id v = 0; v < f->n_tokens; v++) f->first[v] = v, f->size[v] = 1, f->family_ptr[v] = 0;
    hga_id child = 0, n = f->level_size[0] = f->n_tokens;
    for (hga_id l = 1; l < f->n_levels; l++) {
        hga_id each = window(p, l - 1), m = f->level_size[l] = (hga_id)(((int64_t)n + each - 1) / each);
        add_windows(f, child, n, child + n, m, each);
        child += n, n = m;
    }
    f->family_ptr[f->n] = f->n - 1;
done:
    return st;
}

/* ---- a tree given by its parents ---- */

/* By the caller's ids. */
typedef struct family_tree {
    const hga_id *parent;
    hga_id n;
    hga_id *child_ptr, *child;     /* children of v, by increasing id */
    hga_id *climb;                 /* every node after its children */
    hga_id *height, *size, *first; /* leaves below v: first[v] .. first[v] + size[v] - 1 in depth-first order */
    hga_id *index;                 /* v's id in the graph */
    hga_id *scratch;               /* [n + 1] */
} family_tree;

/* Allocates arrays for all nodes; to be cleared by tree_clear, whatever the status. */
static hga_status tree_allocate(const hga_allocator *a, family_tree *t)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_new_zero(a, (int64_t)t->n + 1, sizeof(hga_id), &t->child_ptr));
    HGA_TRY(hga_new(a, t->n, sizeof(hga_id), &t->child));
    HGA_TRY(hga_new(a, t->n, sizeof(hga_id), &t->climb));
    HGA_TRY(hga_new_zero(a, t->n, sizeof(hga_id), &t->height));
    HGA_TRY(hga_new_zero(a, t->n, sizeof(hga_id), &t->size));
    HGA_TRY(hga_new(a, t->n, sizeof(hga_id), &t->first));
    HGA_TRY(hga_new(a, t->n, sizeof(hga_id), &t->index));
    HGA_TRY(hga_new(a, (int64_t)t->n + 1, sizeof(hga_id), &t->scratch));
done:
    return st;
}

static void tree_clear(const hga_allocator *a, family_tree *t)
{
    hga_delete(a, t->child_ptr, (int64_t)t->n + 1, sizeof(hga_id));
    hga_delete(a, t->child, t->n, sizeof(hga_id));
    hga_delete(a, t->climb, t->n, sizeof(hga_id));
    hga_delete(a, t->height, t->n, sizeof(hga_id));
    hga_delete(a, t->size, t->n, sizeof(hga_id));
    hga_delete(a, t->first, t->n, sizeof(hga_id));
    hga_delete(a, t->index, t->n, sizeof(hga_id));
    hga_delete(a, t->scratch, (int64_t)t->n + 1, sizeof(hga_id));
}

/* Each parent is a node or -1; cycles are found later. */
static hga_status check_tree_parents(const hga_hsa *p)
{
    if (p->n_parent < 1) return hga_fail(HGA_EINVAL, "n_parent is %d; it must be at least 1", p->n_parent);
    if (p->n_parent > INT32_MAX - 2)
        return hga_fail(HGA_EOVERFLOW, "n_parent is %d; there are at most %d nodes", p->n_parent, INT32_MAX - 2);
    if (p->n_tokens < 0) return hga_fail(HGA_EINVAL, "n_tokens is %d; it must be at least 0", p->n_tokens);
    for (hga_id v = 0; v < p->n_parent; v++)
        if (p->parent[v] < -1 || p->parent[v] >= p->n_parent)
            return hga_fail(HGA_EINVAL, "parent of node %d: %d is not a node (0 .. %d) nor -1", v, p->parent[v],
                            p->n_parent - 1);
    return HGA_OK;
}

/* child_ptr and child, by a counting sort over parents */
static void list_children(family_tree *t)
{
    for (hga_id v = 0; v < t->n; v++)
        if (t->parent[v] >= 0) t->child_ptr[t->parent[v] + 1]++;
    for (hga_id v = 0; v < t->n; v++) t->child_ptr[v + 1] += t->child_ptr[v];
    for (hga_id v = 0; v < t->n; v++) t->scratch[v] = t->child_ptr[v];
    for (hga_id v = 0; v < t->n; v++)
        if (t->parent[v] >= 0) t->child[t->scratch[t->parent[v]]++] = v;
}

/* heights and leaf counts from the leaves up: a node is ready after its last child; one that never is is on a cycle */
static hga_status climb(family_tree *t)
{
    hga_id ready = 0, *waiting = t->scratch;
    for (hga_id v = 0; v < t->n; v++) {
        waiting[v] = t->child_ptr[v + 1] - t->child_ptr[v];
        if (waiting[v] == 0) t->size[v] = 1, t->climb[ready++] = v;
    }
    for (hga_id i = 0; i < ready; i++) {
        hga_id v = t->climb[i], up = t->parent[v];
        if (up < 0) continue;
        t->size[up] += t->size[v];
        if (t->height[up] <= t->height[v]) t->height[up] = t->height[v] + 1;
        if (--waiting[up] == 0) t->climb[ready++] = up;
    }
    for (hga_id v = 0; ready < t->n && v < t->n; v++)
        if (waiting[v] > 0) return hga_fail(HGA_EINVAL, "parent: node %d is its own ancestor", v);
    return HGA_OK;
}

/* the first leaf of every node, from the roots down; returns the number of leaves; *n_roots: of roots */
static hga_id number_leaves(family_tree *t, hga_id *n_roots)
{
    hga_id leaves = 0, roots = 0;
    for (hga_id v = 0; v < t->n; v++)
        if (t->parent[v] < 0) t->first[v] = leaves, leaves += t->size[v], roots++;
    for (hga_id i = t->n - 1; i >= 0; i--) {
        hga_id v = t->climb[i], next = t->first[v];
        for (hga_id c = t->child_ptr[v]; c < t->child_ptr[v + 1]; c++)
            t->first[t->child[c]] = next, next += t->size[t->child[c]];
    }
    *n_roots = roots;
    return leaves;
}

/* Numbers leaves 0, 1, .. in the order of the caller's ids. */
static void place_leaves_by_id(family_tree *t)
{
    for (hga_id v = 0, at = 0; v < t->n; v++)
        if (t->height[v] == 0) t->index[v] = at++;
}

/* Causal attention follows the order of the tree: tokens in another order would see later ones. */
static hga_status check_leaf_order(const hga_hsa *p, const family_tree *t)
{
    if ((unsigned)p->leaves > HGA_LEAVES_BY_ID)
        return hga_fail(HGA_EINVAL, "leaves: %d is neither depth-first nor by id", (int)p->leaves);
    for (hga_id v = 0, at = 0; p->leaves == HGA_LEAVES_BY_ID && p->causal && v < t->n; v++)
        if (t->height[v] == 0 && t->first[v] != at++)
            return hga_fail(HGA_EUNSUPPORTED, "causal: leaf %d is number %d by id and number %d in the tree's order", v,
                            at - 1, t->first[v]);
    return HGA_OK;
}

/* index: by height, then by first leaf. Two counting sorts, the first (into climb, which is no longer needed) by first
   leaf. */
static void place_nodes(family_tree *t, hga_id n_leaves, hga_id *level_size, hga_id n_levels)
{
    hga_id *next = t->scratch;
    for (hga_id i = 0; i <= n_leaves; i++) next[i] = 0;
    for (hga_id v = 0; v < t->n; v++) next[t->first[v] + 1]++;
    for (hga_id i = 0; i < n_leaves; i++) next[i + 1] += next[i];
    for (hga_id v = 0; v < t->n; v++) t->climb[next[t->first[v]]++] = v;
    for (hga_id v = 0; v < t->n; v++) level_size[t->height[v]]++;
    for (hga_id l = 0, start = 0; l < n_levels; l++) next[l] = start, start += level_size[l];
    for (hga_id i = 0; i < t->n; i++) t->index[t->climb[i]] = next[t->height[t->climb[i]]]++;
}

/* the forest's arrays, by graph id: families in the order of their parents, then the roots */
static void write_forest(family_tree *t, forest *f, hga_id *order)
{
    hga_id *old = t->scratch, position = 0;
    for (hga_id v = 0; v < t->n; v++) old[t->index[v]] = v;
    for (hga_id g = 0; g < t->n; g++) {
        hga_id v = old[g];
        f->first[g] = t->first[v], f->size[g] = t->size[v], f->family_ptr[g] = position;
        for (hga_id c = t->child_ptr[v]; c < t->child_ptr[v + 1]; c++) order[position++] = t->index[t->child[c]];
    }
    f->family_ptr[t->n] = position;
    for (hga_id g = 0; g < t->n; g++)
        if (t->parent[old[g]] < 0) order[position++] = g;
}

/* Drops an order that is the identity, as with leaves of equal depth: blocks then name nodes directly. */
static void drop_identity(forest *f)
{
    for (hga_id i = 0; i < f->n; i++)
        if (f->order[i] != i) return;
    hga_delete(f->a, f->order, f->n, sizeof *f->order);
    f->order = NULL;
}

/* The forest of the caller's tree, its nodes numbered by height and first leaf. */
static hga_status plant_parents(const hga_hsa *p, forest *f)
{
    hga_status st = HGA_OK;
    family_tree t = {.parent = p->parent};
    HGA_TRY(check_tree_parents(p));
    t.n = p->n_parent;
    HGA_TRY(tree_allocate(f->a, &t));
    list_children(&t);
    HGA_TRY(climb(&t));
    hga_id n_roots, n_leaves = number_leaves(&t, &n_roots), top = 0;
    HGA_TRY(check_leaf_order(p, &t));
    if (p->n_tokens && p->n_tokens != n_leaves)
        HGA_TRY(hga_fail(HGA_EINVAL, "n_tokens is %d, but parent has %d leaves", p->n_tokens, n_leaves));
    for (hga_id v = 0; v < t.n; v++) top = t.height[v] > top ? t.height[v] : top;
    f->n = t.n, f->n_tokens = n_leaves, f->n_roots = n_roots, f->n_levels = top + 1;
    HGA_TRY(forest_allocate(f));
    HGA_TRY(hga_new(f->a, f->n, sizeof *f->order, &f->order));
    place_nodes(&t, n_leaves, f->level_size, f->n_levels);
    if (p->leaves == HGA_LEAVES_BY_ID) place_leaves_by_id(&t);
    write_forest(&t, f, f->order);
    drop_identity(f);
    for (hga_id v = 0; p->node_of && v < t.n; v++) p->node_of[v] = t.index[v];
done:
    tree_clear(f->a, &t);
    return st;
}

hga_status forest_plant(const hga_hsa *p, forest *f) { return p->parent ? plant_parents(p, f) : plant_windows(p, f); }
