/* ranges.h: which rows of the output a call requests (ranges.c). */
#ifndef HGA_PLAN_RANGES_H
#define HGA_PLAN_RANGES_H

#include "hga_plan.h"
#include "program.h"

/* Rows of the output that a call requests: n intervals, ascending and disjoint; one for all rows, kept in `room`, where
   the call names none. */
typedef struct asked_rows {
    const hga_interval *interval;
    int64_t n;
    hga_interval room;
    int all;
} asked_rows;

/* Which rows of the output were asked for: from the first to the last, in so many intervals, of which a number stands
   for where they lie. */
typedef struct asked_stamp {
    int64_t first, n, intervals;
    uint64_t places;
} asked_stamp;

hga_status ranges_asked(const hga_plan *plan, const hga_io *io, asked_rows *out);
asked_stamp ranges_stamp(const asked_rows *rows);

#endif
