/* weights.h: the attention that a variant really pays, token by token, and how far it and the output are from dense
   attention's. */
#ifndef CLI_WEIGHTS_H
#define CLI_WEIGHTS_H

#include "scene.h"

/* The weights [n][heads][n] of every query token on every key token. A variant's output is linear in the values, so
   that running it on the columns of the identity gives them exactly, whatever its stages are. Rows are divided by their
   sums; a row without weights is zero. */
int weights_of_graph(const scene *s, const hga_graph *g, const hga_program *p, const hga_options *options,
                     float **weights);

/* |x - y| / |y|; NaN where both are zero. */
double relative_distance(const float *x, const float *y, int64_t n);

/* The mean over rows of KL(p || q) = sum p log(p / q), in nats. Rows where p is zero throughout count nothing; NaN if
   all are. */
double mean_divergence(const float *p, const float *q, hga_id n, hga_id heads);

#endif
