/* widened.h: tensors of 16 bits in float32: copies before an execution, rounded back after it (sixteen.c). */
#ifndef WIDENED_H
#define WIDENED_H

#include "bindings.h"
#include "plan.h"

/* The float32 copy of a tensor of 16 bits, and during a call the tensor. */
typedef struct widened {
    float *values;
    int64_t capacity;
    uint16_t *input; /* of `type`, the caller's; NULL: not in this call */
    hga_dtype type;
    hga_id rows;
    row_layout layout;
} widened;

/* Allocates the float32 copy of a field's tensor of 16 bits, whose rows fields_bind has found. */
hga_status sixteen_open(hga_workspace *workspace, hga_id field, const hga_tensor *t);
/* Whether the call has a tensor of 16 bits. */
int sixteen_has(const hga_workspace *workspace);
/* Copies a thread's share of all tensors to float32. */
void sixteen_widen(const hga_plan *plan, hga_workspace *workspace, hga_id thread);
/* Rounds a thread's share back, as far as rows were written and requested. */
void sixteen_narrow(const hga_plan *plan, hga_workspace *workspace, hga_id thread);
/* Forgets the caller's tensors: the call has ended. */
void sixteen_forget(hga_workspace *workspace);
/* Frees the copies. */
void sixteen_clear(hga_workspace *workspace);

#endif
