/* solvers.h: the solvers of the backward pass. Each is a row of solvers.c: why it refuses a plan, what it makes once
   and stores with the plan, what memory a call needs, and the call, which allocates nothing. The first that does not
   refuse runs, unless it estimates its time, and a later one that does so, too, is faster.

   families.c       trees whose nodes attend to their siblings, all heads at once (families.h)
   scattered.c      edges listed one by one, all heads at once
   linear.c         sums and means alone, all heads at once (linear_edges.h)
   fast_solver.c    a head at a time, in float: subtree by subtree, or stage by stage (fast.h, panel.h)
   plain.c          in double, by what semantics/ says of every stage (plain.h) */
#ifndef HGA_GRADIENT_SOLVERS_H
#define HGA_GRADIENT_SOLVERS_H

#include "gradient.h"
#include "plan.h"

/* Memory for a reason that names something of the plan's. */
typedef struct reason {
    char text[160];
} reason;
/* Formats a reason into the buffer, cut to its size; returns its text. */
const char *reason_of(reason *buffer, const char *format, ...) HGA_PRINTF(2, 3);

/* ---- the rows ---- */

typedef struct solver {
    const char *name;
    int reads_out;    /* reads the caller's output */
    int writes_edges; /* gradients of keys and features of edges, which nothing shares, go to the caller at once */
    int by_heads;     /* query heads that read one key/value head run by themselves, where that loses nothing */
    /* Why does it refuse the plan's program with such features? NULL: it does not. Static text, or in `buffer`. */
    const char *(*refuses)(const hga_plan *plan, unsigned features, reason *buffer);
    /* About how long does a call take of a plan that it does not refuse, in ns on one thread (estimate.h)? 0: it does
       not know. NULL: it never does. */
    double (*estimate)(const hga_plan *plan);
    /* Are rows that a call for others does not name never read, and are gradients where nothing comes to them left
       as they are, which range_clear has set? NULL: no. */
    int (*skips)(const hga_plan *plan);
    /* What it needs of the graph, in the plan's memory, and never changed again; or *why the graph is not for it, as
       above, and nothing is made. NULL: it needs nothing. */
    hga_status (*make)(const hga_plan *plan, void **made, const char **why, reason *buffer);
    void (*drop)(const hga_plan *plan, void *made);
    int64_t (*bytes)(const hga_plan *plan, const void *made, const call_needs *needs); /* bytes of a call */
    /* What a workspace caches for all calls, allocated when it is not there; bytes of it. NULL: nothing. */
    hga_status (*cache)(const hga_plan *plan, const void *made, const call_needs *needs, hga_workspace *workspace);
    int64_t (*cached_bytes)(const hga_plan *plan, const void *made, const call_needs *needs);
    /* What calls like this one find out and leave in the workspace, found now, in the call's memory. NULL: nothing. */
    hga_status (*find)(gradient_call *c, const void *made, hga_workspace *workspace, void *memory);
    /* The call, in memory of so many bytes that begins at a whole line. */
    hga_status (*go)(gradient_call *c, const void *made, hga_workspace *workspace, void *memory);
} solver;

extern const solver families_solver, scattered_solver, linear_solver, subtrees_solver, stages_solver, plain_solver;

/* ---- which one ---- */

enum { N_SOLVERS = 6 };

/* The solver of calls with some features, and why no other runs: it refuses, or takes longer. why[i] is NULL for those
   that were not tried, too. */
typedef struct solver_choice {
    const solver *solver;
    const void *made;
    const hga_plan *plan; /* with the stages that count */
    const char *why[N_SOLVERS];
} solver_choice;

/* The choice for these features, made by the first call that needs it; HGA_ENOMEM. It lasts until the plan is
   updated or destroyed. */
hga_status solver_choose(const hga_plan *plan, unsigned features, const solver_choice **out);
/* The plan with the stages that count, which lasts as long. */
hga_status solver_plan(const hga_plan *plan, const hga_plan **out);
/* Does it compute in double? */
static inline int is_plain(const solver_choice *x) { return x->solver == &plain_solver; }

/* reasons.c: why does the plan have plain stages alone? NULL: it does not. */
const char *is_generic(const hga_plan *plan, reason *buffer);
/* Which features of edges besides biases does the call have? NULL: none. */
const char *edge_features_named(unsigned features);
/* plain.c: why must the plan's program run in double? NULL: it need not. */
const char *must_be_plain(const hga_plan *plan, reason *buffer);

/* Bytes of a row of each tensor and of its gradient for every token. */
static inline int64_t tensor_bytes(const hga_plan *plan)
{
    const hga_shape *s = &plan->shape;
    int64_t row = ((int64_t)s->n_heads + s->n_kv_heads) * ((int64_t)s->dim + s->dim_v) * (int64_t)sizeof(float);
    return 2 * row * plan->nodes.level_ptr[1];
}

/* The most bytes that lists of edges may take in a plan: a tenth of the tensors and their gradients. Calls list
   longer ones in their own memory. */
static inline int64_t most_list_bytes(const hga_plan *plan) { return tensor_bytes(plan) / 10; }

#endif
