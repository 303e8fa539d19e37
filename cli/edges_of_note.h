/* edges_of_note.h: edges that people give without meaning to: the same one again, and a node to itself. */
#ifndef CLI_EDGES_OF_NOTE_H
#define CLI_EDGES_OF_NOTE_H

#include "hga_graph.h"

/* Edges of the relation that are another's copy, of the same source, destination and type, among those that stand by
   themselves; blocks of many pairs are not compared. */
hga_pos edges_twice(const hga_graph *g, hga_id relation);
/* Edges from a node to itself. */
hga_status edges_loops(const hga_graph *g, hga_id relation, hga_pos *loops);

#endif
