/* workspace.h: an execution's memory, and its call (workspace.c). */
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

/* The rows begin at the memory's first whole cache line. */
typedef struct workspace_memory {
    float *at, *rows;
    int64_t floats;
} workspace_memory;

typedef struct workspace_team {
    worker *worker; /* [n] */
    hga_id n;
    meeting meeting; /* of the threads, between waves */
} workspace_team;

/* Parameters of this call's scores; _2: in base 2, as kernels have them: times log2 e. */
typedef struct workspace_scores {
    float scale, scale_2;
    float cap_2;                /* of contents; 0: none */
    float sigmoid_bias_2;       /* of sigmoids; else 0 */
    const float *sink, *slopes; /* [heads], the call's; NULL: none */
} workspace_scores;

/* Plans with options.rows: the rows of stages that this execution runs; on: not all of them. */
typedef struct workspace_slice {
    slice slice;
    void *memory;
    int64_t bytes;
    int on;
} workspace_slice;

/* Of a plan that several processes share. */
typedef struct workspace_shared {
    void *at;
    int64_t bytes;
} workspace_shared;

/* Rows on demand (rows_on_demand.h). */
typedef struct workspace_slots {
    row_slots of[N_ROW_SLOTS];            /* of fields, then of stages */
    hga_id cycled[N_ROW_SLOTS], n_cycled; /* those that have capacity */
    void *owners;                         /* [owner_bytes]: the `slot` arrays of all */
    int64_t owner_bytes;
} workspace_slots;

/* Rows that an execution computes, see needed_rows.h. */
typedef struct rows_to_compute {
    const row_choice *choice; /* NULL: edges are the graph's */
    const needed_row *needed; /* [n_needed] */
    int64_t n_needed;
    int alone;           /* only those, and no row of the output */
    int by_token;        /* see slice.one_token */
    requested_rows rows; /* of the output */
} rows_to_compute;

/* Sums of edges' features over a row's splits. */
typedef struct workspace_split_sums {
    float *at; /* [splits of the attending stage][heads][columns] */
    int64_t capacity;
    hga_id columns; /* 0: the call has no features of edges */
} workspace_split_sums;

struct hga_workspace {
    workspace_base base;
    workspace_memory memory;
    workspace_team team;
    bound_field field[N_STORAGES]; /* by storage */
    widened widened[HGA_FIELD_SLOTS];
    workspace_scores scores;
    call_arrays arrays; /* the call's */
    workspace_slice sliced;
    const hga_io *staged; /* the tensors that stages read: the call's, or their replacement */
    workspace_shared shared;
    workspace_slots slots;
    rows_to_compute request;
    const struct layouts *layouts; /* the plan's, until it is updated; NULL */
    unsigned call_has;             /* the call's features, see call.h */
    workspace_split_sums split_sums;
    uint16_t solvers[HGA_MAX_STAGES]; /* of attending stages, the solvers that may apply, as bits */
};

/* Lets the workspace follow the plan's updates. HGA_EINVAL: it is another plan's, or the plan has outgrown it. */
hga_status workspace_fit(const hga_plan *plan, hga_workspace *workspace);

#endif
