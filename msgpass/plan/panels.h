/* panels.h: what the files that make phases share: phases.c, levels.c for stages that go level by level, panels.c. */
#ifndef PANELS_H
#define PANELS_H

#include "look_ahead.h"
#include "plan.h"
#include "row_splits.h"

/* ---- long_rows.c ---- */

typedef struct long_search {
    /* edges of a row, and of a row that has its columns alone, from which on it is long; and of a piece of either */
    hga_pos limit, alone, split, split_alone;
    int together; /* of rows that have their columns alone, see split_rule */
    row_look row[PANEL_ROWS];
} long_search;

extern const long_search no_long_rows;
/* What is long in a stage. */
long_search long_open(const hga_plan *plan, hga_id stage);
/* The long rows of a panel of positions [first, first + n), whose edges are taken away from the panel's, and from those
   of them that are listed. */
hga_status find_long(hga_plan *plan, hga_id stage, hga_id first, hga_id n, long_search *w, int64_t *edges,
                     int64_t *listed);
/* Edges of a panel of positions that no block has. */
int64_t explicit_edges(const stage_plan *s, hga_id first, hga_id n);

/* ---- by_columns.c ---- */

/* Which stages go by columns. */
hga_status by_columns_find(hga_plan *plan);

/* ---- panels.c ---- */

/* A phase of rows: its stage, or those that go together; first, n; by_position. The rest is found, and the long rows
   among them. */
hga_status add_rows(hga_plan *plan, phase rows, long_search *found);
/* One phase more; the last one. */
hga_status add_phase(hga_plan *plan, phase ph);
phase *last_phase(hga_plan *plan);
/* Rows of a panel of the tree that begins with that node. */
hga_id tree_rows(const hga_plan *plan, hga_id first);
/* What rows with so many edges cost, of which some are listed one by one. */
int64_t cost_of(hga_id rows, int64_t edges, int64_t listed);
/* Does the stage write a row at that position of its relation? */
int writes_at(const hga_plan *plan, hga_id stage, hga_id position);

/* ---- levels.c ---- */

/* How many stages, from that one on, go level by level side by side: none reads what another writes. */
hga_id stages_together(const hga_plan *plan, hga_id stage);
hga_status add_levels(hga_plan *plan, hga_id stage, hga_id together);

#endif
