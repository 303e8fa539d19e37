/* write.c: a relation's edges in chunks of rows, and the indices of nodes within their side. */
#include "write.h"
#include "sides.h"

hga_status local_ids_find(const hga_graph *g, local_ids *out)
{
    hga_nodes nodes = hga_graph_nodes(g);
    *out = (local_ids){0};
    if (!is_cross(&nodes)) return HGA_OK;
    hga_status st = hga_new(hga_graph_allocator(g), nodes.n, sizeof *out->rank, &out->rank);
    for (hga_id v = 0; !st && v < nodes.n; v++) out->rank[v] = out->n_side[node_side(&nodes, v)]++;
    return st;
}

void local_ids_clear(const hga_graph *g, local_ids *ids)
{
    hga_delete(hga_graph_allocator(g), ids->rank, hga_graph_nodes(g).n, sizeof *ids->rank);
    ids->rank = NULL;
}

enum { ROWS_AT_A_TIME = 16384, EDGES_AT_A_TIME = 1 << 20 };

/* The number of leading rows that have at most EDGES_AT_A_TIME edges in total; at least one. */
static hga_id rows_in_chunk(const hga_pos *degree, hga_id n)
{
    hga_pos edges = degree[0];
    hga_id rows = 1;
    while (rows < n && edges + degree[rows] <= EDGES_AT_A_TIME) edges += degree[rows++];
    return rows;
}

typedef struct chunks {
    const hga_graph *g;
    hga_id relation;
    hga_pos done, all;
    chunk_visitor visit;
    void *context;
} chunks;

static hga_status visit_chunk(chunks *p, hga_id first, hga_id n)
{
    hga_csr rows = {0};
    hga_status st = relation_rows(p->g, p->relation, first, n, &rows);
    if (st) return st;
    p->done += rows.ptr[n];
    st = p->visit(&rows, p->context);
    hga_csr_clear(&rows);
    return st;
}

/* Visits the rows in chunks; fails if the number of edges visited is not that of the relation. */
hga_status chunks_visit(const hga_graph *g, hga_id relation, chunk_visitor visit, void *context, hga_progress progress,
                        void *progress_context)
{
    hga_status st = HGA_OK;
    hga_id n = hga_graph_nodes(g).n;
    chunks p = {g, relation, 0, relation_view(g, relation).n_edges, visit, context};
    hga_pos *degree = NULL;
    HGA_TRY(hga_new(hga_graph_allocator(g), ROWS_AT_A_TIME, sizeof *degree, &degree));
    for (hga_id first = 0; first < n;) {
        hga_id end = n - first < ROWS_AT_A_TIME ? n : first + ROWS_AT_A_TIME;
        relation_degrees(g, relation, first, end - first, degree);
        for (hga_id start = first; first < end;) {
            hga_id rows = rows_in_chunk(degree + (first - start), end - first);
            HGA_TRY(visit_chunk(&p, first, rows));
            first += rows;
            if (progress && p.all > 0) progress((double)p.done / (double)p.all, progress_context);
        }
    }
    if (p.done != p.all)
        st = hga_fail(HGA_EGRAPH, "relation %d: %lld edges counted, %lld found", relation, (long long)p.all,
                      (long long)p.done);
done:
    hga_delete(hga_graph_allocator(g), degree, ROWS_AT_A_TIME, sizeof *degree);
    return st;
}
