/* plain.h: the plain solver: a program forward and backward in double, one key/value head at a time, by what
   semantics/ says of every stage.

   plain.c         storage, the stages forward and backward
   plain_user.c    stages of the caller's own */
#ifndef HGA_GRADIENT_PLAIN_H
#define HGA_GRADIENT_PLAIN_H

#include "carve.h"
#include "plan.h"
#include "solvers.h"

#include <math.h>

typedef struct pass {
    const gradient_call *call;
    const hga_plan *plan;
    const hga_program *program;
    hga_nodes nodes;
    semantics m;
    const table_sums *sums;
    hga_id first, end; /* the query heads at hand, which read one key/value head */
    doubles value, adjoint;
    doubles before[HGA_MAX_STAGES]; /* the fields that a stage writes, as it found them */
    int64_t widest;                 /* the most edges of a row */
    float *numbers;                 /* a row of the caller's tensors */
    double edge_loss;               /* of a loss alone: what edge_out has of it */
    edge_rows rows;
    plain_scratch scratch;
    struct user_rows *user; /* what stages of the caller's own need, NULL without */
} pass;

/* The tensor's head that a query head reads. */
static inline hga_id head_of(const pass *p, hga_id field, hga_id head)
{
    return head / (p->plan->shape.n_heads / field_heads(p->plan, field));
}
/* The end of the current query heads, one for each of the field's. */
static inline hga_id heads_end(const pass *p, hga_id field) { return p->first + p->value.of[field].heads; }

/* ---- plain_user.c ---- */

/* Node v's numbers of a field as the stage reads them: in `buffer`, where it reads them rounded. */
const double *row_as_read(const pass *p, const hga_stage *s, hga_id f, hga_id v, hga_id head, double *buffer);

/* Carves the aggregates of user stages; nothing where the program has none. */
void user_rows_lay_out(pass *p, carver *arena);
/* Computes the aggregate of a row's edges, and from it the fields that the stage writes. */
void user_row(pass *p, const stage_row *r);
/* Computes the aggregate again; adds the adjoints of finish and of every edge to rows, scores and tables. */
void user_adjoint(pass *p, const stage_row *r);

/* ---- plain.c ---- */

/* The loss of key/value head `kv`, with c->moved. */
hga_status plain_loss(const gradient_call *c, hga_id kv, double *loss);

#endif
