/* check.c: the rules of graphs, one named function each. A finished graph obeys them all; they guard against faults of
   builders, files and this library, and `hga check` prints them. */
#include "within.h"
#include "blocks.h"
#include "graph.h"

static hga_status levels_partition_the_nodes(const hga_graph *g)
{
    for (hga_id l = 0; l < g->n_levels; l++)
        if (g->node.level_ptr[l] > g->node.level_ptr[l + 1])
            return hga_fail(HGA_EGRAPH, "level %d has %d nodes", l, g->node.level_ptr[l + 1] - g->node.level_ptr[l]);
    if (g->node.level_ptr[0] != 0 || g->node.level_ptr[g->n_levels] != g->n)
        return hga_fail(HGA_EGRAPH, "levels end at %d of %d nodes", g->node.level_ptr[g->n_levels], g->n);
    return HGA_OK;
}

/* The rule that a parent is on a higher level than its child. */
static hga_status parents_are_higher(const hga_graph *g)
{
    hga_id l = 0;
    for (hga_id v = 0; g->node.parent && v < g->n; v++) {
        while (v >= g->node.level_ptr[l + 1]) l++;
        if (g->node.parent[v] == -1) continue;
        if (g->node.parent[v] < g->node.level_ptr[l + 1] || g->node.parent[v] >= g->n)
            return hga_fail(HGA_EGRAPH, "parent %d of node %d is not a node of a higher level", g->node.parent[v], v);
    }
    return HGA_OK;
}

/* The rule that lists of children agree with the parents: every listed child has this parent, and none is missing. */
static hga_status children_match_parents(const hga_graph *g)
{
    if (!g->children.ptr) return HGA_OK;
    hga_id base = g->node.level_ptr[1], n = 0;
    for (hga_id p = base; p < g->n; p++)
        for (hga_id i = g->children.ptr[p - base]; i < g->children.ptr[p - base + 1]; i++, n++) {
            hga_id child = g->children.list ? g->children.list[i] : i;
            if (g->node.parent[child] != p)
                return hga_fail(HGA_EGRAPH, "node %d is listed as a child of %d but its parent is %d", child, p,
                                g->node.parent[child]);
        }
    for (hga_id v = 0; v < g->n; v++) n -= g->node.parent[v] >= 0;
    return n ? hga_fail(HGA_EGRAPH, "%d more children than nodes with a parent", n) : HGA_OK;
}

static hga_status masses_are_finite(const hga_graph *g)
{
    enum { LARGE = 0x7f000000 }; /* the bits of 1.7e38; floats above 0 ascend as their bits do */
    const float *mass = g->node.mass;
    const hga_id n = g->n;
    if (!may_leave(mass, n, 0, LARGE)) return HGA_OK;
    for (hga_id v = 0; v < n; v++)
        if (!(mass[v] >= 0 && mass[v] < 3e38f))
            return hga_fail(HGA_EGRAPH, "mass %g of node %d is not finite and >= 0", (double)mass[v], v);
    return HGA_OK;
}

static hga_status spans_are_tokens(const hga_graph *g)
{
    const hga_id *first = g->node.span_first, *last = g->node.span_last, n = g->n, tokens = g->node.level_ptr[1];
    if (!may_leave(first, n, 0, INT32_MAX) && !may_leave(last, n, -1, tokens - 1)) return HGA_OK;
    for (hga_id v = 0; v < n; v++)
        if (first[v] <= last[v] && (first[v] < 0 || last[v] >= tokens))
            return hga_fail(HGA_EGRAPH, "span %d .. %d of node %d leaves the %d tokens", first[v], last[v], v, tokens);
    return HGA_OK;
}

static hga_status queries_and_keys_are_tokens(const hga_graph *g)
{
    hga_id n = g->node.level_ptr[1];
    if (g->token.query_first < 0 || g->token.n_queries < 0 || g->token.query_first > n - g->token.n_queries)
        return hga_fail(HGA_EGRAPH, "queries %d + %d leave the %d tokens", g->token.query_first, g->token.n_queries, n);
    if (g->token.key_first < 0 || g->token.n_keys < 0 || g->token.key_first > n - g->token.n_keys)
        return hga_fail(HGA_EGRAPH, "keys %d + %d leave the %d tokens", g->token.key_first, g->token.n_keys, n);
    return HGA_OK;
}

static hga_status relation_names_differ(const hga_graph *g)
{
    for (hga_id i = 0; i < g->n_relations; i++)
        if (hga_graph_find_relation(g, g->relation[i].name) != i)
            return hga_fail(HGA_EGRAPH, "two relations are named %s", g->relation[i].name);
    return HGA_OK;
}

static hga_status order_is_permutation(const stored_relation *r, hga_id n)
{
    const hga_id *order = r->order.dst, *rank = r->order.dst_rank;
    for (hga_id p = 0; p < n; p++)
        if (order[p] < 0 || order[p] >= n || rank[order[p]] != p)
            return hga_fail(HGA_EGRAPH, "relation %s: dst_order[%d] = %d is not the inverse of its rank", r->name, p,
                            order[p]);
    return HGA_OK;
}

static hga_status order_lists_nodes(const stored_relation *r, hga_id n)
{
    const hga_id *order = r->order.src, n_listed = r->order.n_src;
    if (!may_leave(order, n_listed, 0, n - 1)) return HGA_OK;
    for (hga_id p = 0; p < n_listed; p++)
        if (order[p] < 0 || order[p] >= n)
            return hga_fail(HGA_EGRAPH, "relation %s: src_order[%d] = %d is not a node", r->name, p, order[p]);
    return HGA_OK;
}

/* The rule of a relation's orders: dst_order is a permutation, src_order lists nodes. */
static hga_status orders_are_permutations(const hga_graph *g)
{
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < g->n_relations; i++) {
        const stored_relation *r = &g->relation[i];
        if (r->order.dst) HGA_TRY(order_is_permutation(r, g->n));
        if (r->order.src) HGA_TRY(order_lists_nodes(r, g->n));
    }
done:
    return st;
}

/* The rule that all rows and columns of blocks are nodes. */
static hga_status blocks_stay_inside(const hga_graph *g)
{
    for (hga_id i = 0; i < g->n_relations; i++) {
        const stored_relation *r = &g->relation[i];
        for (hga_pos b = 0; r->blocks && b < r->n_blocks; b++) {
            hga_status st = block_check(&r->blocks[b], g->n, r->order.src ? r->order.n_src : g->n, g->n, r->name, b);
            if (st) return st;
        }
    }
    return HGA_OK;
}

/* Row v's sources are nodes; its edges ascend by source and type, each once. */
static hga_status row_is_sorted(const stored_relation *r, hga_id n, hga_id v)
{
    for (hga_pos e = r->edges.ptr[v]; e < r->edges.ptr[v + 1]; e++) {
        if (r->edges.src[e] < 0 || r->edges.src[e] >= n)
            return hga_fail(HGA_EGRAPH, "relation %s, edge %lld: source %d is not a node", r->name, (long long)e,
                            r->edges.src[e]);
        if (e == r->edges.ptr[v]) continue;
        int32_t before = r->edges.type ? r->edges.type[e - 1] : 0, here = r->edges.type ? r->edges.type[e] : 0;
        if (r->edges.src[e - 1] > r->edges.src[e] || (r->edges.src[e - 1] == r->edges.src[e] && before >= here))
            return hga_fail(HGA_EGRAPH, "relation %s: the edges of row %d are not in order", r->name, v);
    }
    return HGA_OK;
}

/* The rule of explicit edges, for all rows of all relations. */
static hga_status explicit_rows_are_sorted(const hga_graph *g)
{
    for (hga_id i = 0; i < g->n_relations; i++) {
        const stored_relation *r = &g->relation[i];
        for (hga_id v = 0; r->edges.ptr && v < g->n; v++) {
            hga_status st = row_is_sorted(r, g->n, v);
            if (st) return st;
        }
    }
    return HGA_OK;
}

const hga_rule *hga_graph_rules(void)
{
    static const hga_rule rules[] = {
        {"levels_partition_the_nodes", "levels are runs of nodes, tokens first", levels_partition_the_nodes},
        {"parents_are_higher", "a node's parent is on a higher level", parents_are_higher},
        {"children_match_parents", "the lists of children say what the parents say", children_match_parents},
        {"masses_are_finite", "every mass is finite and not negative", masses_are_finite},
        {"spans_are_tokens", "spans lie among the tokens", spans_are_tokens},
        {"queries_and_keys_are_tokens", "the query and key ranges lie among the tokens", queries_and_keys_are_tokens},
        {"relation_names_differ", "no two relations share a name", relation_names_differ},
        {"orders_are_permutations", "a relation's orders list nodes once", orders_are_permutations},
        {"blocks_stay_inside", "every block's rows, columns, types and positions exist", blocks_stay_inside},
        {"rows_can_be_listed", "blocks give no row more edges than 2^16, or four for every node", rows_can_be_listed},
        {"instances_can_be_visited", "no block's instances have more rows together than 2^28, or 1024 for every node",
         instances_can_be_visited},
        {"explicit_rows_are_sorted", "explicit edges ascend by source and type within a row, each once",
         explicit_rows_are_sorted},
        {NULL, NULL, NULL},
    };
    return rules;
}
