/* numbers.h: reproducible numbers. */
#ifndef BENCH_NUMBERS_H
#define BENCH_NUMBERS_H

#include "random.h"

/* Number i of stream `seed` of splitmix64: a function of both alone, so that any order gives the same numbers. */
uint64_t number_bits(uint64_t seed, uint64_t i);
/* The same in [-1, 1). */
float number_uniform(uint64_t seed, uint64_t i);
/* x[0 .. n) = scale * uniform. */
void numbers_fill(uint64_t seed, float scale, int64_t n, float *x);

#endif
