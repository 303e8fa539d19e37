/* soften.c: softmax, a sigmoid of each score, and entmax. A new normaliser is a row of the table, and one of
   program/normaliser.c's: executor, weights, gradients and their check run it. */
#include "soften.h"
#include "exponents.h"
#include "program.h"

static double softmax_weigh(const soften_row *r)
{
    double greatest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < r->n; i++) greatest = greater_of(greatest, r->score[i]);
    for (int64_t i = 0; i < r->n; i++) sum += r->weight[i] = greatest == -INFINITY ? 0 : exp(r->score[i] - greatest);
    for (int64_t i = 0; i < r->n && sum != 0; i++) r->weight[i] /= sum;
    return sum != 0 ? greatest + log(sum) : -INFINITY;
}

static void softmax_adjoint(const soften_row *r, double d_lse)
{
    double mean = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (r->weight[i] != 0) mean += r->weight[i] * r->slope[i];
    for (int64_t i = 0; i < r->n; i++)
        r->d_count[i] = r->slope[i] = r->weight[i] == 0 ? 0 : r->weight[i] * (r->slope[i] - mean + d_lse);
}

/* count / (1 + e^-(s' + bias)), s' being the score without the logarithm of the count. */
static double sigmoid_weigh(const soften_row *r)
{
    for (int64_t i = 0; i < r->n; i++)
        r->weight[i] =
            r->score[i] == -INFINITY ? 0 : r->count[i] / (1 + exp(-(r->score[i] - log(r->count[i]) + r->number)));
    return INFINITY;
}

static void sigmoid_adjoint(const soften_row *r, double d_lse)
{
    (void)d_lse;
    for (int64_t i = 0; i < r->n; i++) {
        r->d_count[i] = r->weight[i] == 0 ? 0 : r->weight[i] * r->slope[i];
        r->slope[i] = r->weight[i] == 0 ? 0 : r->d_count[i] * (1 - r->weight[i] / r->count[i]);
    }
}

const softening softenings[HGA_N_NORMALISERS] = {
    [HGA_NORMALISER_SOFTMAX] = {softmax_weigh, softmax_adjoint, NULL},
    [HGA_NORMALISER_SIGMOID] = {sigmoid_weigh, sigmoid_adjoint, NULL},
    [HGA_NORMALISER_ENTMAX] = {entmax_weigh, entmax_adjoint, entmax_conjugate},
};

const softening *semantics_softening(const hga_program *p) { return &softenings[program_normaliser(p)]; }
