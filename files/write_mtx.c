/* write_mtx.c: a relation as a Matrix Market file; rows are destinations, columns sources, the value is the edge's
   weight. */
#include "sides.h"
#include "write.h"

typedef struct mtx {
    output out;
    local_ids ids;
    int weighted;
} mtx;

/* The size of a matrix side: all nodes, or in cross-attention the size of the largest side that contains a destination
   of the relation. */
static hga_status find_extent(const hga_graph *g, hga_id relation, const local_ids *ids, hga_id *extent)
{
    hga_status st = HGA_OK;
    hga_nodes nodes = hga_graph_nodes(g);
    hga_pos *degree = NULL;
    *extent = ids->rank ? 0 : nodes.n;
    if (!ids->rank) return HGA_OK;
    HGA_TRY(hga_new(hga_graph_allocator(g), nodes.n, sizeof *degree, &degree));
    relation_degrees(g, relation, 0, nodes.n, degree);
    for (hga_id v = 0; v < nodes.n; v++) {
        hga_id n = ids->n_side[node_side(&nodes, v)];
        if (degree[v] > 0 && n > *extent) *extent = n;
    }
done:
    hga_delete(hga_graph_allocator(g), degree, nodes.n, sizeof *degree);
    return st;
}

/* Columns are the rows of the transpose, which has the same tree. */
static hga_status find_extents(const hga_graph *g, hga_id relation, const local_ids *ids, hga_id *rows, hga_id *columns)
{
    hga_status st = HGA_OK;
    hga_graph *transposed = NULL;
    *rows = *columns = hga_graph_nodes(g).n;
    if (!ids->rank) return HGA_OK;
    HGA_TRY(find_extent(g, relation, ids, rows));
    HGA_TRY(hga_graph_transpose(g, &transposed));
    HGA_TRY(find_extent(transposed, relation_transposed(relation), ids, columns));
done:
    hga_graph_destroy(transposed);
    return st;
}

/* Writes a line for every edge of a chunk of rows; indices count from 1. */
static hga_status put_mtx_edges(const hga_csr *rows, void *context)
{
    mtx *w = context;
    const hga_id *local = w->ids.rank;
    for (hga_id i = 0; i < rows->n; i++) {
        hga_id v = local ? local[rows->first + i] : rows->first + i;
        for (hga_pos e = rows->ptr[i]; e < rows->ptr[i + 1]; e++) {
            hga_id u = local ? local[rows->src[e]] : rows->src[e];
            output_integer(&w->out, (int64_t)v + 1);
            output_bytes(&w->out, " ", 1);
            output_integer(&w->out, (int64_t)u + 1);
            if (w->weighted) output_bytes(&w->out, " ", 1), output_real(&w->out, rows->weight[e]);
            output_bytes(&w->out, "\n", 1);
        }
    }
    return output_check(&w->out);
}

hga_status hga_graph_write_mtx(const hga_graph *g, hga_id relation, const char *path, hga_progress progress,
                               void *context)
{
    hga_status st = relation_check(g, relation);
    if (st) return st;
    hga_relation r = relation_view(g, relation);
    hga_id n_rows, n_columns;
    mtx w = {.weighted = r.weighted};
    HGA_TRY(output_open(&w.out, path));
    HGA_TRY(local_ids_find(g, &w.ids));
    HGA_TRY(find_extents(g, relation, &w.ids, &n_rows, &n_columns));
    output_text(&w.out, w.weighted ? "%%MatrixMarket matrix coordinate real general\n"
                                   : "%%MatrixMarket matrix coordinate pattern general\n");
    output_integer(&w.out, n_rows), output_text(&w.out, " ");
    output_integer(&w.out, n_columns), output_text(&w.out, " ");
    output_integer(&w.out, r.n_edges), output_text(&w.out, "\n");
    HGA_TRY(chunks_visit(g, relation, put_mtx_edges, &w, progress, context));
done:
    local_ids_clear(g, &w.ids);
    return output_close(&w.out, st);
}
