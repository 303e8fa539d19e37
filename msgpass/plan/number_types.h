/* number_types.h: numbers of the caller's tensors as floats, and back. */
#ifndef HGA_PLAN_NUMBER_TYPES_H
#define HGA_PLAN_NUMBER_TYPES_H

#include "hga_plan.h"
#include "kernels.h"

/* to[n] = from[n], as floats. */
void numbers_read(const kernel_table *kernels, hga_dtype type, const void *from, hga_id n, float *to);
/* to[n] = from[n], rounded to nearest. */
void numbers_write(const kernel_table *kernels, hga_dtype type, const float *from, hga_id n, void *to);

#endif
