/* dropout.h: which weights a call drops (dropout.c). */
#ifndef DROPOUT_H
#define DROPOUT_H

#include "worker.h"

/* Does this call drop weights? */
int drops_weights(const worker *w);
/* What weights that are not dropped are multiplied with. */
float weight_of_cached(const worker *w);
/* Draw for a chunk's parts and eight heads; `head` is the first of them that the worker computes. */
void drop_parts(const worker *w, const tile_chunk *c, hga_id head);
/* The bits that drop_parts drew for a part and a head, see kernel_tile_group. */
uint16_t *drop_mask_bits(const worker *w, const tile_chunk *c, hga_id part, hga_id head);
/* Draw for the chunk's edges into node v, into row.kept. */
void drop_chunk(const worker *w, hga_id v);
/* Multiply the n weights of the edges into v that w->whole lists for a head by what dropout leaves of each. */
void drop_support(const worker *w, hga_id v, hga_id head, hga_id n, float *weight);
/* Draw for families, whose rows' kept[r] are set. */
void drop_families(const worker *w, const row_group *g, const family_chunk *c, const float **drop_mask);

#endif
