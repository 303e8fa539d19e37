/* gradient.h: what the files of this room share.

   gradient.c   the call: who computes is chosen; check.c: what it is given; apart.c: where that lies
   batch.c      many calls at once
   range.c      calls for some rows of the output
   unread.c     gradients of what no stage reads
   tables.c     sums of what is shared by edges
   plain.c      a program forward and backward in double, by what meaning/ says of its stages (plain.h)
   fast.c       the same a head at a time, in float (fast.h, panel.h)
   families.c   trees whose nodes attend to their siblings, all heads at once (families.h)
   linear.c     sums and means alone, all heads at once (linear.h)
   scattered.c  edges listed one by one, all heads at once (scattered.h) */
#ifndef HGA_GRADIENT_ROOM_H
#define HGA_GRADIENT_ROOM_H

#include "bindings.h"
#include "stage_meanings.h"
#include "plan.h"

/* The rows of a stage; zero the struct before the first time, but for the lists. */
static inline void rows_open(edge_rows *rows, const hga_plan *plan, hga_id stage)
{
    edges_open(rows, plan->graph, &plan->given, plan->program.stage[stage].relation);
    rows->list = rows->lists && rows->lists[stage].ptr ? &rows->lists[stage] : NULL;
}

/* ---- what a pass over a group of heads works on ---- */

/* Which chunks of columns no row has an edge to behind a panel of them: [ptr[panel], ptr[panel + 1]) of the list. */
typedef struct departures {
    hga_id *ptr, *chunk;
} departures;

/* One call. */
typedef struct gradient_call {
    const hga_plan *plan;
    const hga_io *io;
    const hga_grad_io *grad;
    float scale;
    hga_id threads;        /* as many as the plan has, or one where no others may start */
    const float *tape_lse; /* [rows of out][n_heads]; NULL where the program gives no softmax state */
    /* What goes back by itself: a key/value head with all query heads that read it, or each query head, which adds what
       keys and values are given to the caller's rows behind those before it. */
    hga_id turns;
    table_sums *sums;          /* [turns]; those that heads write apart are one array for all */
    struct strips *strips;     /* [stages], of those that attend; the fast way's */
    departures departures;     /* of the stage whose keys and values come chunk by chunk */
    struct subtrees *subtrees; /* of the fast way; then strips are of subtrees, at the stage that attends last */
    row_list *lists; /* [stages], of those that go row by row; the fast way's, NULL: rows are read for every head */
    nudge moved;     /* hga_plan_loss; zero: nothing is */
} gradient_call;

/* gradient.c: what a call is given, found fit before anything is written; and all its work, by c->threads. */
hga_status gradient_begin(const hga_plan *plan, const hga_io *io, const hga_grad_io *grad, gradient_call *c);
hga_status gradient_go(gradient_call *c, hga_workspace *workspace);

/* tables.c: room for the sums of the wanted tables; heads added in their order, to the caller's arrays. */
hga_status tables_create(gradient_call *c);
void tables_store(const gradient_call *c);
void tables_clear(gradient_call *c);

/* Entries of a table. */
int64_t table_entries(const gradient_call *c, call_table which);

/* Heads and columns of a field. */
static inline hga_id field_heads(const hga_plan *plan, hga_id field)
{
    return program_heads(&plan->program, &plan->shape, field);
}
static inline hga_id field_columns(const hga_plan *plan, hga_id field)
{
    return program_columns(&plan->program, &plan->shape, field);
}
/* The caller's rows of a field: the nodes [*first, *first + n), n returned. */
static inline hga_id field_io(const hga_plan *plan, hga_id field, hga_id *first)
{
    return range_of_rows(plan, plan->program.field[field].io, first);
}
/* The caller's tensor of a field, and the one its gradient goes to (out: comes from); NULL for internal fields. */
static inline const hga_tensor *field_tensor(const gradient_call *c, hga_id field)
{
    return program_tensor(&c->plan->program, c->io, field);
}
static inline const hga_tensor *field_gradient(const gradient_call *c, hga_id field)
{
    return program_gradient(&c->plan->program, c->grad, field);
}
/* Are all the caller's tensors and gradients of float32? */
int numbers_are_floats(const gradient_call *c);

/* check.c: does a call have a tape of its plan, stages with adjoints, and the tensors that they need? Then c->tape_lse
   is set. For a loss alone stages and tensors do. */
hga_status call_check(gradient_call *c);
hga_status call_check_loss(const gradient_call *c);
/* apart.c: does what is wanted lie apart from what is read, and from each other? */
hga_status check_apart(const gradient_call *c);
/* And of n calls at once what each wants from what the others want and read? Else *sample is the later of two. */
hga_status calls_apart(const gradient_call *call, hga_id n, hga_id *sample);

/* range.c: where the call is for some rows, *own is what it is given with nothing of the others, and takes the place of
   c->grad; range_close gives it back, whatever the outcome. */
hga_status range_open(gradient_call *c, hga_grad_io *own);
void range_close(const gradient_call *c, const hga_grad_io *own);

/* unread.c: of the gradients that are wanted those of tensors that no stage reads are no longer; and they, which are
   zeros, go to the caller, unless he wants them added. */
void unread_take_out(const hga_plan *plan, hga_grad_io *grad);
void unread_store(const hga_plan *plan, const hga_grad_io *grad);

static inline double dropout_factor(const gradient_call *c, const row_edge *e, hga_id v, hga_id head)
{
    return edge_kept(c->plan->options.dropout, c->io, e, v, head);
}

/* The gradients of key/value head `kv` and of the query heads that read it. */
hga_status plain_gradient(const gradient_call *c, hga_id kv);
int64_t plain_bytes(const hga_plan *plan);
/* What the loss is made of on those heads, with c->moved. */
hga_status plain_loss(const gradient_call *c, hga_id kv, double *loss);

/* Does the plan go the plain way? Then *why says what for. */
int gradient_is_plain(const hga_plan *plan, const char **why);

#endif
