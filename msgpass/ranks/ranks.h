/* ranks.h: what a rank of a distributed run knows beside its plan: which nodes are its own, and what it sends and
   receives, and when. All ranks make the same list of transfers, and each takes its own from it.

   ranks.c          the rank's plan
   rank_calls.c     whether all ranks make the same call
   rank_splits.c    splits of long rows
   rank_messages.c  transfers become messages
   rank_batches.c   which transfers go together
   rank_passes.c    what is computed for them, while they are under way, and of them (rank_division.h)
   rank_slots.c     rows of the workspace for what is computed and received; rank_aliases.c: .. or of the output */
#ifndef RANKS_H
#define RANKS_H

#include "halo.h"
#include "plan.h"
#include "rank_calls.h"
#include "regions.h"

/* Rows of one field; those of a message are contiguous in it, as hga_workspace_rows has them. Or the results of n
   splits of a stage's long row. */
typedef struct rank_part {
    hga_id field; /* 0: splits */
    hga_id first, n;
    hga_id stage; /* of splits */
} rank_part;

/* Nodes [first, first + n), all of one owner, which may be OWNED_BY_ALL. */
typedef struct owned_nodes {
    hga_id first, n, owner;
} owned_nodes;

/* Splits [first, first + n) of a stage, which one rank computes and merges, to send the result; all ranks compute
   those of OWNED_BY_ALL. */
typedef struct rank_split {
    hga_id stage, first, n, rank;
} rank_split;

/* What one rank sends another, or HGA_EVERY_RANK. */
typedef struct rank_transfer {
    hga_id from, to;
    hga_id written_by, read_by; /* as hga_transfer has them; splits: their stage */
    rank_part part;
    int64_t bytes;
} rank_transfer;

typedef struct rank_transfers {
    rank_transfer *transfer;
    int64_t n, capacity;
} rank_transfers;

/* What is sent to or received from one rank: parts [part, part + n_parts). */
typedef struct rank_message {
    hga_id rank;
    int64_t part, n_parts;
    int64_t at, bytes; /* among all bytes that are sent, or received */
} rank_message;

/* Rows [first, first + n) of a job of slices. */
typedef struct pass_rows {
    int64_t job;
    hga_id first, n;
} pass_rows;

/* Runs [run, run + n_runs) are computed, once the first `needs` batches have come. */
typedef struct rank_pass {
    int64_t run, n_runs;
    hga_id needs;
} rank_pass;

/* The channel of a batch. */
static inline int rank_channel(hga_id batch) { return HGA_CHANNEL_OF_CALLS + 1 + batch; }

/* Exchanges that are under way together. What a batch sends needs what
   batches before it received, and nothing else of others. */
typedef struct rank_batch {
    int64_t send, n_send, receive, n_receive; /* messages */
    rank_pass before;                         /* computes what it sends */
    /* of what batches can send only after this one has arrived, what can be computed before */
    rank_pass ahead;
} rank_batch;

/* The owners of rows. */
typedef struct rank_rows {
    hga_id *owner;      /* [nodes] */
    owned_nodes *owned; /* [n_owned]: all nodes */
    hga_interval *mine; /* [n_mine]: nodes whose rows the rank computes, its own and those that are shared */
    hga_id *number; /* [nodes]: of a node of these, counted from the first; -1. NULL: no tensor has several intervals */
    int64_t n_owned, owned_capacity, n_mine, mine_capacity;
} rank_rows;

/* What is received and sent in one execution: parts of messages of batches. */
typedef struct rank_traffic {
    rank_part *part;
    rank_message *message;
    rank_batch *batch;
    int64_t n_parts, part_capacity, n_messages, message_capacity, n_batches, batch_capacity;
    int64_t bytes_out, bytes_in;
} rank_traffic;

/* What is computed when. */
typedef struct rank_passes {
    pass_rows *run;
    rank_pass *pass; /* [n_passes]: all that no batch sends, by needs */
    int64_t n_runs, run_capacity, n_passes, pass_capacity;
} rank_passes;

/* The caller's; then found when a plan is lowered, from top to bottom. */
struct rank_plan {
    hga_allocator allocator;
    const hga_exchange *exchange;
    hga_id *cuts; /* [n_ranks + 1] */

    hga_id n_nodes;
    rank_rows rows;
    rank_split *split; /* of all ranks, by stage and first split */
    int64_t n_splits, split_capacity;
    rank_traffic traffic;
    uint64_t stamp; /* of all that is to be the same on all ranks */
    rank_passes passes;
};

static inline int rank_computes(const struct rank_plan *r, hga_id v)
{
    return r->rows.owner[v] == r->exchange->rank || r->rows.owner[v] == OWNED_BY_ALL;
}

/* The functions of ranks in a plan, an execution and a gradient. */
extern const plan_wing rank_wing;
extern const struct shared_execution rank_execution; /* rank_run.c */
extern const struct shared_gradient heads_shared;    /* rank_heads.c */

/* entrance.c: the same as hga_plan_create, with panels as plan_make has them. */
hga_status plan_create_with_panels(const hga_graph *g, const hga_program *p, const hga_shape *shape,
                                   const hga_options *options, hga_id panel, hga_plan **out);
/* ranks.c: a status that is not HGA_OK reaches all ranks; x NULL: there are no others. Returns the status. */
hga_status ranks_failed(const hga_exchange *x, hga_status st);

/* Does a call write the rank's rows of the field's tensor? */
static inline int rank_gives_back(const hga_plan *plan, hga_id field)
{
    hga_binding of = plan->program.field[field].binding;
    return of == HGA_IO_OUT || (of == HGA_IO_USER && program_writes_input(&plan->program, field));
}

/* ---- rank_splits.c ---- */

static inline int rank_makes(const struct rank_plan *r, const rank_split *x)
{
    return x->rank == r->exchange->rank || x->rank == OWNED_BY_ALL;
}

#endif
