/* unread.c: required gradients of tensors that no stage reads: of a field that none reads, or of no field, as a
   program may do without a query. They are zeros, which no solver would write. */
#include "gradient.h"
#include "gradient_rows.h"
#include "plan.h"

#include <string.h>

/* A tensor of the caller's, by what it is bound to. */
typedef struct input {
    hga_binding binding;
    hga_id user; /* which of the user's */
} input;

enum { N_INPUTS = 3 + HGA_MAX_USER_TENSORS };

static input input_at(int i)
{
    static const hga_binding bound[] = {HGA_IO_QUERY, HGA_IO_KEY, HGA_IO_VALUE};
    return i < 3 ? (input){bound[i], 0} : (input){HGA_IO_USER, i - 3};
}

/* The field that the tensor holds, 0: none. */
static hga_id field_of(const hga_program *p, input x)
{
    hga_id n = 0;
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (p->field[f].binding == x.binding && (x.binding != HGA_IO_USER || n++ == x.user)) return f;
    return 0;
}

static int is_read(const hga_program *p, hga_id field)
{
    uint32_t read = 0;
    for (hga_id s = 0; s < p->n_stages; s++) read |= p->stage[s].reads;
    return field && read >> field & 1u;
}

/* Zeros rows of a tensor: those of the program's field, or all rows of the tensor. */
static void clear_rows(const hga_plan *plan, input x, hga_id field, const hga_tensor *t)
{
    const hga_shape *s = &plan->shape;
    hga_id heads = x.binding == HGA_IO_QUERY ? s->n_heads : s->n_kv_heads,
           columns = x.binding == HGA_IO_VALUE ? s->dim_v : s->dim;
    int64_t rows = field ? field_rows_input(plan, field) : t->rows;
    if (field) heads = field_heads(plan, field), columns = field_columns(plan, field);
    for (int64_t i = 0; i < rows; i++)
        for (hga_id h = 0; h < heads; h++)
            memset(tensor_at(t, heads, columns, i, h), 0, (size_t)columns * dtype_bytes(t->dtype));
}

void unread_take_out(const hga_plan *plan, hga_grad_io *grad)
{
    for (int i = 0; i < N_INPUTS; i++)
        if (!is_read(&plan->program, field_of(&plan->program, input_at(i))))
            binding_gradient(grad, input_at(i).binding, input_at(i).user)->data = NULL;
}

void unread_store(const hga_plan *plan, const hga_grad_io *grad)
{
    hga_grad_io all = *grad;
    for (int i = 0; i < N_INPUTS && !grad->accumulate; i++) {
        input x = input_at(i);
        hga_id field = field_of(&plan->program, x);
        const hga_tensor *t = binding_gradient(&all, x.binding, x.user);
        if (t->data && !is_read(&plan->program, field)) clear_rows(plan, x, field, t);
    }
}
