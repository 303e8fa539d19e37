/* gradient.h: what the files of this folder share.

   gradient.c   the call; check.c: its arguments; disjoint.c: no overlaps; needs.c: what its memory depends on
   solvers.c    which solver runs it, made once and stored with the plan (solvers.h); live.c: stages that count
   batch.c      many calls at once
   range.c      calls for some rows of the output
   unread.c     gradients of tensors that no stage reads
   tables.c     sums of what edges share
   sinks.c      gradients of sinks */
#ifndef HGA_GRADIENT_GRADIENT_H
#define HGA_GRADIENT_GRADIENT_H

#include "bindings.h"
#include "call.h"
#include "carve.h"
#include "stage_semantics.h"
#include "tape.h"

/* Opens the rows of a stage; zero the struct before the first time, but for the lists. */
static inline void rows_open(edge_rows *rows, const hga_plan *plan, hga_id stage)
{
    edges_open(rows, plan->graph, &plan->memory.allocator, plan->program.stage[stage].relation);
    rows->list = rows->lists && rows->lists[stage].ptr ? &rows->lists[stage] : NULL;
}

/* ---- what a pass over some heads works on ---- */

/* Which chunks of columns no row has an edge to after a panel of them: [ptr[panel], ptr[panel + 1]) of the list. */
typedef struct last_uses {
    hga_id *ptr, *chunk;
} last_uses;

/* ---- calls ---- */

enum { N_COMPACT = 3 };

/* All that the memory of a call depends on, besides its plan. */
typedef struct call_needs {
    unsigned features;         /* CALL_HAS_*, see call.h */
    uint32_t grads;            /* bit f: the gradient of field f is written for the caller */
    uint32_t packed, d_packed; /* bit f: the caller's rows of it, or of its gradient, are floats, heads contiguous */
    int64_t entries[HGA_N_TABLES]; /* of the tables whose gradients are required, 0: not required */
    uint32_t by_head;              /* bit t: every head has entries of table t of its own */
    hga_id n_rel_key;              /* 0: there are no relative keys */
    hga_id threads;
    /* gradients of keys, values and the caller's own tensors: storing sums loses nothing */
    int as_floats;
    /* What runs backward by itself, as the solver says: a key/value head with all query heads that read it, or each
       query head, which adds its keys' and values' gradients to the caller's rows after the heads before it. */
    hga_id head_groups;
    hga_id kv_first, kv_end; /* the key/value heads that run backward here: all of them, or a rank's */
    /* calls for some rows: inputs of these rows, of the output, of its log-sum-exps and of edge_out */
    int64_t compact_bytes[N_COMPACT];
} call_needs;

/* One call. */
typedef struct gradient_call {
    const hga_plan *plan; /* with the stages that count */
    const hga_io *io;
    const hga_grad_io *grad;
    call_needs needs;
    float scale;
    hga_id threads;        /* as many as the plan has, or one where no others may start */
    const float *tape_lse; /* [rows of out][n_heads]; NULL where the program has no softmax state */
    ptrdiff_t lse_row;     /* floats from row to row of it */
    table_sums *sums;      /* [head groups], of all heads; tables that heads write disjointly are one array for all */
    nudge moved;           /* hga_plan_loss; zero: nothing is */
    hga_id samples;        /* of a rank: the call runs so many backward, this one and those that follow */
    requested_rows requested; /* of the output, where the solver reads no others; n = 0: it may read all */
    /* what the fast solver has made: */
    const struct row_ranges *row_ranges; /* [stages], of those that attend */
    const last_uses *last_uses;          /* of the stage whose keys and values come chunk by chunk */
    const struct subtrees *subtrees;     /* then row ranges are of subtrees, at the stage that attends last */
    const row_list *lists; /* [stages], of those that run row by row; NULL: rows are read for every head */
} gradient_call;

/* Of so many heads, as a field or a plan has them, how many run backward in this process. */
static inline hga_id heads_here(const hga_plan *plan, const call_needs *needs, hga_id heads)
{
    return heads / plan->shape.n_kv_heads * (needs->kv_end - needs->kv_first);
}
/* The first of these. */
static inline hga_id first_here(const hga_plan *plan, const call_needs *needs, hga_id heads)
{
    return heads / plan->shape.n_kv_heads * needs->kv_first;
}

/* The needs of a call whose tensors have been checked. */
call_needs needs_of(const gradient_call *c);
/* The needs of a call that requires every gradient, by all threads, of packed floats and without tables. */
call_needs needs_of_all(const hga_plan *plan);

/* Makes *c of the arguments and checks them before anything is written. HGA_EINVAL for another plan's
   workspace. */
hga_status gradient_begin(const hga_plan *plan, const hga_workspace *workspace, const hga_io *io,
                          const hga_grad_io *grad, gradient_call *c);
/* Does all the work of a checked call, by c->threads; through the plan's wing where it has one. */
hga_status gradient_go(gradient_call *c, hga_workspace *workspace);

/* What several processes share of a call, see plan_wing. Functions in the order in which they are asked; NULL in place
   of it: nothing is shared. */
typedef struct sharing sharing;
struct sharing {
    const struct sharing_functions {
        /* Do all processes make the same call? */
        hga_status (*agree)(sharing *s, const gradient_call *c, hga_workspace *workspace);
        /* The call is given what it would have, for its needs. */
        void (*describe)(sharing *s, gradient_call *c);
        void (*lay_out)(sharing *s, const gradient_call *c, carver *arena); /* memory, or its size */
        /* Rows come to this process. */
        hga_status (*open)(sharing *s, gradient_call *c, const hga_io *io, const hga_grad_io *input);
        /* Rows go to their owners; the call's sums are those of all processes, and c->grad the caller's own. */
        hga_status (*close)(sharing *s, gradient_call *c, const hga_grad_io *grad);
    } * of;
    hga_id kv_first, kv_end; /* the key/value heads that run backward here */
    int reads_out;           /* does the solver read the output? */
};
struct shared_gradient {
    hga_status (*go)(gradient_call *c, hga_workspace *workspace);
    hga_status (*prepare)(gradient_call *c, hga_workspace *workspace, int64_t *bytes);
    hga_status (*none)(const hga_plan *plan); /* of a batch without samples, of which others may have some */
};
/* Runs a checked call in this process: chooses the solver, runs it, and stores the sums of tables;
   c->plan, io and grad are restored. */
hga_status gradient_run(gradient_call *c, hga_workspace *workspace, sharing *shared);
/* Sets *bytes (unless NULL) to the memory of calls like this one; without io, of packed floats without
   tables. With a workspace, takes the memory and runs the solver's find. *c is of no use after it. */
hga_status gradient_prepare(gradient_call *c, hga_workspace *workspace, int64_t *bytes, sharing *shared);

/* Carves the sums of the required tables, [head groups]; those that head groups write disjointly are one
   array. */
table_sums *tables_lay_out(const call_needs *needs, carver *arena);
/* Zeros the sums. */
void tables_clear(const gradient_call *c);
/* Writes the head groups' sums, added in their order, to the caller's arrays; added to what these hold if
   the call accumulates. */
void tables_store(const gradient_call *c);

/* The heads of a field. */
static inline hga_id field_heads(const hga_plan *plan, hga_id field)
{
    return program_heads(&plan->program, &plan->shape, field);
}
/* The columns of a field, of each head. */
static inline hga_id field_columns(const hga_plan *plan, hga_id field)
{
    return program_columns(&plan->program, &plan->shape, field);
}
/* The caller's rows of a field: the nodes [*first, *first + n), n returned. */
static inline hga_id field_io(const hga_plan *plan, hga_id field, hga_id *first)
{
    return range_of_rows(plan, plan->program.field[field].io, first);
}
/* How many of them a call has: on a rank, its own and shared ones. */
static inline hga_id field_rows_input(const hga_plan *plan, hga_id field)
{
    return plan->fields.storage[field].input_n;
}
/* The tape's log-sum-exp of row i of the output. */
static inline float call_lse(const gradient_call *c, int64_t i, hga_id head)
{
    return c->tape_lse[i * c->lse_row + head];
}
/* What weights of the output's row are relative to, e^(s - x), or the sigmoid of that; +inf: the row's adjoint is
   zero. Rows that a threshold weighs have none; they have an adjoint if they have edges. */
static inline float call_requests_lse(const gradient_call *c, int64_t i, hga_id head)
{
    const float lse = call_lse(c, i, head);
    if (lse == -INFINITY) return INFINITY;
    if (rows_are_whole(c->plan)) return 0;
    return weights_are_sigmoids(c->plan) ? -call_number(HGA_TABLE_NORMALISER_BIAS, &c->plan->program, c->io) : lse;
}
/* The caller's tensor of a field; NULL for internal fields. */
static inline const hga_tensor *field_tensor(const gradient_call *c, hga_id field)
{
    return program_tensor(&c->plan->program, c->io, field);
}
/* The caller's tensor of a field's gradient, which is read for the output; NULL for internal fields. */
static inline const hga_tensor *field_gradient(const gradient_call *c, hga_id field)
{
    return program_gradient(&c->plan->program, c->grad, field);
}

static inline double dropout_factor(const gradient_call *c, const row_edge *e, hga_id v, hga_id head)
{
    return edge_dropout_factor(c->plan->options.dropout, c->io, e, v, head);
}

#endif
