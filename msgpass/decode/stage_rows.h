/* stage_rows.h: an append (append.c): a cache's rows where the plan reads them, computed with the bits of the full pass
   (stage.c). */
#ifndef STAGE_ROWS_H
#define STAGE_ROWS_H

#include "appended.h"
#include "cache.h"
#include "row_slots.h"
#include "needed_rows.h"

struct hga_decode_workspace {
    const hga_decoder *decoder;
    hga_allocator allocator;
    hga_workspace *workspace;
    uint64_t resident;          /* the state of the cache whose rows are present, 0: none */
    atomic_int_least64_t bytes; /* all, at the last settling */
    int64_t fixed_bytes;        /* all but rows and lists */
    float *row;                 /* the longest one */
    int64_t row_floats;
    /* of an append, [..capacity] each: nodes of its tensors' rows, in order and by number; requested rows of the
       output; rows to compute and cache */
    hga_id *node, *sorted;
    hga_interval *requested;
    needed_row *needed;
    int64_t capacity, sorted_capacity, requested_capacity, needed_capacity;
    const float **at; /* of tokens that choose: addresses of keys, queries and rows of blocks */
    int64_t at_capacity;
    hga_chosen chosen;
    row_choice choice;
};

/* Allocates memory for an append of tokens [from, from + n_tokens). */
hga_status stage_reserve(hga_decode_workspace *w, hga_id from, hga_id n_tokens);
/* Copies a row from a page into the workspace. */
hga_status stage_lay(hga_decode_workspace *w, hga_id kind, hga_id node, const char *from);
/* Copies a row of the workspace to a page. */
hga_status stage_keep(hga_decode_workspace *w, hga_id kind, hga_id node, char *to);
/* Lets the workspace borrow the caller's new rows up to token `end` from the cache's pages, as far as they are cached
   there in the format that stages read. */
hga_status stage_borrow_new(hga_decode_workspace *w, const hga_cache *c, hga_id end);
/* Copies the caller's rows of the n nodes in w->node into the workspace. */
hga_status stage_fetch(hga_decode_workspace *w, const hga_io *io, hga_id n);
/* Lists in w->needed the rows born with tokens [from, end) that are computed and cached; returns how many. */
int64_t stage_read_cached(hga_decode_workspace *w, hga_id from, hga_id end);
/* Computes the first n_needed of these, and the rows of the output of the n nodes in w->node if io has out or lse. */
hga_status stage_compute(hga_decode_workspace *w, const hga_io *io, hga_id n, int64_t n_needed, hga_id end,
                         int one_token);
/* Copies new rows up to token `end` to the cache's pages, where they are not live yet. */
hga_status stage_keep_new(hga_decode_workspace *w, const hga_cache *c, hga_id end);
/* Runs an append: brings the cache's rows and the caller's new ones where the plan reads them; computes; copies the new
   rows that are cached to pages. */
hga_status stage_append(hga_decode_workspace *w, const hga_append *a);
/* Drops the rows of the workspace that the cache does not hold, once it shows new tokens; `least` is c->least before
   them. */
void stage_settle(hga_decode_workspace *w, const hga_cache *c, hga_id least);
/* Counts the workspace's bytes anew; to be called after each call that may have allocated, whether it failed or not. */
void stage_count_bytes(hga_decode_workspace *w);

/* ---- append.c ---- */

/* Checks that the tensors have the rows of tokens [from, from + n_tokens). */
hga_status append_check_io(const hga_decoder *d, hga_id from, hga_id n_tokens, const hga_io *io);
/* Reserves pages for all that the cache holds of tokens up to `end`. */
hga_status append_reserve(const hga_decoder *d, hga_cache *c, hga_id end);

#endif
