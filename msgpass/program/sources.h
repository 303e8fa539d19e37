/* sources.h: the sources of each row of a stage, without expanding blocks: rows in the order of the stage, their
   sources as intervals. */
#ifndef HGA_REACH_H
#define HGA_REACH_H

#include "hga_program.h"

/* Source positions first .. last of a relation's src_order. */
typedef struct reach_span {
    hga_id first, last;
} reach_span;

/* Rows at positions [row, row + n_rows) of row_order (NULL: node ids), which all have these sources: the spans of
   positions of source_order (NULL: node ids), and the nodes listed one by one. A repeated edge is listed twice. */
typedef struct reach {
    hga_id row, n_rows;
    const hga_id *row_order;
    const reach_span *spans;
    int64_t n_spans;
    const hga_id *source_order;
    const hga_id *nodes;
    int64_t n_nodes;
} reach;

typedef hga_status (*reach_visit)(const reach *r, void *context);

/* Calls `visit` for the rows of a stage over `relation` (or along the tree), all nodes once: FLAT in any order, else
   level after level. */
hga_status reach_rows(const hga_graph *g, hga_id relation, hga_order order, reach_visit visit, void *context);

/* The same for some nodes at a time. A walk belongs to one thread; `visit` must not use it. */
typedef struct reach_walk reach_walk;
/* Creates a walk over a relation of the graph, which it borrows. */
hga_status reach_walk_create(const hga_graph *g, hga_id relation, reach_walk **out);
/* Frees the walk; NULL is accepted. */
void reach_walk_destroy(reach_walk *w);
/* Calls `visit` for the rows of nodes [first, first + n), each once, in order. */
hga_status reach_nodes(reach_walk *w, hga_id first, hga_id n, reach_visit visit, void *context);

#endif
