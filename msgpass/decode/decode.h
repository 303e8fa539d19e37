/* decode.h: what a decoder knows of its graph, and what caches hold. Only decode/ includes this.

   decoder.c  making one: which programs can be decoded
   ready.c    when each row is whole, and when it is read for the last time
   pages.c    a pool: pages that come and go
   table.c    which pages a cache holds
   cache.c    making, forking and cutting caches
   file.c     caches as files; identity.c: of which shape
   places.c   rows of a workspace that take turns
   append.c   reserve, compute, keep: all or nothing
   choose.c   tokens that choose blocks: the rows that stand for blocks, and the choice
   prefill.c  ranks make a prompt's rows, and one of them goes on
   stage.c    a cache's rows where the plan reads them: computing with the bits of the full pass */
#ifndef DECODE_H
#define DECODE_H

#include "appended.h"
#include "hga_decode.h"
#include "identity.h"
#include "kernels.h"
#include "latest.h"
#include "places.h"
#include "plan.h"
#include "wants.h"

#include <pthread.h>
#include <stdatomic.h>

/* A row that is kept: of a node's field, from one token on up to the last that reads it. */
typedef struct kept_row {
    hga_id node;
    int32_t other; /* by birth: the last reader; by death: the field's kind */
    int32_t kind;
} kept_row;

/* Rows of a field are of two kinds, the caller's and those that the program makes: 2 * field + 1 and 2 * field. */
enum { N_PAGE_KINDS = 2 * HGA_FIELD_SLOTS };
static inline hga_id field_of_kind(hga_id kind) { return kind / 2; }
static inline int kind_is_given(hga_id kind) { return kind % 2; }
/* Field 0 is none: its kinds are rows that stand for blocks of tokens, which these choose by. Their nodes are blocks'
   numbers. */
enum { KIND_BLOCK, KIND_COARSE, N_BLOCK_KINDS };
static inline int kind_stands(hga_id kind) { return kind < N_BLOCK_KINDS; }

typedef struct row_events {
    kept_row *row; /* [ptr[n_tokens]] */
    int64_t *ptr;  /* [n_tokens + 2], of which the last is room to count */
    int64_t n;
} row_events;

struct hga_decoder {
    atomic_uint_least64_t *states; /* how many its caches have been in */
    hga_allocator allocator;
    hga_decode_options options;
    hga_plan *plan;
    hga_id n_tokens, n_nodes, io_first, io_n, page_shift;
    hga_id *io_node;       /* rows of tensors, by token; NULL: they are the tokens */
    int64_t *io_ptr;       /* [n_tokens + 2], as events' */
    latest_tokens ready;   /* with which token each row is whole */
    row_events born, dies; /* by the token with which a row is whole; by the last that reads it */
    hga_selection how;     /* how tokens choose, options.selection */
    int64_t row_floats[N_PAGE_KINDS], row_bytes[N_PAGE_KINDS], page_bytes[N_PAGE_KINDS];
};

hga_status ready_find(hga_decoder *d, const hga_graph *g, const hga_program *p);
void ready_clear(hga_decoder *d);

/* ---- pages.c ---- */

/* Rows of consecutive nodes of one kind. Its rows are behind it. */
typedef struct page {
    struct page *next; /* of the free ones */
    atomic_int users;
    hga_id kind;
    int lies_in_slab;
} page;
enum { PAGE_HEAD = 64 };

struct hga_pages {
    const hga_decoder *decoder;
    pthread_mutex_t lock;
    page *free[N_PAGE_KINDS];
    void **slab; /* [n_slabs]: huge pages of the system's, with pages in a row */
    int64_t n_slabs, slab_room;
    int64_t most, bytes, used;
    int n_caches;
    int poison; /* tests: pages that are given back are overwritten */
};

static inline char *page_row(const hga_decoder *d, page *p, hga_id node)
{
    hga_id in_page = node & ((1 << d->page_shift) - 1);
    return (char *)p + PAGE_HEAD + in_page * d->row_bytes[p->kind];
}
/* The row's bit among those of its page. */
static inline uint64_t page_bit(const hga_decoder *d, hga_id node)
{
    return UINT64_C(1) << (node & ((1 << d->page_shift) - 1));
}
hga_status page_take(hga_pages *pool, hga_id kind, page **out);
void page_share(page *p);
void page_drop(hga_pages *pool, page *p);

/* ---- table.c ---- */

typedef struct page_entry {
    uint64_t key; /* kind and number of the page, plus one; 0: free */
    page *page;
    uint64_t live; /* rows that the cache has in it */
} page_entry;

typedef struct page_table {
    page_entry *entry; /* [n_slots], a power of two */
    int64_t n_slots, n;
} page_table;

static inline uint64_t page_key(const hga_decoder *d, hga_id kind, hga_id node)
{
    return ((uint64_t)kind << 32 | (uint32_t)(node >> d->page_shift)) + 1;
}
page_entry *table_find(const page_table *t, uint64_t key);
/* Room for n entries more. */
hga_status table_reserve(const hga_allocator *a, page_table *t, int64_t n);
/* There is room. */
page_entry *table_add(page_table *t, uint64_t key);
void table_remove(page_table *t, page_entry *e);
void table_clear(const hga_allocator *a, page_table *t);

/* ---- cache.c ---- */

struct hga_cache {
    hga_pages *pages;
    uint64_t state; /* a number for what it holds and where: caches with equal ones have equal pages */
    /* how many it has, and the fewest to which it may be cut: rows last read before `least` are gone */
    hga_id tokens, least;
    page_table table;
    int listed; /* in the append at hand */
};

uint64_t new_state(const hga_decoder *d);
/* Does the cache hold node's row of a kind? */
int cache_has_row(const hga_cache *c, hga_id kind, hga_id node);
/* A page of the cache's own for node's row of a kind, with nothing live in it where it is new. */
hga_status cache_own_page(hga_cache *c, hga_id kind, hga_id node, page_entry **out);
/* Pages without live rows are given back. */
void cache_sweep(hga_cache *c);
void cache_drop_row(hga_cache *c, hga_id kind, hga_id node);
/* The cache holds `tokens` from now on: rows that nobody reads any more go. */
void cache_advance(hga_cache *c, hga_id tokens);

/* ---- identity.c: for files, beside program/identity.h ---- */

uint64_t identity_of_numbers(const hga_decoder *d);

/* ---- append.c ---- */

/* Are the tensors those of tokens [from, from + n_tokens)? */
hga_status append_check_io(const hga_decoder *d, hga_id from, hga_id n_tokens, const hga_io *io);
/* Pages for all that the cache keeps of tokens up to `end`. */
hga_status append_reserve(const hga_decoder *d, hga_cache *c, hga_id end);

/* ---- choose.c ---- */

static inline int tokens_choose(const hga_decoder *d) { return d->options.selection != NULL; }
/* Tokens in a block of a kind, 0: there are none. */
static inline hga_id tokens_of_block(const hga_decoder *d, hga_id kind)
{
    return !tokens_choose(d) ? 0 : kind == KIND_BLOCK ? d->how.block : d->how.coarse;
}
/* May tokens of the options choose? Before there is a plan; and on its graph. */
hga_status choose_check_options(const hga_decode_options *o, const hga_shape *shape);
hga_status choose_check_plan(const hga_decoder *d);
/* May they choose in a call that brings so much? */
hga_status choose_check_io(const hga_decoder *d, const hga_io *io);
/* Room for what an append up to token `end` of n tokens looks at. */
hga_status choose_reserve(hga_decode_workspace *w, hga_id end, hga_id n);
/* The rows that stand for blocks which are whole with tokens before `end`, to pages of the cache's own. */
void choose_make_blocks(hga_decode_workspace *w, const hga_cache *c, hga_id end);
/* The tokens of the append choose, for the next execution; and it is over. */
hga_status choose_blocks(hga_decode_workspace *w, const hga_append *a);
void choose_end(hga_decode_workspace *w);

/* ---- stage.c ---- */

struct hga_decode_workspace {
    const hga_decoder *decoder;
    hga_allocator allocator;
    hga_workspace *workspace;
    uint64_t resident;          /* the state of the cache whose rows are there, 0: none */
    atomic_int_least64_t bytes; /* all, at the last settling */
    int64_t fixed_bytes;        /* all but rows and lists */
    float *row;                 /* the longest one */
    int64_t row_floats;
    /* of an append, [room]: its rows of tensors, in order and by number; rows to be made and kept */
    hga_id *node, *sorted;
    hga_interval *asked;
    wanted_row *wanted;
    int64_t room, sorted_room, asked_room, wanted_room;
    const float **at; /* of tokens that choose: where keys, queries and rows of blocks are */
    int64_t at_room;
    hga_chosen chosen;
    row_choice choice;
};

/* Room for an append of tokens [from, from + n_tokens). */
hga_status stage_reserve(hga_decode_workspace *w, hga_id from, hga_id n_tokens);
/* A row from a page, or to one. */
hga_status stage_lay(hga_decode_workspace *w, hga_id kind, hga_id node, const char *from);
hga_status stage_keep(hga_decode_workspace *w, hga_id kind, hga_id node, char *to);
/* New rows up to token `end` that are kept, of the caller's, will lie in the cache's pages, where these have them as
   stages read them. */
hga_status stage_lend_new(hga_decode_workspace *w, const hga_cache *c, hga_id end);
/* The caller's rows of the n nodes in w->node. */
hga_status stage_bring(hga_decode_workspace *w, const hga_io *io, hga_id n);
/* w->wanted becomes the rows born with tokens [from, end) that are made and kept; returns how many. */
int64_t stage_want_kept(hga_decode_workspace *w, hga_id from, hga_id end);
/* Compute the first n_wanted of these, and where io wants them the rows of the output of the n nodes in w->node. */
hga_status stage_compute(hga_decode_workspace *w, const hga_io *io, hga_id n, int64_t n_wanted, hga_id end,
                         int one_token);
/* New rows up to token `end` that are kept go to the cache's pages, where they are not live yet. */
hga_status stage_keep_new(hga_decode_workspace *w, const hga_cache *c, hga_id end);
/* The cache's rows, and the new ones of the caller's, are where the plan finds them; compute; and the new rows that
   are kept go to pages, where they are not live yet. */
hga_status stage_append(hga_decode_workspace *w, const hga_append *a);
/* Once the cache shows new tokens, which held rows that were last read from token `least` on before: of all rows in the
   workspace those stay that it holds. */
void stage_settle(hga_decode_workspace *w, const hga_cache *c, hga_id least);
/* What the workspace has is counted anew: after whatever took memory, whether it went well or not. */
void stage_count_bytes(hga_decode_workspace *w);

/* Is a row that is born in an append up to token `end` kept after it? */
static inline int is_kept(const hga_decoder *d, const kept_row *r, hga_id end)
{
    return r->other >= end - d->options.rollback;
}

#endif
