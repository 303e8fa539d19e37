/* look_ahead.h: the last rows of a level as they would be in a longer graph. How sixteen rows are computed depends on
   all of them, so rows after a level's last whole sixteen are grouped with those that the longer graph has next:
   hga_builder_set_longer. */
#ifndef LOOK_AHEAD_H
#define LOOK_AHEAD_H

#include "longer.h"

/* The longer graph's rows [first, first + n): those asked for and the ones that would come next, up to a whole
   sixteen. n 0: they end no level, or whole. */
typedef struct rows_ahead {
    hga_id first, n;
} rows_ahead;

/* Rows [first, first + n) must be nodes of one level, from a multiple of sixteen of its first one. */
rows_ahead look_ahead(const hga_graph *longer, const hga_nodes *nodes, hga_id first, hga_id n);
/* Maps node v of the longer graph to this graph; an arbitrary node where it is not in this graph. */
hga_id node_here(const hga_graph *longer, const hga_nodes *nodes, hga_id v);

#endif
