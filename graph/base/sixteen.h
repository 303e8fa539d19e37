/* sixteen.h: numbers of 16 bits: float16 and bfloat16. Widening is exact; narrowing rounds to nearest, ties to even. */
#ifndef HGA_SIXTEEN_H
#define HGA_SIXTEEN_H

#include "hga_base.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t sixteen_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float sixteen_real(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float widen_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest < 0x400) return sixteen_real(sign | sixteen_bits((float)rest * 0x1p-24f)); /* zero, subnormal */
    uint32_t exponent = rest >= 0x7c00 ? 0x7f800000 : (112u << 23) + ((rest & 0x7c00) << 13);
    uint32_t quiet = rest > 0x7c00 ? 0x400000 : 0; /* NaN, as processors widen it */
    return sixteen_real(sign | exponent | quiet | (rest & 0x3ff) << 13);
}

static inline uint16_t narrow_f16(float x)
{
    uint32_t bits = sixteen_bits(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff)); /* NaN, quiet */
    if (rest >= sixteen_bits(65520)) return (uint16_t)(sign | 0x7c00);              /* half way beyond the largest */
    if (rest < sixteen_bits(0x1p-14f)) return (uint16_t)(sign | (uint32_t)lrintf(sixteen_real(rest) * 0x1p24f));
    uint32_t rounded = rest + 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

static inline float widen_bf16(uint16_t half) { return sixteen_real((uint32_t)half << 16); }

static inline uint16_t narrow_bf16(float x)
{
    uint32_t bits = sixteen_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
