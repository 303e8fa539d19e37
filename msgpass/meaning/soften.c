/* soften.c: softmax. Whoever wants another normaliser adds a row: executor, weights, gradients and their check run it.
 */
#include "soften.h"
#include "exponents.h"

static double softmax_weigh(int64_t n, const double *score, const double *count, double *weight)
{
    double greatest = -INFINITY, sum = 0;
    (void)count;
    for (int64_t i = 0; i < n; i++) greatest = greater_of(greatest, score[i]);
    for (int64_t i = 0; i < n; i++) sum += weight[i] = greatest == -INFINITY ? 0 : exp(score[i] - greatest);
    for (int64_t i = 0; i < n && sum != 0; i++) weight[i] /= sum;
    return sum != 0 ? greatest + log(sum) : -INFINITY;
}

static void softmax_adjoint(int64_t n, const double *weight, const double *count, double d_lse, double *slope)
{
    double mean = 0;
    (void)count;
    for (int64_t i = 0; i < n; i++)
        if (weight[i] != 0) mean += weight[i] * slope[i];
    for (int64_t i = 0; i < n; i++) slope[i] = weight[i] == 0 ? 0 : weight[i] * (slope[i] - mean + d_lse);
}

const softening softenings[N_SOFTENINGS] = {
    [SOFTMAX] = {"softmax", softmax_weigh, softmax_adjoint},
};
