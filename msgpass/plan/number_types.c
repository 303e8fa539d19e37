/* number_types.c: numbers of the caller's tensors as floats, and back. */
#include "number_types.h"

#include <string.h>

void numbers_read(const kernel_table *kernels, hga_dtype type, const void *from, hga_id n, float *to)
{
    if (type == HGA_F32)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        kernels->widen_halves(type == HGA_F16, n, from, to);
}

void numbers_write(const kernel_table *kernels, hga_dtype type, const float *from, hga_id n, void *to)
{
    if (type == HGA_F32)
        memcpy(to, from, (size_t)n * sizeof *from);
    else
        kernels->narrow_halves(type == HGA_F16, n, from, to);
}
