/* halves.h: rows of numbers in any of the types, one number after the other. */
#ifndef HALVES_H
#define HALVES_H

#include "hga_plan.h"
#include "sixteen.h"

#include <string.h>

static inline void widen_row(int f16, const uint16_t *from, float *to, hga_id n)
{
    for (hga_id i = 0; i < n; i++) to[i] = f16 ? widen_f16(from[i]) : widen_bf16(from[i]);
}

static inline void narrow_row(int f16, const float *from, uint16_t *to, hga_id n)
{
    for (hga_id i = 0; i < n; i++) to[i] = f16 ? narrow_f16(from[i]) : narrow_bf16(from[i]);
}

static inline void store_numbers(hga_dtype type, const float *from, hga_id n, void *to)
{
    if (type == HGA_F32)
        memcpy(to, from, (size_t)n * sizeof *from);
    else
        narrow_row(type == HGA_F16, from, to, n);
}

#endif
