/* ranges.c: which rows of the output a call requests: all, or those of a list of intervals. */
#include "ranges.h"
#include "plan.h"

static hga_status check_intervals(const hga_rows *rows)
{
    hga_status st = hga_check_reserved("hga_rows", rows->reserved, sizeof rows->reserved);
    if (st) return st;
    if (rows->n_intervals < 1 || !rows->interval)
        return hga_fail(HGA_EINVAL, "hga_rows has %lld intervals%s", (long long)rows->n_intervals,
                        rows->interval ? "" : ", which are missing");
    return HGA_OK;
}

/* Checks an interval of rows of the output, and that the plan can leave the others out. */
static hga_status check_interval(const hga_plan *plan, hga_interval x, hga_id rows)
{
    if (plan_is_shared(plan))
        return hga_fail(HGA_EUNSUPPORTED, "rows %lld + %lld are asked for, but a rank computes all of its rows",
                        (long long)x.first, (long long)x.n);
    if (!plan->slices)
        return hga_fail(HGA_EINVAL, "rows %lld + %lld are asked for, but the plan was made without options.rows",
                        (long long)x.first, (long long)x.n);
    if (x.first < 0 || x.n < 1 || x.first > rows - x.n)
        return hga_fail(HGA_EINVAL, "rows %lld + %lld are asked for, but the output has %d", (long long)x.first,
                        (long long)x.n, rows);
    return HGA_OK;
}

static hga_status check_order(hga_interval before, hga_interval x)
{
    if (x.first >= before.first + before.n) return HGA_OK;
    return hga_fail(HGA_EINVAL, "rows %lld + %lld are asked for behind rows %lld + %lld; intervals ascend",
                    (long long)x.first, (long long)x.n, (long long)before.first, (long long)before.n);
}

/* A call without intervals requests all rows; intervals must ascend. */
hga_status ranges_requested(const hga_plan *plan, const hga_io *io, requested_rows *out)
{
    hga_id rows = plan->fields.storage[program_bound(&plan->program, HGA_IO_OUT)].input_n;
    hga_status st = io->rows ? check_intervals(io->rows) : HGA_OK;
    *out = (requested_rows){.n = 1, .buffer = {0, rows}, .all = 1};
    out->interval = &out->buffer;
    if (st || !io->rows) return st;
    out->interval = io->rows->interval, out->n = io->rows->n_intervals;
    for (int64_t i = 0; !st && i < out->n; i++) {
        st = check_interval(plan, out->interval[i], rows);
        if (!st && i) st = check_order(out->interval[i - 1], out->interval[i]);
    }
    out->all = !st && out->n == 1 && out->interval->n == rows;
    return st;
}

/* FNV-1a, a word at a time. */
requested_stamp ranges_stamp(const requested_rows *rows)
{
    const hga_interval *first = rows->interval, *last = first + rows->n - 1;
    requested_stamp x = {first->first, last->first + last->n - first->first, rows->n, UINT64_C(0xcbf29ce484222325)};
    for (int64_t i = 0; i < rows->n; i++) {
        x.hash = (x.hash ^ (uint64_t)first[i].first) * UINT64_C(0x100000001b3);
        x.hash = (x.hash ^ (uint64_t)first[i].n) * UINT64_C(0x100000001b3);
    }
    return x;
}
