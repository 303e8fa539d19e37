/* inputs.c: what the caller brings, in bfloat16 precision: copied to the workspace and rounded there, or into rows of
   16 bits. */
#include "ranks.h"
#include "stages.h"

#include <string.h>

void copy_input(worker *w, hga_id f, hga_id v)
{
    const bound_field *x = field(w, f);
    if (w->plan->ranks && !rank_computes(w->plan->ranks, v)) return; /* it has come there */
    const float *from = x->io + bound_io_number(x, v) * x->io_row;
    for (hga_id h = 0; h < x->heads; h++)
        memcpy(bound_row(x, v) + h * x->ws_head, from + h * x->io_head, (size_t)x->columns * sizeof *from);
}

void round_row(worker *w, hga_id f, hga_id v)
{
    const bound_field *x = field(w, f);
    if (!program_row(&w->plan->nodes, w->plan->program.field[f].rows, v)) return;
    float *row = bound_row(x, v);
    if (!w->plan->storage[f].bf16.n) {
        w->plan->kernels->round_bf16(x->columns * x->heads, row, row);
        return;
    }
    int one_row = bound_head(x, v) == x->columns;
    hga_id parts = one_row ? 1 : x->heads, columns = one_row ? x->columns * x->heads : x->columns;
    for (hga_id h = 0; h < parts; h++)
        w->plan->kernels->narrow(columns, row + h * bound_head(x, v), bound_bf16(x, v) + h * columns);
}
