/* bindings.h: the caller's tensor of a field, and the layout of its rows. */
#ifndef HGA_PROGRAM_BINDINGS_H
#define HGA_PROGRAM_BINDINGS_H

#include "hga_gradient.h"

/* Heads of a field: key/value heads or query heads, by its width. */
hga_id program_heads(const hga_program *p, const hga_shape *s, hga_id field);
/* Columns of a field, for each head. */
hga_id program_columns(const hga_program *p, const hga_shape *s, hga_id field);

/* The caller's tensor of a field; NULL for internal fields and those that a call has no tensor for. */
const hga_tensor *program_tensor(const hga_program *p, const hga_io *io, hga_id field);
/* The tensor of its gradient (of out: from the caller); NULL as program_tensor. */
const hga_tensor *program_gradient(const hga_program *p, const hga_grad_io *grad, hga_id field);
/* The input whose gradient it is; HGA_GRADIENT_NONE for out and for internal fields. */
hga_gradient_input program_gradient_input(const hga_program *p, hga_id field);
/* The tensor of the gradient by the binding itself; `user`: the number of the user tensor, else 0. */
hga_tensor *binding_gradient(hga_grad_io *grad, hga_binding binding, hga_id user);

/* The layout of a tensor's rows, in elements: row i, head h is at row_offset(i) + h * head. fold 0: rows have the
   stride `row`. */
typedef struct row_layout {
    ptrdiff_t row, head;
    int64_t fold;
    ptrdiff_t step; /* from what would be row `fold` without it to where that row is */
} row_layout;
/* Of a tensor of `heads` heads of `columns`: a stride that is 0 is that of contiguous rows. */
row_layout tensor_layout(const hga_tensor *t, hga_id heads, hga_id columns);
/* Elements from the tensor's start to row i, head 0. */
static inline ptrdiff_t row_offset(const row_layout *x, int64_t i)
{
    return i * x->row + (x->fold ? i / x->fold * x->step : 0);
}
/* HGA_EINVAL or others where rows cannot be folded so. `what` and `name` name the tensor in errors. */
hga_status tensor_check_fold(const hga_tensor *t, hga_id heads, hga_id columns, const char *what, const char *name);

/* Bytes of a number. */
size_t dtype_bytes(hga_dtype type);
/* The address of row i, head h of a tensor of `heads` heads of `columns`. */
void *tensor_at(const hga_tensor *t, hga_id heads, hga_id columns, int64_t i, hga_id h);

#endif
