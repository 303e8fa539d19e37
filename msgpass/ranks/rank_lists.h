/* rank_lists.h: splits (rank_splits.c), messages (rank_messages.c) and batches (rank_batches.c) of a plan that ranks
   share. */
#ifndef RANK_LISTS_H
#define RANK_LISTS_H

#include "ranks.h"

/* A transfer between two ranks, one of a batch. */
typedef struct rank_hop {
    hga_id batch, from, to;
    int64_t at; /* in the order of the batch's transfers */
    rank_part part;
    int64_t bytes;
} rank_hop;
typedef struct hop_list {
    rank_hop *hop;
    int64_t n, capacity;
} hop_list;
/* Converts hga_halo's splits to those of the plan, which are cut at the same edges. */
hga_status rank_splits_list(const hga_plan *plan, struct rank_plan *r, const hga_halo_list *halo);
/* The index of the split [lo, hi) of a stage; -1. */
int64_t rank_split_at(const struct rank_plan *r, hga_id stage, hga_id lo, hga_id hi);
/* Lists transfers of rows and of splits. */
hga_status rank_transfers_list(const struct rank_plan *r, const hga_halo_list *halo, rank_transfers *out);
/* Frees the list. */
void rank_transfers_clear(const struct rank_plan *r, rank_transfers *all);
/* Adds the hops of a transfer that start or end at this rank. */
hga_status hops_add(const struct rank_plan *r, const rank_transfer *t, hga_id batch, int64_t at, hop_list *l);
/* Frees the list. */
void hops_clear(const struct rank_plan *r, hop_list *l);
/* Makes their messages, those to send first; counts bytes both ways. */
hga_status hops_to_messages(struct rank_plan *r, hop_list *l);

/* Finds the order of the transfers, and the batch of each: [n]. */
hga_status rank_batches(const hga_plan *plan, const hga_id *owner, const rank_transfers *all, int64_t *order,
                        hga_id *batch, hga_id *n_batches);

/* Do the rows of a stage that are sent need no rows of the same stage that are received? Upwards along the tree
   received rows are for shared rows, and those are never sent. */
int rank_is_one_step(const hga_plan *plan, const hga_id *owner, const rank_transfers *all, hga_id stage);

#endif
