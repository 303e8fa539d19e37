/* prefill.h: what the two files of a prefill share: prefill.c, and prefill_rows.c for which rows go home. */
#ifndef PREFILL_H
#define PREFILL_H

#include "slices.h"
#include "stage_rows.h"

typedef struct prefill {
    const hga_decoder *d;
    hga_decode_workspace *w;
    const hga_prefill *call;
    hga_id me, home, n; /* tokens in all */
    slice slice;
    row_bits lacks[N_PAGE_KINDS]; /* nodes whose row of a kind is sent home */
    void *memory;
    int64_t memory_bytes;
    char *bytes; /* of all rows that are sent, or received, rank by rank */
    int64_t n_bytes;
    hga_packet *packet; /* [n_ranks]: each rank's, to or at home */
    char *at;           /* the next row's */
    int64_t n_needed;
    hga_id reader; /* whose rows are looked at */
    int hangs_on_others;
    uint32_t made_at_home; /* fields */
} prefill;

/* The rank that has a row, -1: nobody alone. A tensor has a row with the token with which it is whole; a row of the
   program's own is who has all tokens under it. */
hga_id prefill_owner(const prefill *x, hga_id kind, hga_id v);
/* The slice, the rows that go home, the packets; returns the bytes. */
int64_t prefill_carve(prefill *x, void *memory);
/* Which rows go home. */
void prefill_find(prefill *x);

#endif
