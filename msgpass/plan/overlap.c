/* overlap.c: whether the caller's arrays share memory. Views of one array may interleave, so that comparing their ends
   does not suffice. */
#include "overlap.h"
#include "bindings.h"

#include <stdio.h>

/* ---- arrays ---- */

/* Extends [least, greatest] by n steps from 0. */
static void span_steps(int64_t n, int64_t step, int64_t *least, int64_t *greatest)
{
    int64_t far = (n - 1) * step;
    *least += far < 0 ? far : 0, *greatest += far > 0 ? far : 0;
}

static void find_extent(io_array *a)
{
    int64_t least = 0, greatest = a->bytes;
    if (!a->data || a->rows < 1 || a->heads < 1 || a->bytes < 1) {
        a->data = NULL;
        return;
    }
    span_steps(a->rows, a->row, &least, &greatest), span_steps(a->heads, a->head, &least, &greatest);
    a->first = (uintptr_t)a->data + (uintptr_t)least, a->end = (uintptr_t)a->data + (uintptr_t)greatest;
}

static int64_t size_of(hga_dtype type) { return type == HGA_F32 ? (int64_t)sizeof(float) : (int64_t)sizeof(uint16_t); }

/* Whether n times the stride is a valid distance in memory. */
static int fits(int64_t n, ptrdiff_t stride) { return stride > -(INT64_MAX / 16) / n && stride < INT64_MAX / 16 / n; }

/* Rows and heads at constant strides, from element `first` on. */
typedef struct runs {
    ptrdiff_t first, row, head;
    int64_t rows, heads;
} runs;

/* All rows of those folds that have any of the rows: folds are as heads in order, or rows where the rows of a fold are
   such heads. */
static runs runs_of(const row_layout *x, int64_t first_row, int64_t n, hga_id heads)
{
    if (!x->fold) return (runs){first_row * x->row, x->row, x->head, n, heads};
    int64_t begin = first_row / x->fold, folds = (first_row + n - 1) / x->fold - begin + 1;
    ptrdiff_t far = x->fold * x->row + x->step, first = begin * far;
    if (folds == 1) return (runs){first + first_row % x->fold * x->row, x->row, x->head, n, heads};
    if (heads == 1) return (runs){first, x->row, far, x->fold, folds};
    if (far == heads * x->head) return (runs){first, x->row, x->head, x->fold, folds * heads};
    return (runs){first, far, x->head, folds, x->fold * heads};
}

/* Describes n rows of a tensor from first_row on as runs of bytes; fails if its strides leave memory. */
hga_status array_of_tensor(const char *what, const char *name, const hga_tensor *t, int64_t first_row, int64_t n,
                           hga_id heads, hga_id columns, io_array *out)
{
    int64_t size = size_of(t->dtype);
    *out = (io_array){.what = what, .name = name};
    if (!t->data || n < 1) return HGA_OK;
    hga_status st = tensor_check_fold(t, heads, columns, what, name);
    if (st) return st;
    row_layout x = tensor_layout(t, heads, columns);
    runs r = runs_of(&x, first_row, n, heads);
    if (!fits(first_row + n, x.row) || (x.fold && !fits(first_row + n, t->fold_stride)) || !fits(r.rows, r.row) ||
        !fits(r.heads, r.head))
        return hga_fail(HGA_EOVERFLOW, "%s%s%s: %lld rows %lld apart, %lld heads %lld apart leave memory", what,
                        *name ? " " : "", name, (long long)r.rows, (long long)r.row, (long long)r.heads,
                        (long long)r.head);
    *out = (io_array){.what = what,
                      .name = name,
                      .data = (const char *)t->data + r.first * size,
                      .rows = r.rows,
                      .heads = r.heads,
                      .row = r.row * size,
                      .head = r.head * size,
                      .bytes = columns * size};
    find_extent(out);
    return HGA_OK;
}

io_array array_of_block(const char *what, const char *name, const void *data, int64_t bytes)
{
    io_array a = {.what = what, .name = name, .data = data, .rows = 1, .heads = 1, .bytes = bytes};
    find_extent(&a);
    return a;
}

/* ---- intersection ---- */

static int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* Whether there is a whole number i in [least, greatest] with low < x + i * step < high. */
static int steps_between(int64_t x, int64_t step, int64_t least, int64_t greatest, int64_t low, int64_t high)
{
    if (step == 0) return least <= greatest && low < x && x < high;
    if (step < 0) {
        int64_t kept = least;
        least = -greatest, greatest = -kept, step = -step;
    }
    int64_t first = floor_of(low - x, step) + 1, last = -floor_of(x - high, step) - 1;
    return (first > least ? first : least) <= (last < greatest ? last : greatest);
}

/* Whether the array has no gaps: contiguous rows, or heads. */
static int is_solid(const io_array *a)
{
    int rows = a->rows == 1 || a->row == a->heads * a->bytes, heads = a->heads == 1 || a->head == a->rows * a->bytes;
    return (rows && (a->heads == 1 || a->head == a->bytes)) || (heads && (a->rows == 1 || a->row == a->bytes));
}

/* Whether b has a run with a byte in [first, end). */
static int has_run(const io_array *b, uintptr_t first, uintptr_t end)
{
    int64_t at = (int64_t)((uintptr_t)b->data - first), n = (int64_t)(end - first);
    int found = 0;
    for (int64_t h = 0; h < b->heads && !found; h++)
        found = steps_between(at + h * b->head, b->row, 0, b->rows - 1, -b->bytes, n);
    return found;
}

/* For equal strides: only the distance between a run of a and one of b matters. */
static int meet_in_step(const io_array *a, const io_array *b)
{
    int64_t at = (int64_t)((uintptr_t)a->data - (uintptr_t)b->data);
    int found = 0;
    for (int64_t h = 1 - b->heads; h < a->heads && !found; h++)
        found = steps_between(at + h * a->head, a->row, 1 - b->rows, a->rows - 1, -a->bytes, b->bytes);
    return found;
}

int arrays_meet(const io_array *a, const io_array *b)
{
    if (!a->data || !b->data || a->first >= b->end || b->first >= a->end) return 0;
    if (is_solid(a)) return has_run(b, a->first, a->end);
    if (is_solid(b)) return has_run(a, b->first, b->end);
    if (a->row == b->row && a->head == b->head) return meet_in_step(a, b);
    return a->data == b->data;
}

/* Whether two runs of the array share a byte. */
static int meets_itself(const io_array *a)
{
    if (!a->data) return 0;
    int64_t row = a->row < 0 ? -a->row : a->row;
    int found = a->rows > 1 && row < a->bytes;
    for (int64_t h = 1; h < a->heads && !found; h++)
        found = steps_between(h * a->head, a->row, 1 - a->rows, a->rows - 1, -a->bytes, a->bytes);
    return found;
}

/* ---- refusals ---- */

enum { NAME = 96 };
static const char *name_of(const io_array *a, char buffer[static NAME])
{
    snprintf(buffer, NAME, "%s%s%s", a->what, *a->name ? " " : "", a->name);
    return buffer;
}

/* Arrays that are only read may share memory; one that is written must not overlap itself either. */
hga_status arrays_disjoint(const io_array *a, int a_written, const io_array *b, int b_written)
{
    char one[NAME], other[NAME];
    if (a == b && a_written && meets_itself(a))
        return hga_fail(HGA_EINVAL, "%s overlaps itself: runs of %lld bytes, its rows %lld apart, its heads %lld",
                        name_of(a, one), (long long)a->bytes, (long long)a->row, (long long)a->head);
    if (a == b || !(a_written || b_written) || !arrays_meet(a, b)) return HGA_OK;
    if (a_written && b_written)
        return hga_fail(HGA_EINVAL, "%s and %s share memory", name_of(a, one), name_of(b, other));
    return hga_fail(HGA_EINVAL, "%s would be written over %s", name_of(a_written ? a : b, one),
                    name_of(a_written ? b : a, other));
}

/* ---- arrays of many calls ---- */

/* Merges two lists sorted by the arrays' beginnings. */
static call_array *merge_arrays(call_array *a, call_array *b)
{
    call_array *first = NULL, **last = &first;
    for (; a && b; last = &(*last)->next) {
        call_array **least = b->at.first < a->at.first ? &b : &a;
        *last = *least, *least = (*least)->next;
    }
    *last = a ? a : b;
    return first;
}

/* Merge sort by the arrays' beginnings: list i has 2^i arrays, or none. */
static call_array *sort_arrays(call_array *list)
{
    enum { LISTS = 48 };
    call_array *sorted[LISTS] = {NULL}, *all = NULL;
    while (list) {
        call_array *a = list;
        int at = 0;
        list = a->next, a->next = NULL;
        for (; sorted[at]; at++) a = merge_arrays(sorted[at], a), sorted[at] = NULL;
        sorted[at] = a;
    }
    for (int at = 0; at < LISTS; at++) all = merge_arrays(all, sorted[at]);
    return all;
}

static hga_status arrays_refuse(const io_array *a, const io_array *b, hga_id sample)
{
    char one[NAME], other[NAME];
    return hga_fail(HGA_EINVAL, "%s and %s of sample %d share memory", name_of(a, one), name_of(b, other), sample);
}

/* Compares `x` with all before it in the list; *sample is the later one of two that meet. */
static hga_status compare(const call_array *list, const call_array *x, hga_id *sample)
{
    for (const call_array *y = list; y != x; y = y->next) {
        if (y->sample == x->sample || !(x->written || y->written) || !arrays_meet(&x->at, &y->at)) continue;
        const call_array *later = y->sample > x->sample ? y : x, *other = later == x ? y : x;
        *sample = later->sample;
        return arrays_refuse(&later->at, &other->at, other->sample);
    }
    return HGA_OK;
}

/* An array that begins after the ends of all before it meets none of them. */
hga_status listed_arrays_disjoint(call_array *list, hga_id *sample)
{
    hga_status st = HGA_OK;
    uintptr_t written = 0, any = 0;
    list = sort_arrays(list);
    for (const call_array *x = list; x && !st; x = x->next) {
        if (x->at.first < (x->written ? any : written)) st = compare(list, x, sample);
        if (x->at.end > any) any = x->at.end;
        if (x->written && x->at.end > written) written = x->at.end;
    }
    return st;
}
