/* longer.h: what the last rows of each level would see in a longer graph: hga_builder_set_longer. For the sources of
   this project; not installed. */
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

#endif
