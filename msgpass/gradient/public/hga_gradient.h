/* hga_gradient.h: gradients of a program. Given the gradient of a loss with respect to what an execution wrote, the
   gradients with respect to everything it read: tensors, tables, positions, scale.

       hga_options options = {.gradient = 1};
       hga_plan_create(g, &program, &shape, &options, &plan);
       io.tape = tape;                                             // hga_plan_tape_bytes(plan) bytes
       hga_plan_execute(plan, workspace, &io);                     // leaves the tape
       hga_plan_gradient(plan, workspace, &io, &grad);             // reads it

   The backward pass computes scores and weights again; nothing stores them. The tape holds the log-sum-exp of the
   output's rows where the program ends in a softmax state, and nothing where it reads states again (energy, descend).
   Memory is linear in nodes. Where a stage rounds its operands to bfloat16, gradients pass straight through the
   rounding. Equal inputs give equal bits at any thread count. gradient/README.md derives the formulas.

   hga_exchange.h says what ranks pass and get (hga_options.ranks). */
#ifndef HGA_GRADIENT_H
#define HGA_GRADIENT_H

#include "hga_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HGA_CALL_GRADIENT_MEMBER(NAME, name) float *d_##name;

/* The input and the requested gradients. A tensor without data, or a NULL pointer, is not requested; the call skips
   work that only unrequested gradients need. It writes every row of the requested ones, with zeros where no gradient
   arrives: for a tensor that no stage reads, or that the program has no field for (then all its rows, of n_heads dim,
   n_kv_heads dim or n_kv_heads dim_v numbers). A gradient has the shape of its tensor; strides, rows and dtype are its
   own, as in hga_io. Gradients of 16-bit tensors are those of the same numbers in float32. A 16-bit gradient is rounded
   to nearest. The formulas take a 16-bit output as it was rounded. */
typedef struct hga_grad_io {
    hga_tensor d_out;                        /* input: of out, [rows][n_heads][dim_v] */
    hga_tensor d_lse;                        /* input, NULL data: zero; of lse, [rows][n_heads] */
    hga_tensor d_query, d_key, d_value;      /* requested */
    hga_tensor d_user[HGA_MAX_USER_TENSORS]; /* requested */
    /* requested, in the shapes of hga_call.h, packed and summed over whatever shares an entry: grad.d_slopes is
       grad.d_table[HGA_TABLE_SLOPES] */
    HGA_EXTENSION union {
        float *d_table[HGA_MAX_TABLES];
        HGA_EXTENSION struct {
            HGA_CALL_TABLES(HGA_CALL_GRADIENT_MEMBER)
        };
    };
    hga_tensor d_edge_out; /* input, NULL data: zero; of edge_out, its shape, float32 */
    int accumulate;        /* 1: add to what the requested arrays hold; 0: overwrite */
    uint64_t reserved[5];  /* 0 */
} hga_grad_io;
#undef HGA_CALL_GRADIENT_MEMBER

/* Compute the gradients of the execution that left io->tape. Pass the same plan and the same tensors, io->out among
   them, and the same rows if you executed some rows alone (io->rows); the call does not read d_out and d_lse of other
   rows. Where the program is one stage that attends to your tensors in the order of nodes, some rows cost what they and
   their columns cost, besides writing zeros elsewhere; if several threads share a head, all keys and values count. In
   other programs some rows cost up to as much as all. Stages whose results do not reach the output are left out.

   Memory: the first call of a plan makes lists of the graph, in the plan's memory (hga_plan_bytes). The first call of a
   workspace takes memory, which the workspace keeps. Later calls with the same tables, dtypes and rows that request the
   same gradients allocate nothing and cannot run out of memory. hga_plan_prepare does all of that ahead of time.

   Errors: HGA_EINVAL for no tape; for the tape of another plan, of the graph before hga_plan_update, or of other rows;
   for another plan's workspace; for a tensor that is missing or too short; for a gradient that overlaps itself, another
   gradient, or what the call reads. HGA_EUNSUPPORTED names a user stage without adjoints. A number that is not finite
   shows in the gradients of what attends to it or is attended by it, and may show in other rows and columns of the same
   tiles. */
HGA_API hga_status hga_plan_gradient(const hga_plan *plan, hga_workspace *workspace, const hga_io *io,
                                     const hga_grad_io *grad);

/* Do in advance what the first hga_plan_gradient would do: make the plan's lists of its graph and, for a workspace
   (NULL: none), take the memory of a call and choose how to compute it. The call reads which tables, dtypes and rows
   `io` and `grad` have and which gradients they request, and no numbers but tables of one entry; both NULL: packed
   float32, no tables, every gradient requested. Any number of threads may prepare one plan, each with its own
   workspace. After HGA_ENOMEM you may try again. HGA_EINVAL: a plan without options.gradient, another plan's workspace,
   one of io and grad without the other.

   *bytes (NULL: not needed): what a workspace takes for such calls and keeps, whether you pass one or not. Not counted:
   what heads cache for each other, at most an eighth of the tensors and their gradients (in small calls it may be some
   tens of kilobytes more), and a quarter more under dropout. Not taken ahead: where some rows have no gradient, since
   no output depends on them, the first call may make a list of edges longer, by some kilobytes. The plan's lists are
   counted by hga_plan_bytes: at most a tenth of the tensors or, for edges added one by one, these by their sources, in
   as many bytes as the graph takes for them. */
HGA_API hga_status hga_plan_prepare(const hga_plan *plan, hga_workspace *workspace, const hga_io *io,
                                    const hga_grad_io *grad, int64_t *bytes);

/* Compute the gradients of n executions in one call, each with its own workspace. Results, bits and errors are those of
   n calls of hga_plan_gradient. A thread takes whole samples as long as there is one for each thread, and all of them
   where the plan is small or runs row by row in double; then all threads share the samples that are left. So a user
   stage's adjoints may run on several threads at once. Samples may share what they read. Gradients that one sample
   requests must not overlap those of another, nor what another reads (HGA_EINVAL); that includes gradients of tables,
   which the call does not sum. An error names the sample. An error in your arguments is found before anything is
   written. HGA_ENOMEM may come later; the gradients of all samples are then undefined. */
HGA_API hga_status hga_plan_gradient_batch(const hga_plan *plan, hga_workspace *const *workspaces, const hga_io *ios,
                                           const hga_grad_io *grads, hga_id n);

/* Name the solvers of the backward pass, in the order in which the library tries them; the last is "row by row in
   double", which is slower and takes every call. Returns the name of solver i, from 0 on; NULL after the last, or when
   there is no memory to find out. *refusal says why the solver does not run calls with such tensors and gradients (both
   NULL: packed float32, no tables), in words that last until the plan is updated or destroyed: it cannot, or another
   one takes less time. The first whose *refusal is NULL runs them; those after it have a reason where both times were
   estimated. Numbers are not read. */
HGA_API const char *hga_plan_gradient_tried(const hga_plan *plan, const hga_io *io, const hga_grad_io *grad, hga_id i,
                                            const char **refusal);

/* What a gradient is with respect to. The caller's own tensor i is HGA_GRADIENT_USER + i, a table HGA_GRADIENT_TABLE +
   its number of hga_call.h. */
typedef enum hga_gradient_input {
    HGA_GRADIENT_NONE = 0,
    HGA_GRADIENT_QUERY = 1,
    HGA_GRADIENT_KEY = 2,
    HGA_GRADIENT_VALUE = 3,
    HGA_GRADIENT_USER = 11,
    HGA_GRADIENT_TABLE = 100
} hga_gradient_input;

/* Compute the loss whose gradients hga_plan_gradient gives, the sum of grad->d_out . out and grad->d_lse . lse (rows
   without edges left out), with entry `entry` of an input moved by `by`: the program runs forward in double, so that
   differences of losses are slopes to ten digits (functions of the caller's own read and write floats). Entries count
   as in the gradient's array, packed: a tensor's (row * heads + head) * columns + column; others are HGA_EINVAL. Of
   `grad` only d_out, d_lse and d_edge_out are read; a tape is not needed. Rounding to bfloat16 has no slope: such a
   plan is HGA_EUNSUPPORTED. */
HGA_API hga_status hga_plan_loss(const hga_plan *plan, const hga_io *io, const hga_grad_io *grad,
                                 hga_gradient_input input, int64_t entry, double by, double *loss);

#ifdef __cplusplus
}
#endif
#endif
