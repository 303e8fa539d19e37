/* call_tables.h: the tables that a call brings besides rows of fields, declared once: what they are called, where the
   caller's structs have them, and how long they are. */
#ifndef HGA_CALL_TABLES_H
#define HGA_CALL_TABLES_H

#include "hga_gradient.h"

typedef enum call_table {
    REL_KEY,
    REL_BIAS,
    EDGE_BIAS,
    NODE_POS,
    TYPE_SCALE,
    LOG_MASS, /* the graph brings it .. */
    SCALE,    /* .. and hga_io.scale is no array: these two have gradients alone */
    SINK,
    SLOPES,
    ADDITIVE,
    N_TABLES
} call_table;

/* As messages name it. */
const char *call_table_name(call_table which);
/* The caller's; NULL: the call does not bring it. */
const float *call_table_given(call_table which, const hga_io *io);
/* Where the caller wants its gradient; NULL: it does not. */
float *call_table_wanted(call_table which, const hga_grad_io *grad);
/* Do calls bring it, or is it of the graph or a number? */
int call_table_is_given(call_table which);
/* How many numbers it has, on a graph of so many nodes. */
int64_t call_table_entries(call_table which, const hga_shape *shape, hga_id n_nodes, const hga_io *io);
/* Has every head entries of its own? */
int call_table_is_by_head(call_table which, const hga_io *io);
/* Is it as long on any graph? Ranks then compare its numbers. */
int call_table_is_of_heads(call_table which);

#endif
