/* intervals.c: sums of interval lists. Disjoint intervals melt together; overlapping ones are swept. */
#include "intervals.h"

#include <stdlib.h>
#include <string.h>

/* Where a multiplicity changes. */
typedef struct tally_point {
    hga_id at;
    hga_pos change;
} tally_point;

hga_status tally_create(hga_id n, tally *t)
{
    hga_status st = HGA_OK;
    *t = (tally){.n = n};
    HGA_TRY(hga_new_zero(NULL, n, sizeof *t->start, &t->start));
    HGA_TRY(hga_new_zero(NULL, n, sizeof *t->size, &t->size));
done:
    if (st) tally_clear(t);
    return st;
}

void tally_clear(tally *t)
{
    hga_delete(NULL, t->start, t->n, sizeof *t->start);
    hga_delete(NULL, t->size, t->n, sizeof *t->size);
    hga_delete(NULL, t->pool, t->room, sizeof *t->pool);
    *t = (tally){0};
}

const tally_run *tally_list(const tally *t, hga_id v) { return t->size[v] ? t->pool + t->start[v] : NULL; }

void tally_sum_clear(tally_sum *s)
{
    hga_delete(NULL, s->run, s->room, sizeof *s->run);
    hga_delete(NULL, s->points, s->points_room, sizeof *s->points);
    *s = (tally_sum){0};
}

hga_status tally_add(tally_sum *s, const tally_run *run, int64_t n)
{
    if (n == 0) return HGA_OK;
    hga_status st = hga_grow(NULL, &s->run, &s->room, s->n, s->n + n, sizeof *s->run);
    if (st) return st;
    memcpy(s->run + s->n, run, (size_t)n * sizeof *run);
    s->n += n;
    return HGA_OK;
}

hga_pos tally_times(hga_pos a, hga_pos b)
{
    hga_pos product;
    return __builtin_mul_overflow(a, b, &product) || product > TALLY_MANY ? TALLY_MANY : product;
}

static int by_first(const void *a, const void *b)
{
    hga_id x = ((const tally_run *)a)->first, y = ((const tally_run *)b)->first;
    return (x > y) - (x < y);
}

static int by_place(const void *a, const void *b)
{
    hga_id x = ((const tally_point *)a)->at, y = ((const tally_point *)b)->at;
    return (x > y) - (x < y);
}

/* Sort by first token; tells whether the intervals are disjoint. */
static int sort_runs(tally_sum *s)
{
    int sorted = 1, disjoint = 1;
    for (int64_t i = 1; i < s->n && sorted; i++) sorted = s->run[i - 1].first <= s->run[i].first;
    if (!sorted) qsort(s->run, (size_t)s->n, sizeof *s->run, by_first);
    for (int64_t i = 1; i < s->n && disjoint; i++) disjoint = s->run[i - 1].last < s->run[i].first;
    return disjoint;
}

/* Append an interval to the list that starts at `start`, joined to its last one when it continues it. */
static hga_status push(tally *t, int64_t start, tally_run run)
{
    tally_run *end = t->n_pool > start ? &t->pool[t->n_pool - 1] : NULL;
    if (run.times > TALLY_MANY) run.times = TALLY_MANY;
    if (end && end->times == run.times && end->last == run.first - 1) {
        end->last = run.last;
        return HGA_OK;
    }
    hga_status st = hga_grow(NULL, &t->pool, &t->room, t->n_pool, t->n_pool + 1, sizeof *t->pool);
    if (!st) t->pool[t->n_pool++] = run;
    return st;
}

/* Overlapping intervals: sweep over the places where the number of them changes. At most 2^23 intervals of TALLY_MANY
   fit the counter. */
static hga_status sweep(tally_sum *s, tally *t, int64_t start)
{
    hga_status st = HGA_OK;
    int64_t n = 2 * s->n;
    hga_pos times = 0;
    HGA_TRY(hga_grow(NULL, &s->points, &s->points_room, 0, n, sizeof *s->points));
    for (int64_t i = 0; i < s->n; i++) {
        s->points[2 * i] = (tally_point){s->run[i].first, s->run[i].times};
        s->points[2 * i + 1] = (tally_point){s->run[i].last + 1, -s->run[i].times};
    }
    qsort(s->points, (size_t)n, sizeof *s->points, by_place);
    for (int64_t i = 0; i < n; i++) {
        hga_id from = i ? s->points[i - 1].at : 0, to = s->points[i].at - 1;
        if (times > 0 && from <= to) HGA_TRY(push(t, start, (tally_run){from, to, times}));
        times += s->points[i].change;
    }
done:
    return st;
}

hga_status tally_append(tally_sum *s, tally *t, int64_t *start, int32_t *size)
{
    hga_status st = HGA_OK;
    *start = t->n_pool;
    if (!sort_runs(s))
        st = sweep(s, t, *start);
    else
        for (int64_t i = 0; !st && i < s->n; i++) st = push(t, *start, s->run[i]);
    s->n = 0;
    *size = (int32_t)(t->n_pool - *start);
    return st;
}

hga_status tally_put(tally_sum *s, tally *t, hga_id v) { return tally_append(s, t, &t->start[v], &t->size[v]); }
