/* write_dot.c: a relation as a graphviz drawing, one rank and one colour per level. */
#include "write.h"

typedef struct dot {
    output out;
    int typed;
    const char *relation; /* an edge label, in a drawing of all relations; else NULL */
} dot;

/* Escapes quotes and backslashes. */
static void put_escaped(output *o, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') output_text(o, "\\");
        output_bytes(o, text, 1);
    }
}

/* The anchor nodes form a chain, so that level l + 1 is drawn above level l whatever the edges are. */
static void put_level(output *o, const hga_graph *g, const hga_nodes *nodes, hga_id l)
{
    static const char *const colours[] = {"#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc",
                                          "#d9d2e9", "#d0e0e3", "#fce5cd", "#ead1dc"};
    output_text(o, "  {\n    rank=same;\n    level_"), output_integer(o, l);
    output_text(o, " [shape=plaintext, style=\"\", label=\"level "), output_integer(o, l), output_text(o, "\"];\n");
    for (hga_id v = nodes->level_ptr[l]; v < nodes->level_ptr[l + 1]; v++) {
        output_text(o, "    "), output_integer(o, v);
        output_text(o, " [label=\""), output_integer(o, v);
        if (hga_graph_name(g, v)) output_text(o, " "), put_escaped(o, hga_graph_name(g, v));
        if (l > 0 && nodes->span_first[v] <= nodes->span_last[v]) {
            output_text(o, "\\n["), output_integer(o, nodes->span_first[v]);
            output_text(o, ", "), output_integer(o, nodes->span_last[v]), output_text(o, "]");
        }
        output_text(o, "\", fillcolor=\""), output_text(o, colours[(size_t)l % (sizeof colours / sizeof *colours)]),
            output_text(o, "\"];\n");
    }
    output_text(o, "  }\n");
}

static void put_dot_nodes(output *o, const hga_graph *g, const hga_nodes *nodes)
{
    for (hga_id l = 0; l < nodes->n_levels; l++) put_level(o, g, nodes, l);
    for (hga_id l = 0; l + 1 < nodes->n_levels; l++) {
        output_text(o, "  level_"), output_integer(o, l), output_text(o, " -> level_"),
            output_integer(o, (int64_t)l + 1);
        output_text(o, " [style=invis, constraint=true];\n");
    }
}

/* Writes an arrow for every edge of a chunk of rows, with its type or relation where the drawing shows them. */
static hga_status put_dot_edges(const hga_csr *rows, void *context)
{
    dot *w = context;
    for (hga_id i = 0; i < rows->n; i++)
        for (hga_pos e = rows->ptr[i]; e < rows->ptr[i + 1]; e++) {
            output_text(&w->out, "  "), output_integer(&w->out, rows->src[e]);
            output_text(&w->out, " -> "), output_integer(&w->out, (int64_t)rows->first + i);
            if (w->relation)
                output_text(&w->out, " [label=\""), put_escaped(&w->out, w->relation), output_text(&w->out, "\"]");
            else if (w->typed)
                output_text(&w->out, " [label=\""), output_integer(&w->out, rows->type[e]), output_text(&w->out, "\"]");
            output_text(&w->out, ";\n");
        }
    return output_check(&w->out);
}

/* Levels are ranks, and edges of relations do not constrain them. */
hga_status hga_graph_write_dot(const hga_graph *g, hga_id relation, const char *path, hga_pos max_edges)
{
    hga_status st = relations_check(g, relation);
    if (st) return st;
    relations all = relations_of(g, relation);
    const char *name = all.all ? "all relations" : relation_view(g, relation).name;
    hga_nodes nodes = hga_graph_nodes(g);
    if (all.n_edges > max_edges)
        return hga_fail(HGA_EINVAL, "%s%s %s %lld edges, more than max_edges, %lld", all.all ? "" : "relation ", name,
                        all.all ? "have" : "has", (long long)all.n_edges, (long long)max_edges);
    dot w = {.typed = !all.all && relation_view(g, relation).n_types > 1};
    HGA_TRY(output_open(&w.out, path));
    output_text(&w.out, "digraph \""), put_escaped(&w.out, name), output_text(&w.out, "\"");
    output_text(&w.out, " {\n  rankdir=BT;\n  node [shape=box, style=filled];\n  edge [constraint=false];\n");
    put_dot_nodes(&w.out, g, &nodes);
    for (hga_id i = 0; i < all.n; i++) {
        hga_id one = relations_at(g, &all, i);
        w.relation = all.all ? relation_view(g, one).name : NULL;
        HGA_TRY(chunks_visit(g, one, put_dot_edges, &w, NULL, NULL));
    }
    output_text(&w.out, "}\n");
done:
    return output_close(&w.out, st);
}
