/* prefill.h: shared by the two files of a prefill: prefill.c, and prefill_rows.c for which rows are sent home. */
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
    char *at;           /* address of the next row */
    int64_t n_needed;
    hga_id reader; /* the rank whose rows are being examined */
    int depends_on_others;
    uint32_t made_at_home; /* fields */
} prefill;

/* The rank that has a row, -1: no single one. A tensor's row belongs to the token with which it is whole; a row of an
   internal field to the rank that has all tokens under it. */
hga_id prefill_owner(const prefill *x, hga_id kind, hga_id v);
/* Carves the slice, the sets of rows to send and the packets from memory, or measures them if that is NULL; returns the
   bytes. */
int64_t prefill_carve(prefill *x, void *memory);
/* Finds the rows that are sent home. */
void prefill_find(prefill *x);

#endif
