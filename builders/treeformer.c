/* treeformer.c: Treeformer (Madaan et al. 2022) on routed tokens.

   Fine (TF-attention, eq. 3): a query attends to the keys of its leaf; sorted by leaf, every leaf is one block. Coarse
   (TC-attention, eq. 4): a query gets, at every level of the tree, the mean of the values in its node; a tree node is
   an interval of the keys sorted by leaf, a block of one row.

   Rows are folded: row = token * n_tree_heads + head, and every head has a tree of its own, so that the sort key, the
   bucket, is head * n_leaves + leaf. */
#include "at_least.h"
#include "sides.h"
#include "longer.h"

enum { MAX_HEIGHT = 64 };

/* Rows sorted by bucket, in token order within one; rows in no leaf are left out. */
typedef struct sorted {
    hga_id n, n_buckets;
    hga_id *ptr;   /* [n_buckets + 1] */
    hga_id *order; /* [n], the first ptr[n_buckets] are used: row numbers from 0 */
} sorted;

typedef struct layout {
    const hga_treeformer *p;
    const int32_t *key_leaf;
    hga_id n_queries, n_keys, key_first; /* rows; key_first: the graph's id of the first key row */
    hga_id n_leaves, n_buckets;
    sorted query, key; /* key.order counts from 0, too, until shift_keys */
} layout;

static hga_id branches(const hga_treeformer *p, hga_id level) { return p->branching ? p->branching[level] : 2; }

static int is_cross(const hga_treeformer *p) { return p->n_keys > 0; }

/* ---- checks ---- */

/* Refuses impossible trees and leaves, for both of Treeformer's builders. */
static hga_status check_treeformer(const hga_treeformer *p)
{
    if (p->n_queries < 1) return hga_fail(HGA_EINVAL, "n_queries is %d; it must be at least 1", p->n_queries);
    if (p->n_keys < 0) return hga_fail(HGA_EINVAL, "n_keys is %d; it must be at least 0", p->n_keys);
    hga_status st = check_at_least_one("n_tree_heads", p->n_tree_heads);
    if (st) return st;
    if (p->height < 0 || p->height > MAX_HEIGHT)
        return hga_fail(HGA_EINVAL, "height is %d; it must be 0 to %d", p->height, MAX_HEIGHT);
    if (p->n_leaves < 0) return hga_fail(HGA_EINVAL, "n_leaves is %d; it must be at least 0", p->n_leaves);
    if (!p->query_leaf) return hga_fail(HGA_EINVAL, "query_leaf is NULL");
    if (is_cross(p) && !p->key_leaf) return hga_fail(HGA_EINVAL, "n_keys is %d, but key_leaf is NULL", p->n_keys);
    for (hga_id l = 0; l < p->height; l++)
        if (branches(p, l) < 1)
            return hga_fail(HGA_EINVAL, "branching[%d] is %d; it must be at least 1", l, p->branching[l]);
    return HGA_OK;
}

/* rows of a side: tokens times heads */
static hga_status fold(const char *what, hga_id tokens, hga_id heads, hga_id *rows)
{
    int64_t n = (int64_t)tokens * heads;
    if (n > INT32_MAX - 2)
        return hga_fail(HGA_EOVERFLOW, "%s %d times n_tree_heads %d: more than %d rows", what, tokens, heads,
                        INT32_MAX - 2);
    *rows = (hga_id)n;
    return HGA_OK;
}

/* The leaves of one tree, if they fit an id. */
static hga_status count_tree_leaves(const hga_treeformer *p, hga_id *leaves)
{
    int64_t n = 1;
    for (hga_id l = 0; l < p->height; l++) {
        n *= branches(p, l);
        if (n > INT32_MAX - 2)
            return hga_fail(HGA_EOVERFLOW, "height %d: more than %d leaves at level %d", p->height, INT32_MAX - 2,
                            l + 1);
    }
    *leaves = (hga_id)n;
    return HGA_OK;
}

static int32_t largest_leaf(const int32_t *leaf, hga_id n)
{
    int32_t most = -1;
    for (hga_id i = 0; i < n; i++) most = leaf[i] > most ? leaf[i] : most;
    return most;
}

/* The number of leaves of one head's tree. Fine without a description of the tree counts the leaves that occur. */
static hga_status count_leaves(const layout *t, int coarse, hga_id *leaves)
{
    const hga_treeformer *p = t->p;
    hga_status st = count_tree_leaves(p, leaves);
    if (st) return st;
    int described = coarse || p->height > 0;
    if (described && p->n_leaves && p->n_leaves != *leaves)
        return hga_fail(HGA_EINVAL, "n_leaves is %d, but a tree of height %d with this branching has %d", p->n_leaves,
                        p->height, *leaves);
    if (described) return HGA_OK;
    int32_t query = largest_leaf(t->p->query_leaf, t->n_queries), key = largest_leaf(t->key_leaf, t->n_keys);
    if (!p->n_leaves && (query > key ? query : key) > INT32_MAX - 3)
        return hga_fail(HGA_EOVERFLOW, "leaf %d: there are at most %d leaves", query > key ? query : key,
                        INT32_MAX - 2);
    *leaves = p->n_leaves ? p->n_leaves : (query > key ? query : key) + 1;
    if (*leaves < 1) *leaves = 1;
    return HGA_OK;
}

/* ---- sorting ---- */

/* count[head * n_leaves + leaf]: how many rows each bucket has */
static hga_status count_rows(const layout *t, const char *what, const int32_t *leaf, hga_id n, hga_id *count)
{
    const hga_id heads = t->p->n_tree_heads, n_leaves = t->n_leaves;
    for (hga_id i = 0; i < n; i += heads)
        for (hga_id h = 0; h < heads; h++) {
            const int32_t at = leaf[i + h];
            if (at < -1 || at >= n_leaves)
                return hga_fail(HGA_EINVAL, "%s[%d] is %d; it must be 0 to %d, or -1 for none", what, i + h, at,
                                n_leaves - 1);
            if (at >= 0) count[h * n_leaves + at]++;
        }
    return HGA_OK;
}

/* A counting sort; stable, so that a bucket's rows stay in token order. */
static hga_status sort_rows(const layout *t, const char *what, const int32_t *leaf, hga_id n, sorted *s)
{
    hga_status st = HGA_OK;
    const hga_id heads = t->p->n_tree_heads, n_leaves = t->n_leaves;
    s->n = n, s->n_buckets = t->n_buckets;
    HGA_TRY(hga_new_zero(t->p->allocator, (int64_t)s->n_buckets + 1, sizeof *s->ptr, &s->ptr));
    HGA_TRY(hga_new(t->p->allocator, n, sizeof *s->order, &s->order));
    HGA_TRY(count_rows(t, what, leaf, n, s->ptr));
    hga_id *ptr = s->ptr, *order = s->order;
    for (hga_id k = 0, start = 0; k <= s->n_buckets; k++) {
        hga_id count = ptr[k];
        ptr[k] = start, start += count;
    }
    for (hga_id i = 0; i < n; i += heads)
        for (hga_id h = 0; h < heads; h++)
            if (leaf[i + h] >= 0) order[ptr[h * n_leaves + leaf[i + h]]++] = i + h;
    for (hga_id k = s->n_buckets; k > 0; k--) ptr[k] = ptr[k - 1]; /* each came to the next one's start */
    ptr[0] = 0;
done:
    return st;
}

static void layout_clear(layout *t)
{
    sorted *side[2] = {&t->query, &t->key};
    for (int i = 0; i < 2; i++) {
        hga_delete(t->p->allocator, side[i]->ptr, (int64_t)side[i]->n_buckets + 1, sizeof(hga_id));
        hga_delete(t->p->allocator, side[i]->order, side[i]->n, sizeof(hga_id));
    }
}

/* Checks the parameters, and sorts the rows of both sides by bucket. */
static hga_status sort_sides(const hga_treeformer *p, int coarse, layout *t)
{
    hga_status st = HGA_OK;
    HGA_TRY(check_treeformer(p));
    HGA_TRY(fold("n_queries", p->n_queries, p->n_tree_heads, &t->n_queries));
    HGA_TRY(fold("n_keys", is_cross(p) ? p->n_keys : p->n_queries, p->n_tree_heads, &t->n_keys));
    t->key_leaf = p->key_leaf ? p->key_leaf : p->query_leaf;
    t->key_first = is_cross(p) ? t->n_queries : 0;
    if (is_cross(p) && t->n_queries > INT32_MAX - 2 - t->n_keys)
        return hga_fail(HGA_EOVERFLOW, "%d query and %d key rows do not fit a 32-bit id", t->n_queries, t->n_keys);
    HGA_TRY(count_leaves(t, coarse, &t->n_leaves));
    HGA_TRY(fold("n_leaves", t->n_leaves, p->n_tree_heads, &t->n_buckets));
    HGA_TRY(sort_rows(t, "query_leaf", p->query_leaf, t->n_queries, &t->query));
    HGA_TRY(sort_rows(t, "key_leaf", t->key_leaf, t->n_keys, &t->key));
done:
    return st;
}

/* from row numbers to the graph's ids */
static void shift_keys(layout *t)
{
    for (hga_id i = 0; i < t->key.ptr[t->n_buckets]; i++) t->key.order[i] += t->key_first;
}

/* ---- fine ---- */

/* Queries [q, q_end) against keys [k, k_end) of one leaf, both in token order, each query seeing the keys up to its own
   token. Halve the queries: the later half sees all keys up to the middle token, a full block; the rest are two smaller
   staircases. So a row has few intervals of columns, log of the leaf's size. */
static hga_status add_stairs(hga_builder *b, hga_id relation, const layout *t, hga_id q, hga_id q_end, hga_id k,
                             hga_id k_end)
{
    hga_status st = HGA_OK;
    while (q < q_end && k < k_end) {
        hga_id middle = q + (q_end - q) / 2, split = k, last = k_end;
        while (split < last) { /* the first key later than the middle query */
            hga_id half = split + (last - split) / 2;
            if (t->key.order[half] <= t->query.order[middle])
                split = half + 1;
            else
                last = half;
        }
        if (split > k) HGA_TRY(hga_builder_add_block(b, relation, middle, q_end - middle, k, split - k, 0));
        HGA_TRY(add_stairs(b, relation, t, q, middle, k, split));
        q = middle + 1, k = split;
    }
done:
    return st;
}

static int same_rows(const layout *t, hga_id leaf)
{
    hga_id q = t->query.ptr[leaf], n = t->query.ptr[leaf + 1] - q, k = t->key.ptr[leaf];
    if (t->key.ptr[leaf + 1] - k != n) return 0;
    for (hga_id i = 0; i < n; i++)
        if (t->query.order[q + i] != t->key.order[k + i]) return 0;
    return 1;
}

/* Whether queries and keys of every leaf are the same tokens: only then rows keep their positions when tokens are
   appended. */
static int are_same(const layout *t)
{
    hga_id leaf = 0;
    while (leaf < t->n_buckets && same_rows(t, leaf)) leaf++;
    return leaf == t->n_buckets;
}

static hga_status add_leaf(hga_builder *b, hga_id relation, const layout *t, hga_id leaf)
{
    hga_id q = t->query.ptr[leaf], q_end = t->query.ptr[leaf + 1], k = t->key.ptr[leaf], k_end = t->key.ptr[leaf + 1];
    if (q == q_end || k == k_end) return HGA_OK;
    hga_block block = {.dst = q, .n_dst = q_end - q, .src = k, .n_src = k_end - k};
    if (t->p->causal && !same_rows(t, leaf)) return add_stairs(b, relation, t, q, q_end, k, k_end);
    if (t->p->causal) block.shape = HGA_LOWER;
    return hga_builder_add_blocks(b, relation, &block);
}

/* One relation, a block for each leaf of each head. */
static hga_status build_fine(layout *t, hga_builder *b)
{
    hga_status st = HGA_OK;
    hga_id relation;
    HGA_TRY(sides_add_tokens(b, t->n_queries, is_cross(t->p) ? t->n_keys : 0));
    HGA_TRY(hga_builder_set_claims(b, HGA_CLAIM_SINGLE | (t->p->causal ? HGA_CLAIM_CAUSAL : 0u)));
    HGA_TRY(hga_builder_add_relation(b, "leaf", &relation));
    if (t->p->causal && are_same(t)) HGA_TRY(keep_positions(b, t->p->allocator));
    shift_keys(t);
    HGA_TRY(hga_builder_set_order(b, relation, t->query.order, t->query.ptr[t->n_buckets], t->key.order,
                                  t->key.ptr[t->n_buckets]));
    for (hga_id leaf = 0; leaf < t->n_buckets; leaf++) HGA_TRY(add_leaf(b, relation, t, leaf));
done:
    return st;
}

hga_status hga_build_treeformer_fine(const hga_treeformer *p, hga_graph **g, hga_program *program)
{
    hga_status st = HGA_OK;
    layout t = {.p = p};
    hga_builder *b = NULL;
    *g = NULL;
    HGA_TRY(hga_check_reserved("hga_treeformer", p->reserved, sizeof p->reserved));
    if (p->causal && is_cross(p))
        return hga_fail(HGA_EUNSUPPORTED, "causal is for self-attention, but n_keys is %d", p->n_keys);
    HGA_TRY(sort_sides(p, 0, &t));
    HGA_TRY(hga_builder_create(p->allocator, &b));
    HGA_TRY(build_fine(&t, b));
    HGA_TRY(hga_program_attention(program, 0));
    HGA_TRY(hga_builder_finish(b, g));
done:
    hga_builder_destroy(b);
    layout_clear(&t);
    return st;
}

/* ---- coarse ---- */

/* The nodes of tree level l of all heads' trees: node j of head t is first + t * n + j and holds the buckets (t * n +
   j) * leaves .. + leaves - 1. */
typedef struct tree_level {
    hga_id level, n, leaves; /* nodes a head has, leaves below each */
    hga_id first;            /* the graph's id of the first */
} tree_level;

/* Adds blocks from keys to their node, for the mean, and from each node to its queries. The mass of a node is its
   number of keys. */
static hga_status add_tree_level(hga_builder *b, hga_id member, hga_id path, const layout *t, const tree_level *l)
{
    hga_status st = HGA_OK;
    for (hga_id j = 0; j < l->n * t->p->n_tree_heads; j++) {
        hga_id from = j * l->leaves, to = from + l->leaves, node = l->first + j;
        hga_id k = t->key.ptr[from], n_keys = t->key.ptr[to] - k, q = t->query.ptr[from],
               n_queries = t->query.ptr[to] - q;
        HGA_TRY(hga_builder_set_mass(b, node, (float)n_keys));
        if (n_keys) HGA_TRY(hga_builder_add_block(b, member, node, 1, k, n_keys, 0));
        if (n_queries) HGA_TRY(hga_builder_add_block(b, path, q, n_queries, node, 1, l->level));
    }
done:
    return st;
}

/* tree level h (the leaves) is the graph's level 1, the roots are its level h + 1 */
static hga_status add_trees(hga_builder *b, hga_id member, hga_id path, const layout *t)
{
    hga_status st = HGA_OK;
    tree_level l = {.level = t->p->height, .n = t->n_leaves, .leaves = 1, .first = 0};
    hga_id heads = t->p->n_tree_heads;
    HGA_TRY(hga_builder_add_level(b, l.n * heads, &l.first));
    HGA_TRY(add_tree_level(b, member, path, t, &l));
    while (l.level > 0) {
        hga_id each = branches(t->p, --l.level), child = l.first, n = l.n * heads;
        l.n /= each, l.leaves *= each;
        HGA_TRY(hga_builder_add_level(b, l.n * heads, &l.first));
        HGA_TRY(hga_builder_set_families(b, l.first, child, n, each));
        HGA_TRY(add_tree_level(b, member, path, t, &l));
    }
done:
    return st;
}

/* A relation from keys to the nodes of their paths, and one from these to queries. */
static hga_status build_coarse(layout *t, hga_builder *b)
{
    hga_status st = HGA_OK;
    hga_id member, path;
    HGA_TRY(sides_add_tokens(b, t->n_queries, is_cross(t->p) ? t->n_keys : 0));
    HGA_TRY(hga_builder_add_relation(b, "member", &member));
    HGA_TRY(hga_builder_add_relation(b, "path", &path));
    shift_keys(t);
    HGA_TRY(hga_builder_set_order(b, member, NULL, 0, t->key.order, t->key.ptr[t->n_buckets]));
    HGA_TRY(hga_builder_set_order(b, path, t->query.order, t->query.ptr[t->n_buckets], NULL, 0));
    HGA_TRY(add_trees(b, member, path, t));
done:
    return st;
}

/* out = sum over levels of alpha[level] * mean of the values in the query's node */
static hga_status write_coarse_program(const hga_graph *g, hga_program *p)
{
    hga_status st = HGA_OK;
    hga_id value, mean, out, member = hga_graph_find_relation(g, "member"), path = hga_graph_find_relation(g, "path");
    hga_program_init(p);
    HGA_TRY(hga_program_add_field(p, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_KEYS, &value));
    HGA_TRY(hga_program_add_field(p, "mean", HGA_WIDTH_VALUE, HGA_INTERNAL, HGA_ROWS_ABOVE, HGA_ROWS_ABOVE, &mean));
    HGA_TRY(hga_program_add_field(p, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES, &out));
    HGA_TRY(hga_program_mean(p, member, value, mean, 0));
    HGA_TRY(hga_program_weighted_sum(p, path, mean, out));
done:
    return st;
}

hga_status hga_build_treeformer_coarse(const hga_treeformer *p, hga_graph **g, hga_program *program)
{
    hga_status st = HGA_OK;
    layout t = {.p = p};
    hga_builder *b = NULL;
    *g = NULL;
    HGA_TRY(hga_check_reserved("hga_treeformer", p->reserved, sizeof p->reserved));
    if (p->causal)
        return hga_fail(HGA_EUNSUPPORTED,
                        "causal is %d, but treeformer-coarse has no causal form: node means hold later keys",
                        p->causal);
    HGA_TRY(sort_sides(p, 1, &t));
    HGA_TRY(hga_builder_create(p->allocator, &b));
    HGA_TRY(build_coarse(&t, b));
    HGA_TRY(hga_builder_finish(b, g));
    HGA_TRY(write_coarse_program(*g, program));
done:
    if (st && *g) hga_graph_destroy(*g), *g = NULL;
    hga_builder_destroy(b);
    layout_clear(&t);
    return st;
}
