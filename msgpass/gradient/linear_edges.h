/* linear_edges.h: the edges of a stage of a program of sums and means: a number each, the same for all heads, by the
   nodes of one end. */
#ifndef HGA_GRADIENT_LINEAR_EDGES_H
#define HGA_GRADIENT_LINEAR_EDGES_H

#include "carve.h"
#include "plan.h"
#include "solvers.h"

/* Rows of nodes first .. first + n - 1, the columns of key/value heads contiguous; `at` NULL: not needed. */
typedef struct linear_rows {
    float *at;
    ptrdiff_t row;
    hga_id first, n;
} linear_rows;

/* Edges by the nodes of the end that has more rows: those of node order[i] are at [ptr[i], ptr[i + 1]). */
typedef struct linear_edges {
    int by_source;
    hga_id n;
    hga_id *order;
    hga_pos *ptr;
    hga_id *other;          /* nodes at the other end */
    hga_id n_heavy, *heavy; /* those of them with more than SUM_CUT edges */
    float *weight;          /* what the source is multiplied with, but for the scale of its type */
    int32_t *type;          /* that type; NULL: there are no scales */
} linear_edges;

/* Decides which end of the stage's edges has more rows, and carves arrays for as many edges as its relation has. */
void linear_edges_lay_out(const hga_plan *plan, hga_id stage, linear_edges *e, carver *arena);
/* Fills the arrays that linear_edges_lay_out carved, in scratch of linear_scratch_bytes. */
void linear_edges_list(const hga_plan *plan, hga_id stage, linear_edges *e, void *scratch);
/* Bytes of the scratch of linear_edges_list. */
int64_t linear_scratch_bytes(const hga_plan *plan, hga_id stage);
/* An upper bound of the number of heavy nodes. */
hga_id linear_most_heavy(const hga_plan *plan, hga_id stage);

/* Why the stages are not all sums of complete fields; NULL: they are. */
const char *linear_stages_refuse(const hga_plan *plan, reason *buffer);
/* Why the edges cannot be listed; NULL: they can. */
const char *linear_edges_refuse(const hga_plan *plan, reason *buffer);

#endif
