/* vec_bf16.h: bfloat16, the upper half of a float, in vectors: loads, rounding, products of pairs. A word holds a pair,
   the first of the two in its low half. */
#ifndef VEC_BF16_H
#define VEC_BF16_H

#include "vec.h"

#if (defined(VEC_AVX512) && defined(__AVX512BF16__)) || \
    (defined(VEC_NEON) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC))
#define VEC_PAIRS /* the machine multiplies pairs */
#endif

typedef uint16_t vec_halves __attribute__((vector_size(VEC_FLOATS * 2), aligned(2), may_alias));
/* vec_bits at any even address */
typedef uint32_t vec_loose __attribute__((vector_size(VEC_FLOATS * 4), aligned(2), may_alias));

static inline vec_bits vec_load_bits(const uint32_t *p) { return *(const vec_bits *)p; }
static inline void vec_store_bits(uint32_t *p, vec_bits x) { *(vec_bits *)p = x; }
static inline vec_bits vec_all_bits(uint32_t x) { return x - (vec_bits){0}; }

/* VEC_FLOATS numbers, or the first n < VEC_FLOATS and zeros, in the low halves; nothing beyond p[n - 1] is touched. */
static inline vec_bits vec_load_low(const uint16_t *p)
{
#if defined(VEC_NEON)
    return (vec_bits)vmovl_u16(vld1_u16(p));
#else
    return __builtin_convertvector(*(const vec_halves *)p, vec_bits);
#endif
}
static inline vec_bits vec_load_low_first(const uint16_t *p, int n)
{
#if defined(VEC_AVX512)
    return (vec_bits)_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), p));
#else
    uint16_t padded[VEC_FLOATS] = {0};
    for (int i = 0; i < n; i++) padded[i] = p[i];
    return vec_load_low(padded);
#endif
}

/* The same as floats. */
static inline vec vec_load_bf16(const uint16_t *p)
{
#if defined(VEC_NEON)
    return (vec)vshll_n_u16(vld1_u16(p), 16);
#else
    return (vec)(vec_load_low(p) << 16);
#endif
}
static inline vec vec_load_bf16_first(const uint16_t *p, int n) { return (vec)(vec_load_low_first(p, n) << 16); }

/* VEC_FLOATS pairs in memory order, or the first n < 2 VEC_FLOATS numbers and zeros. */
static inline vec_bits vec_load_pairs(const uint16_t *p) { return (vec_bits) * (const vec_loose *)p; }
static inline vec_bits vec_load_pairs_first(const uint16_t *p, int n)
{
#if defined(VEC_AVX512)
    return (vec_bits)_mm512_maskz_loadu_epi16((1u << n) - 1, p);
#else
    uint16_t padded[2 * VEC_FLOATS] = {0};
    for (int i = 0; i < n; i++) padded[i] = p[i];
    return vec_load_pairs(padded);
#endif
}

/* The pair at p in all lanes. */
static inline vec_bits vec_all_pair(const uint16_t *p)
{
    uint32_t pair;
    memcpy(&pair, p, sizeof pair);
    return vec_all_bits(pair);
}

/* The pairs' first numbers and second ones, as floats. */
static inline vec vec_firsts(vec_bits pairs) { return (vec)(pairs << 16); }
static inline vec vec_seconds(vec_bits pairs) { return (vec)(pairs & 0xffff0000); }

/* x rounded to bfloat16 precision, to nearest even; NaN stays NaN, also where only its low bits are set. */
static inline vec_bits vec_round_bf16(vec x)
{
    vec_bits bits = (vec_bits)x, nearest = bits + 0x7fff + ((bits >> 16) & 1);
    return (vec_bits)vec_choose(x != x, (vec)(bits | 0x400000), (vec)nearest) & 0xffff0000;
}

static inline void vec_store_bf16(uint16_t *p, vec x)
{
#if defined(VEC_NEON)
    vst1_u16(p, vshrn_n_u32((uint32x4_t)vec_round_bf16(x), 16));
#else
    *(vec_halves *)p = __builtin_convertvector(vec_round_bf16(x) >> 16, vec_halves);
#endif
}

#if defined(VEC_PAIRS)
/* Twice VEC_FLOATS numbers rounded, as pairs: low's, then high's. With AVX-512 numbers below 2^-126 become 0. */
static inline vec_bits vec_round_pairs(vec low, vec high)
{
#if defined(VEC_NEON)
    return (vec_bits)vcvtq_high_bf16_f32(vcvtq_low_bf16_f32((float32x4_t)low), (float32x4_t)high);
#else
    return (vec_bits)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
#endif
}

/* The same, but lane i is the pair of lanes i of both. */
static inline vec_bits vec_round_across(vec low, vec high)
{
#if defined(VEC_NEON)
    return (vec_bits)vzip1q_u16((uint16x8_t)vcvtq_low_bf16_f32((float32x4_t)low),
                                (uint16x8_t)vcvtq_low_bf16_f32((float32x4_t)high));
#else
    const vec_bits at = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; /* number i */
    const vec_bits paired = at | (at + VEC_FLOATS) << 16;                       /* numbers i and 16 + i */
    return (vec_bits)_mm512_permutexvar_epi16((__m512i)paired, (__m512i)vec_round_pairs(low, high));
#endif
}

/* Numbers of x and y pair by pair: *low has the first VEC_FLOATS, *high the others. */
static inline void vec_pair_numbers(vec_bits x, vec_bits y, vec_bits *low, vec_bits *high)
{
#if defined(VEC_NEON)
    *low = (vec_bits)vzip1q_u16((uint16x8_t)x, (uint16x8_t)y);
    *high = (vec_bits)vzip2q_u16((uint16x8_t)x, (uint16x8_t)y);
#else
    const vec_bits at = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const vec_bits paired = at | (at + 2 * VEC_FLOATS) << 16;
    *low = (vec_bits)_mm512_permutex2var_epi16((__m512i)x, (__m512i)paired, (__m512i)y);
    *high = (vec_bits)_mm512_permutex2var_epi16((__m512i)x, (__m512i)(paired + 0x00100010), (__m512i)y);
#endif
}
#endif

/* Twice VEC_FLOATS numbers rounded to bfloat16, low's and then high's; see vec_round_pairs for numbers near 0. */
static inline void vec_store_narrow(uint16_t *p, vec low, vec high)
{
#if defined(VEC_PAIRS)
    *(vec_loose *)p = vec_round_pairs(low, high);
#else
    vec_store_bf16(p, low), vec_store_bf16(p + VEC_FLOATS, high);
#endif
}

/* sum + the first of each of a's pairs times the first of b's + the second times the second. Where an instruction does
   it, it rounds in its own way, and takes numbers below 2^-126 as 0: VDPBF16PS adds one product after the other and
   rounds each sum to nearest; BFDOT adds the two products first, and rounds both sums to odd (the last bit is 1 unless
   the sum is exact). Processors with FEAT_EBF16 round as in other sums, and keep small numbers, where FPCR's bit EBF is
   set; Linux starts programs without. */
static inline __attribute__((always_inline)) vec vec_dot_pairs(vec sum, vec_bits a, vec_bits b)
{
#if defined(VEC_PAIRS) && defined(VEC_NEON)
    return (vec)vbfdotq_f32((float32x4_t)sum, (bfloat16x8_t)a, (bfloat16x8_t)b);
#elif defined(VEC_PAIRS)
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
    sum += vec_firsts(a) * vec_firsts(b);
    return sum + vec_seconds(a) * vec_seconds(b);
#endif
}

/* The same with one pair of b for all lanes, added to *sum; see vec_add_product_lane. */
#if defined(VEC_PAIRS) && defined(VEC_BY_LANE)
static inline __attribute__((always_inline)) void vec_add_pairs_lane(vec *sum, vec_bits a, vec_bits b, int lane)
{
    if (lane == 0) __asm__ volatile("bfdot %0.4s, %1.8h, %2.2h[0]" : "+w"(*sum) : "w"(a), "w"(b));
    if (lane == 1) __asm__ volatile("bfdot %0.4s, %1.8h, %2.2h[1]" : "+w"(*sum) : "w"(a), "w"(b));
    if (lane == 2) __asm__ volatile("bfdot %0.4s, %1.8h, %2.2h[2]" : "+w"(*sum) : "w"(a), "w"(b));
    if (lane == 3) __asm__ volatile("bfdot %0.4s, %1.8h, %2.2h[3]" : "+w"(*sum) : "w"(a), "w"(b));
}
#endif

#endif
