/* numbers.c: splitmix64 (Steele, Lea and Flood 2014), by index. */
#include "numbers.h"

uint64_t number_bits(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

float number_uniform(uint64_t seed, uint64_t i) { return (float)(number_bits(seed, i) >> 40) * 0x1p-23f - 1; }

void numbers_fill(uint64_t seed, float scale, int64_t n, float *x)
{
    for (int64_t i = 0; i < n; i++) x[i] = scale * number_uniform(seed, (uint64_t)i);
}
