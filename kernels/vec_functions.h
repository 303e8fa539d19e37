/* vec_functions.h: exp, 2^x, the logistic function, tanh and log of vectors, by polynomials. */
#ifndef VEC_FUNCTIONS_H
#define VEC_FUNCTIONS_H

#include "kernels.h"
#include "vec.h"

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
    vec r = t - n * vec_all(0.693359375f); /* exact: ln 2 as a sum of two, the first of ten bits */
    r = r + n * vec_all(2.12194440e-4f);
    vec p = vec_all(8.29031505e-03f);
    p = p * r + vec_all(4.18979302e-02f);
    p = p * r + vec_all(1.66676357e-01f);
    p = p * r + vec_all(4.99991506e-01f);
    p = p * r + vec_all(9.99999702e-01f);
    p = p * r + vec_all(1.0f);
    return vec_keep(~gone, vec_times_power(p, n));
}

/* x within bounds, NaN as it is. */
static inline vec vec_between(float least, vec x, float most)
{
#if defined(VEC_NEON)
    return (vec)vminq_f32(vmaxq_f32((float32x4_t)x, vdupq_n_f32(least)), vdupq_n_f32(most));
#else
    return vec_min(vec_all(most), vec_max(vec_all(least), x));
#endif
}

/* The excess of exponents, where the number that rounds adds it, too: an instruction less. */
#if defined(VEC_NEON)
#define VEC_EXCESS 127
#else
#define VEC_EXCESS 0
#endif

/* 2^x of n vectors, n constant, step by step for all of them: one alone is a chain in which every step waits for the
   one before. x = whole + r, a polynomial for 2^r times 2^whole: with r in [0, 1) where the machine finds whole and r
   in an instruction each (minimax with 1 at 0, relative error 1.5e-7), else in [-1/2, 1/2] (3e-7). Below -126, and
   below -127 without AVX-512, the result is 0 exactly, and so it is for -inf; NaN stays NaN; above 127 it is at least
   2^126. */
static inline __attribute__((always_inline)) void vec_exp2_some(vec *x, int n)
{
    enum { DEGREE = 5, MOST = 4 };
    vec r[MOST], p[MOST];
#if defined(VEC_AVX512)
    static const float factor[] = {1.86713017e-3f, 9.01702978e-3f, 5.57999127e-2f, 2.40164444e-1f, 6.93151295e-1f, 1};
    VEC_UNROLL(4) for (int i = 0; i < n; i++) r[i] = (vec)_mm512_reduce_ps((__m512)x[i], _MM_FROUND_TO_NEG_INF);
#else
    static const float factor[] = {1.33952915e-3f, 9.67024614e-3f, 5.55031068e-2f, 2.40222419e-1f, 6.93147234e-1f, 1};
    const vec magic = vec_all(12582912.0f + VEC_EXCESS); /* see vec_exp */
    VEC_UNROLL(4)
    for (int i = 0; i < n; i++) {
        vec near = vec_between(-127, x[i], 127); /* the bits of 2^-127 are 0 */
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
        /* see vec_times_power: the magic's own bits leave above */
        x[i] = p[i] * (vec)(((vec_bits)x[i] + (127 - VEC_EXCESS)) << 23);
#endif
    }
}
static inline vec vec_exp2(vec x)
{
    vec_exp2_some(&x, 1);
    return x;
}

/* 1 / (a + 2^-x) of n vectors, n constant; below -126 it is 0 exactly, and so it is for -inf; NaN stays NaN. */
static inline __attribute__((always_inline)) void vec_sigmoid_some(vec *x, const vec *a, int n)
{
    const vec one = vec_all(1), most = vec_all(0x1p126f);
    VEC_UNROLL(4) for (int i = 0; i < n; i++) x[i] = -x[i];
    vec_exp2_some(x, n);
    VEC_UNROLL(4) for (int i = 0; i < n; i++) x[i] = vec_keep(~(x[i] >= most), one / (a[i] + x[i]));
}
static inline vec vec_sigmoid(vec x, vec a)
{
    vec_sigmoid_some(&x, &a, 1);
    return x;
}
/* p = 1 / (a + e^-x), and 1 - a p as p e^-x: where a p is near 1 a difference would lose its last digits. */
static inline vec vec_sigmoid_and_rest(vec x, vec a, vec *rest)
{
    const vec one = vec_all(1), e = vec_exp2(x * vec_all(-KERNEL_LOG2E));
    const vec_int none = e >= vec_all(0x1p126f);
    const vec p = vec_keep(~none, one / (a + e));
    *rest = vec_choose(none, one, p * e);
    return p;
}

/* tanh x as a quotient of polynomials, as in Eigen, to some units in the last place; beyond MOST it is 1. NaN stays
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
    vec f = (vec)((vec_bits)x - ((vec_bits)whole << 23)) - vec_all(1), z = f * f,
        n = __builtin_convertvector(whole, vec);
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

#endif
