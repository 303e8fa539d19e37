/* power.c: relations as intervals, and their composition. */
#include "power.h"

#include <stdlib.h>
#include <string.h>

/* Limit of one relation: 1 GB of spans. */
#define MOST_SPANS ((int64_t)1 << 27)

/* A relation in which every node reaches itself and no other. */
hga_status hop_create(hga_id n, hop *h)
{
    hga_status st = HGA_OK;
    *h = (hop){.n = n};
    HGA_TRY(hga_new(NULL, n, sizeof *h->first, &h->first));
    HGA_TRY(hga_new(NULL, n, sizeof *h->last, &h->last));
    HGA_TRY(hga_new_zero(NULL, n, sizeof *h->start, &h->start));
    HGA_TRY(hga_new_zero(NULL, n, sizeof *h->size, &h->size));
    for (hga_id v = 0; v < n; v++) h->first[v] = h->last[v] = v;
done:
    if (st) hop_clear(h);
    return st;
}

void hop_clear(hop *h)
{
    hga_delete(NULL, h->first, h->n, sizeof *h->first);
    hga_delete(NULL, h->last, h->n, sizeof *h->last);
    hga_delete(NULL, h->start, h->n, sizeof *h->start);
    hga_delete(NULL, h->size, h->n, sizeof *h->size);
    hga_delete(NULL, h->extra, h->capacity, sizeof *h->extra);
    hga_delete(NULL, h->next, h->n, sizeof *h->next);
    hga_delete(NULL, h->other, h->n, sizeof *h->other);
    hga_delete(NULL, h->low, 2 * (int64_t)h->n, sizeof *h->low);
    hga_delete(NULL, h->high, 2 * (int64_t)h->n, sizeof *h->high);
    *h = (hop){0};
}

/* ---- one node ---- */

static int by_first(const void *a, const void *b)
{
    hga_id x = ((const reach_span *)a)->first, y = ((const reach_span *)b)->first;
    return (x > y) - (x < y);
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Adds one more interval to those that node v reaches. */
static hga_status add_extra(hop *h, hga_id v, reach_span span)
{
    hga_status st = HGA_OK;
    if (h->n_extra >= MOST_SPANS)
        return hga_fail(HGA_EUNSUPPORTED, "layers: what tokens reach is more than %lld intervals",
                        (long long)MOST_SPANS);
    HGA_TRY(hga_grow(NULL, &h->extra, &h->capacity, h->n_extra, h->n_extra + 1, sizeof *h->extra));
    h->extra[h->n_extra++] = span;
    h->size[v]++;
done:
    return st;
}

/* Joins spans that overlap or touch; the one that contains v is v's own. */
hga_status hop_set(hop *h, hga_id v, reach_span *spans, int64_t n)
{
    hga_status st = HGA_OK;
    h->start[v] = h->n_extra, h->size[v] = 0;
    qsort(spans, (size_t)n, sizeof *spans, by_first);
    for (int64_t i = 0; i < n;) {
        reach_span all = spans[i++];
        while (i < n && spans[i].first <= (int64_t)all.last + 1) all.last = (hga_id)larger(all.last, spans[i++].last);
        if (all.first <= v && v <= all.last)
            h->first[v] = all.first, h->last[v] = all.last;
        else
            HGA_TRY(add_extra(h, v, all));
    }
done:
    return st;
}

/* Whether both have the same intervals, node for node. */
int hop_equal(const hop *a, const hop *b)
{
    size_t ids = (size_t)a->n * sizeof *a->first;
    if (memcmp(a->first, b->first, ids) != 0 || memcmp(a->last, b->last, ids) != 0 ||
        memcmp(a->size, b->size, ids) != 0)
        return 0;
    for (hga_id v = 0; v < a->n; v++)
        if (a->size[v] &&
            memcmp(a->extra + a->start[v], b->extra + b->start[v], (size_t)a->size[v] * sizeof *a->extra) != 0)
            return 0;
    return 1;
}

/* ---- intervals of nodes ---- */

static int same_extra(const hop *h, hga_id u, hga_id v)
{
    return h->size[u] == h->size[v] &&
           memcmp(h->extra + h->start[u], h->extra + h->start[v], (size_t)h->size[u] * sizeof *h->extra) == 0;
}

static void link_extras(hop *h)
{
    for (hga_id v = h->n - 1; v >= 0; v--) {
        hga_id after = v + 1 < h->n ? h->next[v + 1] : h->n;
        h->next[v] = h->size[v] ? v : after;
        h->other[v] = h->size[v] && after < h->n && same_extra(h, v, after) ? h->other[after] : after;
    }
}

/* Once every node is set: links nodes that reach the same intervals, and builds the trees for queries of node
   ranges. */
hga_status hop_finish(hop *h)
{
    hga_status st = HGA_OK;
    hga_id n = h->n;
    HGA_TRY(hga_new(NULL, n, sizeof *h->next, &h->next));
    HGA_TRY(hga_new(NULL, n, sizeof *h->other, &h->other));
    HGA_TRY(hga_new(NULL, 2 * (int64_t)n, sizeof *h->low, &h->low));
    HGA_TRY(hga_new(NULL, 2 * (int64_t)n, sizeof *h->high, &h->high));
    link_extras(h);
    memcpy(h->low + n, h->first, (size_t)n * sizeof *h->low);
    memcpy(h->high + n, h->last, (size_t)n * sizeof *h->high);
    for (hga_id i = n - 1; i > 0; i--) {
        h->low[i] =
            h->low[2 * (int64_t)i] < h->low[2 * (int64_t)i + 1] ? h->low[2 * (int64_t)i] : h->low[2 * (int64_t)i + 1];
        h->high[i] = h->high[2 * (int64_t)i] > h->high[2 * (int64_t)i + 1] ? h->high[2 * (int64_t)i]
                                                                           : h->high[2 * (int64_t)i + 1];
    }
done:
    return st;
}

/* The union of the intervals of nodes u in an interval: each contains its u, so that there is no gap. */
static reach_span widen(const hop *h, reach_span u)
{
    int64_t lo = (int64_t)u.first + h->n, hi = (int64_t)u.last + h->n + 1;
    for (; lo < hi; lo /= 2, hi /= 2) {
        if (lo & 1) {
            if (h->low[lo] < u.first) u.first = h->low[lo];
            if (h->high[lo] > u.last) u.last = h->high[lo];
            lo++;
        }
        if (hi & 1) {
            hi--;
            if (h->low[hi] < u.first) u.first = h->low[hi];
            if (h->high[hi] > u.last) u.last = h->high[hi];
        }
    }
    return u;
}

/* ---- composition ---- */

typedef struct gathering {
    reach_span *span;
    int64_t n, capacity, *work;
} gathering;

/* Adds spans that the current node reaches; fails when the work is spent. */
static hga_status gather(gathering *s, const reach_span *spans, int64_t n)
{
    hga_status st = HGA_OK;
    *s->work -= n;
    if (*s->work < 0)
        return hga_fail(HGA_EUNSUPPORTED, "layers: what tokens reach is too irregular to be joined in the time given");
    HGA_TRY(hga_grow(NULL, &s->span, &s->capacity, s->n, s->n + n, sizeof *s->span));
    memcpy(s->span + s->n, spans, (size_t)n * sizeof *spans);
    s->n += n;
done:
    return st;
}

/* Adds what `b` reaches from an interval of nodes. */
static hga_status gather_from(gathering *s, const hop *b, reach_span from)
{
    hga_status st = HGA_OK;
    reach_span all = widen(b, from);
    HGA_TRY(gather(s, &all, 1));
    for (hga_id u = b->next[from.first]; u <= from.last && u < b->n; u = b->other[u]) {
        if (all.first == 0 && all.last == b->n - 1) break;
        HGA_TRY(gather(s, b->extra + b->start[u], b->size[u]));
    }
done:
    return st;
}

/* Composes: what every node reaches by a hop of `a` and then one of `b`. */
hga_status hop_compose(const hop *a, const hop *b, int64_t *work, hop *out)
{
    gathering s = {.work = work};
    hga_status st = HGA_OK;
    HGA_TRY(hop_create(a->n, out));
    for (hga_id v = 0; v < a->n; v++) {
        s.n = 0;
        HGA_TRY(gather_from(&s, b, (reach_span){a->first[v], a->last[v]}));
        for (int64_t i = 0; i < a->size[v]; i++) HGA_TRY(gather_from(&s, b, a->extra[a->start[v] + i]));
        HGA_TRY(hop_set(out, v, s.span, s.n));
    }
    HGA_TRY(hop_finish(out));
done:
    hga_delete(NULL, s.span, s.capacity, sizeof *s.span);
    if (st) hop_clear(out);
    return st;
}
