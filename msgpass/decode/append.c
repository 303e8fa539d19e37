/* append.c: tokens for any number of caches, all or nothing: every step that may fail precedes any that a cache
   shows. */
#include "call.h"
#include "call_check.h"
#include "choose.h"
#include "call_lists.h"
#include "program.h"

/* Checks that a tensor that the program reads has rows for all of these tokens, in float32 and without a fold. */
static hga_status check_tensor(const hga_decoder *d, hga_id from, hga_id n_tokens, hga_binding of, const hga_tensor *t,
                               const char *name)
{
    hga_id rows = hga_decoder_rows(d, from, n_tokens, NULL, 0);
    if (!program_bound(&d->plan->program, of)) return HGA_OK; /* the program does not read it, as in a call */
    if (!t->data && of == HGA_IO_OUT) return HGA_OK;
    if (!t->data) return hga_fail(HGA_EINVAL, "%s is missing", name);
    if (t->rows < rows)
        return hga_fail(HGA_EINVAL, "%s has %lld rows, tokens %d + %d have %d", name, (long long)t->rows, from,
                        n_tokens, rows);
    if (t->dtype != HGA_F32) return hga_fail(HGA_EUNSUPPORTED, "decoding: %s is not of float32", name);
    if (t->fold) return hga_fail(HGA_EUNSUPPORTED, "decoding: %s is folded", name);
    return HGA_OK;
}

static hga_status check_semantics(const hga_io *io)
{
    const char *refused = io->tape ? "a tape" : io->rows ? "rows" : call_of_edges(io);
    return refused ? hga_fail(HGA_EUNSUPPORTED, "decoding: an append has no meaning for %s", refused) : HGA_OK;
}

/* Checks in the order of an append. */
hga_status hga_decoder_check_tables(const hga_decoder *d, const hga_io *io)
{
    hga_status st = HGA_OK;
    if (!d || !io) return hga_fail(HGA_EINVAL, "no %s", !d ? "decoder" : "io");
    HGA_TRY(check_semantics(io));
    HGA_TRY(choose_check_io(d, io));
    HGA_TRY(hga_check_reserved("hga_io", io->reserved, sizeof io->reserved));
    HGA_TRY(call_check_tables(&d->plan->program, &d->plan->shape, d->plan->nodes.n, io));
    HGA_TRY(plan_check_call(d->plan, io));
    st = plan_make_call_lists(d->plan, io);
done:
    return st;
}

/* Checks the tensors of n_tokens from token `from` on: rows of queries, keys, values, the output, and tables. */
hga_status append_check_io(const hga_decoder *d, hga_id from, hga_id n_tokens, const hga_io *io)
{
    hga_status st = check_semantics(io);
    if (st) return st;
    if (io->lse.data && !d->plan->program.has_lse)
        return hga_fail(HGA_EUNSUPPORTED, "this program's output has no log-sum-exp");
    HGA_TRY(check_tensor(d, from, n_tokens, HGA_IO_QUERY, &io->query, "query"));
    HGA_TRY(check_tensor(d, from, n_tokens, HGA_IO_KEY, &io->key, "key"));
    HGA_TRY(check_tensor(d, from, n_tokens, HGA_IO_VALUE, &io->value, "value"));
    HGA_TRY(check_tensor(d, from, n_tokens, HGA_IO_OUT, &io->out, "out"));
    HGA_TRY(check_tensor(d, from, n_tokens, HGA_IO_OUT, &io->lse, "lse"));
    HGA_TRY(choose_check_io(d, io));
done:
    return st;
}

/* Checks one append: a cache of this decoder, listed once, with capacity for its tokens. */
static hga_status check_cache(const hga_decoder *d, const hga_append *a)
{
    const hga_cache *c = a->cache;
    if (!c) return hga_fail(HGA_EINVAL, "there is no cache");
    if (c->pages->decoder != d) return hga_fail(HGA_EINVAL, "the cache is another decoder's");
    if (c->listed) return hga_fail(HGA_EINVAL, "the cache is there twice");
    if (a->n_tokens < 1) return hga_fail(HGA_EINVAL, "n_tokens is %d", a->n_tokens);
    if (a->n_tokens > d->n_tokens - c->tokens)
        return hga_fail(HGA_EINVAL, "%d tokens and %d more are beyond the decoder's %d", c->tokens, a->n_tokens,
                        d->n_tokens);
    return append_check_io(d, c->tokens, a->n_tokens, &a->io);
}

static hga_status name_cache(hga_status st, hga_id i, hga_id n)
{
    char why[400];
    if (n < 2) return st;
    size_t k = 0;
    for (const char *s = hga_error_detail(); *s && k + 1 < sizeof why; s++) why[k++] = *s;
    why[k] = 0;
    return hga_fail(st, "append %d: %s", i, why);
}

/* Checks every append before any cache changes; caches are marked meanwhile to find one listed twice. */
static hga_status check_all(const hga_decoder *d, const hga_append *list, hga_id n)
{
    hga_status st = HGA_OK;
    hga_id i = 0;
    for (; !st && i < n; i++) {
        st = check_cache(d, &list[i]);
        if (!st) list[i].cache->listed = 1;
        if (st) st = name_cache(st, i, n);
    }
    for (hga_id j = 0; j < n; j++)
        if (list[j].cache) list[j].cache->listed = 0;
    return st;
}

hga_status append_reserve(const hga_decoder *d, hga_cache *c, hga_id end)
{
    hga_status st = HGA_OK;
    page_entry *e;
    for (int64_t i = d->born.ptr[c->tokens]; !st && i < d->born.ptr[end]; i++) {
        const cached_row *r = &d->born.row[i];
        if (is_cached(d, r, end) || kind_stands(r->kind)) st = cache_own_page(c, r->kind, r->node, &e);
    }
    return st;
}

hga_status hga_decoder_append(const hga_decoder *d, hga_decode_workspace *w, const hga_append *list, hga_id n)
{
    hga_status st = HGA_OK;
    if (!d || !w || (n > 0 && !list))
        return hga_fail(HGA_EINVAL, "no %s", !d ? "decoder" : !w ? "workspace" : "list of appends");
    if (w->decoder != d) return hga_fail(HGA_EINVAL, "the workspace is another decoder's");
    if (n < 0) return hga_fail(HGA_EINVAL, "%d appends", n);
    st = check_all(d, list, n);
    if (st || n == 0) return st;
    for (hga_id i = 0; i < n; i++) {
        HGA_TRY(stage_reserve(w, list[i].cache->tokens, list[i].n_tokens));
        HGA_TRY(append_reserve(d, list[i].cache, list[i].cache->tokens + list[i].n_tokens));
    }
    for (hga_id i = 0; i < n; i++) HGA_TRY(stage_append(w, &list[i]));
    hga_id least = list[n - 1].cache->least;
    for (hga_id i = 0; i < n; i++) cache_advance(list[i].cache, list[i].cache->tokens + list[i].n_tokens);
    stage_settle(w, list[n - 1].cache, least);
done:
    if (st)
        for (hga_id i = 0; i < n; i++) cache_sweep(list[i].cache);
    stage_count_bytes(w);
    return st;
}
