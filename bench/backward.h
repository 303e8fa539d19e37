/* backward.h: gradients, measured beside the execution that they belong to. */
#ifndef BENCH_BACKWARD_H
#define BENCH_BACKWARD_H

#include "cases.h"

/* The gradients of query, key, value, and of relative keys where the case has them. Forward and backward run in turns
   in one process, on two sets of inputs in turns, and everything that they write is NaN before: what is left of that
   is HGA_EINVAL. `forward` and `backward` have the times of each, backward's work is that of the gradient and its
   workspace what the gradient takes, the tape included. The case must have its tensors. */
hga_status bench_backward(const bench_case *c, const bench_job *j, const bench_rules *rules, bench_measurement *forward,
                          bench_measurement *backward);

/* Bytes of tensors that it takes besides the case's own. */
int64_t bench_backward_bytes(const bench_case *c, const hga_shape *shape);

#endif
