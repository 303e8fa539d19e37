/* soften.h: from the scores of a row to the weights of its edges. */
#ifndef HGA_MEANING_SOFTEN_H
#define HGA_MEANING_SOFTEN_H

#include "hga_program.h"

/* One of the ways; a program's stages have all the same. */
typedef struct softening {
    const char *name;
    /* weight[n] of score[n], which have the logarithm of count[n]: as so many equal tokens an edge counts. `bias` is
       the call's. What comes back is the row's score where its state is merged with others: of softmax the
       log-sum-exp, -inf where there is nothing (then all weights are 0); +inf of what is a plain sum, which so weighs
       its count. */
    double (*weigh)(int64_t n, const double *score, const double *count, double bias, double *weight);
    /* slope[n] has the gradients of weights and gets those of scores, d_count[n] those of the counts' logarithms;
       d_lse is that of the log-sum-exp. */
    void (*adjoint)(int64_t n, const double *weight, const double *count, double d_lse, double *slope, double *d_count);
    int has_lse, has_bias;
} softening;

/* By hga_normaliser. */
enum { N_SOFTENINGS = HGA_NORMALISER_SIGMOID + 1 };
extern const softening softenings[N_SOFTENINGS];

#endif
