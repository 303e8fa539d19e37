/* fast_pass.h: one pass of the fast solver: a key/value head and, in order, the query heads that read it, with rows
   of that head alone contiguous. */
#ifndef HGA_GRADIENT_FAST_PASS_H
#define HGA_GRADIENT_FAST_PASS_H

#include "carve.h"
#include "gradient.h"
#include "plan.h"
#include "subtrees.h"

/* What a pass holds of a field: rows of `columns` floats, padded with zeros, one a node. Softmax states have their
   adjoint in linear form, as if they were a sum of numerators and denominators: gradients `adjoint` = G, and for each
   node delta and lse, +inf where the node has no gradient:
       d numerator = e^-lse G,  d denominator = -e^-lse delta. */
typedef struct fast_field {
    hga_id columns, padded;
    const hga_id *value_index; /* [n_nodes]: the same of values alone, where they lie by subtrees */
    const hga_id *index; /* [n_nodes]: which row is a node's, where one order serves all stages; NULL: nodes' own */
    int by_row;          /* attention alone reads it, and takes its rows from the caller's tensors and puts them there:
                            nothing of it is here */
    hga_id writer;       /* the first stage that adds to the field's gradient, if it writes each row once; -1 */
    uint8_t *fresh;      /* NULL, or [chunks]: 1 where adjoints are yet to be cleared, by the first thread that adds */
    float *value;        /* NULL where no adjoint needs it */
    float *adjoint;      /* NULL where its gradient is not required */
    float *lse, *delta;  /* [n_nodes], states only */
    float *own_lse;      /* [n_nodes], of states whose energies are taken: then `value` is the state, and until the
                           adjoint of attention `delta` is less the gradient of the log-sum-exp */
} fast_field;

/* Keys and values of a stage that alone reads them: CHUNK rows, in the order of its columns, come when the first of
   them is needed, into memory that was used last, and go when no row after them has an edge to them. */
typedef struct column_chunks {
    hga_id stage;
    float **at;     /* [chunks]: where a chunk's keys are; NULL: not here */
    uint8_t *gone;  /* [chunks] */
    float *memory;  /* [chunks][floats] */
    hga_id *unused; /* [n_unused]: which of the memory */
    hga_id n_unused;
    int stay;                              /* threads share them: all are here from beginning to end */
    int64_t value, d_key, d_value, floats; /* distances from a chunk's keys to its others, -1: not required */
} column_chunks;

/* A row that is weighed whole, by a threshold of all its scores: scores and counts of its edges; of those that have
   weights numbers, weights, slopes (kernel_entmax) and gradients of the weights. */
typedef struct whole_row {
    float *score, *count, *weight, *slope, *product;
    hga_id *index;
} whole_row;

/* What a thread has for itself. */
typedef struct fast_thread {
    struct panel *panel;
    edge_rows rows;
    float *numbers; /* two rows of the caller's tensors */
    float *d_rel_key, *own_dk, *own_dv;
    whole_row whole;
    int32_t *slot;  /* [chunks], -1 between row ranges */
    table_sums own; /* of a row range, where there are several */
    hga_status status;
} fast_thread;

/* Head groups first, first + step, .. before `end`. */
typedef struct head_group_walk {
    hga_id first, step, end;
} head_group_walk;

/* Heads that a pass runs backward. */
typedef struct pass_heads {
    hga_id kv, head;        /* at hand */
    hga_id first, n;        /* the query heads of the group: head `first` and the following ones */
    hga_id at_once;         /* that attention runs backward for at once, panel by panel: the last is the one at hand */
    head_group_walk groups; /* that run with this pass's panels */
    int adds;               /* other groups add to the same keys' and values' gradients, too */
} pass_heads;

/* What scores have besides products. */
typedef struct pass_scores {
    float *log_mass;     /* [n_nodes]; NULL where no stage attends by mass */
    int needs_tables;    /* any gradient that sums over edges one by one */
    float *rel_key;      /* the table, its rows padded with zeros; NULL without */
    float *additive;     /* [n_heads][padded]: vectors of additive scores, times the scale; NULL: products */
    float softcap;       /* of contents, 0: none */
    const float *slopes; /* [n_heads], NULL: none */
} pass_scores;

/* Threads that divide the head at hand among themselves; the first is the pass's own. */
typedef struct pass_team {
    fast_thread *thread; /* [n] */
    hga_id n;
} pass_team;

/* Of the thread that is at work. */
typedef struct pass_own {
    float *numbers;
    float *d_rel_key; /* sums of rel_key's gradient before they are added to `sums`, NULL where it is not required */
    float *dk, *dv;   /* rows of its own of keys' and values' gradients, for chunks whose slot is not -1 */
    whole_row whole;
    const int32_t *slot; /* [chunks]; NULL: none */
} pass_own;

/* Rows whose padding is zero. */
typedef struct pass_memory {
    void *at; /* [bytes] */
    int64_t bytes;
} pass_memory;

typedef struct fast_pass {
    const gradient_call *call; /* NULL while memory is measured */
    const hga_plan *plan;
    const call_needs *needs;
    const hga_program *program;
    hga_nodes nodes;
    pass_heads heads;
    int finds;        /* nothing is computed: what columns rows see is found, for calls to come */
    hga_id field_dim; /* padded columns of queries and keys */
    hga_status status;
    fast_field field[HGA_FIELD_SLOTS];
    column_chunks *chunks; /* NULL: all fields are as `field` says */
    table_sums sums;       /* of this key/value head */
    edge_rows rows;
    struct panel *panel;
    pass_scores scores;
    pass_team team;
    pass_own own;
    hga_id *raised; /* subtrees that are coarsened and have adjoints */
    pass_memory memory;
    const hga_id *rank; /* indices of nodes in the order that chunks count in; NULL: their own */
} fast_pass;

/* A family: a node's children, n of them. */
typedef struct brood {
    hga_id n, first;
    const hga_id *list; /* [n]; NULL: the ids from `first` on */
} brood;

static inline brood brood_of(const hga_nodes *nodes, hga_id v)
{
    if (!nodes->child_ptr || v < nodes->level_ptr[1]) return (brood){0};
    const hga_id *ptr = nodes->child_ptr + (v - nodes->level_ptr[1]);
    return (brood){ptr[1] - ptr[0], ptr[0], nodes->child_list ? nodes->child_list + ptr[0] : NULL};
}

/* What queries are multiplied with: additive scores have the scale in their vectors. */
static inline float query_scale(const fast_pass *p) { return scores_are_sums(p->plan) ? 1 : p->call->scale; }

static inline hga_id row_number(const fast_pass *p, hga_id f, hga_id v)
{
    return p->field[f].index ? p->field[f].index[v] : v;
}
static inline float *value_row(const fast_pass *p, hga_id f, hga_id v)
{
    hga_id row = p->field[f].value_index ? p->field[f].value_index[v] : row_number(p, f, v);
    return p->field[f].value + (ptrdiff_t)row * p->field[f].padded;
}
static inline float *adjoint_row(const fast_pass *p, hga_id f, hga_id v)
{
    return p->field[f].adjoint + (ptrdiff_t)row_number(p, f, v) * p->field[f].padded;
}

/* ---- fast_clear.c: adjoints start at zero ---- */

/* Clear the adjoints of a field. */
void clear_field(fast_pass *p, hga_id f);
/* Clear those of all fields of key/value heads, or of all others. */
void clear_all(fast_pass *p, int kv);
/* Clear a chunk of rows of a field. */
void clear_chunk(const fast_pass *p, hga_id f, hga_id chunk);
/* Clear the chunks that no thread has added to. */
void clear_rest(fast_pass *p);
/* Finds for each field which stage writes it before others add to it, and whether its chunks are cleared on demand. */
void plan_clearing(fast_pass *p);

/* ---- rows of gradients ---- */

/* The row of node u's gradient, cleared by the first thread that adds to it. */
static inline float *cleared_row(const fast_pass *p, hga_id f, hga_id u)
{
    hga_id chunk = row_number(p, f, u) / CHUNK;
    if (p->field[f].fresh && p->field[f].fresh[chunk]) clear_chunk(p, f, chunk);
    return adjoint_row(p, f, u);
}

/* The row that a thread adds node u's gradient to: the field's, or the thread's own. */
static inline float *source_row(const fast_pass *p, hga_id f, float *own, hga_id u)
{
    hga_id at = p->rank ? p->rank[u] : u;
    int32_t slot = p->own.slot ? p->own.slot[at / CHUNK] : -1;
    if (slot >= 0) return own + ((ptrdiff_t)slot * CHUNK + at % CHUNK) * p->field[f].padded;
    return cleared_row(p, f, u);
}

/* Walks all nodes, from a zeroed struct on, in order or in reverse. */
typedef struct node_walk {
    hga_id i, v;
} node_walk;

static inline int node_next(const fast_pass *p, int down, node_walk *w)
{
    w->v = down ? p->nodes.n - 1 - w->i : w->i;
    return w->i++ < p->nodes.n;
}

/* Is the field one of key/value heads? */
static inline int is_kv(const fast_pass *p, hga_id f)
{
    hga_width w = p->program->field[f].width;
    return w == HGA_WIDTH_KV_KEY || w == HGA_WIDTH_VALUE;
}

/* ---- fast_orders.c ---- */

/* Stores rows of fields in the order in which attention takes them. */
void plan_orders(fast_pass *p);

#endif
