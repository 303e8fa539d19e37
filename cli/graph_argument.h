/* graph_argument.h: GRAPH or VARIANT: the graph of a command is read from a file, or is built. */
#ifndef CLI_GRAPH_ARGUMENT_H
#define CLI_GRAPH_ARGUMENT_H

#include "chosen_source.h"
#include "graph_file.h"
#include "variant.h"

typedef struct graph_argument {
    typed_variant typed;
    const char *path;     /* the file, NULL for a variant */
    const char *parents;  /* of a file of edges: its tree, NULL without */
    const char *tree;     /* of a file of edges: clusters, "metis:8,8,8"; NULL without */
    int pattern;          /* of a file of edges: every edge has weight 1 */
    const char *words;    /* a file of the tokens' words, NULL without */
    chosen_source chosen; /* of a variant that content chooses */
    chosen_head which;
    int has_tensors;   /* the command has another use for chosen.query and chosen.key */
    const char *title; /* what messages call it, once it is read: the path, or "bpt k=4 tokens=64" */
    graph_file file;   /* .. what was read; a program comes with a variant */
    model built;
} graph_argument;

/* Of a graph_argument: the argument, which must be there, -p, -n, --parents, --tree and the others on graphs. */
extern const option_list graph_list;

/* Reads or builds the graph. */
int graph_argument_read(graph_argument *a);
void graph_argument_clear(graph_argument *a);

#endif
