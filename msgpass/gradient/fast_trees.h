/* fast_trees.h: sums of children, forward and backward (fast_trees.c). */
#ifndef HGA_GRADIENT_FAST_TREES_H
#define HGA_GRADIENT_FAST_TREES_H

#include "fast_tensors.h"

/* Is a row of a sum's adjoint read again: by an earlier stage, or as a required gradient? */
int is_read_again(const fast_pass *p, const hga_stage *stage, hga_id v);
/* Is the stage a sum of children? */
int is_of_children(const hga_stage *s);
/* Compute such a stage in place, forward or backward. */
void fast_children(fast_pass *p, const hga_stage *s, int backwards);
/* Of a program that runs by subtrees: computes the sums of these nodes alone. */
void sum_families(const fast_pass *p, hga_id f, row_range nodes);
/* Adds these nodes' gradients to those of their children; or, where are_children_of says so, writes the sums to the
   caller's rows `out`. */
void give_families(const fast_pass *p, hga_id f, row_range nodes, const direct_rows *out);
/* Are `nodes` exactly the children of `parents`, with contiguous rows of the field? */
int are_children_of(const fast_pass *p, hga_id f, row_range nodes, row_range parents);
/* Are families' rows contiguous, and has the field rows for all nodes? */
int families_lie_together(const hga_program *p, const hga_nodes *nodes, hga_id f);

#endif
