/* sampled.h: scores of blocks by true softmax weights of some of a query block's queries (sampled.c). */
#ifndef SELECT_SAMPLED_H
#define SELECT_SAMPLED_H

#include "select.h"

/* Scratch of a thread that samples, for two tiles: one of the m-th sampled query of each row, and one of the next. A
   run is of columns that lie in one block, at most KERNEL_CHUNK of them. */
typedef struct sampler {
    float *queries;    /* [KERNEL_TILE][dim] */
    float *transposed; /* [2][dim][KERNEL_TILE] */
    float *sum;        /* [2][runs of the longest sample][KERNEL_TILE]: their weights */
    float *factor;     /* [the same]: by chunk what sums are about, then what makes them shares of a softmax */
} sampler;

/* Packs all keys as products take them, on all threads, where scores are sampled; to be dropped, after failure too. */
hga_status sampled_pack(selecting *s);
void sampled_drop(selecting *s);
/* Allocates a thread's scratch; to be dropped, after failure too. */
hga_status sampler_make(const selecting *s, sampler *t);
void sampler_drop(const selecting *s, sampler *t);
/* Scores of a sixteen with the first n blocks of its sample, summed over each chooser's heads: out[n][KERNEL_TILE].
   Returns the first row that has NaN or +inf among its products, and the block; -1: none. */
hga_id sampled_score(const selecting *s, sampler *t, const sixteen *x, hga_id n, float *out, hga_id *bad_block);

#endif
