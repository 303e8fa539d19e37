/* peer_loops.c: plain loops, compiled once for each instruction set that matters; the loader takes the best. */
#include "peer_loops.h"

#include <float.h>
#include <string.h>

/* The sanitisers' own start-up comes after the loader's choice, so they get one version; so does clang, which until
   16 gave the choice another name than callers use. */
#if defined __x86_64__ && defined __OPTIMIZE__ && !defined __SANITIZE_ADDRESS__ && !defined __clang__
#define BEST_HERE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BEST_HERE
#endif

BEST_HERE void peer_scores(const float *q, const float *k, int64_t stride, hga_id dim, float scale, const hga_id *src,
                           int64_t n, float *score)
{
    for (int64_t e = 0; e < n; e++) {
        const float *x = k + src[e] * stride;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (hga_id i = 0; i < dim; i++) sum += q[i] * x[i];
        score[e] = scale * sum;
    }
}

/* e^x for x <= 0 as 2^n times a polynomial (Cephes' coefficients): libm's is not inlined and would be most of the time
   */
static inline __attribute__((always_inline)) float exp_negative(float x)
{
    x = x > -87.0f ? x : -87.0f;
    float n = x * 1.44269504f - 0.5f;
    int32_t whole = (int32_t)n; /* towards 0: the nearest, as n is below 0 */
    float r = x - (float)whole * 0.693359375f + (float)whole * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1;
    int32_t bits = (whole + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

BEST_HERE void peer_softmax(int64_t n, float *score)
{
    float most = -FLT_MAX, sum = 0;
#pragma omp simd reduction(max : most)
    for (int64_t e = 0; e < n; e++) most = score[e] > most ? score[e] : most;
#pragma omp simd reduction(+ : sum)
    for (int64_t e = 0; e < n; e++) sum += score[e] = exp_negative(score[e] - most);
    sum = 1 / sum;
    for (int64_t e = 0; e < n; e++) score[e] *= sum;
}

BEST_HERE void peer_sum(const float *weight, const float *v, int64_t stride, hga_id dim, const hga_id *src, int64_t n,
                        float *out)
{
    for (hga_id i = 0; i < dim; i++) out[i] = 0;
    for (int64_t e = 0; e < n; e++) {
        const float *x = v + src[e] * stride;
#pragma omp simd
        for (hga_id i = 0; i < dim; i++) out[i] += weight[e] * x[i];
    }
}
