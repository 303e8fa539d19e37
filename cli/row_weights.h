/* row_weights.h: the attention weights of single tokens' edges, for given tensors. */
#ifndef CLI_ROW_WEIGHTS_H
#define CLI_ROW_WEIGHTS_H

#include "arguments.h"

#include "chosen_source.h"
#include "graph_file.h"

/* What weights are made of, as typed. */
typedef struct weighing {
    attend_paths tensors; /* query and key, or neither */
    tensor_layout layout;
    typed_call call;     /* only with them */
    hga_id first, heads; /* whose graph it is, heads 0: all */
} weighing;
/* --query, --key, --layout: input is a weighing, whose `call` the command fills by call_list. */
extern const option_list weighing_list;

/* The tensors also choose a graph, where content does. */
void weighing_chooses(const weighing *w, chosen_source *c);
/* Then only the heads that chose it are weighed. */
void weighing_of(const model *m, weighing *w);

/* The tensors, checked against the graph. */
typedef struct row_tensors {
    attend_io io;
    model m;
    const char *path;    /* of the graph, for complaints */
    hga_id first, heads; /* that are weighed */
} row_tensors;
int row_tensors_read(const weighing *w, const graph_file *f, const char *path, row_tensors *out);
void row_tensors_clear(row_tensors *t);

/* Edges in hga_program_row's order and their weights [n][weighed heads], NULL: not requested. For free(). */
typedef struct row_edge_list {
    hga_seen *seen;
    double *weight;
    int64_t n, capacity;
    hga_id heads; /* 0: no weights */
} row_edge_list;

/* Appends an edge, without weights yet: a visitor, whose context is a row_edge_list. */
hga_status row_edge_add(const hga_seen *seen, void *list);

/* Appends the edges of a query token. Weights of coarse sources are the whole node's. */
int row_weights(const graph_file *f, const row_tensors *t, hga_id token, row_edge_list *out);

#endif
