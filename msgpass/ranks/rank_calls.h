/* rank_calls.h: whether all ranks are called for the same. */
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

/* The numbers of a call that all ranks give alike, as one. */
uint64_t rank_call_numbers(const hga_plan *plan, const hga_io *io);
/* What a rank tells of its call; io NULL: that has no numbers. */
rank_word rank_word_of(rank_call_kind kind, const hga_plan *plan, const hga_io *io, hga_id samples);

typedef struct rank_words {
    rank_word mine, theirs[2];
} rank_words;

/* At the beginning of every call, before anything is waited for; and before rows are. The room is the transport's
   between the two. A failure of either is to reach all ranks. */
hga_status rank_call_tell(const hga_exchange *x, const rank_word *call, rank_words *buffer);
hga_status rank_call_check(const hga_exchange *x, const rank_words *buffer);
/* Both. */
hga_status rank_call_meet(const hga_exchange *x, rank_word call);

#endif
