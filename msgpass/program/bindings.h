/* bindings.h: which of the caller's tensors a field is, and how its rows lie. */
#ifndef HGA_PROGRAM_BINDINGS_H
#define HGA_PROGRAM_BINDINGS_H

#include "hga_gradient.h"

/* Heads and columns of a field. */
hga_id program_heads(const hga_program *p, const hga_shape *s, hga_id field);
hga_id program_columns(const hga_program *p, const hga_shape *s, hga_id field);

/* The caller's tensor of a field, and the one its gradient goes to (out: comes from); NULL for fields of the program's
   own, and for those of the caller's that a call has no place for. What a gradient with respect to it is called. */
const hga_tensor *program_tensor(const hga_program *p, const hga_io *io, hga_id field);
const hga_tensor *program_gradient(const hga_program *p, const hga_grad_io *grad, hga_id field);
hga_gradient_input program_gradient_input(const hga_program *p, hga_id field);
/* The same by the binding itself; `user`: which of the caller's own tensors. */
hga_tensor *binding_gradient(hga_grad_io *grad, hga_binding binding, hga_id user);

/* How rows of a tensor lie, in elements: row i, head h is where row_offset says, and h heads behind. fold 0: rows are
   `row` apart. */
typedef struct row_layout {
    ptrdiff_t row, head;
    int64_t fold;
    ptrdiff_t step; /* from what would be row `fold` without it to where that row is */
} row_layout;
row_layout tensor_layout(const hga_tensor *t, hga_id heads, hga_id columns);
static inline ptrdiff_t row_offset(const row_layout *x, int64_t i)
{
    return i * x->row + (x->fold ? i / x->fold * x->step : 0);
}
/* Can rows be folded so? `what` and `name` say whose they are. */
hga_status tensor_check_fold(const hga_tensor *t, hga_id heads, hga_id columns, const char *what, const char *name);

/* Row i, head h of a tensor of `heads` heads of `columns`; its numbers as floats; and floats, rounded to nearest, to
   it. */
size_t dtype_bytes(hga_dtype type);
void *tensor_at(const hga_tensor *t, hga_id heads, hga_id columns, int64_t i, hga_id h);
void numbers_read(hga_dtype type, const void *from, hga_id n, float *to);
void numbers_write(hga_dtype type, const float *from, hga_id n, void *to);

#endif
