/* gradient_rows.h: rows and tensors that a call does not request (range.c, unread.c), and the sinks (sinks.c). */
#ifndef HGA_GRADIENT_GRADIENT_ROWS_H
#define HGA_GRADIENT_GRADIENT_ROWS_H

#include "gradient.h"

/* range.c: where the call is for some rows, *own replaces c->grad: the same gradients with zeros in all other rows,
   in the call's memory; unless the solver skips other rows itself: then c->requested is set. */
void range_needs(const gradient_call *c, int64_t bytes[N_COMPACT]);
void range_open(gradient_call *c, hga_grad_io *own, carver *arena);
void range_skip(gradient_call *c);
/* Are any of the output's rows of nodes [first, end) requested? */
int range_has(const gradient_call *c, hga_id first, hga_id end);
/* Zeros the field's required gradient, unless the call accumulates. */
void range_clear(const gradient_call *c, hga_id f);

/* unread.c: removes from the required gradients those of tensors that no stage reads; and stores these, which are
   zeros, in the caller's, unless the call accumulates. */
void unread_take_out(const hga_plan *plan, hga_grad_io *grad);
void unread_store(const hga_plan *plan, const hga_grad_io *grad);
/* sinks.c: the sinks' gradients, for every solver. */
void sinks_sum(const gradient_call *c);

#endif
