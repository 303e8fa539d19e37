/* attend_row.h: attention row by row (attend_rows.c), with sums of edge features (edge_sums.c). */
#ifndef ATTEND_ROW_H
#define ATTEND_ROW_H

#include "stages.h"

/* Head strides of a chunk's keys and values: one for all rows (same_*), or each row's own. */
typedef struct chunk_heads {
    int same_k, same_v;
    ptrdiff_t k_stride, v_stride;
} chunk_heads;
/* Computes all heads of the chunk's edges from `first` on, some or all of them. */
typedef void (*heads_runner)(worker *w, kernel_heads *heads, hga_id first, const row_job *job);

/* attend_rows.c: loads the row's queries. attend_open finds the chunk's keys and values and its score bases;
   attend_part gives the row kernels' arguments for one head, without dropout. */
void attend_load(worker *w, const row_job *job);
chunk_heads attend_open(worker *w, const row_job *job);
kernel_chunk attend_part(worker *w, const row_job *job, const chunk_heads *at, hga_id h);
void run_all_heads(worker *w, const row_job *job, const chunk_heads *at, heads_runner run);

/* edge_sums.c: sums of edge features of a row, or split, that has them: sets them to 0 before attention; attends and
   sums, where that is possible, and scales them by the state's factor; else adds those of the chunk with weights
   already computed. */
void edge_sums_begin(worker *w, const row_job *job);
void attend_and_sum(worker *w, kernel_heads *heads, hga_id first, const row_job *job);
void edge_sums_scale(const worker *w, const row_job *job);
void edge_sums_add(const worker *w, const row_job *job);

#endif
