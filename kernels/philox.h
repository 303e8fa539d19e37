/* philox.h: Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011), a random function of a counter: the same draw on every
   call. Dropout uses it, so that no mask is stored. */
#ifndef HGA_PHILOX_H
#define HGA_PHILOX_H

#include <math.h>
#include <stdint.h>

/* x <- ten rounds of x, a counter of four words, under a key of two. */
static inline void philox4x32_10(uint32_t x[4], uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * x[0], b = (uint64_t)0xCD9E8D57u * x[2];
        uint32_t y[4] = {(uint32_t)(b >> 32) ^ x[1] ^ key0, (uint32_t)b, (uint32_t)(a >> 32) ^ x[3] ^ key1,
                         (uint32_t)a};
        for (int i = 0; i < 4; i++) x[i] = y[i];
        key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
    }
}

/* The dropout factor of an edge's weight for probability p: 0 or 1 / (1 - p). Eight heads share a draw, sixteen bits
   each; `head` counts from the first of all. */
static inline float philox_dropout(float p, uint64_t seed, uint32_t layer, int32_t destination, int32_t source,
                                   int32_t type, int32_t head)
{
    uint32_t x[4] = {(uint32_t)destination, (uint32_t)source, (uint32_t)type, layer << 8 | (uint32_t)head / 8};
    philox4x32_10(x, (uint32_t)seed, (uint32_t)(seed >> 32));
    uint32_t draw = x[head % 8 / 2] >> 16 * (head % 2) & 0xffffu;
    return draw < (uint32_t)lrintf(p * 65536) ? 0 : 1 / (1 - p);
}

#endif
