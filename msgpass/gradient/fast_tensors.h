/* fast_tensors.h: a pass's rows from the caller's tensors, and its gradients to them (fast_tensors.c). */
#ifndef HGA_GRADIENT_FAST_TENSORS_H
#define HGA_GRADIENT_FAST_TENSORS_H

#include "fast_pass.h"

/* Copies the caller's rows of a field into its values, of the current head. */
void fast_load(fast_pass *p, hga_id f);
/* Copies a field's adjoint to the caller's gradient, where one is required; adds where several heads write one row. */
void fast_store(const fast_pass *p, hga_id f);
/* Copies the gradients of the output into its adjoint, with log-sum-exps and deltas where it is a state. */
void fast_seed(fast_pass *p);
/* fast_load for some nodes. */
void load_range(fast_pass *p, hga_id f, row_range nodes);
/* fast_store for some nodes. */
void store_range(const fast_pass *p, hga_id f, row_range nodes);
/* fast_seed for some nodes. */
void seed_range(fast_pass *p, row_range nodes);
/* Rows of a gradient that kernels write as they are, `stride` floats from row to row; first NULL: there are none. */
typedef struct direct_rows {
    float *first;
    ptrdiff_t stride;
    kernel_put put;
} direct_rows;
/* The caller's rows of the field's gradient from node v's on; first NULL unless they are float32, not folded, and as
   long as the pass's padded rows. */
direct_rows find_direct_rows(const fast_pass *p, hga_id f, hga_id v);

#endif
