/* slice_run.h: executions of some rows of the output, and of the rows of all stages that these depend on (slice_run.c).
   */
#ifndef SLICE_RUN_H
#define SLICE_RUN_H

#include "plan.h"
#include "workspace.h"

/* Finds which rows of the output the call requests, and the rows of all stages that these depend on. */
hga_status slice_bind(const hga_plan *plan, const hga_io *io, hga_workspace *workspace);
/* Allocates memory for slices, where the plan has any. */
hga_status slice_create(const hga_plan *plan, hga_workspace *workspace);
/* Frees that memory. */
void slice_destroy(hga_workspace *workspace);
/* Whether the memory is large enough after an update. */
int slice_fits(const hga_plan *plan, const hga_workspace *workspace);
/* After an update: marks all rows as not present. */
void slice_renew(const hga_plan *plan, hga_workspace *workspace);
/* Whether one thread should run the slice: little to compute, or one row after another. */
int slice_is_for_one(const hga_plan *plan, const hga_workspace *workspace);
/* The rows of a job that the execution runs; NULL: all of them. */
const row_bits *rows_to_run(const hga_workspace *workspace, const phase *ph, hga_id stage);

#endif
