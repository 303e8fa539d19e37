/* gradient_rows.h: rows and tensors that a call does not request (range.c, unread.c), and the sinks (sinks.c). */
#ifndef HGA_GRADIENT_GRADIENT_ROWS_H
#define HGA_GRADIENT_GRADIENT_ROWS_H

#include "gradient.h"

/* ---- range.c ---- */

/* Bytes of range_open's copies of d_out, d_lse and d_edge_out; 0 where the call requests all rows. */
void range_needs(const gradient_call *c, int64_t bytes[N_COMPACT]);
/* Where the call is for some rows, *own replaces c->grad: copies of these three with zeros in all other rows,
   carved from `arena`. Without memory only measures; does nothing where c->requested is set. */
void range_open(gradient_call *c, hga_grad_io *own, carver *arena);
/* For a solver that skips other rows itself: sets c->requested (n = 0: all rows are requested) instead, and zeros
   compact_bytes. */
void range_skip(gradient_call *c);
/* Are any of the output's rows of nodes [first, end) requested? */
int range_has(const gradient_call *c, hga_id first, hga_id end);
/* Zeros the field's required gradient, unless the call accumulates. */
void range_clear(const gradient_call *c, hga_id f);

/* ---- unread.c ---- */

/* Removes from the required gradients those of tensors that no stage reads. */
void unread_take_out(const hga_plan *plan, hga_grad_io *grad);
/* Writes zeros to the caller's gradients of those tensors, unless the call accumulates. */
void unread_store(const hga_plan *plan, const hga_grad_io *grad);

/* ---- sinks.c ---- */

/* The sinks' gradients, for every solver. */
void sinks_sum(const gradient_call *c);

#endif
