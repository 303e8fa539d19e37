/* rank_alone.h: a rank of many, without the others. Its exchange sends nothing, and receives zeros, which changes
   neither sizes nor how often anything is computed. */
#ifndef BENCH_RANK_ALONE_H
#define BENCH_RANK_ALONE_H

#include "cases.h"

typedef struct rank_alone {
    hga_exchange exchange;
    hga_id *cuts;
    hga_ranks ranks; /* for hga_options.ranks; keep it where it is */
    int64_t sent;    /* bytes of rows so far */
} rank_alone;

/* Rank `rank` of n_ranks that share the tokens evenly. */
hga_status rank_alone_make(hga_id rank, hga_id n_ranks, hga_id tokens, rank_alone *out);
void rank_alone_clear(rank_alone *r);

/* Query, key, value and out of the case's plan, a rank's with its rows; writes every number, so that all pages are
   resident. Sets *bytes. */
hga_status rank_alone_tensors(bench_case *c, const hga_shape *shape, int ranked, int64_t *bytes);

#endif
