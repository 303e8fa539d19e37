/* numbers.c: many reproducible numbers. */
#include "numbers.h"

uint64_t number_bits(uint64_t seed, uint64_t i) { return random_bits(seed, i); }

float number_uniform(uint64_t seed, uint64_t i) { return random_uniform(seed, i); }

void numbers_fill(uint64_t seed, float scale, int64_t n, float *x)
{
    for (int64_t i = 0; i < n; i++) x[i] = scale * random_uniform(seed, (uint64_t)i);
}
