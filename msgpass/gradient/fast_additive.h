/* fast_additive.h: vectors of additive scores a . L(q + k) in a pass (fast_additive.c). Where scores are products,
   these functions do nothing. */
#ifndef HGA_GRADIENT_FAST_ADDITIVE_H
#define HGA_GRADIENT_FAST_ADDITIVE_H

#include "panel.h"

/* Loads the call's vectors, times the scale, for all heads. */
void additive_load(fast_pass *p);
/* The vector of the head at hand; NULL inside: scores are products. */
kernel_additive additive_at_hand(const fast_pass *p);
/* Zeroed floats for the gradient of a tile or of some edges; NULL: nobody requires it. */
float *additive_sums_begin(const fast_pass *p);
/* Adds these floats to the tables' sums, the scale's with them. */
void additive_sums_end(fast_pass *p);

#endif
