/* plan.h: how a plan is stored. Executions read it and change nothing (plan.c). */
#ifndef HGA_PLAN_PLAN_H
#define HGA_PLAN_PLAN_H

#include "hga_plan.h"
#include "kernels.h"
#include "machine.h"
#include "program.h"
#include "retain.h"
#include "stage_plan.h"
#include "storage.h"
#include "sums.h"

#include <pthread.h>

/* Runs of KERNEL_CHUNK columns at most, counted from the beginning of each part of the graph: window begin[i] is the
   first of part i, which begins with node first[i]. */
typedef struct column_windows {
    hga_id n, n_parts;
    const hga_id *first; /* [n_parts], the graph's where `declared` */
    int declared;        /* rows run by them, whatever the cost: see hga_builder_set_parts */
    hga_id *begin;       /* [n_parts + 1] */
    int64_t capacity;
} column_windows;

/* An object computed of a plan once and cached with it, counted in its bytes: in memory of the plan's allocator, which
   the thread that holds the lock may use. An update drops it. */
typedef struct cached_object {
    void *what; /* NULL: nothing */
    void (*drop)(const hga_plan *plan, void *what);
} cached_object;
/* Lists of the graph for calls that have slopes or biases of edges (call_lists.c); NULL: there was no such call. */
typedef struct call_lists {
    double *position;    /* [nodes] */
    hga_pos *first_edge; /* [nodes + 1]: canonical positions of rows' first edges in the stage that biases belong to */
    hga_pos degree;      /* edges of its widest row */
} call_lists;
typedef struct plan_cache {
    pthread_mutex_t lock;
    call_lists lists;
    cached_object back;    /* what the backward pass needs */
    cached_object layouts; /* the panels' tiles, see execute/attend/layouts.h */
} plan_cache;

/* Threads are bound to processors not at all, by each call, or by OpenMP. */
typedef enum plan_binding { BIND_NOTHING, BIND_CALLS, BIND_BY_OPENMP } plan_binding;
typedef struct binding_failures binding_failures;

/* ---- processes that share a plan: plan/ and execute/ call ranks/ through these pointers ---- */

typedef struct plan_wing {
    /* Checks what is requested of a plan that is made. renew: gives a copy that is lowered anew its own. */
    hga_status (*begin)(hga_plan *plan);
    hga_status (*renew)(hga_plan *plan);
    /* list, once phases are known: the processes' rows, and messages. divide, once there are slices: what is computed
       when, and rows of the workspace for it. All processes call these together. */
    hga_status (*list)(hga_plan *plan);
    hga_status (*divide)(hga_plan *plan);
    void (*clear)(hga_plan *plan);
    /* Sends a status that is not HGA_OK to all processes. */
    void (*tell)(const hga_plan *plan, hga_status st);
    const struct shared_execution *execution; /* execution.h */
    const struct shared_gradient *gradient;   /* gradient.h */
} plan_wing;

typedef struct plan_share {
    const plan_wing *wing;    /* NULL: one process has the plan, and all rows */
    struct rank_plan *ranks;  /* the wing's */
    const hga_interval *rows; /* [n_rows]: nodes whose rows are computed here, and are in the caller's tensors */
    int64_t n_rows;
    const hga_id *number; /* [nodes]: such a node's index, from the first on; NULL: tensors have one interval at most */
    hga_id first_token, end_token; /* tokens that this process alone has */
} plan_share;

/* Memory of a plan. */
typedef struct plan_memory {
    hga_allocator user; /* the caller's: for the plan itself and for states, which may outlive it */
    retained *retained; /* for all that updates reuse */
    hga_allocator allocator;
} plan_memory;

typedef struct plan_machine {
    const kernel_table *kernels;
    topology *topology;
    tuned tuning; /* changes no bit */
} plan_machine;

/* Threads that execute a plan. */
typedef struct plan_team {
    hga_id n;
    hga_id cyclic;       /* tokens of the blocks that threads have cyclically; 0: each thread has one run of tokens */
    hga_id *domain, *pu; /* [n] */
    plan_binding binding;
    binding_failures *unbound; /* of calls so far */
} plan_team;

/* Storage of the rows of fields. */
typedef struct plan_fields {
    field_storage storage[HGA_FIELD_SLOTS];
    hga_id columns[HGA_FIELD_SLOTS];    /* of the storage, for user functions */
    row_pool pool[3 * HGA_FIELD_SLOTS]; /* [n_pools], of different lengths */
    hga_id n_pools;
    int lone_rows; /* rows that are computed alone may have other bits, see kernel_tile.lone: a decoder's choice */
    const struct rows_on_demand *on_demand; /* slots for rows present at once only (row_slots.h); NULL */
    int bf16_rows;                          /* bfloat16, and attending stages read keys and values in 16 bits */
} plan_fields;

/* [n], in the order of stages and panels. */
typedef struct phase_list {
    phase *list;
    int64_t n, capacity;
} phase_list;

/* Maxima over executions, threads or panels. */
typedef struct plan_most {
    int64_t workspace_floats;
    int64_t segments, listed; /* of a thread's reader: capacities */
    int64_t visits;           /* of windows of columns that a panel's rows have, where stages run by columns */
    int64_t plain_edges;      /* edges of the widest row of plain stages, -1: there are none */
    hga_id wide_columns;      /* of the widest segment of rows that have no other and share it, 0 */
} plan_most;

typedef struct plan_version {
    uint64_t identity; /* of this plan for all its life: the next one at its address has another */
    uint64_t serial;   /* changes with every update: a state with another serial is stale */
} plan_version;

/* What the caller requested, which updates read again. */
typedef struct plan_requested {
    hga_id panel; /* rows of every panel, 0: the plan chooses */
    int generic;  /* options.generic of the caller: graphs may make a plan generic, and updates fused again */
} plan_requested;

struct hga_plan {
    plan_memory memory;
    hga_graph *graph;
    hga_program program;
    hga_shape shape;
    hga_options options;
    hga_nodes nodes;
    plan_machine machine;
    plan_team team;
    plan_fields fields;
    stage_plan stage[HGA_MAX_STAGES];
    phase_list phases;
    struct slice_plan *slices; /* options.rows: see slices.h; NULL */
    plan_share share;          /* options.ranks: processes that share the plan */
    wave_order waves;
    plan_most most;
    column_windows windows;
    plan_version version;
    hga_id bias_stage; /* the attend stage that biases of edges belong to, -1 */
    plan_requested requested;
    plan_cache *cache;
};

/* Makes a plan of one process, wing NULL, or of several. Panels have `panel` rows, a multiple of KERNEL_TILE and at
   most PANEL_ROWS; 0: the plan chooses. Outputs have the same bits, which tests show. */
hga_status plan_make(const hga_graph *g, const hga_program *p, const hga_shape *shape, const hga_options *options,
                     hga_id panel, const plan_wing *wing, hga_plan **out);

/* Parameters of a call's dropout draws. */
static inline kernel_draw draw_of_call(const hga_plan *plan, const hga_io *io)
{
    return (kernel_draw){io->seed, io->layer, plan->options.dropout, io->first_head};
}

static inline int plan_is_shared(const hga_plan *plan) { return plan->share.wing != NULL; }
/* Whether the token is this process' own. */
static inline int owns_token(const hga_plan *plan, hga_id token)
{
    return !plan_is_shared(plan) || (plan->share.first_token <= token && token < plan->share.end_token);
}
/* Sends a status that is not HGA_OK to all processes; returns it. */
static inline hga_status plan_failed(const hga_plan *plan, hga_status st)
{
    if (st && plan && plan_is_shared(plan)) plan->share.wing->tell(plan, st);
    return st;
}

/* Whether rows of the program's internal fields outlive an execution. */
static inline int rows_stay(const hga_plan *plan) { return plan->options.rows == HGA_ROWS_THAT_STAY; }

static inline hga_id kv_head(const hga_shape *s, hga_id head) { return head / (s->n_heads / s->n_kv_heads); }

/* Whether rows have one threshold, which needs all of their scores: then they are not cut. */
static inline int rows_are_whole(const hga_plan *plan)
{
    return !(program_normaliser_is(&plan->program) & NORMALISER_MERGES);
}
/* Whether each weight is a sigmoid of its score: states are sums then. */
static inline int weights_are_sigmoids(const hga_plan *plan)
{
    return program_normaliser(&plan->program) == HGA_NORMALISER_SIGMOID;
}
/* Whether a function of the stage's kind computes it, in the plan's instruction set. Else the plain executor does: all
   stages of a generic plan, user functions, and softmax with energies in one stage. Callers that depend on which of the
   two it is must use this function. */
static inline int stage_is_fused(const hga_plan *plan, hga_id stage)
{
    const stage_kind kind = plan->stage[stage].kind;
    return kind != KIND_USER && (kind != KIND_ATTEND_INSIDE || rows_are_whole(plan)) && !plan->options.generic;
}
/* Whether edges of the stage count for other numbers of tokens than 1: sources by mass, edges by weight. */
static inline int edges_have_counts(const hga_plan *plan, hga_id stage)
{
    return plan->program.stage[stage].by_mass || plan->stage[stage].relation.weighted;
}
static inline int scores_are_sums(const hga_plan *plan) { return plan->program.scores == HGA_SCORES_ADDITIVE; }
/* Additive scores and whole rows are read in float32, all heads of a row by one thread. */
static inline int attends_by_rows(const hga_plan *plan) { return scores_are_sums(plan) || rows_are_whole(plan); }

/* slice_plan.c: makes what executions of some rows of the output need of the plan (slices.h), where there may be
   any. */
hga_status slices_make(hga_plan *plan);
/* Frees what slices_make has made, if anything. */
void slices_clear(hga_plan *plan);
/* Bytes of a slice's memory. */
int64_t slices_bytes(const hga_plan *plan);

#endif
