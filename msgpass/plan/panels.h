/* panels.h: functions shared by the files that make phases: phases.c, levels.c for stages that run level by level,
   panels.c. */
#ifndef PANELS_H
#define PANELS_H

#include "longer.h"
#include "plan.h"
#include "row_splits.h"

/* ---- long_rows.c ---- */

typedef struct long_search {
    /* edges from which on a row is long, and a row that has its columns alone; and those of a split of either */
    hga_pos limit, alone, split, split_alone;
    int together; /* of rows that have their columns alone, see split_rule */
    row_look row[PANEL_ROWS];
} long_search;

extern const long_search no_long_rows;
/* Which rows of a stage are long. */
long_search long_open(const hga_plan *plan, hga_id stage);
/* Lists the long rows of a panel of positions [first, first + n); subtracts their edges, and their listed edges, from
   the panel's. */
hga_status find_long(hga_plan *plan, hga_id stage, hga_id first, hga_id n, long_search *w, int64_t *edges,
                     int64_t *listed);
/* Listed edges of positions [first, first + n), which are in no block. */
int64_t explicit_edges(const stage_plan *s, hga_id first, hga_id n);

/* ---- panels.c ---- */

/* Adds a phase of rows: `rows` has its stage, or the first of those that run together, first, n, and by_position. The
   rest is computed, and its long rows are listed. */
hga_status add_rows(hga_plan *plan, phase rows, long_search *found);
/* Appends a phase. */
hga_status add_phase(hga_plan *plan, phase ph);
/* The phase appended last; valid until the next one is. */
phase *last_phase(hga_plan *plan);
/* Rows of a panel of the tree that begins with that node. */
hga_id tree_rows(const hga_plan *plan, hga_id first);
/* Cost of rows with so many edges, `listed` of which are listed one by one. */
int64_t cost_of(hga_id rows, int64_t edges, int64_t listed);
/* Whether the stage writes a row at that position of its relation. */
int writes_at(const hga_plan *plan, hga_id stage, hga_id position);

/* ---- levels.c ---- */

/* Number of stages, from that one on, that run level by level together: none reads what another writes. */
hga_id stages_together(const hga_plan *plan, hga_id stage);
/* Adds the phases of `together` stages from `stage` on, level by level; down a tree with a cut, those below it
   first. */
hga_status add_levels(hga_plan *plan, hga_id stage, hga_id together);

#endif
