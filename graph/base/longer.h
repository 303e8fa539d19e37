/* longer.h: what the last rows of each level would see in a longer graph: hga_builder_set_longer. How sixteen rows are
   computed depends on all of them, so rows after a level's last whole sixteen are grouped with those that the longer
   graph has next. For the sources of this project; not installed. */
#ifndef HGA_LONGER_H
#define HGA_LONGER_H

#include "hga_graph.h"

/* Rows that are computed together; and the most that are read together. */
enum { LONGER_ROWS = 16, LONGER_PANEL = 256 };

/* A graph of levels and blocks alone: level_ptr of its nodes, and the segments of its relations, are available. It has
   at least the levels and, on each, the nodes of g up to a whole sixteen; relations have g's indices. NULL: none was
   set. */
const hga_graph *graph_longer(const hga_graph *g);
/* Whether the builder's longer graph is empty: rows keep their edges, by their position in the block, among more nodes.
   */
int graph_keeps_positions(const hga_graph *g);

/* ---- the last rows of a level as they would be in the longer graph ---- */

/* The longer graph's rows [first, first + n): those requested and the ones that would come next, up to a whole
   sixteen. n 0: they end no level, or whole. */
typedef struct rows_ahead {
    hga_id first, n;
} rows_ahead;

/* Rows [first, first + n) must be nodes of one level, from a multiple of sixteen of its first one. */
rows_ahead look_ahead(const hga_graph *longer, const hga_nodes *nodes, hga_id first, hga_id n);
/* Maps node v of the longer graph to this graph; an arbitrary node where it is not in this graph. */
hga_id node_here(const hga_graph *longer, const hga_nodes *nodes, hga_id v);

#endif
