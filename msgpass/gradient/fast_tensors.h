/* fast_tensors.h: a pass's rows from the caller's tensors, and its gradients to them (fast_tensors.c). */
#ifndef HGA_GRADIENT_FAST_TENSORS_H
#define HGA_GRADIENT_FAST_TENSORS_H

#include "fast_pass.h"

/* Copy the caller's rows of a field into its values. */
void fast_load(fast_pass *p, hga_id f);
/* Copies its adjoint to the caller's gradient, where one is required. */
void fast_store(const fast_pass *p, hga_id f);
/* Copy the gradients of the output into its adjoint. */
void fast_seed(fast_pass *p);
/* The same three for some nodes. */
void load_range(fast_pass *p, hga_id f, row_range nodes);
void store_range(const fast_pass *p, hga_id f, row_range nodes);
void seed_range(fast_pass *p, row_range nodes);
/* Where the rows of the field's gradient go from node v's on, as floats; first NULL: not so simple. */
typedef struct direct_rows {
    float *first;
    ptrdiff_t stride;
    kernel_put put;
} direct_rows;
direct_rows find_direct_rows(const fast_pass *p, hga_id f, hga_id v);

#endif
