/* look_ahead.h: the last rows of a level as they would be in a longer graph. What sixteen rows are computed with hangs
   on all of them, so rows behind a level's last whole sixteen are looked at among those that the longer graph has next:
   hga_builder_set_longer. */
#ifndef LOOK_AHEAD_H
#define LOOK_AHEAD_H

#include "longer.h"

/* The longer graph's rows [first, first + n): those asked for and the ones that would come next, up to a whole
   sixteen. n 0: they end no level, or whole. */
typedef struct rows_ahead {
    hga_id first, n;
} rows_ahead;

/* Of rows [first, first + n), nodes of one level, a multiple of sixteen from its first one on. */
rows_ahead look_ahead(const hga_graph *longer, const hga_nodes *nodes, hga_id first, hga_id n);
/* The node that node v of the longer graph is here; of one that is not here, some node. */
hga_id node_here(const hga_graph *longer, const hga_nodes *nodes, hga_id v);

#endif
