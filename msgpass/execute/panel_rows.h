/* panel_rows.h: which rows of a panel an execution computes, and their edges (panel_rows.c). */
#ifndef PANEL_ROWS_H
#define PANEL_ROWS_H

#include "stage_plan.h"
#include "worker.h"

/* Rows of a panel; node[i] < 0: the row is not written. */
typedef struct panel_rows {
    hga_id first, n, node[PANEL_ROWS];
} panel_rows;
/* Lists the rows of an item's panel. */
void list_panel(const worker *w, wave_item item, panel_rows *out);
/* Opens the stage, and lists the rows of a panel that this execution computes; 0: none. */
int find_panel(worker *w, const phase *ph, hga_id stage, hga_id panel, panel_rows *out);
/* Loads the segments of these rows, and appends the rows of the longer graph. */
void load_ahead(worker *w, panel_rows *p);
/* find_panel and load_ahead for an item; 0: there are no rows. */
int open_panel(worker *w, wave_item item, panel_rows *out);
/* Loads the segments of a panel whose rows run by position. */
void load_panel(worker *w, wave_item item);
/* Points the worker's reader at the stage's relation. */
void open_stage(worker *w, hga_id stage);
/* Lists rows [begin, begin + n) of the relation, or of nodes: NO_ROW where the phase has none of the stage's rows,
   left_out(v) where this execution does not run it. */
void list_nodes(const worker *w, const phase *ph, hga_id stage, hga_id begin, hga_id n, hga_id *node);
/* Appends the longer graph's rows, which are not run, to a panel's n rows; returns `all`. */
hga_id list_ahead(hga_id n, hga_id all, hga_id *node);
/* Narrows a panel to the groups of sixteen from the first row to the last that this execution runs; 0: none. */
int narrow_panel(const worker *w, const phase *ph, hga_id stage, hga_id *begin, hga_id *n);
/* Whether rows run by position. LEVELS_* stages run by node id: with a destination order their rows are loaded one by
   one. */
int runs_by_position(const worker *w, const phase *ph);
/* The first row of a panel, and how many it has. */
void panel_bounds(const phase *ph, hga_id panel, hga_id *first, hga_id *n);

#endif
