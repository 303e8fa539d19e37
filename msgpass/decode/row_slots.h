/* row_slots.h: recycled rows of a workspace. A workspace of a plan with on_demand has no row for each node: a node
   takes a slot for a field's row when a call's tensors have it, or it is put or computed, and frees it when the decoder
   says so. The caller's rows have slots, too. So the workspace's memory depends on how many rows are present at once,
   not on how many the graph has. A row in memory of the decoder's stays there: it is borrowed. Used by decode/;
   execute/needed_rows.h is beside it. */
#ifndef ROW_SLOTS_H
#define ROW_SLOTS_H

#include "hga_plan.h"

/* The value of on_demand in such plans. */
extern const struct rows_on_demand slots_on_demand;

/* Takes a slot for node v's row of a field, and returns the row for the caller to write, in the layout that stages
   read. */
hga_status workspace_take_slot(hga_workspace *workspace, hga_id field, hga_id v, float **row);
/* Whether rows of the field can be borrowed: they have no log-sum-exps, and stages read them unrounded. */
int workspace_borrows(const hga_workspace *workspace, hga_id field);
/* Makes node v's row one in the caller's memory, until the node frees it or another is borrowed in its place; takes no
   slot of the workspace. */
hga_status workspace_borrow_row(hga_workspace *workspace, hga_id field, hga_id v, float *row);
/* Node v's row of a field, its slot's or the borrowed one; it must have one. */
float *workspace_input_row(const hga_workspace *workspace, hga_id field, hga_id v);
/* The log-sum-exps of node v's state; it must have a slot. */
const float *workspace_row_lse(const hga_workspace *workspace, hga_id field, hga_id v);
/* Frees the slot of node v's row, which is not present any more. */
void workspace_leave_slot(hga_workspace *workspace, hga_id field, hga_id v);
/* Frees the slots taken since the last call, except those for which stays(context, field, v); reduces capacities that
   many calls did not use. */
void workspace_settle(hga_workspace *workspace, int (*stays)(const void *context, hga_id field, hga_id v),
                      const void *context);
/* The bytes of all slots. */
int64_t workspace_slot_bytes(const hga_workspace *workspace);

#endif
