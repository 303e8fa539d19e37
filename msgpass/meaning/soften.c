/* soften.c: softmax, and a sigmoid of each score by itself. Whoever wants another normaliser adds a row: executor,
   weights, gradients and their check run it. */
#include "soften.h"
#include "exponents.h"

static double softmax_weigh(int64_t n, const double *score, const double *count, double bias, double *weight)
{
    double greatest = -INFINITY, sum = 0;
    (void)count, (void)bias;
    for (int64_t i = 0; i < n; i++) greatest = greater_of(greatest, score[i]);
    for (int64_t i = 0; i < n; i++) sum += weight[i] = greatest == -INFINITY ? 0 : exp(score[i] - greatest);
    for (int64_t i = 0; i < n && sum != 0; i++) weight[i] /= sum;
    return sum != 0 ? greatest + log(sum) : -INFINITY;
}

static void softmax_adjoint(int64_t n, const double *weight, const double *count, double d_lse, double *slope,
                            double *d_count)
{
    double mean = 0;
    (void)count;
    for (int64_t i = 0; i < n; i++)
        if (weight[i] != 0) mean += weight[i] * slope[i];
    for (int64_t i = 0; i < n; i++) {
        slope[i] = weight[i] == 0 ? 0 : weight[i] * (slope[i] - mean + d_lse);
        d_count[i] = slope[i];
    }
}

/* count / (1 + e^-(s' + bias)), s' being the score without the logarithm of the count. */
static double sigmoid_weigh(int64_t n, const double *score, const double *count, double bias, double *weight)
{
    for (int64_t i = 0; i < n; i++)
        weight[i] = score[i] == -INFINITY ? 0 : count[i] / (1 + exp(-(score[i] - log(count[i]) + bias)));
    return INFINITY;
}

static void sigmoid_adjoint(int64_t n, const double *weight, const double *count, double d_lse, double *slope,
                            double *d_count)
{
    (void)d_lse;
    for (int64_t i = 0; i < n; i++) {
        d_count[i] = weight[i] == 0 ? 0 : weight[i] * slope[i];
        slope[i] = weight[i] == 0 ? 0 : d_count[i] * (1 - weight[i] / count[i]);
    }
}

const softening softenings[N_SOFTENINGS] = {
    [HGA_NORMALISER_SOFTMAX] = {"softmax", softmax_weigh, softmax_adjoint, 1, 0},
    [HGA_NORMALISER_SIGMOID] = {"sigmoid", sigmoid_weigh, sigmoid_adjoint, 0, 1},
};
