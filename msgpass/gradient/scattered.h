/* scattered.h: the way back of programs that do nothing but attend edges listed one by one: all heads at once, a row at
   a time, and a source at a time. */
#ifndef HGA_GRADIENT_SCATTERED_H
#define HGA_GRADIENT_SCATTERED_H

#include "gradient.h"

/* The call, unless *known says that its graph, program, tensors or tables are not of the kind. */
hga_status scattered_gradient(gradient_call *c, hga_workspace *workspace, int *known);
/* Bytes of such a call; -1: the plan is not of the kind. */
int64_t scattered_bytes(const hga_plan *plan);

#endif
