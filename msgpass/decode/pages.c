/* pages.c: a pool of pages, shared by caches and threads. A large pool without a limit allocates many at a time, in
   huge pages of memory: a token that reads scattered rows would wait for page table walks as long as for the rows. */
#include "pages.h"
#include "cache.h"

#include <string.h>

/* Slabs are used from so many bytes of the pool on, and if at least so many pages fit into one. */
static const int64_t LARGE = 1 << 22;
enum { PAGES_TOGETHER = 8 };

hga_status hga_pages_create(const hga_decoder *d, int64_t most_bytes, hga_pages **out)
{
    hga_pages *p = NULL;
    if (!d || !out) return hga_fail(HGA_EINVAL, "no %s", d ? "place for the pool" : "decoder");
    *out = NULL;
    if (most_bytes < 0) return hga_fail(HGA_EINVAL, "most_bytes %lld is negative", (long long)most_bytes);
    hga_status st = hga_new_zero(&d->allocator, 1, sizeof *p, &p);
    if (st) return st;
    p->decoder = d, p->most = most_bytes;
    pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return HGA_OK;
}

/* Frees a free page of a kind, or drops it from the free list if it is in a slab; 0: there is none. */
static int give_back(hga_pages *pool, hga_id kind)
{
    page *p = pool->free[kind];
    if (!p) return 0;
    pool->free[kind] = p->next;
    pool->bytes -= pool->decoder->page_bytes[kind];
    if (!p->lies_in_slab) hga_delete(&pool->decoder->allocator, p, 1, (size_t)pool->decoder->page_bytes[kind]);
    return 1;
}

void hga_pages_destroy(hga_pages *p)
{
    if (!p) return;
    for (hga_id k = 0; k < N_PAGE_KINDS; k++)
        while (give_back(p, k)) continue;
    for (int64_t i = 0; i < p->n_slabs; i++) pages_give_huge(p->slab[i]);
    hga_delete(&p->decoder->allocator, p->slab, p->slab_capacity, sizeof *p->slab);
    pthread_mutex_destroy(&p->lock);
    hga_delete(&p->decoder->allocator, p, 1, sizeof *p);
}

/* Checks the limit; frees free pages of any kind to keep it. */
static hga_status make_capacity(hga_pages *pool, int64_t bytes)
{
    for (hga_id k = 0; k < N_PAGE_KINDS; k++)
        while (pool->most && pool->bytes + bytes > pool->most && give_back(pool, k)) continue;
    if (!pool->most || pool->bytes + bytes <= pool->most) return HGA_OK;
    return hga_fail(HGA_ENOMEM, "pages: %lld bytes of %lld are in use, and %lld more are needed",
                    (long long)pool->bytes, (long long)pool->most, (long long)bytes);
}

/* Allocates a slab and adds its pages to the free list, in order; 0: there is no memory for it. */
static int take_slab(hga_pages *pool, hga_id kind)
{
    const int64_t all = pages_huge_bytes(), bytes = pool->decoder->page_bytes[kind];
    const int64_t step = (bytes + PAGE_HEAD - 1) / PAGE_HEAD * PAGE_HEAD; /* pages begin at lines, as blocks do */
    char *slab;
    if (hga_grow(&pool->decoder->allocator, &pool->slab, &pool->slab_capacity, pool->n_slabs, pool->n_slabs + 1,
                 sizeof *pool->slab) ||
        !(slab = pages_take_huge()))
        return 0;
    pool->slab[pool->n_slabs++] = slab;
    for (int64_t at = all / step * step - step; at >= 0; at -= step) {
        page *p = (page *)(void *)(slab + at);
        *p = (page){.next = pool->free[kind], .lies_in_slab = 1};
        pool->free[kind] = p, pool->bytes += bytes;
    }
    return 1;
}

static int wants_slab(const hga_pages *pool, hga_id kind)
{
    const hga_decoder *d = pool->decoder;
    return !pool->most && !d->allocator.allocate && pool->bytes >= LARGE &&
           d->page_bytes[kind] <= pages_huge_bytes() / PAGES_TOGETHER;
}

/* Allocates a page from a new slab, or from the allocator if the limit allows it. */
static hga_status take_new(hga_pages *pool, hga_id kind, page **out)
{
    int64_t bytes = pool->decoder->page_bytes[kind];
    if (wants_slab(pool, kind) && take_slab(pool, kind)) {
        *out = pool->free[kind], pool->free[kind] = (*out)->next;
        return HGA_OK;
    }
    hga_status st = make_capacity(pool, bytes);
    if (!st) st = hga_new(&pool->decoder->allocator, 1, (size_t)bytes, out);
    if (!st) pool->bytes += bytes, (*out)->lies_in_slab = 0;
    return st;
}

/* A free page of the kind or a new one, with one user. */
hga_status page_take(hga_pages *pool, hga_id kind, page **out)
{
    hga_status st = HGA_OK;
    pthread_mutex_lock(&pool->lock);
    page *p = pool->free[kind];
    if (p)
        pool->free[kind] = p->next;
    else
        st = take_new(pool, kind, &p);
    if (!st) pool->used += pool->decoder->page_bytes[kind];
    pthread_mutex_unlock(&pool->lock);
    if (st) return st;
    p->kind = kind;
    atomic_init(&p->users, 1);
    *out = p;
    return HGA_OK;
}

void page_share(page *p) { atomic_fetch_add(&p->users, 1); }

void page_drop(hga_pages *pool, page *p)
{
    if (atomic_fetch_sub(&p->users, 1) > 1) return;
    int64_t bytes = pool->decoder->page_bytes[p->kind];
    if (pool->poison) memset((char *)p + PAGE_HEAD, 0xff, (size_t)bytes - PAGE_HEAD);
    pthread_mutex_lock(&pool->lock);
    p->next = pool->free[p->kind], pool->free[p->kind] = p;
    pool->used -= bytes;
    pthread_mutex_unlock(&pool->lock);
}

static int64_t read_locked(const hga_pages *p, const int64_t *number)
{
    pthread_mutex_t *lock = &((hga_pages *)(uintptr_t)p)->lock;
    pthread_mutex_lock(lock);
    int64_t n = *number;
    pthread_mutex_unlock(lock);
    return n;
}

int64_t hga_pages_used(const hga_pages *p) { return p ? read_locked(p, &p->used) : 0; }
int64_t hga_pages_bytes(const hga_pages *p) { return p ? read_locked(p, &p->bytes) : 0; }
