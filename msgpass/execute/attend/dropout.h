/* dropout.h: which weights a call drops (dropout.c). */
#ifndef DROPOUT_H
#define DROPOUT_H

#include "worker.h"

/* Whether this call drops weights. */
int drops_weights(const worker *w);
/* 1 / (1 - p): the factor of weights that stay. */
float weight_of_undropped(const worker *w);
/* Draws for a chunk's parts and eight heads; `head` is the first of them that the worker computes. */
void drop_parts(const worker *w, const tile_chunk *c, hga_id head);
/* The bits that drop_parts drew for a part and a head, see kernel_tile_group. */
uint16_t *drop_mask_bits(const worker *w, const tile_chunk *c, hga_id part, hga_id head);
/* Draws the factors of the chunk's edges into node v, into row.drop_mask. */
void drop_chunk(const worker *w, hga_id v);
/* The same of n edges of several rows, at most DROPPED_PAIRS. */
void drop_edges(const worker *w, hga_id n, const hga_id *destination, const hga_id *source, const int32_t *type);
/* Multiplies the n weights of a head's edges into v, listed by w->whole, by their factors. */
void drop_support(const worker *w, hga_id v, hga_id head, hga_id n, float *weight);
/* Draws the factors of families' pairs and sets drop_mask[r] of each row. */
void drop_families(const worker *w, const row_group *g, const family_chunk *c, const float **drop_mask);

#endif
