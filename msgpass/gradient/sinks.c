/* sinks.c: gradients of sinks. A sink is one more score of each row, with a value of zeros: so its gradient is that
   of a score, p (d_lse - d_out . out), p being its share of the row, and needs only the caller's arrays. */
#include "gradient.h"
#include "gradient_rows.h"
#include "number_types.h"

#include <math.h>

/* The product of row i of two tensors in head h, PART columns at a time, added in double. */
static double product_of_rows(const kernel_table *kernels, const hga_tensor *a, const hga_tensor *b, hga_id heads,
                              hga_id columns, hga_id i, hga_id h)
{
    enum { PART = 64 };
    float x[PART], y[PART];
    double sum = 0;
    const char *from = tensor_at(a, heads, columns, i, h), *with = tensor_at(b, heads, columns, i, h);
    for (hga_id c = 0; c < columns; c += PART) {
        hga_id n = columns - c < PART ? columns - c : PART;
        numbers_read(kernels, a->dtype, from + (size_t)c * dtype_bytes(a->dtype), n, x);
        numbers_read(kernels, b->dtype, with + (size_t)c * dtype_bytes(b->dtype), n, y);
        sum += kernels->dot(n, x, y);
    }
    return sum;
}

/* Sums the gradient of one head's sink; rows that the execution did not compute have no log-sum-exp. */
static double sum_of_head(const gradient_call *c, hga_id h, double sink)
{
    const hga_tensor *d_lse = &c->grad->d_lse;
    hga_id out = program_bound(&c->plan->program, HGA_IO_OUT), first, n = field_io(c->plan, out, &first),
           heads = c->plan->shape.n_heads, columns = field_columns(c->plan, out);
    double sum = 0;
    for (hga_id i = 0; i < n; i++) {
        double lse = (double)call_lse(c, i, h);
        if (lse == -INFINITY) continue;
        double slope = -product_of_rows(c->plan->machine.kernels, &c->grad->d_out, &c->io->out, heads, columns, i, h);
        if (d_lse->data) slope += (double)*(const float *)tensor_at(d_lse, heads, 1, i, h);
        sum += exp(sink - lse) * slope;
    }
    return sum;
}

/* Computes the gradient of every head's sink, if required; -INFINITY is no sink. */
void sinks_sum(const gradient_call *c)
{
    const float *sink = c->io->sink.data;
    double *sums = c->sums[0].of[HGA_TABLE_SINK];
    hga_id heads = c->plan->shape.n_heads, first = first_here(c->plan, &c->needs, heads),
           end = first + heads_here(c->plan, &c->needs, heads);
    if (!sums) return;
#pragma omp parallel for num_threads(c->threads) if (c->threads > 1)
    for (hga_id h = first; h < end; h++)
        if (sink[h] != -INFINITY) sums[h] = sum_of_head(c, h, (double)sink[h]);
}
