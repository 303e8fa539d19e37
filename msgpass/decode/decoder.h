/* decoder.h: what a decoder knows of its graph (decoder.c): when each row is whole, and when it is read for the last
   time (ready.c). */
#ifndef DECODER_H
#define DECODER_H

#include "hga_decode.h"
#include "kernels.h"
#include "latest.h"
#include "plan.h"

#include <stdatomic.h>

/* A cached row: of a node's field, from the token with which it is whole to the last that reads it. */
typedef struct cached_row {
    hga_id node;
    int32_t other; /* by birth: the last reader; by death: the field's kind */
    int32_t kind;
} cached_row;

/* Rows of a field are of two kinds, the caller's and those that the program makes: 2 * field + 1 and 2 * field. */
enum { N_PAGE_KINDS = 2 * HGA_FIELD_SLOTS };
static inline hga_id field_of_kind(hga_id kind) { return kind / 2; }
static inline int kind_is_input(hga_id kind) { return kind % 2; }
/* Field 0 is none: its kinds are rows that represent blocks of tokens, by which tokens choose. Their nodes are indices
   of blocks. */
enum { KIND_BLOCK, KIND_COARSE, N_BLOCK_KINDS };
static inline int kind_stands(hga_id kind) { return kind < N_BLOCK_KINDS; }

typedef struct row_events {
    cached_row *row; /* [ptr[n_tokens]] */
    int64_t *ptr;    /* [n_tokens + 2], the last one for counting */
    int64_t n;
} row_events;

struct hga_decoder {
    atomic_uint_least64_t *states; /* number of states that its caches have had */
    hga_allocator allocator;
    hga_decode_options options;
    hga_plan *plan;
    hga_id n_tokens, n_nodes, io_first, io_n, page_shift;
    hga_id *io_node;       /* rows of tensors, by token; NULL: they are the tokens */
    int64_t *io_ptr;       /* [n_tokens + 2], as row_events.ptr */
    latest_tokens ready;   /* with which token each row is whole */
    row_events born, dies; /* by the token with which a row is whole; by the last that reads it */
    hga_selection how;     /* how tokens choose, options.selection */
    hga_id *k_each;        /* .. each chooser's k, a copy */
    int64_t row_floats[N_PAGE_KINDS], row_bytes[N_PAGE_KINDS], page_bytes[N_PAGE_KINDS];
};

/* Finds d->ready, born, dies, io_node and io_ptr: when each row is whole, who reads it last, and rows of tensors by
   token. d->plan is set. */
hga_status ready_find(hga_decoder *d, const hga_graph *g, const hga_program *p);
/* Frees what ready_find found. */
void ready_clear(hga_decoder *d);

/* Whether a row that is born in an append up to token `end` is cached after it. */
static inline int is_cached(const hga_decoder *d, const cached_row *r, hga_id end)
{
    return r->other >= end - d->options.rollback;
}

/* identity.c, for files, beside program/identity.h: a hash of the decoder's shape and of the options that determine its
   rows. */
uint64_t identity_of_numbers(const hga_decoder *d);

#endif
