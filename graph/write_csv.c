/* write_csv.c: the edges of a relation as a table, one line an edge; the weight is a column where some edge has one. */
#include "write.h"

typedef struct csv {
    output out;
    local_ids ids;
    int weighted;
} csv;

static hga_status put_rows(const hga_csr *rows, void *context)
{
    csv *w = context;
    const hga_id *local = w->ids.rank;
    for (hga_id i = 0; i < rows->n; i++) {
        hga_id v = local ? local[rows->first + i] : rows->first + i;
        for (hga_pos e = rows->ptr[i]; e < rows->ptr[i + 1]; e++) {
            output_integer(&w->out, local ? local[rows->src[e]] : rows->src[e]);
            output_bytes(&w->out, ",", 1), output_integer(&w->out, v);
            output_bytes(&w->out, ",", 1), output_integer(&w->out, rows->type[e]);
            if (w->weighted) output_bytes(&w->out, ",", 1), output_real(&w->out, rows->weight[e]);
            output_bytes(&w->out, "\n", 1);
        }
    }
    return output_check(&w->out);
}

hga_status hga_graph_write_csv(const hga_graph *g, hga_id relation, const char *path, hga_progress progress,
                               void *context)
{
    hga_status st = relation_check(g, relation);
    if (st) return st;
    csv w = {.weighted = hga_graph_relation(g, relation).weighted};
    HGA_TRY(output_open(&w.out, path));
    HGA_TRY(local_ids_find(g, &w.ids));
    output_text(&w.out, w.weighted ? "source,destination,type,weight\n" : "source,destination,type\n");
    HGA_TRY(pieces_visit(g, relation, put_rows, &w, progress, context));
done:
    local_ids_clear(g, &w.ids);
    return output_close(&w.out, st);
}
