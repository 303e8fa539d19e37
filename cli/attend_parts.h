/* attend_parts.h: heads that choose for themselves have a graph each: a call goes part by part, and what parts give is
   put together. */
#ifndef CLI_ATTEND_PARTS_H
#define CLI_ATTEND_PARTS_H

#include "attend_gradients.h"

/* Query heads [first, first + n) of a call of `of`, and the key/value heads that they read. */
typedef struct head_part {
    hga_id first, n, of, kv_first, kv_n;
} head_part;

/* Part i of so many. */
head_part part_of(const attend_io *all, hga_id i, hga_id parts);
/* One sample of what was read, these heads of it; release with part_clear. A part of all heads borrows everything. */
int part_take(const attend_io *all, hga_id sample, const head_part *p, attend_io *one);
void part_clear(const attend_io *all, const head_part *p, attend_io *one);

/* What is given of the gradients of the part's heads; zeroed sums. Release with gradients_clear. */
int part_gradients(const attend_gradients *g, hga_id sample, const head_part *p, attend_gradients *of_part);
/* The part's gradients are added to those of all heads. */
int part_add_gradients(const attend_io *all, hga_id sample, const head_part *p, const attend_gradients *of_part,
                       attend_gradients *g);
/* [rows][heads of the part][columns] to their place in [rows][all heads][columns]. */
void part_put(const head_part *p, int64_t rows, int64_t columns, const float *x, float *all);

#endif
