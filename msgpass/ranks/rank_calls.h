/* rank_calls.h: whether all ranks make the same call. */
#ifndef RANK_CALLS_H
#define RANK_CALLS_H

#include "hga_exchange.h"
#include "plan.h"

typedef enum rank_call_kind {
    RANKS_CREATE,
    RANKS_UPDATE,
    RANKS_EXECUTE,
    RANKS_GO_BACK,
    RANKS_PREFILL,
    N_RANK_CALLS
} rank_call_kind;

/* What a rank says of a call: for what, of the plan with which stamp, with which numbers that are all ranks', and for
   how many samples, with those that follow. */
typedef struct rank_word {
    uint64_t kind, plan, numbers, samples;
} rank_word;

/* One hash of the numbers of a call that must be the same on all ranks. */
uint64_t rank_call_numbers(const hga_plan *plan, const hga_io *io);
/* The word that a rank sends of its call; io NULL: the call has no numbers. */
rank_word rank_word_of(rank_call_kind kind, const hga_plan *plan, const hga_io *io, hga_id samples);

typedef struct rank_words {
    rank_word mine, theirs[2];
} rank_words;

/* Starts to exchange words with the neighbours, at the start of every call, before any wait; the transport uses the
   buffer until rank_call_check. A failure must reach all ranks. */
hga_status rank_call_tell(const hga_exchange *x, const rank_word *call, rank_words *buffer);
/* Waits for the neighbours' words and compares them with this rank's, before the first wait for rows. A failure must
   reach all ranks. */
hga_status rank_call_check(const hga_exchange *x, const rank_words *buffer);
/* Tells and checks. */
hga_status rank_call_meet(const hga_exchange *x, rank_word call);

#endif
