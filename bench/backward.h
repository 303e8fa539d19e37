/* backward.h: gradients, measured beside the execution that they belong to. */
#ifndef BENCH_BACKWARD_H
#define BENCH_BACKWARD_H

#include "cases.h"

/* The gradients of query, key, value, and of relative keys where the case has them. Forward and backward run in
   turns in one process, on two sets of inputs in turn, and everything that they write is NaN before: if any of that
   is left, returns HGA_EINVAL. `forward` and `backward` have the times of each, backward's work is that of the
   gradient and its workspace the gradient's bytes, the tape included. The case must have its tensors. */
hga_status bench_backward(const bench_case *c, const bench_job *j, const bench_rules *rules, bench_measurement *forward,
                          bench_measurement *backward);

/* Bytes of tensors that it allocates besides the case's own. */
int64_t bench_backward_bytes(const bench_case *c, const hga_shape *shape);

#endif
