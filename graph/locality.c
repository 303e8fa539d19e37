/* locality.c: how near each other the numbers of an edge's two nodes are. */
#include "graph.h"
#include "neighbours.h"

/* Rows that the engine computes as one panel. */
enum { PANEL_ROWS = 128 };

typedef struct reader_count {
    hga_pos *before; /* [n + 1]: edges into the nodes before one */
    hga_pos each;    /* edges of one of the parts */
    int64_t *reader; /* [n]: the last panel that read a node's row; 0: none yet */
    int64_t panel;   /* the current one, counted over all relations from 1 */
    hga_id first;    /* its first row */
    double distance; /* the sum */
    hga_locality *found;
} reader_count;

static hga_status count_edge(void *context, hga_id u, hga_id v)
{
    reader_count *x = context;
    (void)u;
    x->before[v + 1]++;
    return HGA_OK;
}

static hga_pos part_of(const reader_count *x, hga_id v) { return x->before[v] / x->each; }

/* A visitor of edges: adds up distances, and the rows that a panel reads for the first time. */
static hga_status look_at_edge(void *context, hga_id u, hga_id v)
{
    reader_count *x = context;
    hga_id far = u < v ? v - u : u - v, first = v - v % PANEL_ROWS;
    if (x->panel == 0 || first != x->first) x->panel++, x->first = first;
    if (x->reader[u] != x->panel) x->reader[u] = x->panel, x->found->gathered++;
    if (far > x->found->bandwidth) x->found->bandwidth = far;
    x->found->cut += part_of(x, u) != part_of(x, v);
    x->distance += far;
    return HGA_OK;
}

hga_status hga_graph_locality(const hga_graph *g, hga_id parts, hga_locality *out)
{
    hga_status st = HGA_OK;
    reader_count x = {.found = out};
    const hga_allocator *a = hga_graph_allocator(g);
    *out = (hga_locality){0};
    if (parts < 1) return hga_fail(HGA_EINVAL, "%d parts", parts);
    HGA_TRY(hga_new_zero(a, (int64_t)g->n + 1, sizeof *x.before, &x.before));
    HGA_TRY(hga_new_zero(a, g->n, sizeof *x.reader, &x.reader));
    HGA_TRY(edges_visit(g, count_edge, &x));
    for (hga_id v = 0; v < g->n; v++) x.before[v + 1] += x.before[v];
    out->edges = x.before[g->n], x.each = out->edges / parts + 1;
    HGA_TRY(edges_visit(g, look_at_edge, &x));
    out->distance = out->edges ? x.distance / (double)out->edges : 0;
done:
    hga_delete(a, x.before, (int64_t)g->n + 1, sizeof *x.before);
    hga_delete(a, x.reader, g->n, sizeof *x.reader);
    return st;
}
