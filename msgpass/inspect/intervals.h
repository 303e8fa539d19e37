/* tally.h: for every node a list of token intervals with multiplicities: which tokens a value stands for, and along how
   many ways. */
#ifndef HGA_TALLY_H
#define HGA_TALLY_H

#include "hga_graph.h"

/* Tokens first .. last, each `times` times. Times stay at TALLY_MANY once they get there: ways multiply from level to
   level. */
typedef struct tally_run {
    hga_id first, last;
    hga_pos times;
} tally_run;
#define TALLY_MANY ((hga_pos)1 << 40)

/* Node v's list is pool[start[v] .. start[v] + size[v]): sorted, disjoint, neighbours joined. Nodes may share one. */
typedef struct tally {
    hga_id n;
    int64_t *start;
    int32_t *size;
    tally_run *pool;
    int64_t n_pool, room;
} tally;

/* Every list empty. */
hga_status tally_create(hga_id n, tally *t);
void tally_clear(tally *t);
const tally_run *tally_list(const tally *t, hga_id v);

/* Lists to be added up, and room for it. A zeroed one is empty. */
typedef struct tally_sum {
    tally_run *run;
    int64_t n, room;
    struct tally_point *points;
    int64_t points_room;
} tally_sum;
void tally_sum_clear(tally_sum *s);
hga_status tally_add(tally_sum *s, const tally_run *run, int64_t n);
/* The sum becomes node v's list; the sum is empty afterwards. */
hga_status tally_put(tally_sum *s, tally *t, hga_id v);
/* The same, for no node: the list starts at *start. */
hga_status tally_append(tally_sum *s, tally *t, int64_t *start, int32_t *size);

hga_pos tally_times(hga_pos a, hga_pos b);

#endif
