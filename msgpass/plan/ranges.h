/* ranges.h: which rows of the output a call requests (ranges.c). */
#ifndef HGA_PLAN_RANGES_H
#define HGA_PLAN_RANGES_H

#include "hga_plan.h"
#include "program.h"

/* Rows of the output that a call requests: n intervals, ascending and disjoint; one for all rows, in `buffer`, where
   the call names none. */
typedef struct requested_rows {
    const hga_interval *interval;
    int64_t n;
    hga_interval buffer;
    int all;
} requested_rows;

/* Identifies the requested rows of the output: first row, number from the first to the last, intervals, and a hash of
   the intervals' positions. */
typedef struct requested_stamp {
    int64_t first, n, intervals;
    uint64_t hash;
} requested_stamp;

/* Finds the rows that a call requests; io->rows is borrowed, and *out must not move. HGA_EINVAL: the intervals
   leave the output or do not ascend, or the plan has no slices. HGA_EUNSUPPORTED: the plan is on ranks. */
hga_status ranges_requested(const hga_plan *plan, const hga_io *io, requested_rows *out);
/* The stamp of these rows, n > 0. */
requested_stamp ranges_stamp(const requested_rows *rows);

#endif
