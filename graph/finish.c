/* finish.c: from what a builder collected to an immutable graph. */
#include "builder.h"
#include "builder_relations.h"
#include "builder_parts.h"
#include "interrupt.h"

#include <string.h>

enum { AT_ONCE = 1 << 22 }; /* nodes between two checks for an interrupt */

static hga_status find_levels(const hga_builder *b, hga_graph *g)
{
    hga_status st = hga_new(&g->allocator, b->levels.n + 1, sizeof *g->node.level_ptr, &g->node.level_ptr);
    if (st) return st;
    g->n_levels = (hga_id)b->levels.n;
    g->node.level_ptr[0] = 0;
    for (hga_id l = 0; l < g->n_levels; l++) g->node.level_ptr[l + 1] = g->node.level_ptr[l] + b->levels.size[l];
    g->n = b->n;
    return HGA_OK;
}

/* Queries and keys are the same tokens, or partition all of them. */
static hga_status find_token_sides(const hga_builder *b, hga_graph *g)
{
    hga_id n = g->node.level_ptr[1];
    g->token.n_queries = g->token.n_keys = n;
    if (!b->has_tokens) return HGA_OK;
    g->token.query_first = b->token.query_first, g->token.n_queries = b->token.n_queries;
    g->token.key_first = b->token.key_first, g->token.n_keys = b->token.n_keys;
    if (g->token.query_first < 0 || g->token.n_queries < 0 || g->token.query_first > n - g->token.n_queries)
        return hga_fail(HGA_EGRAPH, "queries %d + %d leave the %d tokens", g->token.query_first, g->token.n_queries, n);
    if (g->token.key_first < 0 || g->token.n_keys < 0 || g->token.key_first > n - g->token.n_keys)
        return hga_fail(HGA_EGRAPH, "keys %d + %d leave the %d tokens", g->token.key_first, g->token.n_keys, n);
    int same = g->token.query_first == g->token.key_first && g->token.n_queries == g->token.n_keys;
    int disjoint = g->token.query_first + g->token.n_queries <= g->token.key_first ||
                   g->token.key_first + g->token.n_keys <= g->token.query_first;
    int64_t covered = same ? g->token.n_queries : (int64_t)g->token.n_queries + g->token.n_keys;
    if ((!same && !disjoint) || covered != n)
        return hga_fail(HGA_EGRAPH,
                        "queries %d + %d and keys %d + %d are neither the same nor two parts of the %d tokens",
                        g->token.query_first, g->token.n_queries, g->token.key_first, g->token.n_keys, n);
    return HGA_OK;
}

/* Sides are declared, or follow from queries and keys that are not the same tokens. */
static hga_status find_sides(const hga_builder *b, hga_graph *g)
{
    int cross = g->token.query_first != g->token.key_first || g->token.n_queries != g->token.n_keys;
    if (b->sides.n == 0 && !cross) return HGA_OK;
    hga_status st = hga_new_zero(&g->allocator, g->n, sizeof *g->node.side, &g->node.side);
    if (st || !g->node.side) return st;
    if (cross) {
        memset(g->node.side + g->token.query_first, HGA_SIDE_QUERY, (size_t)g->token.n_queries);
        memset(g->node.side + g->token.key_first, HGA_SIDE_KEY, (size_t)g->token.n_keys);
    }
    for (int64_t i = 0; i < b->sides.n; i++)
        memset(g->node.side + b->sides.list[i].first, b->sides.list[i].side, (size_t)b->sides.list[i].n);
    return HGA_OK;
}

/* Gives the family's children their parents, which must be on a higher level. */
static hga_status find_family(hga_graph *g, const declared_families *f)
{
    hga_id end_child = f->child + f->n;
    for (hga_id child = f->child, parent = f->parent, left = f->each; child < end_child; child++, left--) {
        if (left == 0) parent++, left = f->each;
        if (g->node.parent[child] >= 0)
            return hga_fail(HGA_EGRAPH, "node %d has two parents, %d and %d", child, g->node.parent[child], parent);
        g->node.parent[child] = parent;
    }
    for (hga_id at = f->child; at < end_child;) {
        hga_id l = hga_graph_level(g, at),
               end = g->node.level_ptr[l + 1] < end_child ? g->node.level_ptr[l + 1] : end_child;
        if (g->node.parent[at] < g->node.level_ptr[l + 1])
            return hga_fail(HGA_EGRAPH, "parent %d of node %d is not on a higher level than %d", g->node.parent[at], at,
                            l);
        at = end;
    }
    return HGA_OK;
}

static hga_status find_parents(const hga_builder *b, hga_graph *g)
{
    if (b->families.n == 0) return HGA_OK;
    hga_status st = hga_new(&g->allocator, g->n, sizeof *g->node.parent, &g->node.parent);
    for (hga_id v = 0; !st && v < g->n; v++) g->node.parent[v] = -1;
    for (int64_t i = 0; !st && i < b->families.n; i++) st = find_family(g, &b->families.list[i]);
    return st;
}

/* A counting sort of the children by parent; the list is dropped again where it is the identity. */
static hga_status find_children(hga_graph *g)
{
    if (!g->node.parent) return HGA_OK;
    hga_id base = g->node.level_ptr[1], above = g->n - base, n = 0;
    hga_status st = hga_new_zero(&g->allocator, (int64_t)above + 1, sizeof *g->children.ptr, &g->children.ptr);
    if (st) return st;
    for (hga_id v = 0; v < g->n; v++)
        if (g->node.parent[v] >= 0) g->children.ptr[g->node.parent[v] - base]++, n++;
    for (hga_id i = 0, sum = 0; i <= above; i++) {
        hga_id here = i < above ? g->children.ptr[i] : 0;
        g->children.ptr[i] = sum, sum += here;
    }
    int identity = 1;
    for (hga_id v = 0; v < n && identity; v++)
        identity = g->node.parent[v] >= 0 && (v == 0 || g->node.parent[v - 1] <= g->node.parent[v]);
    if (identity) return HGA_OK;
    st = hga_new(&g->allocator, n, sizeof *g->children.list, &g->children.list);
    if (st) return st;
    g->children.n = n;
    for (hga_id v = 0; v < g->n; v++)
        if (g->node.parent[v] >= 0) g->children.list[g->children.ptr[g->node.parent[v] - base]++] = v;
    for (hga_id i = above; i > 0; i--) g->children.ptr[i] = g->children.ptr[i - 1];
    g->children.ptr[0] = 0;
    return HGA_OK;
}

/* The children of node v: [*first, the return value) of the child list, or of the nodes. */
static hga_id find_own(const hga_graph *g, hga_id v, hga_id *first)
{
    const hga_id *ptr = g->children.ptr ? g->children.ptr + (v - g->node.level_ptr[1]) : NULL;
    *first = ptr ? ptr[0] : 0;
    return ptr ? ptr[1] : 0;
}

/* In double, since a float stops counting at 2^24 children. */
static double children_mass(const hga_graph *g, hga_id first, hga_id end)
{
    double sum = 0;
    for (hga_id i = first; i < end; i++) sum += (double)g->node.mass[g->children.list ? g->children.list[i] : i];
    return sum;
}

/* A token's position is its index unless the builder has set another. */
static hga_status find_positions(const hga_builder *b, hga_graph *g)
{
    hga_status st = HGA_OK;
    hga_id tokens = g->node.level_ptr[1];
    if (!b->positions.n) return HGA_OK;
    HGA_TRY(hga_new(&g->allocator, tokens, sizeof *g->node.position, &g->node.position));
    for (hga_id v = 0; v < tokens; v++) g->node.position[v] = (float)token_index(g, v);
    for (int64_t i = 0; i < b->positions.n; i++) {
        const positions *p = &b->positions.list[i];
        if (p->first + (int64_t)p->n > tokens)
            return hga_fail(HGA_EGRAPH, "node %d is given a position, but is not a token", p->first + p->n - 1);
        for (hga_id k = 0; k < p->n; k++) g->node.position[p->first + k] = p->position;
    }
done:
    return st;
}

/* The last mass set for a node counts; no mass is negative, so -1 marks a node without one, whose mass is its
   children's sum. Ids ascend with levels, so one pass upwards sees every child before its parent. */
static hga_status find_masses(const hga_builder *b, hga_graph *g)
{
    hga_status st = hga_new(&g->allocator, g->n, sizeof *g->node.mass, &g->node.mass);
    if (st) return st;
    hga_id base = g->node.level_ptr[1];
    float *mass = g->node.mass;
    for (hga_id v = 0, end; v < g->n && !st; v = end) {
        end = g->n - v < AT_ONCE ? g->n : v + AT_ONCE;
        const hga_id tokens = end < base ? end : base;
        for (hga_id i = v; i < tokens; i++) mass[i] = 1;
        for (hga_id i = v < base ? base : v; i < end; i++) mass[i] = -1;
        st = interrupted();
    }
    if (st) return st;
    for (int64_t i = 0; i < b->masses.n; i++)
        for (hga_id k = 0; k < b->masses.list[i].n; k++)
            g->node.mass[b->masses.list[i].first + k] = b->masses.list[i].mass;
    for (hga_id v = base; v < g->n; v++) {
        hga_id first, end = find_own(g, v, &first);
        if (g->node.mass[v] < 0) g->node.mass[v] = first < end ? (float)children_mass(g, first, end) : 1;
    }
    return HGA_OK;
}

/* A node's span is its children's hull when they fill it, else none. */
static void find_span(hga_graph *g, hga_id v)
{
    hga_id first = INT32_MAX, last = -1, tokens = 0, i, end = find_own(g, v, &i);
    int filled = i < end;
    for (; i < end; i++) {
        hga_id child = g->children.list ? g->children.list[i] : i, from = g->node.span_first[child],
               to = g->node.span_last[child];
        filled &= from <= to;
        tokens += to - from + 1;
        if (from < first) first = from;
        if (to > last) last = to;
    }
    filled = filled && last - first + 1 == tokens;
    g->node.span_first[v] = filled ? first : 0, g->node.span_last[v] = filled ? last : -1;
}

/* A token spans itself; a node spans its children's tokens where these have no gaps, else nothing. */
static hga_status find_spans(hga_graph *g)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_new(&g->allocator, g->n, sizeof *g->node.span_first, &g->node.span_first));
    HGA_TRY(hga_new(&g->allocator, g->n, sizeof *g->node.span_last, &g->node.span_last));
    const hga_id tokens = g->node.level_ptr[1];
    hga_id *first = g->node.span_first, *last = g->node.span_last;
    for (hga_id v = 0, end; v < tokens; v = end) {
        end = tokens - v < AT_ONCE ? tokens : v + AT_ONCE;
        for (hga_id i = v; i < end; i++) first[i] = last[i] = i;
        HGA_TRY(interrupted());
    }
    HGA_TRY(interrupted());
    for (hga_id v = tokens; v < g->n; v++) {
        find_span(g, v);
        HGA_TRY(interrupted_at(v));
    }
done:
    return st;
}

/* ---- relations ---- */

/* The relation owns the order: it takes the draft's memory where that lists all nodes, else a copy with capacity for
   all. */
static hga_status take_dst_order(const hga_graph *g, draft *d, stored_relation *r)
{
    if (d->n_dst_order > g->n)
        return hga_fail(HGA_EGRAPH, "relation %s: dst_order lists %d of %d nodes", d->name, d->n_dst_order, g->n);
    if (d->n_dst_order == g->n) {
        r->order.dst = d->dst_order, d->dst_order = NULL;
        return HGA_OK;
    }
    hga_status st = hga_new(&g->allocator, g->n, sizeof *r->order.dst, &r->order.dst);
    if (!st) memcpy(r->order.dst, d->dst_order, (size_t)d->n_dst_order * sizeof *r->order.dst);
    return st;
}

/* Appends the nodes that the order leaves out, and inverts it. */
static hga_status complete_order(const hga_graph *g, draft *d, stored_relation *r)
{
    hga_status st = take_dst_order(g, d, r);
    if (!st) st = hga_new(&g->allocator, g->n, sizeof *r->order.dst_rank, &r->order.dst_rank);
    if (st) return st;
    const hga_id n = g->n, n_listed = d->n_dst_order;
    hga_id *order = r->order.dst, *rank = r->order.dst_rank, at = 0;
    memset(rank, 0xff, (size_t)n * sizeof *rank); /* -1: none yet */
    for (; at < n_listed; at++) {
        const hga_id v = order[at];
        if (v < 0 || v >= n)
            return hga_fail(HGA_EGRAPH, "relation %s: dst_order[%d] = %d is not a node", d->name, at, v);
        if (rank[v] >= 0) return hga_fail(HGA_EGRAPH, "relation %s: dst_order lists node %d twice", d->name, v);
        rank[v] = at;
    }
    for (hga_id v = 0; v < n && at < n; v++)
        if (rank[v] < 0) rank[v] = at, order[at++] = v;
    return HGA_OK;
}

/* The order's entries are nodes, each at most once. */
static hga_status check_src_order(const hga_graph *g, const draft *d)
{
    hga_status st = HGA_OK;
    uint8_t *seen = NULL;
    HGA_TRY(hga_new_zero(&g->allocator, g->n, 1, &seen));
    const hga_id *listed = d->src_order, n = g->n, n_listed = d->n_src_order;
    for (hga_id i = 0; i < n_listed; i++) {
        const hga_id u = listed[i];
        if (u < 0 || u >= n)
            HGA_TRY(hga_fail(HGA_EGRAPH, "relation %s: src_order[%d] = %d is not a node", d->name, i, u));
        if (seen[u]) HGA_TRY(hga_fail(HGA_EGRAPH, "relation %s: src_order lists node %d twice", d->name, u));
        seen[u] = 1;
    }
done:
    hga_delete(&g->allocator, seen, g->n, 1);
    return st;
}

/* The draft's orders, checked and completed, become the relation's. */
static hga_status finish_orders(const hga_graph *g, draft *d, stored_relation *r)
{
    hga_status st = HGA_OK;
    if (d->dst_order) st = complete_order(g, d, r);
    if (st || !d->src_order) return st;
    st = check_src_order(g, d);
    if (st) return st;
    r->order.src = d->src_order, r->order.n_src = d->n_src_order;
    d->src_order = NULL;
    return HGA_OK;
}

/* The draft's explicit edges as rows that are sorted and have each edge once. */
static hga_status finish_edges(const hga_graph *g, draft *d, stored_relation *r)
{
    if (d->edges.n == 0) return HGA_OK;
    hga_status st = sparse_compress(&g->allocator, g->n, &d->edges, d->sums, r);
    if (st) return st;
    for (hga_pos e = 0; r->edges.type && e < r->edges.n; e++) relation_note_types(r, r->edges.type[e]);
    relation_note_types(r, 0);
    r->weighted |= r->edges.weight != NULL;
    return __builtin_add_overflow(r->n_edges, r->edges.n, &r->n_edges)
               ? hga_fail(HGA_EOVERFLOW, "relation %s: more than 2^63 edges", d->name)
               : HGA_OK;
}

/* Makes a relation of every draft. */
static hga_status find_relations(hga_builder *b, hga_graph *g)
{
    hga_status st = hga_new_zero(&g->allocator, b->drafts.n, sizeof *g->relation, &g->relation);
    if (st) return st;
    g->n_relations = (hga_id)b->drafts.n;
    g->names = b->drafts.names;
    memset(&b->drafts.names, 0, sizeof b->drafts.names);
    for (hga_id i = 0; !st && i < g->n_relations; i++) {
        draft *d = &b->drafts.list[i];
        stored_relation *r = &g->relation[i];
        memcpy(r->name, d->name, sizeof r->name);
        st = finish_orders(g, d, r);
        if (!st) st = relation_blocks(g, d, r);
        if (!st) st = interrupted();
        if (!st) st = finish_edges(g, d, r);
        if (!st) st = interrupted();
        if (!st) st = choices_finish(d, r);
    }
    return st;
}

/* Derives the graph step by step from what the builder collected, then checks all rules. */
static hga_status make_graph(hga_builder *b, hga_graph *g)
{
    hga_status st = HGA_OK;
    if (b->levels.n == 0) return hga_fail(HGA_EGRAPH, "the graph has no level of tokens");
    HGA_TRY(find_levels(b, g));
    HGA_TRY(find_token_sides(b, g));
    HGA_TRY(find_sides(b, g));
    HGA_TRY(find_parents(b, g));
    HGA_TRY(find_children(g));
    HGA_TRY(interrupted());
    HGA_TRY(find_masses(b, g));
    HGA_TRY(interrupted());
    HGA_TRY(find_positions(b, g));
    HGA_TRY(find_spans(g));
    HGA_TRY(find_relations(b, g));
    HGA_TRY(labels_finish(b, g));
    HGA_TRY(kinds_finish(b, g));
    g->longer = b->longer, b->longer = NULL;
    HGA_TRY(longer_check(g));
    HGA_TRY(parts_finish(b, g));
    for (const hga_rule *rule = hga_graph_rules(); rule->name; rule++) {
        HGA_TRY(interrupted());
        HGA_TRY(rule->check(g));
    }
done:
    return st;
}

hga_status hga_builder_finish(hga_builder *b, hga_graph **out)
{
    *out = NULL;
    hga_graph *g = NULL;
    hga_status st = hga_new_zero(&b->allocator, 1, sizeof *g, &g);
    if (!st) {
        g->owners = 1;
        g->allocator = b->allocator;
        g->claims = b->claims;
        st = make_graph(b, g);
        if (st) graph_free(g), g = NULL;
    }
    builder_clear(b);
    *out = g;
    return st;
}
