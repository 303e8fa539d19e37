/* within.h: whether a list may leave its bounds. For the sources of this project; not installed. */
#ifndef HGA_WITHIN_H
#define HGA_WITHIN_H

#include <stdint.h>

typedef uint32_t any_word __attribute__((may_alias)); /* of whatever type has 32 bits */

/* 0: all n numbers of 32 bits lie in least .. most, both at least -1. Else one may not: the caller checks them one by
   one. Signs of differences are gathered without a branch, in runs that compilers vectorise: where x - least passes
   below all 32-bit numbers, most - x passes above. */
static inline int may_leave(const void *numbers, int64_t n, int32_t least, int32_t most)
{
    enum { MANY = 64 };
    const uint32_t low = (uint32_t)least, high = (uint32_t)most;
    const any_word *x = (const any_word *)numbers;
    uint32_t signs = 0;
    int64_t i = 0;
    for (; i + MANY <= n; i += MANY)
        for (int k = 0; k < MANY; k++) signs |= (x[i + k] - low) | (high - x[i + k]);
    for (; i < n; i++) signs |= (x[i] - low) | (high - x[i]);
    return (int)(signs >> 31);
}

#endif
