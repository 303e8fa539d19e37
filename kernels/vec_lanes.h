/* vec_lanes.h: permutations of lanes, and the sums made of them: neighbours added, vectors transposed. Lists of lanes
   are macros, since compilers require constants; lane VEC_FLOATS + i is lane i of the second vector. */
#ifndef VEC_LANES_H
#define VEC_LANES_H

#include "vec.h"

/* VEC_EVEN_t, VEC_ODD_t: both vectors cut in runs of t lanes; the even runs of both, and the odd ones. VEC_SWAP_t:
   exchanges lanes i and i ^ t. VEC_EVENS, VEC_ODDS: deinterleave two vectors; VEC_LOWER, VEC_UPPER: interleave them
   again. VEC_RIFFLE: interleaves a vector's lower and upper half. */
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

/* Adds the even runs of both to the odd ones. Applied with runs of 1, 2, 4, .. to neighbours it transposes and adds, so
   that lane i of the last result is the sum of vector i. The order of the additions is fixed at every width, whatever
   the compiler does. */
#if defined(VEC_NEON) /* neighbours of both: the same sums, a's before b's */
#define VEC_ADD_PAIRS(a, b, turn) ((vec)vpaddq_f32((float32x4_t)(a), (float32x4_t)(b)))
#else
#define VEC_ADD_PAIRS(a, b, turn) (VEC_LANES(a, b, VEC_EVEN_##turn) + VEC_LANES(a, b, VEC_ODD_##turn))
#endif

/* Lane i: the sum of x[i], for VEC_FLOATS vectors; x is used up. */
static inline __attribute__((always_inline)) vec vec_sums(vec *x)
{
    VEC_UNROLL(8)
    for (int i = 0; i < VEC_FLOATS; i += 2) x[i] = VEC_ADD_PAIRS(x[i], x[i + 1], 1);
    VEC_UNROLL(8)
    for (int i = 0; i < VEC_FLOATS; i += 4) x[i] = VEC_ADD_PAIRS(x[i], x[i + 2], 2);
#if VEC_FLOATS > 4
    VEC_UNROLL(8)
    for (int i = 0; i < VEC_FLOATS; i += 8) x[i] = VEC_ADD_PAIRS(x[i], x[i + 4], 4);
#endif
#if VEC_FLOATS > 8
    x[0] = VEC_ADD_PAIRS(x[0], x[8], 8);
#endif
    return x[0];
}

/* The same vector by vector, i constant: earlier vectors are reduced as far as possible, so that few are held at a
   time. After the last one x[0] is the result. */
static inline __attribute__((always_inline)) void vec_sums_add(vec *x, int i, vec y)
{
    if (i & 1) y = VEC_ADD_PAIRS(x[i - 1], y, 1);
    if ((i & 3) == 3) y = VEC_ADD_PAIRS(x[i - 3], y, 2);
#if VEC_FLOATS > 4
    if ((i & 7) == 7) y = VEC_ADD_PAIRS(x[i - 7], y, 4);
#endif
#if VEC_FLOATS > 8
    if (i == 15) y = VEC_ADD_PAIRS(x[0], y, 8);
#endif
    x[i & (i + 1)] = y;
}

/* n vectors cut in runs of n lanes, n a constant power of two below VEC_FLOATS: lane by lane the sums of the first
   vector's runs, then of the second's and so on; x is overwritten. */
static inline __attribute__((always_inline)) vec vec_part_sums(vec *x, int n)
{
    VEC_UNROLL(8)
    for (int i = 0; i < n; i += 2) x[i] = VEC_ADD_PAIRS(x[i], x[i + 1], 1);
    VEC_UNROLL(8)
    for (int i = 0; i + 2 < n; i += 4) x[i] = VEC_ADD_PAIRS(x[i], x[i + 2], 2);
#if VEC_FLOATS > 8
    if (n > 4) x[0] = VEC_ADD_PAIRS(x[0], x[4], 4);
#endif
#if !defined(VEC_NEON) /* whose VEC_ADD_PAIRS leaves them in this order */
    VEC_UNROLL(4)
    for (int parts = VEC_FLOATS / n; parts > 1; parts /= 2) x[0] = VEC_LANES(x[0], x[0], VEC_RIFFLE);
#endif
    return x[0];
}

/* Lane i: w[i / each], `each` a power of two; w[VEC_FLOATS - 1] must be readable. */
static inline __attribute__((always_inline)) vec vec_repeat(const float *w, int each)
{
    if (each == 1) return vec_load(w);
#if defined(VEC_AVX512)
    const vec_int lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (vec)_mm512_permutexvar_ps((__m512i)(lane / each), (__m512)vec_load(w));
#elif defined(VEC_AVX2)
    const vec_int lane = {0, 1, 2, 3, 4, 5, 6, 7};
    return (vec)_mm256_permutevar8x32_ps((__m256)vec_load(w), (__m256i)(lane / each));
#elif defined(VEC_NEON)
    if (each > 2) return vec_all(w[0]);
    return (vec)vzip1q_f32((float32x4_t)vec_load(w), (float32x4_t)vec_load(w));
#else
    vec x;
    for (int i = 0; i < VEC_FLOATS; i++) x[i] = w[i / each];
    return x;
#endif
}

/* Even runs of both to a, odd runs to b. */
#define VEC_SWAP(a, b, turn)                                                                \
    do {                                                                                    \
        vec even = VEC_LANES(a, b, VEC_EVEN_##turn), odd = VEC_LANES(a, b, VEC_ODD_##turn); \
        (a) = even, (b) = odd;                                                              \
    } while (0)

/* Vector i of VEC_FLOATS becomes lane i of each. */
static inline __attribute__((always_inline)) void vec_transpose(vec *x)
{
    VEC_UNROLL(16)
    for (int i = 0; i < VEC_FLOATS; i += 2) VEC_SWAP(x[i], x[i + 1], 1);
    VEC_UNROLL(16)
    for (int i = 0; i < VEC_FLOATS; i++)
        if (!(i & 2)) VEC_SWAP(x[i], x[i + 2], 2);
#if VEC_FLOATS > 4
    VEC_UNROLL(16)
    for (int i = 0; i < VEC_FLOATS; i++)
        if (!(i & 4)) VEC_SWAP(x[i], x[i + 4], 4);
#endif
#if VEC_FLOATS > 8
    VEC_UNROLL(16)
    for (int i = 0; i < VEC_FLOATS / 2; i++) VEC_SWAP(x[i], x[i + 8], 8);
#endif
}

/* Exchanges lanes i and i ^ half; half is a constant power of two below VEC_FLOATS. */
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
    vec ab = VEC_ADD_PAIRS(x[0], x[1], 1), cd = VEC_ADD_PAIRS(x[2], x[3], 1), all = VEC_ADD_PAIRS(ab, cd, 2);
#if VEC_FLOATS > 8
    all += vec_swap(all, 8);
#endif
#if VEC_FLOATS > 4
    all += vec_swap(all, 4);
#endif
    memcpy(sum, &all, 4 * sizeof *sum);
}

/* The sum of the lanes, and the greatest, by halves. */
static inline float vec_sum(vec x)
{
#if defined(VEC_NEON)
    return vaddvq_f32((float32x4_t)x);
#else
    VEC_UNROLL(4)
    for (int half = VEC_FLOATS / 2; half; half /= 2) x += vec_swap(x, half);
    return x[0];
#endif
}
static inline float vec_greatest(vec x)
{
    VEC_UNROLL(4)
    for (int half = VEC_FLOATS / 2; half; half /= 2) x = vec_max(x, vec_swap(x, half));
    return x[0];
}

/* Deinterleaves: x gets the even lanes of both, y the odd ones; vec_rejoin interleaves them again. */
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

#endif
