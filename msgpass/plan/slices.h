/* slices.h: a slice of a plan: which rows of which stages an execution runs, and which rows of the program's internal
   fields are present, computed by an earlier slice or put there. An execution of some rows of the output is one;
   callers that know the needed rows otherwise (a token's, a rank's) request them directly.

   slices.c        from rows of the output back to all rows that they depend on
   slice_plan.c    what a plan knows for its slices, and which programs have none
   row_bits.h      sets of rows

   A phase computes one stage, or several over the same rows: a job is one of them. Its rows are counted from the
   phase's first one. */
#ifndef SLICES_H
#define SLICES_H

#include "plan.h"
#include "row_bits.h"
#include "schedule.h"

typedef struct slice_job {
    hga_id phase, stage; /* of a job on a field, stage is the field */
    storages_touched of; /* storages, found by accesses.c */
    uint64_t fills;      /* those whose needed nodes become rows of the job */
    int by_node;         /* its rows are these nodes, in order */
    int at_hand;         /* a decoder's: sources of an output's row are present when its token is appended, or needed */
    hga_id rows;
} slice_job;

/* Made with the plan, for options.rows. */
struct slice_plan {
    slice_job *job; /* [n_jobs], by phase, and by stage within it: phase[i]'s begin at phase[i].jobs_at */
    int64_t n_jobs;
    /* [items of all phases]: when item phase[i].items_at + panel * head_ranges + head_range runs */
    int64_t *when;
    int64_t n_items;
    uint64_t touched, listed; /* storages that are read or written; whose rows stay from one call to the next */
    int64_t bytes;            /* of a slice's memory */
};

/* The sets live in a workspace's memory. */
typedef struct slice {
    row_bits needed[N_STORAGES]; /* nodes whose row the call reads or requests, and which are not present */
    row_bits there[N_STORAGES];  /* nodes whose row is present, of storages whose rows stay */
    row_bits *run;               /* [n_jobs]: rows that the call runs */
    row_bits jobs;               /* those that may have some: loops over rows visit no other */
    row_bits *made;              /* [n_jobs]: of a plan on ranks, splits that are present */
    row_bits items;              /* items, in the order of the plan, that have some of them */
    double cost;                 /* of all of them, estimated, in edges */
    int one_token;               /* a decoder's next one: rows that jobs with at_hand read are present, or needed */
} slice;

/* Carves every array of a slice from the plan's slice_plan->bytes of memory, which the caller has cleared. */
void slice_open(const hga_plan *plan, slice *s, void *memory);
/* Clears what is needed and run; rows present stay. To be called before each slice. */
void slice_begin(const hga_plan *plan, slice *s);
/* Requests rows [first, first + n) of the output. */
void slice_request(const hga_plan *plan, slice *s, int64_t first, int64_t n);
/* Requests all rows that the program writes to the caller's other tensors. */
void slice_request_others(const hga_plan *plan, slice *s);
/* Requests rows [first, first + n) of a storage, those of them that are not present. */
void slice_request_nodes(slice *s, hga_id storage, hga_id first, hga_id n);
/* Requests node v's row of an internal field, unless it is present. */
void slice_request_row(slice *s, hga_id storage, hga_id v);
/* Requests splits [first, first + n) of a stage, those of them that are not present. */
void slice_request_splits(const hga_plan *plan, slice *s, hga_id stage, hga_id first, hga_id n);
/* Notes splits [first, first + n) of a stage as present. */
void slice_put_splits(const hga_plan *plan, slice *s, hga_id stage, hga_id first, hga_id n);
/* Finds the rows on which the requested ones depend and that are not present, from the last phase back. */
void slice_find(const hga_plan *plan, slice *s);
/* Or makes rows [first, first + n) of a job run, needed or not. */
void slice_run_rows(const hga_plan *plan, slice *s, int64_t job, hga_id first, hga_id n);
/* Lists the items of these rows. After the last row, before the execution. */
void slice_list(const hga_plan *plan, slice *s);
/* Calls `each` with the nodes of rows [first, end) of a phase; for splits and merges, of their long rows. */
void slice_own_nodes(const hga_plan *plan, const phase *ph, hga_id first, hga_id end, node_function each,
                     void *context);
/* Estimated cost of a row of a phase, in edges: the average of its stage's rows. */
double slice_row_cost(const hga_plan *plan, const phase *ph);
/* After the execution: notes the rows that ran as present. */
void slice_end(const hga_plan *plan, slice *s);
/* Notes the rows of nodes [first, end) of a storage as present, except the caller's. */
void slice_note_there(const hga_plan *plan, slice *s, hga_id storage, int64_t first, int64_t end);
/* Notes that rows [first, first + n) of a field, and their rounded rows, are not present any more. */
void slice_drop_rows(slice *s, hga_id field, hga_id first, hga_id n);

/* The index of the job of a stage (of a field) in a phase. */
static inline int64_t slice_job_of(const phase *ph, hga_id stage) { return ph->jobs_at + stage - ph->stage; }
/* FOR_JOBS(s, j): the jobs that may have rows to run. */
#define FOR_JOBS(s, j)                                                       \
    for (int64_t j = bits_next(&(s)->jobs, 0, (s)->jobs.n); j < (s)->jobs.n; \
         j = bits_next(&(s)->jobs, j + 1, (s)->jobs.n))
/* The rows of a stage that the slice runs in a phase. */
static inline const row_bits *slice_rows(const slice *s, const phase *ph, hga_id stage)
{
    return &s->run[slice_job_of(ph, stage)];
}

/* Whether node v's row of a storage is the caller's in every call: it is never noted as present. */
int slice_is_input(const hga_plan *plan, hga_id storage, hga_id v);

#endif
