/* ranks.h: what a rank of a distributed run knows beside its plan: which nodes are its own, and what it sends and
   receives, when. All ranks make the same list of transfers, and each takes its part of it.

   ranks.c         the part
   rank_batches.c  which transfers go together
   rank_passes.c   what is computed before, between and after them
   rank_slots.c    rows of the workspace for what is computed and received */
#ifndef RANKS_H
#define RANKS_H

#include "halo.h"
#include "plan.h"

/* Rows of one field; those of a message lie one behind the other in it, as hga_workspace_rows has them. */
typedef struct rank_part {
    hga_id field, first, n;
} rank_part;

/* What goes to or comes from one rank: parts [part, part + n_parts). */
typedef struct rank_message {
    hga_id rank;
    int64_t part, n_parts;
    int64_t at, bytes; /* among all bytes that are sent, or received */
} rank_message;

/* Exchanges that are under way together, on the channel that is the batch's number. What a batch sends needs what
   batches before it received, and nothing else of others. */
typedef struct rank_batch {
    int64_t send, n_send, receive, n_receive; /* messages */
} rank_batch;

/* Rows [first, first + n) of a job of slices. */
typedef struct pass_rows {
    int64_t job;
    hga_id first, n;
} pass_rows;

/* Runs [run, run + n_runs) are computed; then batch `start` is sent, or batch `wait` waited for; -1: none. */
typedef struct rank_pass {
    int64_t run, n_runs;
    hga_id start, wait;
} rank_pass;

struct rank_plan {
    hga_allocator allocator;
    const hga_exchange *exchange;
    hga_id *cuts;       /* [n_ranks + 1] */
    hga_id *owner;      /* [nodes] */
    hga_interval *mine; /* [n_mine]: nodes whose rows the rank computes, its own and those that are shared */
    hga_id *number; /* [nodes]: of a node of these, counted from the first; -1. NULL: no tensor has several intervals */
    rank_part *part;
    rank_message *message;
    rank_batch *batch;
    pass_rows *run;
    rank_pass *pass;
    int64_t n_runs, run_room, n_passes, pass_room;
    int64_t n_mine, mine_room, n_parts, part_room, n_messages, message_room, n_batches, batch_room;
    int64_t bytes_out, bytes_in;
    hga_id n_nodes;
};

static inline int rank_computes(const struct rank_plan *r, hga_id v)
{
    return r->owner[v] == r->exchange->rank || r->owner[v] == OWNED_BY_ALL;
}

/* .. of tokens, as cuts have it. */
static inline int rank_owns_token(const struct rank_plan *r, hga_id token)
{
    return r->cuts[r->exchange->rank] <= token && token < r->cuts[r->exchange->rank + 1];
}

/* Does a call write the rank's rows of the field's tensor? */
int rank_gives_back(const hga_plan *plan, hga_id field);

/* ---- rank_batches.c ---- */

/* Transfers in the order in which they go, and the batch of each: [n_transfers]. */
hga_status rank_batches(const hga_plan *plan, const hga_id *owner, const hga_halo_list *halo, int64_t *order,
                        hga_id *batch, hga_id *n_batches);

#endif
