/* staircase.c: turns a staircase into as few blocks as its ends allow. */
#include "hga_builders.h"
#include "least.h"

/* Instances [begin, end). */
typedef struct range {
    int64_t begin, end;
} range;

/* floor(a / b), b > 0 */
static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* the m for which [first + m * step, + n) lies within [begin, end) */
static range whole_within(int64_t first, int64_t n, int64_t step, int64_t begin, int64_t end)
{
    return (range){floor_div(begin - first + step - 1, step), floor_div(end - n - first, step) + 1};
}

/* the m for which [first + m * step, + n) meets [begin, end) */
static range meeting(int64_t first, int64_t n, int64_t step, int64_t begin, int64_t end)
{
    return (range){floor_div(begin - first - n, step) + 1, floor_div(end - first - 1, step) + 1};
}

static range both(range a, range b) { return (range){most(a.begin, b.begin), least(a.end, b.end)}; }

/* `count` instances from m on; a single one may be clipped */
static hga_status add_instances(hga_builder *b, hga_id relation, const hga_staircase *s, int64_t m, int64_t count)
{
    int64_t row = s->row + m * s->row_step, col = s->col + m * s->col_step;
    int64_t row_begin = most(row, s->row_begin), row_end = least(row + s->n_rows, s->row_end);
    int64_t col_begin = most(col, s->col_begin), col_end = least(col + s->n_cols, s->col_end);
    int64_t type = s->type + (row_begin - row) * s->type_dst + (col_begin - col) * s->type_src;
    hga_block block = {.dst = (hga_id)row_begin,
                       .n_dst = (hga_id)(row_end - row_begin),
                       .src = (hga_id)col_begin,
                       .n_src = (hga_id)(col_end - col_begin),
                       .count = (hga_id)count,
                       .type = (int32_t)type,
                       .type_dst = (int32_t)s->type_dst,
                       .type_src = (int32_t)s->type_src,
                       .shape = s->shape,
                       .weight = s->weight};
    if (count > 1) block.dst_step = (hga_id)s->row_step, block.src_step = (hga_id)s->col_step;
    return hga_builder_add_blocks(b, relation, &block);
}

static int outside(int64_t begin, int64_t end) { return begin < end && (begin < 0 || end > INT32_MAX); }

/* Refuses steps below 1, rows and columns that are no ids, and shapes that cannot be repeated. */
static hga_status check_staircase(const hga_staircase *s)
{
    if (s->row_step < 1 || s->col_step < 1)
        return hga_fail(HGA_EINVAL, "staircase: steps of %lld rows and %lld columns; both are at least 1",
                        (long long)s->row_step, (long long)s->col_step);
    if (outside(s->row_begin, s->row_end) || outside(s->col_begin, s->col_end))
        return hga_fail(HGA_EINVAL, "staircase: rows %lld to %lld, columns %lld to %lld: not all are ids",
                        (long long)s->row_begin, (long long)s->row_end, (long long)s->col_begin, (long long)s->col_end);
    if ((unsigned)s->shape >= HGA_BAND)
        return hga_fail(HGA_EINVAL, "staircase: shape %d cannot be repeated", (int)s->shape);
    return HGA_OK;
}

/* whether instance m has lost its first rows or columns */
static int clipped_low(const hga_staircase *s, int64_t m)
{
    return s->row + m * s->row_step < s->row_begin || s->col + m * s->col_step < s->col_begin;
}

hga_status hga_builder_add_staircase(hga_builder *b, hga_id relation, const hga_staircase *s)
{
    hga_status st = check_staircase(s);
    if (st || s->n_rows <= 0 || s->n_cols <= 0 || s->row_begin >= s->row_end || s->col_begin >= s->col_end) return st;
    range part = both(meeting(s->row, s->n_rows, s->row_step, s->row_begin, s->row_end),
                      meeting(s->col, s->n_cols, s->col_step, s->col_begin, s->col_end));
    range whole = both(whole_within(s->row, s->n_rows, s->row_step, s->row_begin, s->row_end),
                       whole_within(s->col, s->n_cols, s->col_step, s->col_begin, s->col_end));
    if (whole.begin >= whole.end) whole = (range){part.end, part.end};
    if (s->shape != HGA_ALL && part.begin < part.end && clipped_low(s, part.begin))
        return hga_fail(HGA_EINVAL, "staircase: an instance of shape %d is cut at its low end by %lld or %lld",
                        (int)s->shape, (long long)s->row_begin, (long long)s->col_begin);
    for (int64_t m = part.begin; m < whole.begin; m++) HGA_TRY(add_instances(b, relation, s, m, 1));
    if (whole.begin < whole.end) HGA_TRY(add_instances(b, relation, s, whole.begin, whole.end - whole.begin));
    for (int64_t m = whole.end; m < part.end; m++) HGA_TRY(add_instances(b, relation, s, m, 1));
done:
    return st;
}
