/* cache.c: the life of caches: creating, sharing, cutting and destroying them. */
#include "cache.h"

#include <string.h>

uint64_t new_state(const hga_decoder *d) { return atomic_fetch_add(d->states, 1) + 1; }

static void count_caches(hga_pages *p, int n)
{
    pthread_mutex_lock(&p->lock);
    p->n_caches += n;
    pthread_mutex_unlock(&p->lock);
}

hga_status hga_cache_create(hga_pages *p, hga_cache **out)
{
    hga_cache *c = NULL;
    if (!p || !out) return hga_fail(HGA_EINVAL, "no %s", p ? "place for the cache" : "pages");
    *out = NULL;
    hga_status st = hga_new_zero(&p->decoder->allocator, 1, sizeof *c, &c);
    if (st) return st;
    c->pages = p, c->state = new_state(c->pages->decoder);
    count_caches(p, 1);
    *out = c;
    return HGA_OK;
}

static void drop_pages(hga_cache *c)
{
    for (int64_t s = 0; s < c->table.n_slots; s++)
        if (c->table.entry[s].key) page_drop(c->pages, c->table.entry[s].page);
    table_clear(&c->pages->decoder->allocator, &c->table);
}

void hga_cache_destroy(hga_cache *c)
{
    if (!c) return;
    drop_pages(c);
    count_caches(c->pages, -1);
    hga_delete(&c->pages->decoder->allocator, c, 1, sizeof *c);
}

hga_id hga_cache_tokens(const hga_cache *c) { return c ? c->tokens : 0; }

hga_status hga_cache_fork(const hga_cache *c, hga_cache **out)
{
    hga_cache *x = NULL;
    hga_status st = HGA_OK;
    if (!c || !out) return hga_fail(HGA_EINVAL, "no %s", c ? "place for the fork" : "cache");
    *out = NULL;
    const hga_allocator *a = &c->pages->decoder->allocator;
    HGA_TRY(hga_cache_create(c->pages, &x));
    HGA_TRY(hga_new(a, c->table.n_slots, sizeof *x->table.entry, &x->table.entry));
    x->table.n_slots = c->table.n_slots, x->table.n = c->table.n;
    x->tokens = c->tokens, x->least = c->least, x->state = c->state;
    if (x->table.n_slots) memcpy(x->table.entry, c->table.entry, (size_t)x->table.n_slots * sizeof *x->table.entry);
    for (int64_t s = 0; s < x->table.n_slots; s++)
        if (x->table.entry[s].key) page_share(x->table.entry[s].page);
    *out = x, x = NULL;
done:
    hga_cache_destroy(x);
    return st;
}

/* ---- rows ---- */

/* Replaces a shared page by a copy before it is written; the cache is then in a new state, since no workspace may read
   its rows at the old addresses. */
static hga_status unshare(hga_cache *c, page_entry *e)
{
    const hga_decoder *d = c->pages->decoder;
    page *copy;
    if (atomic_load(&e->page->users) == 1) return HGA_OK;
    hga_status st = page_take(c->pages, e->page->kind, &copy);
    if (st) return st;
    memcpy((char *)copy + PAGE_HEAD, (char *)e->page + PAGE_HEAD, (size_t)d->page_bytes[copy->kind] - PAGE_HEAD);
    page_drop(c->pages, e->page);
    e->page = copy, c->state = new_state(d);
    return HGA_OK;
}

/* The page with the node's row, which only this cache has: its own, a copy of a shared one, or a new one. */
hga_status cache_own_page(hga_cache *c, hga_id kind, hga_id node, page_entry **out)
{
    uint64_t key = page_key(c->pages->decoder, kind, node);
    page *p;
    *out = table_find(&c->table, key);
    if (*out) return unshare(c, *out);
    hga_status st = table_reserve(&c->pages->decoder->allocator, &c->table, 1);
    if (!st) st = page_take(c->pages, kind, &p);
    if (st) return st;
    *out = table_add(&c->table, key);
    (*out)->page = p, (*out)->live = 0;
    return HGA_OK;
}

int cache_has_row(const hga_cache *c, hga_id kind, hga_id node)
{
    const hga_decoder *d = c->pages->decoder;
    const page_entry *e = table_find(&c->table, page_key(d, kind, node));
    return e && (e->live & page_bit(d, node));
}

void cache_drop_row(hga_cache *c, hga_id kind, hga_id node)
{
    const hga_decoder *d = c->pages->decoder;
    page_entry *e = table_find(&c->table, page_key(d, kind, node));
    if (!e) return;
    e->live &= ~page_bit(d, node);
    if (e->live) return;
    page_drop(c->pages, e->page);
    table_remove(&c->table, e);
}

/* Returns pages without a live row to the pool. */
void cache_sweep(hga_cache *c)
{
    for (int64_t s = 0; s < c->table.n_slots;) {
        page_entry *e = &c->table.entry[s];
        if (!e->key || e->live) {
            s++;
            continue;
        }
        page_drop(c->pages, e->page);
        table_remove(&c->table, e); /* another entry may have moved to its slot */
    }
}

/* ---- time ---- */

/* Sets the cache's number of tokens: rows born with them become live, and rows that are not read again die. */
void cache_advance(hga_cache *c, hga_id tokens)
{
    const hga_decoder *d = c->pages->decoder;
    for (int64_t i = d->born.ptr[c->tokens]; i < d->born.ptr[tokens]; i++) {
        const cached_row *r = &d->born.row[i];
        if (is_cached(d, r, tokens)) table_find(&c->table, page_key(d, r->kind, r->node))->live |= page_bit(d, r->node);
    }
    hga_id least = tokens - d->options.rollback;
    if (least > c->least) {
        for (int64_t i = d->dies.ptr[c->least]; i < d->dies.ptr[least]; i++)
            cache_drop_row(c, d->dies.row[i].kind, d->dies.row[i].node);
        c->least = least;
    }
    if (tokens == d->n_tokens) cache_sweep(c); /* rows of blocks that no later token reads */
    c->tokens = tokens, c->state = new_state(c->pages->decoder);
}

hga_status hga_cache_cut(hga_cache *c, hga_id tokens)
{
    if (!c) return hga_fail(HGA_EINVAL, "no cache");
    const hga_decoder *d = c->pages->decoder;
    if (tokens < 0 || tokens > c->tokens)
        return hga_fail(HGA_EINVAL, "a cache of %d tokens cannot be cut to %d", c->tokens, tokens);
    if (tokens > 0 && tokens < c->least)
        return hga_fail(HGA_EINVAL, "the cache may be cut to %d tokens or more, not to %d: its rollback is %d",
                        c->least, tokens, d->options.rollback);
    if (tokens == c->tokens) return HGA_OK;
    if (tokens == 0) {
        drop_pages(c);
        c->least = 0;
    } else {
        for (int64_t i = d->born.ptr[tokens]; i < d->born.ptr[c->tokens]; i++)
            cache_drop_row(c, d->born.row[i].kind, d->born.row[i].node);
    }
    c->tokens = tokens, c->state = new_state(c->pages->decoder);
    return HGA_OK;
}
