/* hyperplanes.h: trees of hyperplanes that cut tokens in halves. */
#ifndef BENCH_HYPERPLANES_H
#define BENCH_HYPERPLANES_H

#include "hga.h"

/* Directions are weights[2^height - 1][columns] in level order; sets bias[2^height - 1] so that each hyperplane
   passes through the middle of the tokens at its node. x: n tokens of `columns` numbers, `stride` floats apart. */
hga_status bench_halve(const float *x, hga_id n, ptrdiff_t stride, hga_id columns, hga_id height, const float *weights,
                       float *bias);

#endif
