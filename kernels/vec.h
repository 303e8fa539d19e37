/* vec.h: the thin vector layer. VEC_FLOATS, set by the including file, is the width; GCC's vector extensions do the rest on any machine. */
#ifndef VEC_H
#define VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef float vec __attribute__((vector_size(VEC_FLOATS * 4), aligned(4), may_alias));
typedef int32_t vec_int __attribute__((vector_size(VEC_FLOATS * 4), aligned(4), may_alias));

static inline vec vec_load(const float *p)
{
    return *(const vec *)p;
}
static inline void vec_store(float *p, vec x)
{
    *(vec *)p = x;
}
static inline vec vec_all(float x)
{
    return x - (vec){0};
}

/* The first n < VEC_FLOATS floats, zeros after them; nothing beyond p[n - 1] is touched. */
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

/* Pairwise, so that the order does not depend on the compiler. */
static inline float vec_sum(vec x)
{
    float t[VEC_FLOATS];
    vec_store(t, x);
    for (int half = VEC_FLOATS / 2; half; half /= 2)
        for (int i = 0; i < half; i++) t[i] += t[i + half];
    return t[0];
}

/* mask lanes are all ones or all zeros */
static inline vec vec_keep(vec_int mask, vec x)
{
    return (vec)(mask & (vec_int)x);
}

/* e^x for x <= 88: x = n ln 2 + r, a polynomial in r (error below 2 ulp), n into the exponent. Below -87 the result is 0 exactly: denormals would
   cost more than they are worth. */
static inline vec vec_exp(vec x)
{
    const vec magic = vec_all(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    vec_int kept = x > vec_all(-87.0f);
    vec t = vec_keep(kept, x);
    vec shifted = t * vec_all(1.44269504f) + magic;
    vec n = shifted - magic;
    vec r = t - n * vec_all(0.693359375f);
    r = r + n * vec_all(2.12194440e-4f);
    vec p = vec_all(1.9875691500e-4f);
    p = p * r + vec_all(1.3981999507e-3f);
    p = p * r + vec_all(8.3334519073e-3f);
    p = p * r + vec_all(4.1665795894e-2f);
    p = p * r + vec_all(1.6666665459e-1f);
    p = p * r + vec_all(5.0000001201e-1f);
    p = p * r * r + r + vec_all(1.0f);
    vec_int scale = ((vec_int)shifted - (vec_int)magic) << 23;
    return vec_keep(kept, (vec)((vec_int)p + scale));
}

#endif
