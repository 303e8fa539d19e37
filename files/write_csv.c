/* write_csv.c: the edges of a relation as a table, one line an edge; a weight column where some edge has a weight, two
   name columns where some node has a name. */
#include "write.h"

typedef struct csv {
    output out;
    local_ids ids;
    const hga_graph *graph;
    const char *relation; /* a column, of all relations; NULL without */
    int weighted, named;
} csv;

/* Writes ,"name" with quotes doubled; nothing without a name. */
static void put_name(output *o, const char *name)
{
    output_bytes(o, ",", 1);
    if (!name) return;
    output_bytes(o, "\"", 1);
    for (; *name; name++) output_text(o, *name == '"' ? "\"" : ""), output_bytes(o, name, 1);
    output_bytes(o, "\"", 1);
}

static int has_names(const hga_graph *g)
{
    hga_id v = 0, n = hga_graph_nodes(g).n;
    while (v < n && !hga_graph_name(g, v)) v++;
    return v < n;
}

/* Writes a line for every edge of a chunk of rows. */
static hga_status put_csv_edges(const hga_csr *rows, void *context)
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
            if (w->relation) put_name(&w->out, w->relation);
            if (w->named) {
                put_name(&w->out, hga_graph_name(w->graph, rows->src[e]));
                put_name(&w->out, hga_graph_name(w->graph, rows->first + i));
            }
            output_bytes(&w->out, "\n", 1);
        }
    }
    return output_check(&w->out);
}

hga_status hga_graph_write_csv(const hga_graph *g, hga_id relation, const char *path, hga_progress progress,
                               void *context)
{
    hga_status st = relations_check(g, relation);
    if (st) return st;
    relations all = relations_of(g, relation);
    csv w = {.graph = g, .weighted = all.weighted, .named = has_names(g)};
    HGA_TRY(output_open(&w.out, path));
    HGA_TRY(local_ids_find(g, &w.ids));
    output_text(&w.out, w.weighted ? "source,destination,type,weight" : "source,destination,type");
    output_text(&w.out, all.all ? ",relation" : "");
    output_text(&w.out, w.named ? ",source_name,destination_name\n" : "\n");
    for (hga_id i = 0; i < all.n; i++) {
        hga_id one = relations_at(g, &all, i);
        w.relation = all.all ? relation_view(g, one).name : NULL;
        HGA_TRY(chunks_visit(g, one, put_csv_edges, &w, progress, context));
    }
done:
    local_ids_clear(g, &w.ids);
    return output_close(&w.out, st);
}
