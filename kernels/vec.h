/* vec.h: the thin vector layer. VEC_FLOATS, set by the including file, is the width; GCC's vector extensions do the
   rest on any machine. */
#ifndef VEC_H
#define VEC_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(VEC_NEON) /* set by the including file: every aarch64 has it, and ref is plain there, too */
#include <arm_neon.h>
#elif defined(__AVX512F__) && VEC_FLOATS == 16
#define VEC_AVX512
#include <immintrin.h>
#elif defined(__AVX2__) && VEC_FLOATS == 8
#define VEC_AVX2
#include <immintrin.h>
#elif defined(__SSE2__) && VEC_FLOATS == 4
#define VEC_SSE
#include <immintrin.h>
#endif

/* Instructions overwrite one of their operands. */
#if defined(VEC_SSE) && !defined(__AVX__)
#define VEC_OVERWRITES
#endif

/* The most sums that stay in registers beside the operands: of 32 registers, or of 16. Instructions that overwrite an
   operand need copies besides. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define VEC_SUMS 24
#elif defined(VEC_AVX2)
#define VEC_SUMS 12
#else
#define VEC_SUMS 8
#endif

/* Makes the compiler assume that x changed. */
#if defined(__AVX512F__)
#define HIDE(x) __asm__ volatile("" : "+v"(x))
#elif defined(__x86_64__)
#define HIDE(x) __asm__ volatile("" : "+x"(x))
#elif defined(__aarch64__)
#define HIDE(x) __asm__ volatile("" : "+w"(x))
#else
#define HIDE(x) __asm__ volatile("" : "+m"(x))
#endif

typedef float vec __attribute__((vector_size(VEC_FLOATS * 4), aligned(4), may_alias));
typedef int32_t vec_int __attribute__((vector_size(VEC_FLOATS * 4), aligned(4), may_alias));
typedef uint32_t vec_bits __attribute__((vector_size(VEC_FLOATS * 4), aligned(4), may_alias)); /* sums may wrap */

/* half as many lanes, of 64 bits */
typedef uint64_t vec_long __attribute__((vector_size(VEC_FLOATS * 4), aligned(4), may_alias));

static inline vec vec_load(const float *p) { return *(const vec *)p; }
static inline void vec_store(float *p, vec x) { *(vec *)p = x; }
/* The first half of the lanes, and the second. */
static inline void vec_store_halves(float *first, float *second, vec x)
{
    memcpy(first, &x, sizeof x / 2), memcpy(second, (const char *)&x + sizeof x / 2, sizeof x / 2);
}
/* Bypasses the caches, p at a multiple of the vector's bytes; vec_streamed makes these stores visible to other threads.
   */
static inline void vec_stream(float *p, vec x)
{
#if defined(VEC_AVX512)
    _mm512_stream_ps(p, (__m512)x);
#elif defined(VEC_AVX2)
    _mm256_stream_ps(p, (__m256)x);
#elif defined(VEC_SSE)
    _mm_stream_ps(p, (__m128)x);
#else
    vec_store(p, x);
#endif
}
static inline void vec_streamed(void)
{
#if defined(VEC_AVX512) || defined(VEC_AVX2) || defined(VEC_SSE)
    _mm_sfence();
#endif
}
static inline vec vec_all(float x) { return x - (vec){0}; }

static inline vec vec_choose(vec_int mask, vec x, vec y)
{
#if defined(VEC_NEON)
    return (vec)vbslq_f32((uint32x4_t)mask, (float32x4_t)x, (float32x4_t)y);
#else
    return (vec)((mask & (vec_int)x) | (~mask & (vec_int)y));
#endif
}
/* mask lanes are all ones or all zeros */
static inline vec vec_keep(vec_int mask, vec x) { return (vec)(mask & (vec_int)x); }

/* The lanes of a mask as bits, and the lanes of x whose bits are set, 0 the others. */
static inline unsigned vec_lanes(vec_int mask)
{
#if defined(VEC_AVX512)
    return _mm512_movepi32_mask((__m512i)mask);
#elif defined(VEC_AVX2)
    return (unsigned)_mm256_movemask_ps((__m256)mask);
#elif defined(VEC_SSE)
    return (unsigned)_mm_movemask_ps((__m128)mask);
#elif defined(VEC_NEON)
    return vaddvq_u32((uint32x4_t)mask & (uint32x4_t){1, 2, 4, 8});
#else
    unsigned bits = 0;
    for (int i = 0; i < VEC_FLOATS; i++) bits |= (unsigned)(mask[i] & 1) << i;
    return bits;
#endif
}
static inline vec vec_keep_lanes(unsigned bits, vec x)
{
#if defined(VEC_AVX512)
    return (vec)_mm512_maskz_mov_ps((__mmask16)bits, (__m512)x);
#else
    vec_int bit, none = {0};
    for (int i = 0; i < VEC_FLOATS; i++) bit[i] = 1 << i;
    return vec_keep((bit & (none + (int32_t)bits)) != none, x);
#endif
}

/* Stores the lanes of x whose bits are set contiguously at p, which has capacity for a vector; returns how many. */
static inline int vec_pack(float *p, vec x, unsigned bits)
{
#if defined(VEC_AVX512)
    _mm512_storeu_ps(p, _mm512_maskz_compress_ps((__mmask16)bits, (__m512)x));
    return __builtin_popcount(bits);
#elif defined(VEC_NEON)
#define LANE(i) (0x03020100u + 0x04040404u * (i)) /* its bytes */
    static const uint32_t packed[16][4] = {{0},
                                           {LANE(0)},
                                           {LANE(1)},
                                           {LANE(0), LANE(1)},
                                           {LANE(2)},
                                           {LANE(0), LANE(2)},
                                           {LANE(1), LANE(2)},
                                           {LANE(0), LANE(1), LANE(2)},
                                           {LANE(3)},
                                           {LANE(0), LANE(3)},
                                           {LANE(1), LANE(3)},
                                           {LANE(0), LANE(1), LANE(3)},
                                           {LANE(2), LANE(3)},
                                           {LANE(0), LANE(2), LANE(3)},
                                           {LANE(1), LANE(2), LANE(3)},
                                           {LANE(0), LANE(1), LANE(2), LANE(3)}};
#undef LANE
    vec_store(p, (vec)vqtbl1q_u8((uint8x16_t)x, (uint8x16_t)vld1q_u32(packed[bits])));
    return __builtin_popcount(bits);
#else
    int n = 0;
    for (; bits; bits &= bits - 1) p[n++] = x[__builtin_ctz(bits)];
    return n;
#endif
}

/* Operations that the extensions lack: the maximum and the minimum, which are y when either is NaN, and loads and
   stores of the first n < VEC_FLOATS floats, the lanes after them zero; nothing beyond p[n - 1] is touched. */
#if defined(VEC_AVX512)
static inline vec vec_max(vec x, vec y) { return (vec)_mm512_max_ps((__m512)x, (__m512)y); }
static inline vec vec_min(vec x, vec y) { return (vec)_mm512_min_ps((__m512)x, (__m512)y); }
static inline vec vec_load_first(const float *p, int n)
{
    return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
static inline void vec_store_first(float *p, vec x, int n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)x);
}
#elif defined(VEC_AVX2)
static inline vec vec_max(vec x, vec y) { return (vec)_mm256_max_ps((__m256)x, (__m256)y); }
static inline vec vec_min(vec x, vec y) { return (vec)_mm256_min_ps((__m256)x, (__m256)y); }
static inline __m256i vec_first(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vec vec_load_first(const float *p, int n)
{
    if (__builtin_constant_p(n) && n == VEC_FLOATS) return vec_load(p); /* compilers do not see through the mask */
    return (vec)_mm256_maskload_ps(p, vec_first(n));
}
static inline void vec_store_first(float *p, vec x, int n) { _mm256_maskstore_ps(p, vec_first(n), (__m256)x); }
#elif defined(VEC_NEON)
static inline vec vec_max(vec x, vec y) { return vec_choose(x > y, x, y); }
static inline vec vec_min(vec x, vec y) { return vec_choose(x < y, x, y); }
static inline vec vec_load_first(const float *p, int n)
{
    const float32x2_t none = {0};
    if (n == VEC_FLOATS) return vec_load(p);
    if (n < 2) return (vec)vcombine_f32(n ? vld1_lane_f32(p, none, 0) : none, none);
    return (vec)vcombine_f32(vld1_f32(p), n > 2 ? vld1_lane_f32(p + 2, none, 0) : none);
}
static inline void vec_store_first(float *p, vec x, int n)
{
    if (n == VEC_FLOATS) {
        vec_store(p, x);
        return;
    }
    if (n & 2) memcpy(p, &x, 2 * sizeof *p);
    if (n & 1) p[n - 1] = x[n - 1];
}
#else
static inline vec vec_max(vec x, vec y)
{
#if defined(VEC_SSE)
    return (vec)_mm_max_ps((__m128)x, (__m128)y);
#else
    return vec_choose(x > y, x, y); /* a comparison with NaN is false */
#endif
}
static inline vec vec_min(vec x, vec y)
{
#if defined(VEC_SSE)
    return (vec)_mm_min_ps((__m128)x, (__m128)y);
#else
    return vec_choose(x < y, x, y);
#endif
}
static inline vec vec_load_first(const float *p, int n)
{
    float padded[VEC_FLOATS] = {0};
    for (int i = 0; i < n; i++) padded[i] = p[i];
    return vec_load(padded);
}
static inline void vec_store_first(float *p, vec x, int n)
{
    for (int i = 0; i < n; i++) p[i] = x[i];
}
#endif

/* The lower halves of x times y, in 64 bits. */
static inline vec_long vec_multiply_low(vec_long x, uint32_t y)
{
#if defined(VEC_AVX512)
    return (vec_long)_mm512_mul_epu32((__m512i)x, _mm512_set1_epi32((int32_t)y));
#elif defined(VEC_AVX2)
    return (vec_long)_mm256_mul_epu32((__m256i)x, _mm256_set1_epi32((int32_t)y));
#elif defined(VEC_SSE)
    return (vec_long)_mm_mul_epu32((__m128i)x, _mm_set1_epi32((int32_t)y));
#elif defined(VEC_NEON)
    return (vec_long)vmull_n_u32(vmovn_u64((uint64x2_t)x), y);
#else
    return (x & 0xffffffffu) * y;
#endif
}

/* *sum += x * y, without moves between registers, which compilers add in every iteration of a loop; and in program
   order, since loads that they hoist take registers that hold sums. */
static inline __attribute__((always_inline)) void vec_add_product(vec *sum, vec x, vec y)
{
#if defined(VEC_AVX2)
    __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(*sum) : "x"(x), "x"(y));
#elif defined(VEC_OVERWRITES)
    x *= y;
    __asm__("addps %1, %0" : "+x"(*sum) : "x"(x));
#else
    *sum += x * y;
    HIDE(*sum);
#endif
}

/* Two vectors from p on, where an instruction loads both: gcc puts products between the loads. */
#if defined(VEC_NEON)
static inline __attribute__((always_inline)) void vec_load_two(const float *p, vec *x, vec *y)
{
#if defined(__clang__)
    *x = vec_load(p), *y = vec_load(p + VEC_FLOATS);
#else
    __asm__("ldp %q0, %q1, %2" : "=&w"(*x), "=w"(*y) : "Ump"(*(const vec *)p), "m"(*(const vec *)(p + VEC_FLOATS)));
#endif
}
#endif

/* *sum += x * y[lane] for a constant lane, where an instruction multiplies with one lane of a vector: a load serves
   VEC_FLOATS products, and none is spent on copies of a number to all lanes. In program order. */
#if defined(VEC_NEON)
#define VEC_BY_LANE
static inline __attribute__((always_inline)) void vec_add_product_lane(vec *sum, vec x, vec y, int lane)
{
    if (lane == 0) __asm__ volatile("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(*sum) : "w"(x), "w"(y));
    if (lane == 1) __asm__ volatile("fmla %0.4s, %1.4s, %2.s[1]" : "+w"(*sum) : "w"(x), "w"(y));
    if (lane == 2) __asm__ volatile("fmla %0.4s, %1.4s, %2.s[2]" : "+w"(*sum) : "w"(x), "w"(y));
    if (lane == 3) __asm__ volatile("fmla %0.4s, %1.4s, %2.s[3]" : "+w"(*sum) : "w"(x), "w"(y));
}
#endif

/* For a vector that many products use, where each would overwrite it: copies it from a register. Compilers reload it
   for each, and run out of load slots. */
#if defined(VEC_OVERWRITES)
#define VEC_KEEP_NEAR(x) HIDE(x)
#else
#define VEC_KEEP_NEAR(x) (void)(x)
#endif

/* Lane i: p[where[i]]. */
static inline vec vec_gather(const float *p, vec_int where)
{
#if defined(VEC_AVX512)
    return (vec)_mm512_i32gather_ps((__m512i)where, p, sizeof *p);
#elif defined(VEC_AVX2)
    return (vec)_mm256_i32gather_ps(p, (__m256i)where, sizeof *p);
#else
    vec x;
    for (int i = 0; i < VEC_FLOATS; i++) x[i] = p[where[i]];
    return x;
#endif
}

/* clang unrolls loops of constant length without a pragma, and warns about a pragma that it cannot obey. */
#define VEC_PRAGMA(words) _Pragma(#words)
#if defined(__clang__)
#define VEC_UNROLL(n)
#else
#define VEC_UNROLL(n) VEC_PRAGMA(GCC unroll n)
#endif

/* Whether some lane is NaN. */
static inline int vec_some_nan(vec x)
{
#if defined(VEC_AVX512)
    return _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q) != 0;
#elif defined(VEC_AVX2)
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)x, (__m256)x, _CMP_UNORD_Q)) != 0;
#elif defined(VEC_NEON)
    return vmaxvq_u32((uint32x4_t)(x != x)) != 0;
#else
    vec_int odd = x != x;
    int some = 0;
    VEC_UNROLL(16)
    for (int i = 0; i < VEC_FLOATS; i++) some |= odd[i];
    return some;
#endif
}

/* Whether some lane of the mask is set. */
static inline int vec_some(vec_int mask)
{
#if defined(VEC_AVX512)
    return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif defined(VEC_AVX2)
    return _mm256_movemask_ps((__m256)mask) != 0;
#elif defined(VEC_NEON)
    return vmaxvq_u32((uint32x4_t)mask) != 0;
#else
    int some = 0;
    VEC_UNROLL(16)
    for (int i = 0; i < VEC_FLOATS; i++) some |= mask[i];
    return some;
#endif
}

#endif
