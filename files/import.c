/* import.c: a graph collected in any order from files without levels, then numbered level by level and built. */
#include "import.h"
#include "import_names.h"
#include "scan.h"
#include "load.h"
#include "sort.h"

#include <stdio.h>
#include <string.h>

/* ---- collecting ---- */

/* Checks the options and loads the file. */
hga_status import_open(import *x, const hga_allocator *a, const char *path, const hga_import *wish, hga_graph **out)
{
    static const hga_import nothing = {0};
    *out = NULL;
    memset(x, 0, sizeof *x);
    x->allocator = a, x->wish = wish ? wish : &nothing, x->n_queries = -1;
    if (x->wish->node_map) memset(x->wish->node_map, 0, sizeof *x->wish->node_map);
    if (x->wish->attributes) *x->wish->attributes = NULL;
    if (!path || !*path) return hga_fail(HGA_EINVAL, "the name of the file to read is empty");
    for (size_t i = 0; i < sizeof x->wish->reserved / sizeof *x->wish->reserved; i++)
        if (x->wish->reserved[i]) return hga_fail(HGA_EINVAL, "hga_import.reserved[%zu] is not 0", i);
    if (x->wish->pattern < 0 || x->wish->pattern > 1)
        return hga_fail(HGA_EINVAL, "hga_import.pattern is %lld, neither 0 nor 1", (long long)x->wish->pattern);
    if (x->wish->n_parents < 0 || (!x->wish->parents && x->wish->n_parents))
        return hga_fail(HGA_EINVAL, "%d parents", x->wish->n_parents);
    x->name = strcmp(path, "-") == 0 ? "stdin" : path;
    hga_status st = bytes_load(a, path, x->name, &x->file.at, &x->file.n, &x->file.capacity);
    x->reader.at = x->file.at, x->reader.end = x->file.at ? x->file.at + x->file.n : NULL, x->reader.line = 1;
    return st;
}

/* A short file must not allocate memory for two thousand million nodes. */
hga_status import_reach(import *x, int64_t node)
{
    if (node < 0 || node >= INT32_MAX - 4096) return scan_wrong(x, "node %lld does not fit an id", (long long)node);
    if (node >> 20 && node / 64 > x->file.n)
        return scan_wrong(x, "node %lld in a file of %lld bytes: nodes are counted from 0", (long long)node,
                          (long long)x->file.n);
    if (node >= x->n) x->n = (hga_id)(node + 1);
    return HGA_OK;
}

hga_status import_tell(import *x, hga_id node, import_node **out)
{
    hga_status st = import_reach(x, node);
    int64_t known = x->node.capacity;
    if (!st && node >= known)
        st = hga_grow(x->allocator, &x->node.list, &x->node.capacity, known, (int64_t)node + 1, sizeof *x->node.list);
    for (; !st && known < x->node.capacity; known++) x->node.list[known] = (import_node){-1, -1, -1, HGA_SIDE_BOTH, -1};
    *out = st ? NULL : &x->node.list[node];
    return st;
}

/* The relation of that name, added if new; NULL: the default name, for a file with one relation. */
hga_status import_relation(import *x, const char *name, hga_id *relation)
{
    hga_status st = HGA_OK;
    int64_t at;
    if (!name) name = x->wish->relation ? x->wish->relation : "edges";
    if (strcmp(name, "tree up") == 0) return *relation = HGA_TREE_UP, HGA_OK;
    if (strcmp(name, "tree down") == 0) return *relation = HGA_TREE_DOWN, HGA_OK;
    for (int64_t i = x->relations.n; i-- > 0;)
        if (strcmp(x->text.at + x->relations.name[i], name) == 0) {
            *relation = (hga_id)i;
            return HGA_OK;
        }
    if (x->relations.n == 1024) return scan_wrong(x, "more than %lld relations", (long long)x->relations.n);
    HGA_TRY(import_text(x, name, (int64_t)strlen(name), &at));
    HGA_TRY(hga_grow(x->allocator, &x->relations.name, &x->relations.capacity, x->relations.n, x->relations.n + 1,
                     sizeof *x->relations.name));
    *relation = (hga_id)x->relations.n;
    x->relations.name[x->relations.n++] = at;
done:
    return st;
}

/* A child has one parent; repetitions of the same one are allowed. */
static hga_status add_parent(import *x, int64_t child, int64_t parent)
{
    import_node *node;
    hga_status st = import_reach(x, parent);
    if (!st) st = import_reach(x, child);
    if (!st) st = import_tell(x, (hga_id)child, &node);
    if (st) return st;
    if (node->parent >= 0 && node->parent != parent)
        return scan_wrong(x, "node %lld has the parents %d and %lld", (long long)child, node->parent,
                          (long long)parent);
    node->parent = (hga_id)parent;
    return HGA_OK;
}

/* Adds an edge of the file; an edge of the tree defines a parent. */
hga_status import_edge_add(import *x, hga_id relation, int64_t src, int64_t dst, int64_t type, double weight)
{
    hga_status st = HGA_OK;
    if (type < 0 || type >= INT32_MAX) return scan_wrong(x, "type %lld of an edge is out of range", (long long)type);
    if (x->wish->pattern) weight = 1;
    if (!(weight > 0 && (float)weight > 0 && weight < 3e38))
        return scan_wrong(x, "weight %g of an edge is not positive and finite; " WITHOUT_WEIGHTS, weight);
    if (relation == HGA_TREE_UP) return add_parent(x, src, dst);
    if (relation == HGA_TREE_DOWN) return add_parent(x, dst, src);
    HGA_TRY(import_reach(x, src));
    HGA_TRY(import_reach(x, dst));
    HGA_TRY(
        hga_grow(x->allocator, &x->edges.list, &x->edges.capacity, x->edges.n, x->edges.n + 1, sizeof *x->edges.list));
    x->edges.list[x->edges.n++] = (import_edge){relation, (hga_id)dst, (hga_id)src, (int32_t)type, (float)weight};
done:
    return st;
}

/* Reads a type, an integer that may be written as a real number. */
void import_type(import *x, const char *value, int64_t n, int64_t *type)
{
    while (n > 2 && value[n - 1] == '0' && memchr(value, '.', (size_t)n - 1)) n--;
    if (n > 1 && value[n - 1] == '.') n--;
    if (scan_text_integer(value, n, type) && *type >= 0 && *type < INT32_MAX) return;
    *type = 0, x->has_strange_types = 1;
}

/* ---- levels ---- */

/* The mapping from the file's nodes to the graph's. */
typedef struct numbering {
    hga_id *parent, *level; /* [n] by the file's numbers */
    hga_id *id;             /* [n] the graph's */
    hga_id n_levels;
    int moved; /* some id differs from the file's number */
} numbering;

/* The caller's parents, or if there are none those of the file. */
static hga_status find_parents(const import *x, numbering *to)
{
    const hga_import *wish = x->wish;
    if (wish->parents && wish->n_parents < x->n)
        return hga_fail(HGA_EGRAPH, "%s: %d parents for %d nodes", x->name, wish->n_parents, x->n);
    for (hga_id v = 0; v < x->n; v++) {
        hga_id p = wish->parents ? wish->parents[v] : v < x->node.capacity ? x->node.list[v].parent : -1;
        if (p < -1 || p >= x->n) return hga_fail(HGA_EGRAPH, "%s: parent %d of node %d is not a node", x->name, p, v);
        to->parent[v] = p;
    }
    return HGA_OK;
}

/* Refuses a cycle of parents; names a node on it by its number, and its name if it has one. */
static hga_status refuse_ring(const import *x, hga_id v)
{
    const int64_t label = v < x->node.capacity ? x->node.list[v].label : -1;
    if (label < 0) return hga_fail(HGA_EGRAPH, "%s: node %d is its own ancestor", x->name, v);
    return hga_fail(HGA_EGRAPH, "%s: node %d, '%.40s', is its own ancestor", x->name, v, x->text.at + label);
}

/* A node's level is one above its highest child; computed from the leaves upwards. Nodes that are never reached are on
   a cycle. */
static hga_status find_heights(const import *x, numbering *to)
{
    hga_status st = HGA_OK;
    hga_id *waiting = NULL, *ready = NULL, n_ready = 0, n = x->n;
    HGA_TRY(hga_new_zero(x->allocator, n, sizeof *waiting, &waiting));
    HGA_TRY(hga_new(x->allocator, n, sizeof *ready, &ready));
    for (hga_id v = 0; v < n; v++) to->level[v] = 0;
    for (hga_id v = 0; v < n; v++)
        if (to->parent[v] >= 0) waiting[to->parent[v]]++;
    for (hga_id v = 0; v < n; v++)
        if (!waiting[v]) ready[n_ready++] = v;
    for (hga_id i = 0; i < n_ready; i++) {
        hga_id p = to->parent[ready[i]], above = to->level[ready[i]] + 1;
        if (p < 0) continue;
        if (to->level[p] < above) to->level[p] = above;
        if (--waiting[p] == 0) ready[n_ready++] = p;
    }
    for (hga_id v = 0; v < n && n_ready < n; v++)
        if (waiting[v]) HGA_TRY(refuse_ring(x, v));
done:
    hga_delete(x->allocator, waiting, n, sizeof *waiting);
    hga_delete(x->allocator, ready, n, sizeof *ready);
    return st;
}

/* Levels of the file, where it gives the level of every node. */
static hga_status take_levels(const import *x, numbering *to)
{
    if (!x->has_levels || x->wish->parents) return find_heights(x, to);
    for (hga_id v = 0; v < x->n; v++) {
        to->level[v] = v < x->node.capacity ? x->node.list[v].level : -1;
        if (to->level[v] == -1) return hga_fail(HGA_EGRAPH, "%s: node %d has no level, as others have", x->name, v);
        if (to->level[v] < 0 || to->level[v] >= 1024)
            return hga_fail(HGA_EGRAPH, "%s: level %d of node %d", x->name, to->level[v], v);
    }
    return HGA_OK;
}

/* Numbers tokens in the order of the tree. */
static hga_status number_leaves(const import *x, numbering *to)
{
    hga_status st = HGA_OK;
    hga_id *order = NULL, at = 0;
    if (x->n_queries >= 0 || x->has_sides)
        return hga_fail(HGA_EUNSUPPORTED, "tokens on two sides are in no one tree's order");
    HGA_TRY(hga_new(x->allocator, x->n, sizeof *order, &order));
    HGA_TRY(hga_forest_preorder(x->allocator, x->n, to->parent, order));
    for (hga_id i = 0; i < x->n; i++)
        if (to->level[order[i]] == 0) to->id[order[i]] = at++;
done:
    hga_delete(x->allocator, order, x->n, sizeof *order);
    return st;
}

/* Numbers nodes by level, within a level in the file's order. */
static hga_status number_nodes(const import *x, hga_builder *b, numbering *to)
{
    hga_status st = HGA_OK;
    hga_id *next = NULL;
    for (hga_id v = 0; v < x->n; v++)
        if (to->level[v] >= to->n_levels) to->n_levels = to->level[v] + 1;
    if (to->n_levels == 0) to->n_levels = 1;
    HGA_TRY(hga_new_zero(x->allocator, (int64_t)to->n_levels + 1, sizeof *next, &next));
    for (hga_id v = 0; v < x->n; v++) next[to->level[v] + 1]++;
    for (hga_id l = 0; l < to->n_levels; l++) {
        HGA_TRY(hga_builder_add_level(b, next[l + 1], NULL));
        next[l + 1] += next[l];
    }
    for (hga_id v = 0; v < x->n; v++) to->id[v] = next[to->level[v]]++;
    if (x->wish->depth_first) HGA_TRY(number_leaves(x, to));
    for (hga_id v = 0; v < x->n; v++) to->moved |= to->id[v] != v;
done:
    hga_delete(x->allocator, next, (int64_t)to->n_levels + 1, sizeof *next);
    return st;
}

/* ---- into a builder ---- */

/* Adds parents to the builder; consecutive children of one parent in one call. */
static hga_status give_parents(const import *x, hga_builder *b, const numbering *to)
{
    hga_id *parent = NULL;
    hga_status st = hga_new(x->allocator, x->n, sizeof *parent, &parent);
    for (hga_id v = 0; !st && v < x->n; v++) parent[to->id[v]] = to->parent[v] < 0 ? -1 : to->id[to->parent[v]];
    for (hga_id v = 0, end; !st && v < x->n; v = end) {
        for (end = v + 1; end < x->n && parent[end] == parent[v]; end++) continue;
        if (parent[v] >= 0) st = hga_builder_set_children(b, parent[v], v, end - v);
    }
    hga_delete(x->allocator, parent, x->n, sizeof *parent);
    return st;
}

/* Adds labels, and the file's numbers where the graph's differ. */
static hga_status give_names(const import *x, hga_builder *b, const numbering *to)
{
    hga_status st = HGA_OK;
    char number[16];
    for (hga_id v = 0; !st && v < x->n; v++) {
        int64_t label = v < x->node.capacity ? x->node.list[v].label : -1;
        snprintf(number, sizeof number, "%d", v);
        if (label >= 0 || to->moved) st = hga_builder_set_name(b, to->id[v], label >= 0 ? x->text.at + label : number);
        if (!st && v < x->node.capacity && x->node.list[v].mass >= 0)
            st = hga_builder_set_mass(b, to->id[v], x->node.list[v].mass);
    }
    return st;
}

/* Adds the sides of the file: which tokens are queries and which are keys, and the sides of nodes above the tokens. */
static hga_status give_sides(const import *x, hga_builder *b, const numbering *to)
{
    hga_status st = HGA_OK;
    hga_id first[3] = {0, 0, 0}, n[3] = {0, 0, 0};
    for (hga_id v = 0; v < x->n; v++) {
        int side = v < x->node.capacity ? x->node.list[v].side : HGA_SIDE_BOTH;
        HGA_TRY(hga_builder_set_side(b, to->id[v], 1, side));
        if (to->level[v] > 0) continue;
        if (n[side]++ == 0 || to->id[v] < first[side]) first[side] = to->id[v];
    }
    if (n[HGA_SIDE_QUERY] + n[HGA_SIDE_KEY] == 0) return HGA_OK;
    st = hga_builder_set_tokens(b, first[HGA_SIDE_QUERY], n[HGA_SIDE_QUERY], first[HGA_SIDE_KEY], n[HGA_SIDE_KEY]);
done:
    return st;
}

static int edge_before(const import_edge *a, const import_edge *b)
{
    if (a->relation != b->relation) return a->relation < b->relation;
    if (a->dst != b->dst) return a->dst < b->dst;
    if (a->src != b->src) return a->src < b->src;
    return a->type != b->type ? a->type < b->type : a->weight < b->weight;
}

SORT_DEFINE(sort_edges, import_edge, edge_before)

static int same_location(const import_edge *a, const import_edge *b)
{
    return a->relation == b->relation && a->dst == b->dst && a->src == b->src && a->type == b->type;
}

/* Adds edges. An explicit edge counts once however often it is added, so repeated edges are added as blocks of one
   pair. */
static hga_status give_edges(import *x, hga_builder *b, const numbering *to)
{
    hga_status st = HGA_OK;
    for (int64_t i = 0; x->has_strange_types && i < x->edges.n; i++) x->edges.list[i].type = 0;
    sort_edges(x->edges.list, x->edges.n);
    for (int64_t i = 0, end; !st && i < x->edges.n; i = end) {
        const import_edge *e = &x->edges.list[i];
        for (end = i + 1; end < x->edges.n && same_location(e, &x->edges.list[end]); end++) continue;
        hga_id src = to->id[e->src], dst = to->id[e->dst];
        if (end == i + 1) st = hga_builder_add_edge(b, e->relation, src, dst, e->type, e->weight);
        for (; !st && end > i + 1 && e < x->edges.list + end; e++)
            st = hga_builder_add_blocks(
                b, e->relation,
                &(hga_block){.dst = dst, .n_dst = 1, .src = src, .n_src = 1, .type = e->type, .weight = e->weight});
    }
    return st;
}

/* Adds nodes, parents, names, relations and edges, by the graph's numbers. */
static hga_status give_all(import *x, hga_builder *b, numbering *to)
{
    hga_status st = HGA_OK;
    hga_id relation;
    if (x->wish->n_parents > x->n) x->n = x->wish->n_parents;
    HGA_TRY(hga_new(x->allocator, x->n, sizeof *to->parent, &to->parent));
    HGA_TRY(hga_new(x->allocator, x->n, sizeof *to->level, &to->level));
    HGA_TRY(hga_new(x->allocator, x->n, sizeof *to->id, &to->id));
    HGA_TRY(find_parents(x, to));
    HGA_TRY(take_levels(x, to));
    HGA_TRY(number_nodes(x, b, to));
    if (x->n_queries >= 0) HGA_TRY(hga_builder_set_tokens(b, 0, x->n_queries, x->n_queries, x->n - x->n_queries));
    if (x->has_sides) HGA_TRY(give_sides(x, b, to));
    HGA_TRY(give_parents(x, b, to));
    HGA_TRY(give_names(x, b, to));
    if (!x->relations.n) HGA_TRY(import_relation(x, NULL, &relation));
    for (int64_t i = 0; i < x->relations.n; i++)
        HGA_TRY(hga_builder_add_relation(b, x->text.at + x->relations.name[i], NULL));
    HGA_TRY(give_edges(x, b, to));
done:
    return st;
}

/* Returns the numbering to a caller that requested it. */
static hga_status tell_map(const import *x, const numbering *to, hga_node_map *out)
{
    hga_status st = HGA_OK;
    if (!out) return HGA_OK;
    if (x->allocator) out->allocator = *x->allocator;
    out->n_graphs = 1;
    HGA_TRY(hga_new_zero(x->allocator, 1, sizeof *out->id, &out->id));
    HGA_TRY(hga_new(x->allocator, 1, sizeof *out->n, &out->n));
    out->n[0] = x->n;
    HGA_TRY(hga_new(x->allocator, x->n, sizeof **out->id, &out->id[0]));
    /* a reader that made the graph itself did not renumber */
    for (hga_id v = 0; v < x->n; v++) out->id[0][v] = to->id ? to->id[v] : v;
done:
    if (st) hga_node_map_clear(out);
    return st;
}

/* Prepends the file's name to a builder's error. */
static hga_status refused(const import *x, hga_status st)
{
    char what[400];
    if (st == HGA_OK || st == HGA_ENOMEM) return st;
    snprintf(what, sizeof what, "%s", hga_error_detail());
    if (strncmp(what, x->name, strlen(x->name)) == 0) return st;
    return hga_fail(st == HGA_EINVAL ? HGA_EGRAPH : st, "%s: %s", x->name, what);
}

static hga_status build(import *x, numbering *to)
{
    hga_builder *b = NULL;
    hga_status st = hga_builder_create(x->allocator, &b);
    if (!st) st = refused(x, give_all(x, b, to));
    if (!st) st = refused(x, hga_builder_finish(b, &x->made));
    hga_builder_destroy(b);
    return st;
}

/* Builds the graph unless an error occurred before, and frees everything collected. */
hga_status import_close(import *x, hga_status st, hga_graph **out)
{
    const hga_allocator *a = x->allocator;
    numbering to = {0};
    hga_id n = x->wish->n_parents > x->n ? x->wish->n_parents : x->n;
    if (!st && !x->made) st = build(x, &to);
    if (!st && x->wish->attributes) st = import_tell_names(x, x->wish->attributes);
    if (!st) st = tell_map(x, &to, x->wish->node_map);
    if (st && x->wish->attributes) hga_text_free(*x->wish->attributes), *x->wish->attributes = NULL;
    if (st) hga_graph_destroy(x->made), x->made = NULL;
    *out = x->made;
    hga_delete(a, to.parent, n, sizeof *to.parent);
    hga_delete(a, to.level, n, sizeof *to.level);
    hga_delete(a, to.id, n, sizeof *to.id);
    hga_delete(a, x->edges.list, x->edges.capacity, sizeof *x->edges.list);
    hga_delete(a, x->node.list, x->node.capacity, sizeof *x->node.list);
    hga_delete(a, x->text.at, x->text.capacity, 1);
    hga_delete(a, x->notes.list, x->notes.capacity, sizeof *x->notes.list);
    hga_delete(a, x->relations.name, x->relations.capacity, sizeof *x->relations.name);
    hga_delete(a, x->file.at, x->file.capacity, 1);
    return st;
}
