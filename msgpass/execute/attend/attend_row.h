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

/* ---- attend_rows.c ---- */

/* Loads the vectors of additive scores, times the scale. */
void load_additive(const worker *w);
/* A head's vector, once it is loaded; the vectors of all heads from it on. */
kernel_additive additive_of(const worker *w, hga_id head);
/* Loads the row's queries. */
void attend_load(worker *w, const row_job *job);
/* Finds the chunk's keys and values, its score bases and, where tables of edges need them, its ranks. */
chunk_heads attend_open(worker *w, const row_job *job);
/* The row kernels' arguments for head h, without dropout. */
kernel_chunk attend_part(worker *w, const row_job *job, const chunk_heads *at, hga_id h);
/* Calls `run` for all of the chunk's edges: once, or where keys or values are packed first, KERNEL_HEAD_EDGES at a
   time. */
void run_all_heads(worker *w, const row_job *job, const chunk_heads *at, heads_runner run);

/* ---- edge_sums.c: sums of edge features of a row, or split, that has them ---- */

/* Sets them to 0, before attention, and finds whether attend_and_sum can compute them (edges.at_once). */
void edge_sums_begin(worker *w, const row_job *job);
/* A heads_runner: attends, and sums the features of the edges; edge_sums_scale finishes the sums. */
void attend_and_sum(worker *w, kernel_heads *heads, hga_id first, const row_job *job);
/* Multiplies the sums of each head h by row.sum[h], the state's factor. */
void edge_sums_scale(const worker *w, const row_job *job);
/* Adds the features of the chunk's edges, times edges.weight, which is already computed. */
void edge_sums_add(const worker *w, const row_job *job);

#endif
