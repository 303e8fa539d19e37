/* cache.h: the rows of a token sequence: pages of a pool (pages.c), which of them a cache holds (table.c), and caches
   (cache.c). */
#ifndef CACHE_H
#define CACHE_H

#include "decoder.h"

#include <pthread.h>

/* ---- pages.c ---- */

/* Rows of consecutive nodes of one kind, which follow the struct in memory. */
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
    void **slab; /* [n_slabs]: huge pages of the system, divided into contiguous pages */
    int64_t n_slabs, slab_capacity;
    int64_t most, bytes, used;
    int n_caches;
    int poison; /* tests: freed pages are overwritten */
};

/* Node's row in its page. */
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
/* Takes a free page of the kind, or allocates one within the pool's limit; it has one user. */
hga_status page_take(hga_pages *pool, hga_id kind, page **out);
/* Adds a user of the page. */
void page_share(page *p);
/* Removes a user; the last one's page is free in the pool. */
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
/* The entry of a key, valid until the table changes; NULL: there is none. */
page_entry *table_find(const page_table *t, uint64_t key);
/* Grows the table to hold n more entries. */
hga_status table_reserve(const hga_allocator *a, page_table *t, int64_t n);
/* Adds an entry to a table that is large enough. */
page_entry *table_add(page_table *t, uint64_t key);
/* Removes an entry; others may move into its slot. */
void table_remove(page_table *t, page_entry *e);
/* Frees the entries; the table is empty. */
void table_clear(const hga_allocator *a, page_table *t);

/* ---- cache.c ---- */

struct hga_cache {
    hga_pages *pages;
    uint64_t state; /* identifies its rows and pages: caches of equal states have equal pages */
    /* their number, and the fewest to which it may be cut: rows last read before `least` are dropped */
    hga_id tokens, least;
    page_table table;
    int listed; /* in the current append */
};

/* A state number that no cache has had. */
uint64_t new_state(const hga_decoder *d);
/* Whether the cache holds node's row of a kind. */
int cache_has_row(const hga_cache *c, hga_id kind, hga_id node);
/* A page that only this cache has for node's row of a kind; a new one has no live row. */
hga_status cache_own_page(hga_cache *c, hga_id kind, hga_id node, page_entry **out);
/* Returns pages without live rows to the pool. */
void cache_sweep(hga_cache *c);
/* Drops node's row of a kind, and its page when no other row of it is live. */
void cache_drop_row(hga_cache *c, hga_id kind, hga_id node);
/* Sets the number of tokens; rows that no later token reads are dropped. */
void cache_advance(hga_cache *c, hga_id tokens);

#endif
