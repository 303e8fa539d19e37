/* export.c: hga export, a graph in another format. */
#include <string.h>

#include "arguments.h"
#include "command.h"
#include "graph_argument.h"

typedef struct arguments {
    graph_argument source;
    graph_target target;
} arguments;

static int check(void *input)
{
    arguments *a = input;
    chosen_by_target(&a->source.typed, &a->target, &a->source.chosen);
    return graph_target_check(&a->target);
}

int run_export(int argc, char **argv)
{
    const option_part parts[] = {
        {&target_list, offsetof(arguments, target), NULL, 0}, {&graph_list, offsetof(arguments, source), NULL, 0}, {0}};
    const option_list line = {
        .parts = parts,
        .check = check,
        .words = "GRAPH|VARIANT",
        .says = "A graph in another format. It is read from JSON (- is standard input) or from a file of edges: .mtx, "
                ".csv, .tsv, .edges, .graphml, .gml, .graph (METIS's), .npy or .npz (scipy's); or a tree: .html, .md, "
                ".npy of parents or of a linkage. It is written as .json, .npy, .mtx, .csv, .dot, .graphml, .gexf, "
                ".graph (METIS's); or as a picture of who attends to whom: .svg, .png."};
    arguments a = {0};
    int status = CLI_GOOD;
    TRY(arguments_parse(&line, argc, argv, &a));
    TRY(graph_argument_read(&a.source));
    const graph_file *f = &a.source.file;
    hga_id main = f->text ? main_relation(&f->program) : -1;
    if (main < 0 && hga_graph_nodes(f->graph).n_relations > 0) main = 0;
    const char *slash = strrchr(a.source.title, '/');
    graph_source source = {f->graph, f->text ? &f->program : NULL,       f->text,
                           main,     slash ? slash + 1 : a.source.title, NULL};
    TRY(graph_write(&source, &a.target));
done:
    graph_argument_clear(&a.source);
    return status;
}
