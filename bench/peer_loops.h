/* peer_loops.h: the inner loops of the peers, as a user of C would write them. */
#ifndef BENCH_PEER_LOOPS_H
#define BENCH_PEER_LOOPS_H

#include "hga.h"

/* score[e] = scale * q . k[src[e]], rows of k `stride` floats apart. */
void peer_scores(const float *q, const float *k, int64_t stride, hga_id dim, float scale, const hga_id *src, int64_t n,
                 float *score);
/* score[e] = exp(score[e] - max), divided by their sum. */
void peer_softmax(int64_t n, float *score);
/* out = sum of weight[e] * v[src[e]]. */
void peer_sum(const float *weight, const float *v, int64_t stride, hga_id dim, const hga_id *src, int64_t n,
              float *out);

#endif
