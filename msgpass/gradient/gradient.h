/* gradient.h: what the files of this room share.

   gradient.c   the call: what it is given is checked, who computes is chosen
   rows.c       the in-edges of a row, in canonical order
   plain.c      every stage and its adjoint in double, which define what a gradient is
   fast.c       .. */
#ifndef HGA_GRADIENT_ROOM_H
#define HGA_GRADIENT_ROOM_H

#include "hga_gradient.h"
#include "plan.h"

/* ---- rows.c ---- */

/* An edge into the row at hand. */
typedef struct row_edge {
    hga_id src;
    int32_t type;
    float weight;
    hga_id pos_of; /* node + 1 whose position the row uses, 0: its own */
} row_edge;

/* In-edges of the rows of one stage, one row at a time. */
typedef struct edge_rows {
    const hga_plan *plan;
    hga_id relation; /* or HGA_TREE_UP, HGA_TREE_DOWN */
    hga_relation r;
    hga_segment *segment;
    int64_t segment_room;
    row_edge *edge; /* [n]: of the row read last, by source, type, weight; twins as the relation lists them */
    int64_t n, edge_room;
} edge_rows;

/* The rows of a stage; zero the struct before the first time. */
void rows_open(edge_rows *rows, const hga_plan *plan, hga_id stage);
void rows_close(edge_rows *rows);
/* Read node v's in-edges. */
hga_status rows_read(edge_rows *rows, hga_id v);

/* ---- what a pass over a group of heads works on ---- */

/* The caller's tables in this call, and where their gradients are summed; NULL where not given, not wanted. */
typedef struct table_sums {
    double *rel_key, *rel_bias, *edge_bias, *node_pos, *type_scale, *log_mass, *scale;
    int64_t n_rel_key, n_rel_bias, n_edge_bias, n_node_pos, n_type_scale, n_log_mass; /* doubles of each */
} table_sums;

/* One call. */
typedef struct gradient_call {
    const hga_plan *plan;
    const hga_io *io;
    const hga_grad_io *grad;
    float scale;
    table_sums sums;
} gradient_call;

/* Heads and columns of a field. */
hga_id field_heads(const hga_plan *plan, hga_id field);
hga_id field_columns(const hga_plan *plan, hga_id field);
/* The caller's rows of a field: the nodes [*first, *first + n), n returned. */
hga_id field_io(const hga_plan *plan, hga_id field, hga_id *first);
/* The caller's tensor of a field, and the one its gradient goes to (out: comes from); NULL for internal fields. */
const hga_tensor *field_tensor(const gradient_call *c, hga_id field);
const hga_tensor *field_gradient(const gradient_call *c, hga_id field);
/* Row i, head h of a tensor of `heads` heads of `columns`. */
float *tensor_at(const hga_tensor *t, hga_id heads, hga_id columns, int64_t i, hga_id h);

/* What the weight of an edge into node v is multiplied with for a head: 1, or 0 where it is dropped and 1 / (1 - p) where
   not. */
double dropout_factor(const gradient_call *c, const row_edge *e, hga_id v, hga_id head);

/* The gradients of key/value head `kv` and of the query heads that read it. */
hga_status plain_gradient(const gradient_call *c, hga_id kv);

#endif
