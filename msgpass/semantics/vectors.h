/* vectors.h: sums in double. */
#ifndef HGA_SEMANTICS_VECTORS_H
#define HGA_SEMANTICS_VECTORS_H

#include "hga_base.h"

static inline double dot(const double *a, const double *b, hga_id n)
{
    double sum = 0;
    for (hga_id c = 0; c < n; c++) sum += a[c] * b[c];
    return sum;
}

static inline void axpy(double a, const double *x, hga_id n, double *y)
{
    for (hga_id c = 0; c < n; c++) y[c] += a * x[c];
}

#endif
