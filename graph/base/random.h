/* random.h: the one stream of reproducible numbers. For the sources of this project; not installed. */
#ifndef HGA_RANDOM_H
#define HGA_RANDOM_H

#include <stdint.h>

/* Number i of stream `seed` of splitmix64 (Steele, Lea and Flood 2014): a function of both alone, so that any order
   gives the same numbers. */
static inline uint64_t random_bits(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* The same in [-1, 1), a multiple of 2^-23. */
static inline float random_uniform(uint64_t seed, uint64_t i)
{
    return (float)(random_bits(seed, i) >> 40) * 0x1p-23f - 1;
}

#endif
