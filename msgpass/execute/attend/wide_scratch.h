/* wide_scratch.h: what a worker has for panels that run head by head (run_wide.c). */
#ifndef WIDE_SCRATCH_H
#define WIDE_SCRATCH_H

#include "kernels.h"

/* Columns of some panels: source positions [first, end) of a block instance whose first column is at `origin`. */
typedef struct wide_span {
    hga_id origin, first, end;
    float weight;
    int shared; /* every row has all columns: even one panel gains */
} wide_span;

/* A rectangle's columns, contiguous: of one head key [capacity][dim padded] and value [capacity][dim_v padded], whose
   addresses are key_at and value_at [capacity]; of all heads base, at and inverse_count [capacity]. Where it has_pairs
   keys are of 16 bits, and values are pairs of columns. */
typedef struct wide_scratch {
    hga_id capacity;
    /* at: positions, where the call has slopes; inverse_count: where sigmoids have counts */
    float *key, *value, *base, *at, *inverse_count;
    kernel_sigmoids sigmoid; /* of the last chunk */
    const float **key_at, **value_at;
    const uint16_t **key16_at; /* plans of bf16 rows */
} wide_scratch;

/* Of panels that run head by head (run_wide.c). */
typedef struct worker_wide {
    wide_scratch columns;
    wide_span span; /* of the item that the solver was found to apply to */
} worker_wide;

#endif
