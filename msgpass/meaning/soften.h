/* soften.h: from the scores of a row to the weights of its edges. */
#ifndef HGA_MEANING_SOFTEN_H
#define HGA_MEANING_SOFTEN_H

#include <stdint.h>

/* One of the ways; a program's stages have all the same. */
typedef struct softening {
    const char *name;
    /* weight[n] of score[n], which have the logarithm of count[n]: as so many equal tokens an edge counts. The
       log-sum-exp comes back, -inf where there is nothing: then all weights are 0. */
    double (*weigh)(int64_t n, const double *score, const double *count, double *weight);
    /* slope[n] has the gradients of weights and gets those of scores; d_lse is that of the log-sum-exp. */
    void (*adjoint)(int64_t n, const double *weight, const double *count, double d_lse, double *slope);
} softening;

enum { SOFTMAX, N_SOFTENINGS };
extern const softening softenings[N_SOFTENINGS];

#endif
