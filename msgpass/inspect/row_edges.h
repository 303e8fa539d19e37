/* row_edges.h: the in-edges of one row of a stage, on a relation or along the tree. */
#ifndef HGA_ROW_EDGES_H
#define HGA_ROW_EDGES_H

#include "hga_program.h"

/* `pos_of` and `source_pos_of` are the nodes whose position embeddings the row and the source use; along the tree type
   0, weight 1. */
typedef struct row_edge {
    hga_id source, pos_of, source_pos_of;
    int32_t type;
    float weight;
} row_edge;

typedef struct row_edges {
    row_edge *e; /* by source, type */
    int64_t n, room;
} row_edges;

/* Those of node v; `out` comes zeroed, and is cleared by the caller whatever the outcome. */
hga_status row_edges_find(const hga_graph *g, hga_id relation, hga_id v, row_edges *out);
void row_edges_clear(row_edges *r);

#endif
