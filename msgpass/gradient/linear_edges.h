/* linear_edges.h: the edges of a stage of a program of sums and means: a number each, the same for all heads, by the
   nodes of one end. */
#ifndef HGA_GRADIENT_LINEAR_EDGES_H
#define HGA_GRADIENT_LINEAR_EDGES_H

#include "gradient.h"

/* Rows of nodes first .. first + n - 1, the columns of all key/value heads side by side; `at` NULL: not needed. */
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
    hga_pos *ptr, room;
    hga_id *other;          /* nodes at the other end */
    hga_id n_heavy, *heavy; /* those of them with more than SUM_CUT edges */
    double *wide;           /* [n_heavy][columns]: what they were given so far */
    float *weight;          /* what the source is multiplied with */
    float *unscaled;        /* .. without the scale of its type, and .. */
    int32_t *type;          /* .. that type; NULL where no gradient of scales is wanted */
} linear_edges;

/* Columns of a row: of all key/value heads. */
static inline hga_id linear_columns(const hga_plan *plan) { return plan->shape.n_kv_heads * plan->shape.dim_v; }

/* The edges that come to rows of the stage's output from rows of its value; `e` comes zeroed, and is cleared whatever
   the outcome. */
hga_status linear_edges_list(const gradient_call *c, hga_id stage, const linear_rows *out, const linear_rows *value,
                             linear_edges *e);
void linear_edges_clear(const hga_plan *plan, linear_edges *e);
/* About as many bytes are they of a stage whose greater end has n rows. */
int64_t linear_edges_bytes(const hga_plan *plan, hga_id stage, hga_id n);

#endif
