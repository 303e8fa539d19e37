/* intervals.c: sums of interval lists, two at a time until one is left. */
#include "intervals.h"

#include <string.h>

/* ---- sums ---- */

void interval_sum_clear(interval_sum *s)
{
    hga_delete(NULL, s->part, s->capacity, sizeof *s->part);
    hga_delete(NULL, s->end, s->run_capacity, sizeof *s->end);
    hga_delete(NULL, s->spare, s->spare_capacity, sizeof *s->spare);
    *s = (interval_sum){.most = s->most};
}

static hga_pos clip(const interval_sum *s, hga_pos times)
{
    hga_pos most = s->most ? s->most : INTERVAL_MANY;
    return times < most ? times : most;
}

static int continues(const interval *a, const interval *b)
{
    return a->last + 1 == b->first && a->times == b->times && a->tags == b->tags;
}

/* An interval that precedes the one added last begins another run; interval_take merges runs. */
hga_status interval_add(interval_sum *s, interval one)
{
    hga_status st = HGA_OK;
    interval *before = s->n_parts ? &s->part[s->n_parts - 1] : NULL;
    one.times = clip(s, one.times);
    if (before && continues(before, &one)) {
        before->last = one.last;
        return HGA_OK;
    }
    int begins_a_run = !before || before->last >= one.first; /* before growing, which moves the array */
    HGA_TRY(hga_grow(NULL, &s->part, &s->capacity, s->n_parts, s->n_parts + 1, sizeof *s->part));
    if (begins_a_run) {
        HGA_TRY(hga_grow(NULL, &s->end, &s->run_capacity, s->n_runs, s->n_runs + 1, sizeof *s->end));
        s->n_runs++;
    }
    s->part[s->n_parts++] = one;
    s->end[s->n_runs - 1] = s->n_parts;
done:
    return st;
}

/* Only the first may continue the last one; the list's others do not continue each other. */
hga_status interval_add_list(interval_sum *s, const interval *list, int64_t n)
{
    hga_status st = HGA_OK;
    if (n == 0) return HGA_OK;
    HGA_TRY(interval_add(s, list[0]));
    HGA_TRY(hga_grow(NULL, &s->part, &s->capacity, s->n_parts, s->n_parts + n - 1, sizeof *s->part));
    memcpy(s->part + s->n_parts, list + 1, (size_t)(n - 1) * sizeof *list);
    s->n_parts += n - 1;
    s->end[s->n_runs - 1] = s->n_parts;
done:
    return st;
}

/* Output of a merge: out[from .. n). */
typedef struct merging {
    const interval_sum *sum;
    interval *out;
    int64_t from, n;
} merging;

static void emit(merging *m, interval one)
{
    if (m->n > m->from && continues(&m->out[m->n - 1], &one))
        m->out[m->n - 1].last = one.last;
    else
        m->out[m->n++] = one;
}

/* Emits the first interval up to `last`, and shortens it to the rest. */
static void emit_until(merging *m, interval *a, hga_id last)
{
    interval part = *a;
    part.last = last;
    emit(m, part);
    a->first = last + 1;
}

/* Emits the intersection's beginning, where times add up and tags unite; shortens a and b to the rest. */
static void emit_both(merging *m, interval *a, interval *b)
{
    hga_id last = a->last < b->last ? a->last : b->last;
    interval both = {a->first, last, clip(m->sum, a->times + b->times), a->tags | b->tags};
    emit(m, both);
    a->first = b->first = last + 1;
}

/* Merges lists a[0 .. n_a) and b[0 .. n_b) into at most 2 (n_a + n_b) intervals. */
static void merge_intervals(merging *m, const interval *a, int64_t n_a, const interval *b, int64_t n_b)
{
    const interval *a_end = a + n_a, *b_end = b + n_b;
    interval x = *a, y = *b;
    while (a < a_end && b < b_end) {
        if (x.first < y.first)
            emit_until(m, &x, x.last < y.first ? x.last : y.first - 1);
        else if (y.first < x.first)
            emit_until(m, &y, y.last < x.first ? y.last : x.first - 1);
        else
            emit_both(m, &x, &y);
        if (x.first > x.last && ++a < a_end) x = *a;
        if (y.first > y.last && ++b < b_end) y = *b;
    }
    for (; a < a_end; x = ++a < a_end ? *a : x) emit(m, x);
    for (; b < b_end; y = ++b < b_end ? *b : y) emit(m, y);
}

/* Merges runs 2 i and 2 i + 1 into run i. */
static hga_status halve(interval_sum *s)
{
    hga_status st = HGA_OK;
    merging m = {.sum = s};
    int64_t begin = 0, runs = 0;
    HGA_TRY(hga_grow(NULL, &s->spare, &s->spare_capacity, 0, 2 * s->n_parts, sizeof *s->spare));
    m.out = s->spare;
    for (int64_t i = 0; i < s->n_runs; i += 2, runs++) {
        int64_t middle = s->end[i], end = i + 1 < s->n_runs ? s->end[i + 1] : middle;
        m.from = m.n;
        if (end > middle)
            merge_intervals(&m, s->part + begin, middle - begin, s->part + middle, end - middle);
        else
            for (int64_t k = begin; k < middle; k++) emit(&m, s->part[k]);
        s->end[runs] = m.n, begin = end;
    }
    interval *part = s->part;
    int64_t capacity = s->capacity;
    s->part = s->spare, s->capacity = s->spare_capacity, s->n_parts = m.n, s->n_runs = runs;
    s->spare = part, s->spare_capacity = capacity;
done:
    return st;
}

hga_status interval_take(interval_sum *s, const interval **list, int64_t *n)
{
    hga_status st = HGA_OK;
    while (s->n_runs > 1) HGA_TRY(halve(s));
done:
    *list = s->part, *n = st ? 0 : s->n_parts;
    s->n_parts = s->n_runs = 0;
    return st;
}

hga_pos interval_times(hga_pos a, hga_pos b)
{
    hga_pos product;
    return __builtin_mul_overflow(a, b, &product) || product > INTERVAL_MANY ? INTERVAL_MANY : product;
}

/* ---- lists ---- */

hga_status interval_lists_create(hga_id n, interval_lists *l)
{
    hga_status st = HGA_OK;
    *l = (interval_lists){.n = n};
    HGA_TRY(hga_new_zero(NULL, n, sizeof *l->start, &l->start));
    HGA_TRY(hga_new_zero(NULL, n, sizeof *l->size, &l->size));
done:
    if (st) interval_lists_clear(l);
    return st;
}

void interval_lists_clear(interval_lists *l)
{
    hga_delete(NULL, l->start, l->n, sizeof *l->start);
    hga_delete(NULL, l->size, l->n, sizeof *l->size);
    hga_delete(NULL, l->pool, l->capacity, sizeof *l->pool);
    *l = (interval_lists){0};
}

const interval *interval_list(const interval_lists *l, hga_id v) { return l->size[v] ? l->pool + l->start[v] : NULL; }

/* Appends `capacity` intervals to the pool. */
static hga_status extend_pool(interval_lists *l, int64_t capacity, int64_t *start)
{
    hga_status st = hga_grow(NULL, &l->pool, &l->capacity, l->n_pool, l->n_pool + capacity, sizeof *l->pool);
    *start = l->n_pool;
    if (!st) l->n_pool += capacity;
    return st;
}

static void fill(interval_lists *l, hga_id v, int64_t start, const interval *list, int64_t n)
{
    l->start[v] = start, l->size[v] = (int32_t)n;
    if (n) memcpy(l->pool + start, list, (size_t)n * sizeof *list);
}

hga_status interval_put(interval_lists *l, hga_id v, const interval *list, int64_t n)
{
    int64_t start;
    if (n > INT32_MAX) return hga_fail(HGA_EOVERFLOW, "intervals: a list of %lld", (long long)n);
    hga_status st = extend_pool(l, n, &start);
    if (!st) fill(l, v, start, list, n);
    return st;
}

/* Capacities of slots are powers of two. */
static int index_power(int64_t n) { return n < 2 ? 0 : 64 - __builtin_clzll((unsigned long long)n - 1); }

/* Stores node v's list in a vacant slot, or at the end of the pool. */
hga_status interval_lodge(interval_lists *l, hga_id v, const interval *list, int64_t n)
{
    hga_status st = HGA_OK;
    int slot = index_power(n);
    int64_t start = 0;
    if (n > INT32_MAX) return hga_fail(HGA_EOVERFLOW, "intervals: a list of %lld", (long long)n);
    if (n && l->vacant[slot]) {
        start = l->vacant[slot] - 1;
        l->vacant[slot] = l->pool[start].times;
    } else if (n) {
        HGA_TRY(extend_pool(l, (int64_t)1 << slot, &start));
    }
    fill(l, v, start, list, n);
done:
    return st;
}

/* A vacant slot's first interval has the next vacant one in `times`. */
void interval_leave(interval_lists *l, hga_id v)
{
    int slot = index_power(l->size[v]);
    if (l->size[v] == 0) return;
    l->pool[l->start[v]].times = l->vacant[slot];
    l->vacant[slot] = l->start[v] + 1;
    l->size[v] = 0;
}
