/* intervals.h: multisets of numbers as lists of intervals. A list is sorted and disjoint, and neighbours with equal
   times and tags are merged, so that equal multisets are equal lists. Lists are summed by merging: the cost grows with
   intervals, never with the numbers in them. */
#ifndef HGA_INTERVALS_H
#define HGA_INTERVALS_H

#include "hga_graph.h"

/* Numbers first .. last, each `times` times; `tags` is any set that is united where intervals are added (0: none). */
typedef struct interval {
    hga_id first, last;
    hga_pos times;
    uint64_t tags;
} interval;

/* Times are clipped to the most that a sum counts to. */
#define INTERVAL_MANY ((hga_pos)1 << 40)

/* Lists to be summed. A zeroed sum is empty and counts to INTERVAL_MANY. */
typedef struct interval_sum {
    hga_pos most;
    interval *part; /* contiguous runs, each a list; run i ends at end[i] */
    int64_t n_parts, capacity;
    int64_t *end;
    int64_t n_runs, run_capacity;
    interval *spare;
    int64_t spare_capacity;
} interval_sum;

/* Frees its lists: the sum is empty; `most` stays. */
void interval_sum_clear(interval_sum *s);
/* Adds one interval, its times clipped; one that precedes the interval added last begins another run. */
hga_status interval_add(interval_sum *s, interval one);
/* Adds a list of a sum that counted to no more than this one does. */
hga_status interval_add_list(interval_sum *s, const interval *list, int64_t n);
/* The sum as a list of *n, borrowed until something is added again; the sum is empty afterwards. */
hga_status interval_take(interval_sum *s, const interval **list, int64_t *n);

/* A list for each of n nodes; several may share one. Node v's is pool[start[v] .. start[v] + size[v]). */
typedef struct interval_lists {
    hga_id n;
    int64_t *start;
    int32_t *size;
    interval *pool;
    int64_t n_pool, capacity;
    int64_t vacant[32]; /* 1 + the first of the vacant slots of 2^i intervals; 0: none */
} interval_lists;

/* Creates n empty lists. */
hga_status interval_lists_create(hga_id n, interval_lists *l);
/* Frees the lists, and zeroes *l. */
void interval_lists_clear(interval_lists *l);
/* Node v's list, size[v] intervals in the pool: valid until a list is set; NULL: it is empty. */
const interval *interval_list(const interval_lists *l, hga_id v);
/* Sets v's list to `list` (not in the pool). */
hga_status interval_put(interval_lists *l, hga_id v, const interval *list, int64_t n);
/* The same in a slot that interval_leave makes vacant, for lists that are freed and shared by none. */
hga_status interval_lodge(interval_lists *l, hga_id v, const interval *list, int64_t n);
/* Empties v's list, which interval_lodge has set, and makes its slot vacant. */
void interval_leave(interval_lists *l, hga_id v);

/* min(a b, INTERVAL_MANY). */
hga_pos interval_times(hga_pos a, hga_pos b);

#endif
