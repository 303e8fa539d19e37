/* plain.h: the plain way: a program forward and backward in double, one group of heads at a time.

   plain.c         storage, the stages forwards and backwards
   plain_score.c   what a score is made of
   plain_stages.c  every stage's formula and its adjoint, for one row and head
   plain_user.c    stages of the caller's own */
#ifndef HGA_GRADIENT_PLAIN_H
#define HGA_GRADIENT_PLAIN_H

#include "exponents.h"
#include "gradient.h"

#include <math.h>

/* A field's values for the heads at hand, [node][heads](columns), and the log-sum-exps of a state. */
typedef struct values {
    hga_id heads, columns;
    double *x, *lse;
} values;

typedef struct pass {
    const gradient_call *call;
    const hga_plan *plan;
    const hga_program *program;
    hga_nodes nodes;
    hga_id kv, group; /* the key/value head, and the query heads that read it: kv * group + 0 .. group - 1 */
    values value[HGA_FIELD_SLOTS], adjoint[HGA_FIELD_SLOTS];
    values before[HGA_MAX_STAGES][HGA_FIELD_SLOTS]; /* the fields that a stage writes, as it found them */
    float *numbers;                                 /* a row of the caller's tensors */
    uint32_t rounded;                               /* fields whose values are bfloat16 by now */
    edge_rows rows;
    struct user_rows *user; /* what stages of the caller's own need, NULL without */
} pass;

/* Where node v's values of the group's head h are; fields of key/value heads have one. */
static inline int64_t place(const values *f, hga_id v, hga_id h)
{
    return (int64_t)v * f->heads + (f->heads == 1 ? 0 : h);
}
static inline double *at(const values *f, hga_id v, hga_id h) { return f->x + place(f, v, h) * f->columns; }
static inline double *lse_at(const values *f, hga_id v, hga_id h) { return f->lse + place(f, v, h); }

/* The tensor's head that is the group's head h. */
static inline hga_id head_of(const pass *p, hga_id field, hga_id h)
{
    return field_heads(p->plan, field) == p->plan->shape.n_heads ? p->kv * p->group + h : p->kv;
}

/* Entry i of an input, which is x, unless it is the one that is moved. */
static inline double entry_of(const pass *p, hga_gradient_input input, float x, int64_t i)
{
    const nudge *moved = &p->call->moved;
    return (double)x + (moved->input == input && moved->entry == i ? moved->by : 0);
}

/* ---- numbers ---- */

static inline double dot(const double *a, const double *b, hga_id n)
{
    double sum = 0;
    for (hga_id c = 0; c < n; c++) sum += a[c] * b[c];
    return sum;
}

static inline void axpy(double a, const double *x, hga_id n, double *y)
{
    for (hga_id c = 0; c < n; c++) y[c] += a * x[c];
}

/* The row at hand. */
typedef struct row {
    const hga_stage *stage;
    hga_id s, v;
} row;

/* An attended edge: everything its score is made of. */
typedef struct attended {
    const row_edge *e;
    hga_id v, h, head; /* destination; head of the group and of the shape */
    hga_pos position;  /* canonical, in the relation */
    int biased;        /* edge_bias belongs to this stage */
    const hga_stage *stage;
} attended;

/* ---- plain_score.c ---- */

/* Edge i of the row that was read last. */
attended attended_edge(const pass *p, const row *r, int64_t i, hga_id h);
/* s(u, v, e) of hga_program.h. */
double plain_score(const pass *p, const attended *x);
/* The score's gradient is ds: to everything it is made of. */
void plain_score_adjoint(pass *p, const attended *x, double ds);

/* ---- plain_stages.c ---- */

/* A stage's formula and its adjoint, for one row and head; its edges have been read. */
typedef struct stage_rows {
    void (*row)(pass *p, const row *r, hga_id h), (*adjoint)(pass *p, const row *r, hga_id h);
} stage_rows;
extern const stage_rows plain_stages[N_KINDS];

/* ---- plain_user.c ---- */

/* Room for the aggregates of user stages; nothing where the program has none. */
hga_status user_rows_create(pass *p);
void user_rows_clear(pass *p);
int64_t user_rows_bytes(const hga_plan *plan);
void user_row(pass *p, const row *r, hga_id h);
void user_adjoint(pass *p, const row *r, hga_id h);

#endif
