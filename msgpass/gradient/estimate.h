/* estimate.h: how long solvers take, so that the faster of two runs: ns on one thread as sums over edges and rows,
   whose factors were fitted to measured times (bench/results/2026-11-30-solvers.md). They are the same numbers on every
   machine, since the choice is part of a gradient's bits. */
#ifndef HGA_GRADIENT_ESTIMATE_H
#define HGA_GRADIENT_ESTIMATE_H

#include <math.h>

/* How often a megabyte must double, with linear steps in between, to hold these bytes: the further away they are, the
   longer it takes to read them. 0: they are near. */
static inline double doublings(double bytes)
{
    int exponent;
    double fraction = frexp(bytes / (1 << 20), &exponent);
    return exponent < 1 ? 0 : exponent - 1 + 2 * fraction - 1;
}

#endif
