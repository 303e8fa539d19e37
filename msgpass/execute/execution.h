/* execution.h: an execution: its threads walk the plan's waves of items (execute.c, execute.c, sums.c). */
#ifndef EXECUTION_H
#define EXECUTION_H

#include "plan.h"
#include "workspace.h"

/* What ranks/ does in an execution of a plan that several processes share, with workspace->shared. */
struct shared_execution {
    int64_t (*bytes)(const hga_plan *plan); /* of workspace->shared */
    /* Replaces *io, the caller's tensors, which have been checked, by the tensors that stages read. */
    hga_status (*stage)(const hga_plan *plan, hga_workspace *workspace, const hga_io **io);
    /* Whether the merged state of splits [lo, hi) of a stage's row is present, from another process or from before;
       marks it as present. */
    int (*has_merged)(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id lo, hga_id hi);
    /* All after execution_begin, of the first of the samples left; without any, notifies the other processes. */
    hga_status (*run)(const hga_plan *plan, hga_workspace *workspace, const hga_io *io, hga_id samples);
};

/* Checks and binds the call's tensors; after an error the workspace is as if it had never run. */
hga_status execution_begin(const hga_plan *plan, hga_workspace *workspace, const hga_io *io);
/* Computes the rows, with as many threads as there are and pay. */
hga_status execution_run(const hga_plan *plan, hga_workspace *workspace);
/* The same on the calling thread only. */
void execution_run_alone(const hga_plan *plan, hga_workspace *workspace);
/* The same by a team of n threads, each of which calls this with its number. */
void execution_run_together(const hga_plan *plan, hga_workspace *workspace, hga_id me, hga_id n);
/* Copies rows, releases widened tensors and stamps the tape, after the rows are computed. */
void execution_end(const hga_plan *plan, hga_workspace *workspace, const hga_io *io);
/* Stamps the tape: the execution that wrote it has ended. */
void tape_end(const hga_plan *plan, const hga_workspace *workspace, const hga_io *io);
/* Forgets the call's addresses. */
void execution_forget(hga_workspace *workspace);
/* Whether the calling thread executes without a team. */
int execution_is_alone(const hga_plan *plan);

/* Runs thread t's items of a wave. */
void run_share(worker *w, hga_id wave, hga_id t);
/* Runs those of items [first, end) that this execution of a slice needs. */
void run_some_items(worker *w, int64_t first, int64_t end);
/* After item `done` of the items up to `end`: finds the rows to prefetch for the next panel of its kind. */
void find_coming(worker *w, int64_t done, int64_t end);

#endif
