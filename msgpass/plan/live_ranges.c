/* live_ranges.c: the live ranges of workspace rows. Stores the first and the last panel that use a bucket of rows as
   panels get their stamps; once all panels are in order that is a range of items. */
#include "interrupt.h"
#include "plan.h"
#include "schedule.h"

/* Updates the first (sense -1) or last (1) entry known to use a bucket by entry e, the latest of the program so far. */
static void note_end(const entry *entries, int64_t e, int sense, int64_t *known, uint8_t *shared)
{
    const stamp *mine = &entries[e].when, *theirs = &entries[*known].when;
    int order = (mine->wave > theirs->wave) - (mine->wave < theirs->wave);
    if (order == 0 && mine->owner != theirs->owner) {
        *shared = 1;
        return;
    }
    if (order != 0 && order == sense) *shared = 0;
    if (order == 0) order = mine->at < theirs->at ? -1 : 1;
    if (order == sense) *known = e;
}

void live_ranges_note(live_ranges *l, const entry *entries, int64_t e, int writes, int64_t first, int64_t last)
{
    for (bucket_ends *b = l->ends + first, *end = l->ends + last; b <= end; b++) {
        if (b->first < 0) *b = (bucket_ends){.first = e, .last = e, .input = !writes};
        note_end(entries, e, -1, &b->first, &b->first_shared);
        note_end(entries, e, 1, &b->last, &b->last_shared);
    }
}

void live_ranges_keep(live_ranges *l, int64_t first, int64_t last)
{
    for (bucket_ends *b = l->ends + first, *end = l->ends + last; b <= end; b++) {
        if (b->first < 0) *b = (bucket_ends){0};
        b->input = 1;
    }
}

/* Each entry's rank in the order, by its number; and where each wave begins. */
typedef struct ranks {
    const entry *entries;
    int64_t *item, n;
    int64_t *wave, n_waves; /* [n_waves + 1] */
} ranks;

/* Computes ranks from ordered entries; an empty wave ends where it begins. */
static hga_status find_ranks(const hga_plan *plan, const entry *entries, int64_t n, ranks *r)
{
    hga_status st = HGA_OK;
    *r = (ranks){.entries = entries, .n = n, .n_waves = n ? (int64_t)entries[n - 1].when.wave + 1 : 0};
    HGA_TRY(hga_new(&plan->memory.allocator, n, sizeof *r->item, &r->item));
    HGA_TRY(hga_new_zero(&plan->memory.allocator, r->n_waves + 1, sizeof *r->wave, &r->wave));
    for (int64_t i = 0; i < n; i++) r->item[entries[i].number] = i, r->wave[entries[i].when.wave + 1] = i + 1;
    for (int64_t w = 1; w <= r->n_waves; w++)
        if (r->wave[w] == 0) r->wave[w] = r->wave[w - 1]; /* an empty wave */
done:
    return st;
}

static void ranks_clear(const hga_plan *plan, ranks *r)
{
    hga_delete(&plan->memory.allocator, r->item, r->n, sizeof *r->item);
    hga_delete(&plan->memory.allocator, r->wave, r->n_waves + 1, sizeof *r->wave);
}

/* Where the wave of an item begins and ends in the order. */
static int64_t wave_begin(const ranks *r, int64_t item) { return r->wave[r->entries[item].when.wave]; }
static int64_t wave_end(const ranks *r, int64_t item) { return r->wave[r->entries[item].when.wave + 1] - 1; }

/* Rows that several threads use in the first wave of their range are allocated before any of them could free a row in
   that wave; rows that another thread uses in the last one are freed when all have ended. */
static live_range range_of(const bucket_ends *b, const ranks *r)
{
    const entry *entries = r->entries;
    int64_t begin = r->item[b->first], end = r->item[b->last];
    live_range x = {.thread = entries[begin].when.owner, .begin = begin, .end = end};
    if (b->first_shared) x.begin = wave_begin(r, begin);
    if (b->last_shared || entries[end].when.owner != x.thread) x.end = wave_end(r, end);
    if (b->input) x.begin = 0, x.end = -1;
    return x;
}

/* Appends a range; adjacent buckets with equal ranges are joined. */
static hga_status add_range(const hga_plan *plan, live_ranges *l, live_range x)
{
    live_range *last = l->n ? &l->range[l->n - 1] : NULL;
    if (last && last->storage == x.storage && last->first + last->n == x.first && last->thread == x.thread &&
        last->begin == x.begin && last->end == x.end) {
        last->n += x.n;
        return HGA_OK;
    }
    hga_status st = hga_grow(&plan->memory.allocator, &l->range, &l->capacity, l->n, l->n + 1, sizeof *l->range);
    if (!st) l->range[l->n++] = x;
    return st;
}

/* Finds the ranges of one storage, level by level, bucket by bucket. */
static hga_status find_storage(live_ranges *l, const accesses *a, const ranks *r, hga_id s)
{
    const hga_plan *plan = a->plan;
    const hga_id *level = plan->nodes.level_ptr;
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < plan->nodes.n_levels; i++) {
        const bucket_ends *b = l->ends + a->at[s] + a->bucket[i].first;
        for (hga_id v = level[i], each = 1 << a->bucket[i].shift; v < level[i + 1]; v += each, b++) {
            if (b->first < 0) continue;
            live_range x = range_of(b, r);
            x.storage = s, x.first = v, x.n = level[i + 1] - v < each ? level[i + 1] - v : each;
            HGA_TRY(add_range(plan, l, x));
            HGA_TRY(interrupted_at(b - l->ends));
        }
    }
done:
    return st;
}

/* Finds the ranges of every recycled storage. */
hga_status live_ranges_find(live_ranges *l, const accesses *a, const entry *entries, int64_t n)
{
    hga_status st = HGA_OK;
    ranks r = {0};
    HGA_TRY(find_ranks(a->plan, entries, n, &r));
    for (hga_id s = 0; s < N_STORAGES; s++)
        if (a->recycled >> s & 1u) HGA_TRY(find_storage(l, a, &r, s));
done:
    ranks_clear(a->plan, &r);
    return st;
}

void live_ranges_forget(live_ranges *l)
{
    for (int64_t i = 0; i < l->n_buckets; i++) l->ends[i].first = -1;
}

hga_status live_ranges_open(const hga_allocator *a, int64_t n_buckets, live_ranges *l)
{
    hga_status st = hga_new(a, n_buckets, sizeof *l->ends, &l->ends);
    l->n_buckets = n_buckets;
    if (!st) live_ranges_forget(l);
    return st;
}

void live_ranges_close(const hga_allocator *a, live_ranges *l)
{
    hga_delete(a, l->ends, l->n_buckets, sizeof *l->ends);
    hga_delete(a, l->range, l->capacity, sizeof *l->range);
}
