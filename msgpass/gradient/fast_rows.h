/* fast_rows.h: the rows of a panel's groups (fast_rows.c). */
#ifndef HGA_GRADIENT_FAST_ROWS_H
#define HGA_GRADIENT_FAST_ROWS_H

#include "panel.h"

/* How many rows a group has that starts at position `first`. */
hga_id rows_from(const fast_pass *p, hga_id first);
/* Does a call for some rows request none of these positions? */
int is_passed_over(const fast_pass *p, hga_id first, hga_id end);
/* Load the rows of a group. */
void load_sixteen(fast_pass *p, hga_id s, group *g, hga_id first);
/* Finds the rows that a call for all rows would load, without their numbers. */
void expect_sixteen(fast_pass *p, hga_id s, group *g, hga_id first);
/* Store the gradients of a group's rows. */
void store_sixteen(fast_pass *p, hga_id s, const group *g, hga_id first);
/* Transposes the group's operands. */
void transpose_group(const fast_pass *p, const hga_stage *stage, group *g);
/* Does the field have a gradient: the caller's, where attention reads its rows one by one, or the pass's own? */
int has_adjoint(const fast_pass *p, hga_id f);

#endif
