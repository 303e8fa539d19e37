/* neighbours.c: the undirected graph of all relations and the tree, for orders of nodes. */
#include "neighbours.h"
#include "interrupt.h"
#include "sort.h"

#include <string.h>

enum { ROWS_AT_ONCE = 4096 };

static hga_status visit_edges(const hga_graph *g, hga_id relation, hga_id first, hga_id n, edge_visit visit,
                              void *context)
{
    hga_csr rows;
    hga_status st = hga_graph_rows(g, relation, first, n, &rows);
    for (hga_id i = 0; i < n && !st; i++)
        for (hga_pos e = rows.ptr[i]; e < rows.ptr[i + 1] && !st; e++) st = visit(context, rows.src[e], first + i);
    hga_csr_clear(&rows);
    return st;
}

hga_status edges_visit(const hga_graph *g, edge_visit visit, void *context)
{
    hga_status st = HGA_OK;
    hga_nodes nodes = hga_graph_nodes(g);
    for (hga_id r = 0; r < nodes.n_relations; r++)
        for (hga_id v = 0; v < nodes.n && !st; v += ROWS_AT_ONCE) {
            st = visit_edges(g, r, v, nodes.n - v < ROWS_AT_ONCE ? nodes.n - v : ROWS_AT_ONCE, visit, context);
            if (!st) st = interrupted();
        }
    return st;
}

/* ---- both ends of every edge ---- */

/* The relations' edges, and a child's to its parent. */
static hga_status visit_all(const hga_graph *g, edge_visit visit, void *context)
{
    hga_nodes nodes = hga_graph_nodes(g);
    hga_status st = edges_visit(g, visit, context);
    for (hga_id v = 0; nodes.parent && v < nodes.n && !st; v++)
        if (nodes.parent[v] >= 0) st = visit(context, v, nodes.parent[v]);
    return st;
}

static hga_status count_ends(void *context, hga_id u, hga_id v)
{
    neighbours *x = context;
    if (u != v) x->ptr[u + 1]++, x->ptr[v + 1]++;
    return HGA_OK;
}

/* ptr[v] moves as row v fills, so that afterwards each row ends where the next began. */
static hga_status put_ends(void *context, hga_id u, hga_id v)
{
    neighbours *x = context;
    if (u != v) x->node[x->ptr[u]++] = v, x->node[x->ptr[v]++] = u;
    return HGA_OK;
}

static int node_before(const int64_t *a, const int64_t *b) { return *a < *b; }

SORT_DEFINE(sort_nodes, int64_t, node_before)

/* Sorts each row and drops repeated neighbours; rows move up to close the gaps. */
static hga_status join_twins(neighbours *x)
{
    hga_status st = HGA_OK;
    hga_pos used = 0;
    for (hga_id v = 0; v < x->n && !st; v++) {
        hga_pos first = x->ptr[v], end = x->ptr[v + 1], start = used;
        sort_nodes(x->node + first, end - first);
        for (hga_pos e = first; e < end; e++)
            if (used == start || x->node[used - 1] != x->node[e]) x->node[used++] = x->node[e];
        x->ptr[v] = start;
        st = interrupted_at(v);
    }
    x->ptr[x->n] = used;
    return st;
}

/* Counts both ends of every edge, lists them, and drops repeated ones. */
hga_status neighbours_find(const hga_graph *g, neighbours *out)
{
    hga_status st = HGA_OK;
    *out = (neighbours){.n = hga_graph_nodes(g).n, .allocator = *hga_graph_allocator(g)};
    HGA_TRY(hga_new_zero(&out->allocator, (int64_t)out->n + 1, sizeof *out->ptr, &out->ptr));
    HGA_TRY(visit_all(g, count_ends, out));
    for (hga_id v = 0; v < out->n; v++) out->ptr[v + 1] += out->ptr[v];
    out->capacity = out->ptr[out->n];
    HGA_TRY(hga_new(&out->allocator, out->capacity, sizeof *out->node, &out->node));
    HGA_TRY(visit_all(g, put_ends, out));
    memmove(out->ptr + 1, out->ptr, (size_t)out->n * sizeof *out->ptr);
    out->ptr[0] = 0;
    HGA_TRY(join_twins(out));
done:
    if (st) neighbours_clear(out);
    return st;
}

void neighbours_clear(neighbours *x)
{
    hga_delete(&x->allocator, x->ptr, (int64_t)x->n + 1, sizeof *x->ptr);
    hga_delete(&x->allocator, x->node, x->capacity, sizeof *x->node);
    *x = (neighbours){0};
}
