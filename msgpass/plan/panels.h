/* panels.h: what the files that make phases share: panels.c, and levels.c for stages that go level by level. */
#ifndef PANELS_H
#define PANELS_H

#include "plan.h"

/* Rows with more than the cut and more than a 64th of all edges are shared out by pieces: there are fewer than 64 of
   them. */
enum { MOST_LONG = 64 };

typedef struct long_search {
    hga_pos limit;
    hga_id first, n, n_long;
    hga_pos degree[PANEL_ROWS]; /* of positions first .. */
    long_row long_row[MOST_LONG];
} long_search;

/* A phase of rows: its stage, or those that go together; first, n; by_position. The rest is found, and the long rows
   among them. */
hga_status add_rows(hga_plan *plan, phase rows, long_search *found);

/* ---- levels.c ---- */

/* How many stages, from that one on, go level by level side by side: none reads what another writes. */
hga_id stages_together(const hga_plan *plan, hga_id stage);
hga_status add_levels(hga_plan *plan, hga_id stage, hga_id together);
/* What some rows of a stage along the tree cost. */
int64_t tree_cost(const hga_plan *plan, hga_id stage, hga_id first, hga_id n);

#endif
