/* hsa.c: hierarchical self-attention (Amizadeh et al. 2025), Algorithms 1-3, on any tree.

   Nodes are numbered by height; within a level by their first token (leaves by the caller's ids where that is asked
   for). Without self edges or causality a family's members attend to each other and not to themselves: one block
   with a missing diagonal. With `self` a leaf also attends to itself: its softmax state then holds the paper's two
   terms, eta and phi(leaf), already merged. Causal SELF keeps the left siblings. Causal FRONTIER has no tree on the
   query side: a leaf i attends, with its own query, to itself and to the left siblings of itself and of each of its
   ancestors; the position embedding on its side is that of the ancestor (pos_of). */
#include "hga_builders.h"

/* A forest by graph ids: tokens first, then level by level. */
typedef struct forest {
    const hga_allocator *a;
    hga_id n, n_tokens, n_roots, n_levels;
    hga_id *level_size;   /* [n_levels] */
    hga_id *first, *size; /* [n]: the tokens below node v are first[v] .. first[v] + size[v] - 1 */
    /* [n + 1]: the children of v are at positions family_ptr[v] .. family_ptr[v + 1] - 1, from left to right */
    hga_id *family_ptr;
    hga_id *order; /* [n]: position -> node, roots last; NULL: the identity */
} forest;

static hga_id member(const forest *f, hga_id position) { return f->order ? f->order[position] : position; }

static void forest_clear(forest *f)
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
    hga_id *place;                 /* v's id in the graph */
    hga_id *scratch;               /* [n + 1] */
} family_tree;

static hga_status tree_allocate(const hga_allocator *a, family_tree *t)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_new_zero(a, (int64_t)t->n + 1, sizeof(hga_id), &t->child_ptr));
    HGA_TRY(hga_new(a, t->n, sizeof(hga_id), &t->child));
    HGA_TRY(hga_new(a, t->n, sizeof(hga_id), &t->climb));
    HGA_TRY(hga_new_zero(a, t->n, sizeof(hga_id), &t->height));
    HGA_TRY(hga_new_zero(a, t->n, sizeof(hga_id), &t->size));
    HGA_TRY(hga_new(a, t->n, sizeof(hga_id), &t->first));
    HGA_TRY(hga_new(a, t->n, sizeof(hga_id), &t->place));
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
    hga_delete(a, t->place, t->n, sizeof(hga_id));
    hga_delete(a, t->scratch, (int64_t)t->n + 1, sizeof(hga_id));
}

static hga_status check_parents(const hga_hsa *p)
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

/* heights and leaf counts from the leaves up: a node is ready when its last child is; one that never is lies on a cycle
   */
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

/* the first leaf of every node, from the roots down; returns how many leaves and roots there are */
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

/* Leaves by id: places 0, 1, .. in the order of the caller's ids. */
static void place_leaves_by_id(family_tree *t)
{
    for (hga_id v = 0, at = 0; v < t->n; v++)
        if (t->height[v] == 0) t->place[v] = at++;
}

/* Causal attention goes by the order of the tree; tokens in another order would see later ones. */
static hga_status check_leaves(const hga_hsa *p, const family_tree *t)
{
    if ((unsigned)p->leaves > HGA_LEAVES_BY_ID)
        return hga_fail(HGA_EINVAL, "leaves: %d is neither depth-first nor by id", (int)p->leaves);
    for (hga_id v = 0, at = 0; p->leaves == HGA_LEAVES_BY_ID && p->causal && v < t->n; v++)
        if (t->height[v] == 0 && t->first[v] != at++)
            return hga_fail(HGA_EUNSUPPORTED, "causal: leaf %d is number %d by id and number %d in the tree's order", v,
                            at - 1, t->first[v]);
    return HGA_OK;
}

/* place: by height, then by first leaf. Two counting sorts, the first (into climb, which has served) by first leaf. */
static void place_nodes(family_tree *t, hga_id n_leaves, hga_id *level_size, hga_id n_levels)
{
    hga_id *next = t->scratch;
    for (hga_id i = 0; i <= n_leaves; i++) next[i] = 0;
    for (hga_id v = 0; v < t->n; v++) next[t->first[v] + 1]++;
    for (hga_id i = 0; i < n_leaves; i++) next[i + 1] += next[i];
    for (hga_id v = 0; v < t->n; v++) t->climb[next[t->first[v]]++] = v;
    for (hga_id v = 0; v < t->n; v++) level_size[t->height[v]]++;
    for (hga_id l = 0, start = 0; l < n_levels; l++) next[l] = start, start += level_size[l];
    for (hga_id i = 0; i < t->n; i++) t->place[t->climb[i]] = next[t->height[t->climb[i]]]++;
}

/* the forest's arrays, by graph id: families in the order of their parents, roots behind them */
static void write_forest(family_tree *t, forest *f, hga_id *order)
{
    hga_id *old = t->scratch, position = 0;
    for (hga_id v = 0; v < t->n; v++) old[t->place[v]] = v;
    for (hga_id g = 0; g < t->n; g++) {
        hga_id v = old[g];
        f->first[g] = t->first[v], f->size[g] = t->size[v], f->family_ptr[g] = position;
        for (hga_id c = t->child_ptr[v]; c < t->child_ptr[v + 1]; c++) order[position++] = t->place[t->child[c]];
    }
    f->family_ptr[t->n] = position;
    for (hga_id g = 0; g < t->n; g++)
        if (t->parent[old[g]] < 0) order[position++] = g;
}

/* A forest whose leaves are all equally deep is in order as it is: blocks may then name nodes, without a detour. */
static void drop_identity(forest *f)
{
    for (hga_id i = 0; i < f->n; i++)
        if (f->order[i] != i) return;
    hga_delete(f->a, f->order, f->n, sizeof *f->order);
    f->order = NULL;
}

static hga_status plant_parents(const hga_hsa *p, forest *f)
{
    hga_status st = HGA_OK;
    family_tree t = {.parent = p->parent};
    HGA_TRY(check_parents(p));
    t.n = p->n_parent;
    HGA_TRY(tree_allocate(f->a, &t));
    list_children(&t);
    HGA_TRY(climb(&t));
    hga_id n_roots, n_leaves = number_leaves(&t, &n_roots), top = 0;
    HGA_TRY(check_leaves(p, &t));
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
    for (hga_id v = 0; p->node_of && v < t.n; v++) p->node_of[v] = t.place[v];
done:
    tree_clear(f->a, &t);
    return st;
}

/* ---- blocks ---- */

/* Blocks put one after another; those that repeat at a constant step are added as one. */
typedef struct chain {
    hga_block last;
    int used;
} chain;

static int same_form(const hga_block *x, const hga_block *y)
{
    return x->n_dst == y->n_dst && x->n_src == y->n_src && x->shape == y->shape && !x->pos_of == !y->pos_of;
}

/* extend the last block by the next, if it fits */
static int extend(hga_block *last, const hga_block *next)
{
    int64_t i = last->count - 1, dst = (int64_t)next->dst - last->dst;
    int64_t src = (int64_t)next->src - last->src, pos = (int64_t)next->pos_of - last->pos_of;
    if (!same_form(last, next)) return 0;
    dst -= i * last->dst_step, src -= i * last->src_step, pos -= i * last->pos_step;
    if (i > 0 && (dst != last->dst_step || src != last->src_step || pos != last->pos_step)) return 0;
    if (dst < 0 || src < 0 || pos < 0) return 0;
    last->dst_step = (hga_id)dst, last->src_step = (hga_id)src, last->pos_step = (hga_id)pos;
    last->count++;
    return 1;
}

static hga_status flush(hga_builder *b, hga_id relation, chain *c)
{
    if (!c->used) return HGA_OK;
    c->used = 0;
    return hga_builder_add_blocks(b, relation, &c->last);
}

static hga_status put(hga_builder *b, hga_id relation, chain *c, hga_block next)
{
    next.count = 1;
    if (c->used && extend(&c->last, &next)) return HGA_OK;
    hga_status st = flush(b, relation, c);
    c->last = next;
    c->used = 1;
    return st;
}

/* all members are leaves */
static int flat(const forest *f, hga_id start, hga_id m)
{
    for (hga_id i = 0; i < m; i++)
        if (member(f, start + i) >= f->n_tokens) return 0;
    return 1;
}

/* Children child .. child + n - 1 that go, `each` at a time, to parents from `parent` on. */
typedef struct families {
    hga_id parent, child, n, each;
} families;

static hga_status flush_families(hga_builder *b, families *f)
{
    hga_id n = f->n;
    f->n = 0;
    return n ? hga_builder_set_families(b, f->parent, f->child, n, f->each) : HGA_OK;
}

/* The next parent with the next children, as many as the others have, is told with them. */
static hga_status put_family(hga_builder *b, families *f, hga_id parent, hga_id child, hga_id n)
{
    if (f->n && n == f->each && parent == f->parent + f->n / f->each && child == f->child + f->n) {
        f->n += n;
        return HGA_OK;
    }
    hga_status st = flush_families(b, f);
    *f = (families){parent, child, n, n};
    return st;
}

static hga_status add_families(hga_builder *b, const forest *f)
{
    hga_status st = HGA_OK;
    families all = {.n = 0};
    for (hga_id v = f->n_tokens; v < f->n; v++)
        for (hga_id i = f->family_ptr[v], n; i < f->family_ptr[v + 1]; i += n) {
            hga_id child = member(f, i);
            for (n = 1; i + n < f->family_ptr[v + 1] && member(f, i + n) == child + n;) n++;
            HGA_TRY(put_family(b, &all, v, child, n));
        }
    HGA_TRY(flush_families(b, &all));
done:
    return st;
}

/* m x m over one family, without self edges on nodes above the tokens; *loops gets them on its leaves */
static hga_status add_family(hga_builder *b, hga_id relation, const forest *f, hga_id start, hga_id m, int self,
                             int causal, chain *pairs, chain *loops)
{
    hga_status st = HGA_OK;
    hga_block block = {.dst = start, .n_dst = m, .src = start, .n_src = m};
    if (self && flat(f, start, m)) {
        block.shape = causal ? HGA_LOWER : HGA_ALL;
        return put(b, relation, pairs, block);
    }
    block.shape = causal ? HGA_STRICT_LOWER : HGA_OFF_DIAGONAL;
    if (m > 1) HGA_TRY(put(b, relation, pairs, block));
    for (hga_id i = start; self && i < start + m; i++)
        if (member(f, i) < f->n_tokens)
            HGA_TRY(put(b, relation, loops, (hga_block){.dst = i, .n_dst = 1, .src = i, .n_src = 1}));
done:
    return st;
}

static hga_status add_siblings(hga_builder *b, const forest *f, int self, int causal)
{
    hga_status st = HGA_OK;
    hga_id relation;
    chain pairs = {.used = 0}, loops = {.used = 0};
    HGA_TRY(hga_builder_add_relation(b, "sibling", &relation));
    if (f->order) HGA_TRY(hga_builder_set_order(b, relation, f->order, f->n, f->order, f->n));
    for (hga_id v = f->n_tokens; v < f->n; v++)
        HGA_TRY(add_family(b, relation, f, f->family_ptr[v], f->family_ptr[v + 1] - f->family_ptr[v], self, causal,
                           &pairs, &loops));
    for (hga_id i = f->n - f->n_roots; self && i < f->n; i++) /* a tree of one leaf */
        if (member(f, i) < f->n_tokens)
            HGA_TRY(put(b, relation, &loops, (hga_block){.dst = i, .n_dst = 1, .src = i, .n_src = 1}));
    HGA_TRY(flush(b, relation, &pairs));
    HGA_TRY(flush(b, relation, &loops));
done:
    return st;
}

/* the leaves below a family's member number i (rows, by token) to its left siblings (columns); a leaf to itself, too */
static hga_status add_left_siblings(hga_builder *b, hga_id relation, const forest *f, hga_id start, hga_id i, chain *c)
{
    hga_id node = member(f, start + i);
    hga_block block = {.dst = f->first[node], .n_dst = f->size[node], .src = start, .n_src = i, .pos_of = node + 1};
    if (node < f->n_tokens) block.n_src = i + 1, block.pos_of = HGA_POS_OWN;
    return block.n_src ? put(b, relation, c, block) : HGA_OK;
}

/* One chain per index in the family, so that regular trees give few blocks: chain[0] has the families of leaves. */
static hga_status add_frontier_family(hga_builder *b, hga_id relation, const forest *f, hga_id start, hga_id m,
                                      chain *chains)
{
    hga_status st = HGA_OK;
    if (flat(f, start, m))
        return put(b, relation, &chains[0],
                   (hga_block){.dst = member(f, start), .n_dst = m, .src = start, .n_src = m, .shape = HGA_LOWER});
    for (hga_id i = 0; i < m; i++) HGA_TRY(add_left_siblings(b, relation, f, start, i, &chains[i + 1]));
done:
    return st;
}

static hga_id widest_family(const forest *f)
{
    hga_id widest = 0;
    for (hga_id v = f->n_tokens; v < f->n; v++) {
        hga_id m = f->family_ptr[v + 1] - f->family_ptr[v];
        widest = m > widest ? m : widest;
    }
    return widest;
}

static hga_status add_frontier(hga_builder *b, const forest *f)
{
    hga_status st = HGA_OK;
    hga_id relation, n_chains = widest_family(f) + 1;
    chain *chains = NULL;
    HGA_TRY(hga_new_zero(f->a, n_chains, sizeof *chains, &chains));
    HGA_TRY(hga_builder_add_relation(b, "frontier", &relation));
    if (f->order) HGA_TRY(hga_builder_set_order(b, relation, NULL, 0, f->order, f->n));
    for (hga_id v = f->n_tokens; v < f->n; v++)
        HGA_TRY(add_frontier_family(b, relation, f, f->family_ptr[v], f->family_ptr[v + 1] - f->family_ptr[v], chains));
    for (hga_id i = f->n - f->n_roots; i < f->n; i++) /* a tree of one leaf */
        if (member(f, i) < f->n_tokens) HGA_TRY(add_frontier_family(b, relation, f, i, 1, chains));
    for (hga_id i = 0; i < n_chains; i++) HGA_TRY(flush(b, relation, &chains[i]));
done:
    hga_delete(f->a, chains, n_chains, sizeof *chains);
    return st;
}

/* ---- programs ---- */

/* Coarse queries, keys and values; attention within families; energies up, outputs down. */
static hga_status write_program(hga_program *p)
{
    hga_status st = HGA_OK;
    hga_id query, key, value, state, psi, keep, out;
    hga_program_init(p);
    HGA_TRY(hga_program_add_field(p, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_NODES, &query));
    HGA_TRY(hga_program_add_field(p, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_NODES, &key));
    HGA_TRY(hga_program_add_field(p, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES, &value));
    HGA_TRY(hga_program_add_field(p, "state", HGA_WIDTH_STATE, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &state));
    HGA_TRY(hga_program_add_field(p, "psi", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &psi));
    HGA_TRY(hga_program_add_field(p, "keep", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &keep));
    HGA_TRY(hga_program_add_field(p, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_NODES, &out));
    HGA_TRY(hga_program_coarsen(p, query));
    HGA_TRY(hga_program_coarsen(p, key));
    HGA_TRY(hga_program_coarsen(p, value));
    HGA_TRY(hga_program_attend(p, 0, query, key, value, state, 1));
    HGA_TRY(hga_program_energy(p, state, psi));
    HGA_TRY(hga_program_descend(p, state, psi, keep, out));
done:
    return st;
}

/* Coarse keys and values; each token attends to its frontier. */
static hga_status write_frontier_program(hga_program *p)
{
    hga_status st = HGA_OK;
    hga_id query, key, value, out;
    hga_program_init(p);
    HGA_TRY(hga_program_add_field(p, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES, &query));
    HGA_TRY(hga_program_add_field(p, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_NODES, &key));
    HGA_TRY(hga_program_add_field(p, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES, &value));
    HGA_TRY(hga_program_add_field(p, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES, &out));
    HGA_TRY(hga_program_coarsen(p, key));
    HGA_TRY(hga_program_coarsen(p, value));
    HGA_TRY(hga_program_attend(p, 0, query, key, value, out, 1));
    p->has_lse = 0; /* HSA has no softmax denominator to give, in any mode */
done:
    return st;
}

static hga_status check(const hga_hsa *p)
{
    if (!p->parent && !p->branching) return hga_fail(HGA_EINVAL, "hsa needs parent or branching");
    if (p->parent && p->branching) return hga_fail(HGA_EINVAL, "hsa takes parent or branching, not both");
    if (p->causal && p->mode != HGA_HSA_FRONTIER && p->mode != HGA_HSA_SELF)
        return hga_fail(HGA_EINVAL, "mode %d is neither frontier nor self", (int)p->mode);
    return HGA_OK;
}

static hga_status build(const hga_hsa *p, const forest *f, hga_builder *b)
{
    hga_status st = HGA_OK;
    uint32_t claims =
        HGA_CLAIM_SINGLE | (p->causal ? HGA_CLAIM_CAUSAL : 0u) | (f->n_roots == 1 ? HGA_CLAIM_COMPLETE : 0u);
    for (hga_id l = 0; l < f->n_levels; l++) HGA_TRY(hga_builder_add_level(b, f->level_size[l], NULL));
    HGA_TRY(add_families(b, f));
    HGA_TRY(hga_builder_set_claims(b, claims));
    if (p->causal && p->mode == HGA_HSA_FRONTIER)
        HGA_TRY(add_frontier(b, f));
    else
        HGA_TRY(add_siblings(b, f, p->self || p->causal, p->causal));
done:
    return st;
}

hga_hsa hga_hsa_defaults(void) { return (hga_hsa){.mode = HGA_HSA_FRONTIER}; }

hga_status hga_build_hsa(const hga_hsa *p, hga_graph **g, hga_program *program)
{
    hga_status st = HGA_OK;
    forest f = {.a = p->allocator};
    hga_builder *b = NULL;
    *g = NULL;
    HGA_TRY(hga_check_reserved("hga_hsa", p->reserved, sizeof p->reserved));
    HGA_TRY(check(p));
    HGA_TRY(p->parent ? plant_parents(p, &f) : plant_windows(p, &f));
    HGA_TRY(hga_builder_create(p->allocator, &b));
    HGA_TRY(build(p, &f, b));
    HGA_TRY(p->causal && p->mode == HGA_HSA_FRONTIER ? write_frontier_program(program) : write_program(program));
    HGA_TRY(hga_builder_finish(b, g));
done:
    hga_builder_destroy(b);
    forest_clear(&f);
    return st;
}
