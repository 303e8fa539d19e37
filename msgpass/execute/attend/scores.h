/* scores.h: the terms of scores besides the product of query and key, and addresses of a chunk's keys and values
   (scores.c). */
#ifndef SCORES_H
#define SCORES_H

#include "stage_kernel.h"

/* Converts a score to base 2; the least number stays finite. */
float in_base_2(float x);
/* The slope of a head, in base 2. */
float slope_in_base_2(const worker *w, hga_id head);
/* Terms that all heads share, for a chunk: log mass, log weight, and for row v >= 0 its positions; in base 2. */
void score_bases(const worker *w, hga_id stage, hga_id v, const edge_chunk *c, float *base);
/* How a stage's kernels weigh a chunk. Where sigmoids have counts, fills `inverse` with 1 / those of the chunk. */
kernel_sigmoids sigmoids_of_chunk(const worker *w, hga_id stage, const edge_chunk *c, float *inverse);
/* The same from edge or column `first` on. */
static inline kernel_sigmoids sigmoids_from(kernel_sigmoids x, hga_id first)
{
    if (x.inverse_count) x.inverse_count += first;
    return x;
}
/* Adds one head's terms of the job's row, into row.bias; in base 2. */
void score_biases(worker *w, const row_job *job, hga_id head);
/* Rows of field x at the chunk's sources, for head 0. *same: all have one head stride. */
void find_sources(const edge_chunk *c, const bound_field *x, const float **row, int *same, ptrdiff_t *stride);
/* Packs columns first .. first + n - 1 of the worker's chunk, whose rows are row[0] .. row[n - 1], contiguously in
   `to`, where their strides differ; sets `row` to the copies. */
void pack_sources(const worker *w, const bound_field *x, hga_id first, hga_id n, const float **row, float *to);
/* The same rows for another head, where strides differ from row to row. */
void move_to_head(const edge_chunk *c, const bound_field *x, const float *const *row, hga_id head, const float **out);

#endif
