/* soften.h: from the scores of a row to the weights of its edges. */
#ifndef HGA_SEMANTICS_SOFTEN_H
#define HGA_SEMANTICS_SOFTEN_H

#include "hga_program.h"

#include <math.h>

/* A row, by edge. Scores include the logarithm of counts: an edge counts as so many equal tokens. */
typedef struct soften_row {
    int64_t n;
    double number; /* bias of a sigmoid, alpha of entmax */
    double *score; /* -inf: the edge is not, or no longer, part of the row */
    double *weight;
    const double *count;
    double *slope, *d_count; /* of the adjoint; scratch of `weigh` */
} soften_row;

/* A normaliser; all of a program's stages have the same. */
typedef struct softening {
    /* Computes weights from scores. Returns the row's score where its state is merged with others: of softmax the
       log-sum-exp, -inf of no edge (then all weights are 0); +inf of a plain sum, which so weighs its count, and of
       a state that cannot be merged. */
    double (*weigh)(const soften_row *r);
    /* The slopes are the gradients of weights and become those of scores, d_count those of the counts' logarithms;
       d_lse is that of the log-sum-exp. */
    void (*adjoint)(const soften_row *r, double d_lse);
    /* Of a row that is weighed, its counts being 1: the substitute for a log-sum-exp, the greatest value of
       p . z plus the entropy of p. NULL: `weigh` returns it, or there is none. */
    double (*conjugate)(const soften_row *r);
} softening;

/* By hga_normaliser. */
extern const softening softenings[HGA_N_NORMALISERS];
/* The softening of a program's stages. */
const softening *semantics_softening(const hga_program *p);

/* ---- entmax.c: for alpha greater than 1 ---- */

/* tau: sum count [x - tau]_+^(1 / (alpha - 1)) = 1. Reorders x[n] and count[n], n > 0; the greatest x is about 0. */
double entmax_threshold(double alpha, int64_t n, double *x, double *count);
/* above^power. */
static inline double entmax_power(double above, double power)
{
    return power == 1 ? above : power == 2 ? above * above : pow(above, power);
}
/* softening.weigh: returns +inf; the score of an edge without weight becomes -inf. */
double entmax_weigh(const soften_row *r);
/* softening.conjugate: p . score + H(p) of the weights p, H Tsallis' entropy; -inf of no edge. */
double entmax_conjugate(const soften_row *r);
/* softening.adjoint; d_lse is the gradient of the conjugate. */
void entmax_adjoint(const soften_row *r, double d_lse);

#endif
