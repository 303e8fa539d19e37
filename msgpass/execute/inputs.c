/* inputs.c: operands in bfloat16 precision: rounded into separate rows, as float32 or bfloat16. */
#include "stages.h"
#include "storage.h"
#include "worker.h"

/* Rounds node v's operand into the field's rounded rows, unless the caller's row is one. */
void round_row(worker *w, hga_id f, hga_id v)
{
    const bound_field *x = field(w, f), *y = field(w, STORAGE_ROUNDED + f);
    const kernel_table *k = w->plan->machine.kernels;
    if (y->bf16.is_io || !program_row(&w->plan->nodes, w->plan->program.field[f].rows, v)) return;
    const float *row = bound_row(x, v);
    int one_row = bound_head(x, v) == x->columns;
    hga_id parts = one_row ? 1 : x->heads, columns = one_row ? x->columns * x->heads : x->columns;
    for (hga_id h = 0; h < parts; h++, row += bound_head(x, v))
        if (w->plan->fields.bf16_rows)
            k->narrow(columns, row, bound_bf16(y, v) + h * columns);
        else
            k->round_bf16(columns, row, bound_row(y, v) + h * columns);
}
