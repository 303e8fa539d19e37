/* vec.h: the thin vector layer. VEC_FLOATS, set by the including file, is the width; GCC's vector extensions do the
   rest on any machine. */
#ifndef VEC_H
#define VEC_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) && VEC_FLOATS == 16
#define VEC_AVX512
#include <immintrin.h>
#elif defined(__AVX2__) && VEC_FLOATS == 8
#define VEC_AVX2
#include <immintrin.h>
#elif defined(__SSE2__) && VEC_FLOATS == 4
#define VEC_SSE
#include <immintrin.h>
#endif

/* Are results of two operands put into one of them? */
#if defined(VEC_SSE) && !defined(__AVX__)
#define VEC_OVERWRITES
#endif

/* Sums that there are registers for, besides what is multiplied: of 32 registers, or of 16. Products that overwrite
   what they read need copies besides. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define VEC_SUMS 24
#elif defined(VEC_AVX2)
#define VEC_SUMS 12
#else
#define VEC_SUMS 8
#endif

/* The compiler must take x for changed. */
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

/* half as many of 64 bits */
typedef uint64_t vec_long __attribute__((vector_size(VEC_FLOATS * 4), aligned(4), may_alias));

static inline vec vec_load(const float *p) { return *(const vec *)p; }
static inline void vec_store(float *p, vec x) { *(vec *)p = x; }
/* The first half of the lanes, and the second. */
static inline void vec_store_halves(float *first, float *second, vec x)
{
    memcpy(first, &x, sizeof x / 2), memcpy(second, (const char *)&x + sizeof x / 2, sizeof x / 2);
}
/* Past the caches, p at a multiple of the vector's bytes; and in memory for everybody from there on. */
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

static inline vec vec_choose(vec_int mask, vec x, vec y) { return (vec)((mask & (vec_int)x) | (~mask & (vec_int)y)); }
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

/* The lanes of x whose bits are set side by side at p, where a vector has room; returns how many. */
static inline int vec_pack(float *p, vec x, unsigned bits)
{
#if defined(VEC_AVX512)
    _mm512_storeu_ps(p, _mm512_maskz_compress_ps((__mmask16)bits, (__m512)x));
    return __builtin_popcount(bits);
#else
    int n = 0;
    for (; bits; bits &= bits - 1) p[n++] = x[__builtin_ctz(bits)];
    return n;
#endif
}

/* What the extensions cannot say in one instruction: the greater of two and the smaller, which are y when either is
   NaN, and loads and stores of the first n < VEC_FLOATS floats, the lanes after them zero; nothing beyond p[n - 1] is
   touched. */
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
#else
    return (x & 0xffffffffu) * y;
#endif
}

/* *sum += x * y, each in the register that it is in: compilers choose others and move what they hold there, in every
   turn of a loop. In this order, too: what they load ahead of it takes registers that sums are in. */
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

/* A vector that many products take, where each would overwrite it: a copy comes from the register. Compilers load it
   again for each, and lack the loads. */
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

/* ---- lanes in other places: lists of lanes, since compilers want them constant. Lane VEC_FLOATS + i is lane i of the
   second vector. ---- */

/* VEC_EVEN_t, VEC_ODD_t: both vectors cut in turns of t lanes, the even turns of both side by side, and the odd ones.
   VEC_SWAP_t: lanes i and i ^ t change places. VEC_EVENS, VEC_ODDS, VEC_LOWER, VEC_UPPER: neighbours part, and come
   together again. VEC_RIFFLE: a vector's lower half and its upper one take turns. */
#if VEC_FLOATS == 4
#define VEC_EVEN_1 0, 4, 2, 6
#define VEC_ODD_1  1, 5, 3, 7
#define VEC_SWAP_1 1, 0, 3, 2
#define VEC_EVEN_2 0, 1, 4, 5
#define VEC_ODD_2  2, 3, 6, 7
#define VEC_SWAP_2 2, 3, 0, 1
#define VEC_EVENS  0, 2, 4, 6
#define VEC_ODDS   1, 3, 5, 7
#define VEC_LOWER  0, 4, 1, 5
#define VEC_UPPER  2, 6, 3, 7
#define VEC_RIFFLE 0, 2, 1, 3
#elif VEC_FLOATS == 8
#define VEC_EVEN_1 0, 8, 2, 10, 4, 12, 6, 14
#define VEC_ODD_1  1, 9, 3, 11, 5, 13, 7, 15
#define VEC_SWAP_1 1, 0, 3, 2, 5, 4, 7, 6
#define VEC_EVEN_2 0, 1, 8, 9, 4, 5, 12, 13
#define VEC_ODD_2  2, 3, 10, 11, 6, 7, 14, 15
#define VEC_SWAP_2 2, 3, 0, 1, 6, 7, 4, 5
#define VEC_EVEN_4 0, 1, 2, 3, 8, 9, 10, 11
#define VEC_ODD_4  4, 5, 6, 7, 12, 13, 14, 15
#define VEC_SWAP_4 4, 5, 6, 7, 0, 1, 2, 3
#define VEC_EVENS  0, 2, 4, 6, 8, 10, 12, 14
#define VEC_ODDS   1, 3, 5, 7, 9, 11, 13, 15
#define VEC_LOWER  0, 8, 1, 9, 2, 10, 3, 11
#define VEC_UPPER  4, 12, 5, 13, 6, 14, 7, 15
#define VEC_RIFFLE 0, 4, 1, 5, 2, 6, 3, 7
#else
#define VEC_EVEN_1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define VEC_ODD_1  1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define VEC_SWAP_1 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#define VEC_EVEN_2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define VEC_ODD_2  2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define VEC_SWAP_2 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13
#define VEC_EVEN_4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define VEC_ODD_4  4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define VEC_SWAP_4 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11
#define VEC_EVEN_8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define VEC_ODD_8  8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define VEC_SWAP_8 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7
#define VEC_EVENS  0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define VEC_ODDS   1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define VEC_LOWER  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define VEC_UPPER  8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define VEC_RIFFLE 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15
#endif

/* The lanes of the list, which may be a macro. */
#define VEC_LANES(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

/* clang unrolls loops of constant length unasked, and warns where it is asked and cannot. */
#define VEC_PRAGMA(words) _Pragma(#words)
#if defined(__clang__)
#define VEC_UNROLL(n)
#else
#define VEC_UNROLL(n) VEC_PRAGMA(GCC unroll n)
#endif

/* Add the even turns of both to the odd ones. Applied with turns of 1, 2, 4, .. to neighbours it transposes and adds,
   so that lane i of the last result is the sum of vector i. The order of the additions is the same at every width's own
   tree, whatever the compiler does. */
#define VEC_ADD_TURNS(a, b, turn) (VEC_LANES(a, b, VEC_EVEN_##turn) + VEC_LANES(a, b, VEC_ODD_##turn))

/* Lane i: the sum of x[i], for VEC_FLOATS vectors; x is used up. */
static inline __attribute__((always_inline)) vec vec_sums(vec *x)
{
    VEC_UNROLL(8)
    for (int i = 0; i < VEC_FLOATS; i += 2) x[i] = VEC_ADD_TURNS(x[i], x[i + 1], 1);
    VEC_UNROLL(8)
    for (int i = 0; i < VEC_FLOATS; i += 4) x[i] = VEC_ADD_TURNS(x[i], x[i + 2], 2);
#if VEC_FLOATS > 4
    VEC_UNROLL(8)
    for (int i = 0; i < VEC_FLOATS; i += 8) x[i] = VEC_ADD_TURNS(x[i], x[i + 4], 4);
#endif
#if VEC_FLOATS > 8
    x[0] = VEC_ADD_TURNS(x[0], x[8], 8);
#endif
    return x[0];
}

/* The same vector by vector, each with its number i, known when this is compiled: those before it are added up as
   far as they can be, so that few are held at a time. Behind the last one x[0] is the result. */
static inline __attribute__((always_inline)) void vec_sums_add(vec *x, int i, vec y)
{
    if (i & 1) y = VEC_ADD_TURNS(x[i - 1], y, 1);
    if ((i & 3) == 3) y = VEC_ADD_TURNS(x[i - 3], y, 2);
#if VEC_FLOATS > 4
    if ((i & 7) == 7) y = VEC_ADD_TURNS(x[i - 7], y, 4);
#endif
#if VEC_FLOATS > 8
    if (i == 15) y = VEC_ADD_TURNS(x[0], y, 8);
#endif
    x[i & (i + 1)] = y;
}

/* Vectors cut in parts of n lanes, n a power of two below VEC_FLOATS and known when this is compiled: lane by lane the
   sums of the first one's parts, then of the second's and so on, of n vectors; x is used up. */
static inline __attribute__((always_inline)) vec vec_part_sums(vec *x, int n)
{
    VEC_UNROLL(8)
    for (int i = 0; i < n; i += 2) x[i] = VEC_ADD_TURNS(x[i], x[i + 1], 1);
    VEC_UNROLL(8)
    for (int i = 0; i + 2 < n; i += 4) x[i] = VEC_ADD_TURNS(x[i], x[i + 2], 2);
#if VEC_FLOATS > 8
    if (n > 4) x[0] = VEC_ADD_TURNS(x[0], x[4], 4);
#endif
    VEC_UNROLL(4)
    for (int parts = VEC_FLOATS / n; parts > 1; parts /= 2) x[0] = VEC_LANES(x[0], x[0], VEC_RIFFLE);
    return x[0];
}

/* Lane i: w[i / each], `each` a power of two; w[VEC_FLOATS - 1] must be there. */
static inline __attribute__((always_inline)) vec vec_repeat(const float *w, int each)
{
    if (each == 1) return vec_load(w);
#if defined(VEC_AVX512)
    const vec_int lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (vec)_mm512_permutexvar_ps((__m512i)(lane / each), (__m512)vec_load(w));
#elif defined(VEC_AVX2)
    const vec_int lane = {0, 1, 2, 3, 4, 5, 6, 7};
    return (vec)_mm256_permutevar8x32_ps((__m256)vec_load(w), (__m256i)(lane / each));
#else
    vec x;
    for (int i = 0; i < VEC_FLOATS; i++) x[i] = w[i / each];
    return x;
#endif
}

/* Even turns of both to the one, odd turns to the other. */
#define VEC_TURN(a, b, turn)                                                                \
    do {                                                                                    \
        vec even = VEC_LANES(a, b, VEC_EVEN_##turn), odd = VEC_LANES(a, b, VEC_ODD_##turn); \
        (a) = even, (b) = odd;                                                              \
    } while (0)

/* Vector i of VEC_FLOATS becomes lane i of each. */
static inline __attribute__((always_inline)) void vec_transpose(vec *x)
{
    VEC_UNROLL(16)
    for (int i = 0; i < VEC_FLOATS; i += 2) VEC_TURN(x[i], x[i + 1], 1);
    VEC_UNROLL(16)
    for (int i = 0; i < VEC_FLOATS; i++)
        if (!(i & 2)) VEC_TURN(x[i], x[i + 2], 2);
#if VEC_FLOATS > 4
    VEC_UNROLL(16)
    for (int i = 0; i < VEC_FLOATS; i++)
        if (!(i & 4)) VEC_TURN(x[i], x[i + 4], 4);
#endif
#if VEC_FLOATS > 8
    VEC_UNROLL(16)
    for (int i = 0; i < VEC_FLOATS / 2; i++) VEC_TURN(x[i], x[i + 8], 8);
#endif
}

/* Lanes i and i ^ half change places; half, a power of two below VEC_FLOATS, is known when this is compiled. */
static inline __attribute__((always_inline)) vec vec_swap(vec x, int half)
{
    if (half == 1) return VEC_LANES(x, x, VEC_SWAP_1);
#if VEC_FLOATS > 8
    if (half == 8) return VEC_LANES(x, x, VEC_SWAP_8);
#endif
#if VEC_FLOATS > 4
    if (half == 4) return VEC_LANES(x, x, VEC_SWAP_4);
#endif
    return VEC_LANES(x, x, VEC_SWAP_2);
}

/* The sums of four vectors. */
static inline __attribute__((always_inline)) void vec_sum_four(const vec *x, float *sum)
{
    vec ab = VEC_ADD_TURNS(x[0], x[1], 1), cd = VEC_ADD_TURNS(x[2], x[3], 1), all = VEC_ADD_TURNS(ab, cd, 2);
#if VEC_FLOATS > 8
    all += vec_swap(all, 8);
#endif
#if VEC_FLOATS > 4
    all += vec_swap(all, 4);
#endif
    memcpy(sum, &all, 4 * sizeof *sum);
}

/* Is some lane NaN? */
static inline int vec_some_nan(vec x)
{
#if defined(VEC_AVX512)
    return _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q) != 0;
#elif defined(VEC_AVX2)
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)x, (__m256)x, _CMP_UNORD_Q)) != 0;
#else
    vec_int odd = x != x;
    int some = 0;
    VEC_UNROLL(16)
    for (int i = 0; i < VEC_FLOATS; i++) some |= odd[i];
    return some;
#endif
}

/* Is some lane of the mask set? */
static inline int vec_some(vec_int mask)
{
#if defined(VEC_AVX512)
    return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif defined(VEC_AVX2)
    return _mm256_movemask_ps((__m256)mask) != 0;
#else
    int some = 0;
    VEC_UNROLL(16)
    for (int i = 0; i < VEC_FLOATS; i++) some |= mask[i];
    return some;
#endif
}

/* The sum of the lanes, and the greatest, by halves. */
static inline float vec_sum(vec x)
{
    VEC_UNROLL(4)
    for (int half = VEC_FLOATS / 2; half; half /= 2) x += vec_swap(x, half);
    return x[0];
}
static inline float vec_greatest(vec x)
{
    VEC_UNROLL(4)
    for (int half = VEC_FLOATS / 2; half; half /= 2) x = vec_max(x, vec_swap(x, half));
    return x[0];
}

/* 2^n times x, for whole n from -126 to 127; where n is -127, 0. */
static inline vec vec_times_power(vec x, vec n)
{
#if defined(VEC_AVX512)
    return (vec)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
    const vec magic = vec_all(12582912.0f); /* 1.5 * 2^23: adding it puts a whole number into the low bits */
    return x * (vec)(((vec_bits)(n + magic) - (vec_bits)magic + 127) << 23);
#endif
}

/* e^x for x <= 88: x = n ln 2 + r, a polynomial for e^r (minimax on [-ln 2 / 2, ln 2 / 2] by Lawson's iteration,
   relative error 1e-7) times 2^n; below 2.5e-7 in all. Below -87 the result is 0 exactly: denormals would cost more
   than they are worth. NaN stays NaN: the greater of a number and NaN, in this order, is NaN. */
static inline vec vec_exp(vec x)
{
    const vec magic = vec_all(12582912.0f); /* adding and taking it away rounds to a whole number */
    vec_int gone = x < vec_all(-87.0f);
    vec t = vec_max(vec_all(-87.0f), x);
    vec n = t * vec_all(1.44269504f) + magic - magic;
    vec r = t - n * vec_all(0.693359375f); /* exact: ln 2 in two parts, the first of ten bits */
    r = r + n * vec_all(2.12194440e-4f);
    vec p = vec_all(8.29031505e-03f);
    p = p * r + vec_all(4.18979302e-02f);
    p = p * r + vec_all(1.66676357e-01f);
    p = p * r + vec_all(4.99991506e-01f);
    p = p * r + vec_all(9.99999702e-01f);
    p = p * r + vec_all(1.0f);
    return vec_keep(~gone, vec_times_power(p, n));
}

/* 2^x of n vectors, n constant, a step of all of them after the other: one alone is a chain in which every step waits
   for the one before. x = whole + r, a polynomial for 2^r times 2^whole: with r in [0, 1) where the machine has the
   parts in an instruction each (minimax with 1 at 0, relative error 1.5e-7), else in [-1/2, 1/2] (3e-7). Below -126,
   and below -127 without AVX-512, the result is 0 exactly, and so it is for -inf; NaN stays NaN; above 127 it is at
   least 2^126. */
static inline __attribute__((always_inline)) void vec_exp2_some(vec *x, int n)
{
    enum { DEGREE = 5, MOST = 4 };
    vec r[MOST], p[MOST];
#if defined(VEC_AVX512)
    static const float factor[] = {1.86713017e-3f, 9.01702978e-3f, 5.57999127e-2f, 2.40164444e-1f, 6.93151295e-1f, 1};
    VEC_UNROLL(4) for (int i = 0; i < n; i++) r[i] = (vec)_mm512_reduce_ps((__m512)x[i], _MM_FROUND_TO_NEG_INF);
#else
    static const float factor[] = {1.33952915e-3f, 9.67024614e-3f, 5.55031068e-2f, 2.40222419e-1f, 6.93147234e-1f, 1};
    const vec magic = vec_all(12582912.0f); /* see vec_exp */
    VEC_UNROLL(4)
    for (int i = 0; i < n; i++) {
        vec near = vec_min(vec_all(127), vec_max(vec_all(-127), x[i])); /* 2^-127 is made of bits that say 0 */
        x[i] = near + magic;
        r[i] = near - (x[i] - magic);
    }
#endif
    VEC_UNROLL(4) for (int i = 0; i < n; i++) p[i] = vec_all(factor[0]);
    VEC_UNROLL(8)
    for (int k = 1; k <= DEGREE; k++) VEC_UNROLL(4) for (int i = 0; i < n; i++)
        {
            p[i] = p[i] * r[i] + vec_all(factor[k]);
            if (n > 1) HIDE(p[i]); /* or compilers put the chains back */
        }
    VEC_UNROLL(4)
    for (int i = 0; i < n; i++) {
#if defined(VEC_AVX512)
        __mmask16 here = _mm512_cmp_ps_mask((__m512)x[i], _mm512_set1_ps(-126), _CMP_NLT_UQ); /* denormals cost a lot */
        x[i] = (vec)_mm512_maskz_scalef_ps(here, (__m512)p[i], (__m512)x[i]);
#else
        x[i] = p[i] * (vec)(((vec_bits)x[i] + 127) << 23); /* see vec_times_power: the magic's own bits leave above */
#endif
    }
}
static inline vec vec_exp2(vec x)
{
    vec_exp2_some(&x, 1);
    return x;
}

/* 1 / (1 + 2^-x) of n vectors, n constant; below -126 it is 0 exactly, and so it is for -inf; NaN stays NaN. */
static inline __attribute__((always_inline)) void vec_sigmoid_some(vec *x, int n)
{
    const vec one = vec_all(1), most = vec_all(0x1p126f);
    VEC_UNROLL(4) for (int i = 0; i < n; i++) x[i] = -x[i];
    vec_exp2_some(x, n);
    VEC_UNROLL(4) for (int i = 0; i < n; i++) x[i] = vec_keep(~(x[i] >= most), one / (one + x[i]));
}
static inline vec vec_sigmoid(vec x)
{
    vec_sigmoid_some(&x, 1);
    return x;
}
/* p = 1 / (1 + e^-x), and what it lacks of 1, p e^-x: where p is near 1 a difference would lose its last places. */
static inline vec vec_sigmoid_and_rest(vec x, vec *rest)
{
    const vec one = vec_all(1), e = vec_exp2(x * vec_all(-KERNEL_LOG2E));
    const vec_int none = e >= vec_all(0x1p126f);
    const vec p = vec_keep(~none, one / (one + e));
    *rest = vec_choose(none, one, p * e);
    return p;
}

/* tanh x as a quotient of polynomials, as Eigen has it, to some units in the last place; beyond MOST it is 1. NaN stays
   NaN. */
static inline vec vec_tanh(vec x)
{
    const vec most = vec_all(7.90531111f);
    x = vec_choose(x > most, most, vec_choose(x < -most, -most, x));
    vec y = x * x, p = vec_all(-2.76076847742355e-16f), q = vec_all(1.19825839466702e-06f);
    p = p * y + vec_all(2.00018790482477e-13f);
    p = p * y + vec_all(-8.60467152213735e-11f);
    p = p * y + vec_all(5.12229709037114e-08f);
    p = p * y + vec_all(1.48572235717979e-05f);
    p = p * y + vec_all(6.37261928875436e-04f);
    p = p * y + vec_all(4.89352455891786e-03f);
    q = q * y + vec_all(1.18534705686654e-04f);
    q = q * y + vec_all(2.26843463243900e-03f);
    q = q * y + vec_all(4.89352518554385e-03f);
    return x * p / q;
}

/* log x for x = 0, x normal, infinite or NaN; below 2 ulp away from 1. x = 2^n m with m from sqrt(1/2) to sqrt 2, and
   a polynomial for log m (Cephes, logf). */
static inline vec vec_log(vec x)
{
    const vec_bits half_root = (vec_bits)vec_all(0.70710677f);
    vec_int whole = (vec_int)((vec_bits)x - half_root) >> 23;
    vec f = (vec)((vec_bits)x - ((vec_bits)whole << 23)) - vec_all(1), z = f * f, n = __builtin_convertvector(whole, vec);
    vec p = vec_all(7.0376836292e-2f);
    p = p * f - vec_all(1.1514610310e-1f);
    p = p * f + vec_all(1.1676998740e-1f);
    p = p * f - vec_all(1.2420140846e-1f);
    p = p * f + vec_all(1.4249322787e-1f);
    p = p * f - vec_all(1.6668057665e-1f);
    p = p * f + vec_all(2.0000714765e-1f);
    p = p * f - vec_all(2.4999993993e-1f);
    p = p * f + vec_all(3.3333331174e-1f);
    vec y = p * f * z - n * vec_all(2.12194440e-4f) - vec_all(0.5f) * z;
    y = f + y + n * vec_all(0.693359375f);
    y = vec_choose(x < vec_all(INFINITY), y, x);
    return vec_choose(x == (vec){0}, vec_all(-INFINITY), y);
}

/* ---- bfloat16: the upper half of a float. A word holds a pair, the first of the two in its low half. ---- */

#if defined(VEC_AVX512) && defined(__AVX512BF16__)
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
    return __builtin_convertvector(*(const vec_halves *)p, vec_bits);
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
static inline vec vec_load_bf16(const uint16_t *p) { return (vec)(vec_load_low(p) << 16); }
static inline vec vec_load_bf16_first(const uint16_t *p, int n) { return (vec)(vec_load_low_first(p, n) << 16); }

/* VEC_FLOATS pairs as they lie, or the first n < 2 VEC_FLOATS numbers and zeros. */
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

/* Neighbours part: x has the even ones of both, y the odd ones; and come together again. */
static inline __attribute__((always_inline)) void vec_part(vec *x, vec *y)
{
    vec a = *x, b = *y;
    *x = VEC_LANES(a, b, VEC_EVENS), *y = VEC_LANES(a, b, VEC_ODDS);
}
static inline __attribute__((always_inline)) void vec_rejoin(vec *x, vec *y)
{
    vec a = *x, b = *y;
    *x = VEC_LANES(a, b, VEC_LOWER), *y = VEC_LANES(a, b, VEC_UPPER);
}

/* x rounded to bfloat16 precision, to nearest even; NaN stays NaN, whose low bits may be all there is of it. */
static inline vec_bits vec_round_bf16(vec x)
{
    vec_bits bits = (vec_bits)x, nearest = bits + 0x7fff + ((bits >> 16) & 1);
    return (vec_bits)vec_choose(x != x, (vec)(bits | 0x400000), (vec)nearest) & 0xffff0000;
}

static inline void vec_store_bf16(uint16_t *p, vec x)
{
    *(vec_halves *)p = __builtin_convertvector(vec_round_bf16(x) >> 16, vec_halves);
}

#if defined(VEC_PAIRS)
/* Twice VEC_FLOATS numbers rounded, as pairs: low's, then high's. What is below 2^-126 becomes 0. */
static inline vec_bits vec_round_pairs(vec low, vec high)
{
    return (vec_bits)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
}

/* The first 16 numbers and the last 16 of x: lane i is the pair of number i of the ones and number i of the others. */
static inline vec_bits vec_pair_halves(vec_bits x)
{
    const vec_bits low = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; /* number i */
    const vec_bits paired = low | (low + VEC_FLOATS) << 16;                      /* numbers i and 16 + i */
    return (vec_bits)_mm512_permutexvar_epi16((__m512i)paired, (__m512i)x);
}

/* Numbers of x and y pair by pair: *low has the first sixteen, *high the others. */
static inline void vec_pair_numbers(vec_bits x, vec_bits y, vec_bits *low, vec_bits *high)
{
    const vec_bits at = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const vec_bits paired = at | (at + 2 * VEC_FLOATS) << 16;
    *low = (vec_bits)_mm512_permutex2var_epi16((__m512i)x, (__m512i)paired, (__m512i)y);
    *high = (vec_bits)_mm512_permutex2var_epi16((__m512i)x, (__m512i)(paired + 0x00100010), (__m512i)y);
}
#endif

/* Twice VEC_FLOATS numbers rounded to bfloat16, low's and then high's; see vec_round_pairs for what is near 0. */
static inline void vec_store_narrow(uint16_t *p, vec low, vec high)
{
#if defined(VEC_PAIRS)
    *(vec_loose *)p = vec_round_pairs(low, high);
#else
    vec_store_bf16(p, low), vec_store_bf16(p + VEC_FLOATS, high);
#endif
}

/* sum + the first of each of a's pairs times the first of b's + the second times the second */
static inline __attribute__((always_inline)) vec vec_dot_pairs(vec sum, vec_bits a, vec_bits b)
{
#if defined(VEC_PAIRS)
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
    sum += vec_firsts(a) * vec_firsts(b);
    return sum + vec_seconds(a) * vec_seconds(b);
#endif
}

#endif
