/* linear.h: the way back of programs of sums and means alone: all heads at once, from the caller's own rows. */
#ifndef HGA_GRADIENT_LINEAR_H
#define HGA_GRADIENT_LINEAR_H

#include "gradient.h"

/* The call, unless *known says that its program is not of the kind. */
hga_status linear_gradient(gradient_call *c, hga_workspace *workspace, int *known);
/* Bytes of such a call; -1: the plan is not of the kind. */
int64_t linear_bytes(const hga_plan *plan);

#endif
