/* workspace.h: what an execution needs of memory and of its call (workspace.c). */
#ifndef WORKSPACE_H
#define WORKSPACE_H

#include "bound.h"
#include "call_arrays.h"
#include "meeting.h"
#include "plan.h"
#include "ranges.h"
#include "rows_on_demand.h"
#include "slices.h"
#include "needed_rows.h"
#include "widened.h"
#include "worker.h"
#include "workspace_base.h"

struct hga_workspace {
    workspace_base base;
    float *memory, *rows; /* the rows begin at the memory's first whole cache line */
    int64_t workspace_floats;
    worker *workers;
    hga_id n_workers;
    meeting meeting;               /* of the threads, between waves */
    bound_field field[N_STORAGES]; /* by storage */
    widened widened[HGA_FIELD_SLOTS];
    float scale, scale_2;       /* of scores; times log2 e, for kernels */
    float cap_2;                /* of contents, times log2 e, for kernels; 0: none */
    float sigmoid_bias_2;       /* what sigmoids add to scores, times log2 e; else 0 */
    const float *sink, *slopes; /* [heads], the call's; NULL: none */
    call_arrays arrays;         /* the call's */
    /* plans with options.rows: the rows of stages that this execution runs, where it is not all of
       them (sliced); its memory */
    slice slice;
    void *slice_memory;
    int64_t slice_bytes;
    int sliced;
    const hga_io *staged; /* what stages are given: the call's, or what stands in its place */
    void *shared;         /* of a plan that several processes share */
    int64_t shared_bytes;
    row_slots row_slots[N_ROW_SLOTS];     /* of fields, then of stages */
    hga_id cycled[N_ROW_SLOTS], n_cycled; /* those that have room */
    void *owners;                         /* all that tells owners their places */
    int64_t owner_bytes;
    const row_choice *choice; /* see needed_rows.h; NULL: edges are the graph's */
    const needed_row *needed; /* [n_wanted]: see needed_rows.h */
    int64_t n_needed;
    int needed_alone;              /* those alone, and of the output nothing */
    int needed_by_token;           /* see slice.one_token */
    requested_rows requested;      /* rows of the output; by intervals of their numbers */
    const struct layouts *layouts; /* the plan's, until it is updated; NULL */
    unsigned call_has;             /* the call's features, see call.h */
    struct {
        float *at; /* [pieces of the attending stage][heads][columns] */
        int64_t capacity;
        hga_id columns; /* 0: the call brings no features of edges */
    } split_sums;
    uint16_t solvers[HGA_MAX_STAGES]; /* of attending stages, the ways that they may go, as bits */
};

/* Lets the workspace follow the plan's updates. HGA_EINVAL: it is another plan's, or the plan has outgrown it. */
hga_status workspace_fit(const hga_plan *plan, hga_workspace *workspace);

#endif
