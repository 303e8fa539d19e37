/* row_edges.h: the in-edges of a row of a stage, in canonical order, from any storage. */
#ifndef HGA_SEMANTICS_ROW_EDGES_H
#define HGA_SEMANTICS_ROW_EDGES_H

#include "program.h"

/* An edge into the current row; along the tree of type 0 and weight 1. */
typedef struct row_edge {
    hga_id src;
    int32_t type;
    float weight;
    hga_id pos_of, src_pos_of; /* node + 1 whose position the row uses, and the source, 0: its own */
} row_edge;

/* In-edges of all rows of a stage, contiguous: those of node v begin at ptr[v]. */
typedef struct row_list {
    int64_t *ptr; /* [n_nodes + 1]; NULL: they exceed the allowed bytes */
    row_edge *edge;
    int64_t capacity;
} row_list;

/* In-edges of the rows of one stage, one row at a time; zero the struct before it is opened first. */
typedef struct edge_rows {
    const hga_graph *graph;
    const hga_allocator *allocator; /* NULL: the standard one */
    hga_nodes nodes;
    hga_id relation; /* or HGA_TREE_UP, HGA_TREE_DOWN */
    hga_relation r;
    const row_edge *edge; /* [n]: of the row read last, by source, type, weight, positions */
    row_edge *own; /* [capacity], the buffer of read edges; with capacity for the widest row nothing is allocated */
    int64_t n, capacity;
    const row_list *lists, *list; /* of all stages, NULL without; of this one */
} edge_rows;

/* Selects the rows of a relation. `lists` and the buffer stay from one to the next. */
void edges_open(edge_rows *rows, const hga_graph *g, const hga_allocator *a, hga_id relation);
/* Frees the buffer. */
void edges_close(edge_rows *rows);
/* Reads node v's in-edges. */
hga_status edges_read(edge_rows *rows, hga_id v);
/* Whether v has in-edges, of a relation or along the tree. */
int edges_exist(const hga_graph *g, hga_id relation, hga_id v);
/* The most in-edges of a row, of a relation or along the tree. */
int64_t edges_most(const hga_graph *g, hga_id relation);

/* Lists all rows of a field, if they take at most `bytes`; `rows` has been opened. */
hga_status edges_list(edge_rows *rows, hga_field_rows of, int64_t bytes, row_list *out);
/* Frees the list, and zeroes it. */
void edges_unlist(const hga_graph *g, const hga_allocator *a, row_list *list);

#endif
