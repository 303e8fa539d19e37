/* window_visits.h: which rows have which window of KERNEL_CHUNK source positions: for rows that run by columns, forward
   and backward. */
#ifndef WINDOW_VISITS_H
#define WINDOW_VISITS_H

#include "kernels.h"

/* Kernels sum columns in so many accumulators cyclically: parts whose offsets differ by a multiple of this sum in the
   same order. */
enum { SUM_ACCUMULATORS = 8 };

/* A row that has some columns of a window, as bits; none: it is computed alone. next: the next row's visit, -1. */
typedef struct window_visit {
    uint64_t columns;
    hga_id index, next; /* index: of the row among those computed together */
} window_visit;

typedef struct window_visits {
    window_visit *visit; /* [capacity], the first n */
    int64_t capacity;
    hga_id n;
    hga_id *first, *last; /* [64 * words]: of a window that is touched */
    uint64_t *touched;    /* [words]: windows with visits, as bits */
    hga_id words;
} window_visits;

/* Words of the bit set of windows for so many nodes. */
static inline hga_id visits_words(hga_id nodes) { return nodes / KERNEL_CHUNK / 64 + 1; }

/* Columns [at, end), at < end, as bits of the window of `at`; those beyond the window are left out. */
static inline uint64_t window_bits(int64_t at, int64_t end)
{
    const int64_t left = KERNEL_CHUNK - at % KERNEL_CHUNK, n = end - at < left ? end - at : left;
    return UINT64_MAX >> (KERNEL_CHUNK - n) << at % KERNEL_CHUNK;
}

/* The last visit to a window; NULL: there is none. */
window_visit *visits_last(window_visits *x, hga_id window);
/* Appends a visit to the window's; there must be capacity. */
void visits_add(window_visits *x, hga_id window, window_visit visit);
/* The next window with visits, from `window` on; -1: none. */
hga_id visits_next(const window_visits *x, hga_id window);
/* Removes all visits. */
void visits_forget(window_visits *x);

/* The columns [first, last) of a window that a tile computes. */
typedef struct window_part {
    hga_id first, last;
    int full; /* every row has every column of these */
} window_part;
/* From the first to the last column of a window that some of n rows has, columns[n] as bits, not all 0; rows[e]: which
   rows have column e. `first` is rounded down to a multiple of SUM_ACCUMULATORS: how many columns come before a row's
   own does not change its bits then. */
window_part visits_trim(const uint64_t *columns, hga_id n, lane_mask *rows);

#endif
