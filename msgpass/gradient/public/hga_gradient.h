/* hga_gradient.h: gradients of a program. Given the gradient of a loss with respect to what an execution wrote, the
   gradients with respect to everything it read: tensors, tables, positions, scale.

       hga_options options = {.gradient = 1};
       hga_plan_create(g, &program, &shape, &options, &plan);
       io.tape = tape;                                             // hga_plan_tape_bytes(plan) bytes
       hga_plan_execute(plan, workspace, &io);                     // leaves the tape
       hga_plan_gradient(plan, workspace, &io, &grad);             // reads it

   Scores and weights are computed again, never stored: the tape is the log-sum-exp of the output's rows where the
   program ends in a softmax state, and nothing where it goes on with states (energy, descend); memory is linear in
   nodes. Where a stage rounds its operands to bfloat16, gradients pass straight through the rounding. Equal
   inputs give equal bits at any thread count. Every formula has its derivation in gradient/README.md. */
#ifndef HGA_GRADIENT_H
#define HGA_GRADIENT_H

#include "hga_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gradients given and wanted. A tensor without data, or a NULL pointer, is not wanted, and work that only it needs is
   not done. Whatever is wanted is written: zeros where nothing comes to it, as to a tensor that no stage reads, or
   that the program has no field for (then all its rows, of n_heads dim, n_kv_heads dim or n_kv_heads dim_v numbers).
   Strides, rows and dtypes of tensors are as in hga_io, each of its own; shapes those of the tensor that the gradient
   belongs to. Of tensors of 16 bits the gradients are those of the same numbers in float32; what goes to one is
   rounded to nearest. An output of 16 bits stands in the formulas as it was rounded. */
typedef struct hga_grad_io {
    hga_tensor d_out;                        /* given: of out, [rows][n_heads][dim_v] */
    hga_tensor d_lse;                        /* given, NULL data: zero; of lse, [rows][n_heads] */
    hga_tensor d_query, d_key, d_value;      /* wanted */
    hga_tensor d_user[HGA_MAX_USER_TENSORS]; /* wanted */
    float *d_rel_key;                        /* [n_rel_key][dim] */
    float *d_rel_bias;                       /* [n_rel_bias][n_heads] */
    float *d_edge_bias;                      /* [n_edge_bias][edge_bias_heads] */
    float *d_node_pos;                       /* [n_nodes][pos_dim], summed over heads */
    float *d_type_scale;                     /* [n_type_scale] */
    float *d_log_mass;    /* [n_nodes]: of the log mass that attended scores may add, whether they do or not */
    float *d_scale;       /* [1]: of the scale of scores */
    int accumulate;       /* 1: add to what the wanted arrays hold; 0: overwrite */
    uint64_t reserved[8]; /* 0 */
} hga_grad_io;

/* The gradients of the execution that left io->tape: the same plan and the same tensors, io->out among them, and the
   same rows where it was asked for some (io->first_row, n_rows): d_out and d_lse of others are not looked at. The
   first call of a plan makes what going back needs to know of the graph, in the plan's memory (hga_plan_bytes); the
   first of a workspace takes hga_plan_gradient_bytes, which it keeps. Later calls that bring the same tables, dtypes
   and rows and want the same gradients allocate nothing and cannot fail for want of memory; hga_plan_prepare makes
   the first one of that kind, too. HGA_EINVAL: no tape, the tape of another plan, of its graph before
   hga_plan_update or of other rows, another plan's workspace, a tensor that is missing or too short, a gradient that
   overlaps itself, another, or what the call reads. HGA_EUNSUPPORTED names a user stage without adjoints. What is
   not finite in an operand shows in the gradients of what attends to it or is attended by it, and may in those of
   other rows and columns of the same tiles. Stages whose results nobody reads on the way to the output are left out. */
HGA_API hga_status hga_plan_gradient(const hga_plan *plan, hga_workspace *workspace, const hga_io *io,
                                     const hga_grad_io *grad);

/* Make what gradients of the plan need, now: what the plan keeps of its graph, and, with a workspace (NULL: none),
   the memory of a call and what it would find out. Of `io` and `grad` it is looked at which tables, dtypes and rows
   they bring and what they want, not at any numbers; both NULL: packed float32, no tables, every gradient wanted.
   Any number of threads may prepare one plan, each with a workspace of its own. HGA_ENOMEM leaves things as they
   were, or half made for the next try. HGA_EINVAL: a plan without options.gradient, another plan's workspace, one of
   io and grad alone. */
HGA_API hga_status hga_plan_prepare(const hga_plan *plan, hga_workspace *workspace, const hga_io *io,
                                    const hga_grad_io *grad);

/* The gradients of n executions at once, each with a workspace of its own: what is written, its bits and errors are
   those of n calls of hga_plan_gradient. Samples go to threads whole as long as there is one for each thread, and all
   of them where the plan is too small to share out or goes the plain way; all threads then go together through what is
   left. So a user stage's adjoints may run on several threads at once. What samples are given may be shared; what one
   wants, tables' gradients too, which are not summed, must overlap nothing that another wants or reads (HGA_EINVAL).
   An error names the sample. Where it is told by what samples are given nothing has been written; HGA_ENOMEM may come
   later, of the first sample that found no memory: what gradients of any sample hold is then undefined. */
HGA_API hga_status hga_plan_gradient_batch(const hga_plan *plan, hga_workspace *const *workspaces, const hga_io *ios,
                                           const hga_grad_io *grads, hga_id n);

/* The next three are deprecated, and stay: they tell of a plan what hangs on the call as well (HGA_DEPRECATED).

   Bytes that a workspace takes with its first gradient and keeps, when every gradient is wanted and no tables are
   given; without a little that depends on rows, a copy of what is given where a call is for some rows alone, and
   what heads leave each other, which is at most an eighth of the tensors and their gradients, and a quarter more where
   weights are dropped. What the plan keeps, lists of at most a tenth of them, is made by this call if it was not yet,
   and is part of hga_plan_bytes. -1 when there is no memory to find out; 0 for plans without options.gradient. */
HGA_API int64_t hga_plan_gradient_bytes(const hga_plan *plan)
    HGA_DEPRECATED("says of a plan what hangs on the call, too");

/* NULL: the gradient goes back in float. Else why it goes the plain way, row by row in double, which is slower; a text
   that lasts until the plan is updated or destroyed. */
HGA_API const char *hga_plan_gradient_plain(const hga_plan *plan)
    HGA_DEPRECATED("says of a plan what hangs on the call, too");

/* Which way the gradient of calls without tables goes back, in words that last, the first of these that takes the
   plan: "a family of siblings at a time, all heads together"; of edges listed one by one, "row by row and source by
   source, all heads together"; "sums from end to end, all heads together"; "a subtree at a time, a head at a time";
   "a head at a time"; "row by row in double". NULL when there is no memory to find out. */
HGA_API const char *hga_plan_gradient_way(const hga_plan *plan)
    HGA_DEPRECATED("says of a plan what hangs on the call, too");

/* The ways in the order in which they are tried: the name of way i from 0 on, NULL behind the last or when there is no
   memory to find out; and why it does not take calls that bring and want such tensors (both NULL: packed float32, no
   tables), in words that last until the plan is updated or destroyed; NULL for the way that does and for those behind
   it, which were not asked. Numbers are not looked at. */
HGA_API const char *hga_plan_gradient_tried(const hga_plan *plan, const hga_io *io, const hga_grad_io *grad, hga_id i,
                                            const char **refusal);

/* What a gradient is with respect to; the caller's own tensor i is HGA_GRADIENT_USER + i. */
typedef enum hga_gradient_input {
    HGA_GRADIENT_NONE = 0,
    HGA_GRADIENT_QUERY = 1,
    HGA_GRADIENT_KEY = 2,
    HGA_GRADIENT_VALUE = 3,
    HGA_GRADIENT_REL_KEY = 4,
    HGA_GRADIENT_REL_BIAS = 5,
    HGA_GRADIENT_EDGE_BIAS = 6,
    HGA_GRADIENT_NODE_POS = 7,
    HGA_GRADIENT_TYPE_SCALE = 8,
    HGA_GRADIENT_SCALE = 9,
    HGA_GRADIENT_LOG_MASS = 10,
    HGA_GRADIENT_USER = 11
} hga_gradient_input;

/* The loss whose gradients hga_plan_gradient gives, the sum of grad->d_out . out and grad->d_lse . lse (rows without
   edges left out), with entry `entry` of an input moved by `by`: the program runs forward in double, so that
   differences of losses are slopes to ten digits (functions of the caller's own see and give floats). Entries count
   as in the gradient's array, packed: a tensor's (row * heads + head) * columns + column. Of `grad` only what is
   given is read; a tape is not needed. Rounding to bfloat16 has no slope: such a plan is HGA_EUNSUPPORTED. */
HGA_API hga_status hga_plan_loss(const hga_plan *plan, const hga_io *io, const hga_grad_io *grad,
                                 hga_gradient_input input, int64_t entry, double by, double *loss);

#ifdef __cplusplus
}
#endif
#endif
