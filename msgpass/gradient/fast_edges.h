/* fast_edges.h: edges of a panel's rows one by one, which are in no tile (fast_edges.c). */
#ifndef HGA_GRADIENT_FAST_EDGES_H
#define HGA_GRADIENT_FAST_EDGES_H

#include "panel.h"

/* Leaves an edge of one of a group's rows for later. */
hga_status leave(fast_pass *p, hga_id row, row_edge e, hga_pos position);
/* Leaves all explicit edges of a group. */
hga_status leave_explicit(fast_pass *p, const group *g);
/* Leaves all edges of a group. */
hga_status leave_rows(fast_pass *p, const group *g);
/* Sorts the left edges by row. */
hga_status sort_left(fast_pass *p, group *g);
/* Computes a group's left edges. `bits`: what dropout drew for several heads, a byte for each left edge; NULL: it
   draws for the current head. */
void run_left(fast_pass *p, hga_id s, const group *g, const uint8_t *bits);
/* What is known of edges: those bits; weights and what slopes have in their place (kernel_grad_row), or NULL. */
typedef struct known_edges {
    const uint8_t *bits;
    const float *weight, *slope;
} known_edges;
/* At most KERNEL_CHUNK edges of a row of the group. */
void run_some_edges(fast_pass *p, hga_id s, const group *g, hga_id row, const left_edge *x, hga_id n,
                    known_edges known);
/* The dropout mask of n <= KERNEL_CHUNK edges of row v, `stride` bytes apart, in some heads, drop_mask[n][heads]. */
void drop_row(const fast_pass *p, hga_id v, const row_edge *e, size_t stride, hga_id n, hga_id first_head, hga_id heads,
              float *drop_mask);
/* Scores of n <= KERNEL_CHUNK edges e of row v, from the canonical position on, to `score`. */
void score_edges(const fast_pass *p, hga_id s, hga_id v, const float *q, const row_edge *e, hga_pos position, hga_id n,
                 float *score);
/* The terms of an edge's score besides the product with the key. */
float base_score(const fast_pass *p, hga_id s, hga_id v, const left_edge *x);

#endif
