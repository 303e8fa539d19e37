/* row_slots.h: rows of a workspace that take turns. A workspace of a plan with on_demand has no row for each node:
   nodes take a place for a field's row when a call brings, puts or makes it, and give it back when whoever has the
   workspace says so. The caller's rows have places, too. So its memory follows from how many rows are there at once,
   and not from how many the graph has. A row that lies in memory of whoever has the workspace stays there: it is lent.
   What decode/ computes in; execute/needed_rows.h is beside it. */
#ifndef ROW_SLOTS_H
#define ROW_SLOTS_H

#include "hga_plan.h"

/* What such a plan has as on_demand. */
extern const struct rows_on_demand slots_on_demand;

/* Node v has a place for its row of a field, which is the caller's to write: as stages find it, where it is a row of
   the caller's. */
hga_status workspace_take_slot(hga_workspace *workspace, hga_id field, hga_id v, float **row);
/* A row is lent where it lies already, until the node leaves or another is lent in its place: of fields whose rows
   stages read as they are. The node has no place of the workspace's own. */
int workspace_borrows(const hga_workspace *workspace, hga_id field);
hga_status workspace_borrow_row(hga_workspace *workspace, hga_id field, hga_id v, float *row);
/* The rows of a node that has one: as the caller brings it or gets it; and the log-sum-exps of a state. */
float *workspace_input_row(const hga_workspace *workspace, hga_id field, hga_id v);
const float *workspace_row_lse(const hga_workspace *workspace, hga_id field, hga_id v);
/* Node v's row is not there any more, and its place is another's. */
void workspace_leave_slot(hga_workspace *workspace, hga_id field, hga_id v);
/* Of the rows that took places since this was called last, those stay that stays(context, field, v) names; and memory
   goes back that many calls had no use for. */
void workspace_settle(hga_workspace *workspace, int (*stays)(const void *context, hga_id field, hga_id v),
                      const void *context);
/* The bytes of all places. */
int64_t workspace_slot_bytes(const hga_workspace *workspace);

#endif
