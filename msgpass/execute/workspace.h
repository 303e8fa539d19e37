/* workspace.h: what an execution needs of memory and of its call (workspace.c). */
#ifndef WORKSPACE_H
#define WORKSPACE_H

#include "bound.h"
#include "call_arrays.h"
#include "meeting.h"
#include "plan.h"
#include "ranges.h"
#include "row_places.h"
#include "slices.h"
#include "wants.h"
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
    row_places places[N_PLACES];                   /* of fields, then of stages */
    hga_id taking_turns[N_PLACES], n_taking_turns; /* those that have room */
    void *owners;                                  /* all that tells owners their places */
    int64_t owner_bytes;
    const row_choice *choice; /* see wants.h; NULL: edges are the graph's */
    const wanted_row *wanted; /* [n_wanted]: see wants.h */
    int64_t n_wanted;
    int wanted_alone;              /* those alone, and of the output nothing */
    int wanted_by_token;           /* see slice.one_token */
    asked_rows asked;              /* rows of the output; by intervals of their numbers */
    const struct layouts *layouts; /* the plan's, until it is updated; NULL */
    unsigned brings;               /* the call's features, see call.h */
    struct {
        float *at; /* [pieces of the attending stage][heads][columns] */
        int64_t room;
        hga_id columns; /* 0: the call brings no features of edges */
    } piece_sums;
    uint16_t ways[HGA_MAX_STAGES]; /* of attending stages, the ways that they may go, as bits */
};

/* Let the workspace follow the plan's updates. HGA_EINVAL: it is another plan's, or the plan has outgrown it. */
hga_status workspace_fit(const hga_plan *plan, hga_workspace *workspace);

#endif
