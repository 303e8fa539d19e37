/* fast.h: one pass of the fast way: a key/value head and, one after the other, the query heads that read it, with rows
   of that head alone side by side. */
#ifndef HGA_GRADIENT_FAST_H
#define HGA_GRADIENT_FAST_H

#include "gradient.h"
#include "subtrees.h"
#include "ways.h"

/* What a pass keeps of a field: rows of `columns` floats, padded with zeros, one a node. Softmax states have their
   adjoint in linear form, as if they were a sum of numerators and denominators: gradients `adjoint` = G, and for each
   node delta and lse, +inf where nothing is asked of the node:
       d numerator = e^-lse G,  d denominator = -e^-lse delta. */
typedef struct fast_field {
    hga_id columns, padded;
    const hga_id *value_place; /* [n_nodes]: the same of values alone, where they lie by subtrees */
    const hga_id *place; /* [n_nodes]: which row is a node's, where one order serves all stages; NULL: nodes' own */
    int by_row;     /* attention alone looks at it, and takes its rows from the caller's tensors and puts them there:
                            nothing of it is here */
    hga_id writer;  /* the stage that is the first to ask of the field, if it writes each row once; -1 */
    uint8_t *fresh; /* NULL, or [chunks]: 1 where adjoints are yet to be cleared, by whoever is the first to add */
    float *value;   /* NULL where no adjoint needs it */
    float *adjoint; /* NULL where nothing is wanted of it */
    float *lse, *delta; /* [n_nodes], states only */
    float *own_lse;     /* [n_nodes], of states whose energies are taken: then `value` is the state, and until the
                           adjoint of attention `delta` is less the gradient of the log-sum-exp */
} fast_field;

/* Keys and values of a stage that alone looks at them: CHUNK rows, in the order of its columns, come when the first of
   them is needed, into memory that was used last, and go when no row after them has an edge to them. */
typedef struct column_chunks {
    hga_id stage;
    float **at;     /* [chunks]: where a chunk's keys are; NULL: not here */
    uint8_t *gone;  /* [chunks] */
    float *memory;  /* [chunks][floats] */
    hga_id *unused; /* [n_unused]: which of the memory */
    hga_id n_unused;
    int stay; /* threads share them: all are here from beginning to end */
    int64_t value, d_key, d_value,
        floats; /* where a chunk's others are behind its keys, -1: nothing is asked of them */
} column_chunks;

/* A row that is weighed whole, by a threshold of all its scores: scores and counts of its edges; of those that have
   weights numbers, weights, slopes (kernel_entmax) and what is asked of the weights. */
typedef struct whole_row {
    float *score, *count, *weight, *slope, *product;
    hga_id *place;
} whole_row;

/* What a thread has for itself. */
typedef struct lane {
    struct panel *panel;
    edge_rows rows;
    float *numbers; /* two rows of the caller's tensors */
    float *d_rel_key, *own_dk, *own_dv;
    whole_row whole;
    int32_t *slot;  /* [chunks], -1 between strips */
    table_sums own; /* of a strip, where there are several */
    hga_status status;
} lane;

/* Turns first, first + step, .. before `end`. */
typedef struct turn_walk {
    hga_id first, step, end;
} turn_walk;

typedef struct fast_pass {
    const gradient_call *call; /* NULL while memory is measured */
    const hga_plan *plan;
    const call_needs *needs;
    const hga_program *program;
    hga_nodes nodes;
    hga_id kv, head;  /* at hand */
    hga_id first, n;  /* the query heads of the turn: head `first` and those behind it */
    int finds;        /* nothing is computed: what columns rows see is found, for calls to come */
    int adds;         /* other turns give the same keys and values theirs, too */
    turn_walk turns;  /* that go with this pass's panels */
    hga_id field_dim; /* padded columns of queries and keys */
    hga_status status;
    fast_field field[HGA_FIELD_SLOTS];
    column_chunks *chunks; /* NULL: all fields are as `field` says */
    table_sums sums;       /* of this key/value head */
    edge_rows rows;
    struct panel *panel;
    float *numbers;      /* of the lane that is at work */
    float *log_mass;     /* [n_nodes]; NULL where no stage attends by mass */
    int wants_tables;    /* any gradient that edges sum up one by one */
    float *rel_key;      /* the table, its rows padded with zeros; NULL without */
    float softcap;       /* of contents, 0: none */
    const float *slopes; /* [n_heads], NULL: none */
    lane *lanes;         /* [n_lanes]: threads that share out the head at hand; the first is the pass's own */
    hga_id n_lanes;
    hga_id *raised; /* subtrees that are coarsened and asked */
    void *memory;   /* [bytes]: rows whose padding is zero */
    int64_t bytes;
    hga_id heads; /* that attention goes back for at once, panel by panel: the last of them is the one at hand */
    /* of the lane that is at work: sums of rel_key's gradient before they are poured into `sums`, NULL where it is not
       wanted; and rows of its own of keys' and values' gradients, for chunks whose slot is not -1 */
    float *d_rel_key, *own_dk, *own_dv;
    whole_row whole;
    const int32_t *slot; /* [chunks]; NULL: none */
    const hga_id *rank;  /* places of nodes in the order that chunks count in; NULL: their own */
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

static inline hga_id row_number(const fast_pass *p, hga_id f, hga_id v)
{
    return p->field[f].place ? p->field[f].place[v] : v;
}
static inline float *value_row(const fast_pass *p, hga_id f, hga_id v)
{
    hga_id row = p->field[f].value_place ? p->field[f].value_place[v] : row_number(p, f, v);
    return p->field[f].value + (ptrdiff_t)row * p->field[f].padded;
}
static inline float *adjoint_row(const fast_pass *p, hga_id f, hga_id v)
{
    return p->field[f].adjoint + (ptrdiff_t)row_number(p, f, v) * p->field[f].padded;
}

/* fast_clear.c: nothing is asked of any node yet, of fields of key/value heads or of others; of a chunk of rows; and of
   what nobody came to ask. */
void clear_field(fast_pass *p, hga_id f);
void clear_all(fast_pass *p, int kv);
void clear_chunk(const fast_pass *p, hga_id f, hga_id chunk);
void clear_rest(fast_pass *p);
/* Of each field: who writes it before others add to it, and whether its chunks are cleared when they are needed. */
void plan_clearing(fast_pass *p);

/* The row of node u's gradient, cleared when the first comes to add to it. */
static inline float *cleared_row(const fast_pass *p, hga_id f, hga_id u)
{
    hga_id chunk = row_number(p, f, u) / CHUNK;
    if (p->field[f].fresh && p->field[f].fresh[chunk]) clear_chunk(p, f, chunk);
    return adjoint_row(p, f, u);
}

/* The one that a lane adds to: it, or the lane's in its place. */
static inline float *source_row(const fast_pass *p, hga_id f, float *own, hga_id u)
{
    hga_id at = p->rank ? p->rank[u] : u;
    int32_t slot = p->slot ? p->slot[at / CHUNK] : -1;
    if (slot >= 0) return own + ((ptrdiff_t)slot * CHUNK + at % CHUNK) * p->field[f].padded;
    return cleared_row(p, f, u);
}

/* All nodes from a zeroed struct on, in their order or from the last one back. */
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

/* fast_columns.c: the only stage that reads or writes the field, -1; and does attention take its rows from the caller's
   tensors and put them there? */
hga_id only_stage(const hga_plan *plan, hga_id f);
int goes_by_row(const hga_plan *plan, hga_id f);

/* fast_columns.c: the stage whose keys and values come chunk by chunk, -1; when they may go; their memory, NULL without
   such a stage. */
hga_id columns_stage(const hga_plan *plan);
hga_status last_uses_create(const hga_plan *plan, const strips *cut, last_uses *out);
void last_uses_clear(const hga_plan *plan, last_uses *x);
column_chunks *columns_lay_out(const fast_pass *p, carver *room);
/* None is here; a chunk comes; those that panels [first, end) of the stage were the last to need go; all go. */
void columns_begin(const fast_pass *p);
float *bring_chunk(const fast_pass *p, hga_id chunk);
void columns_leave(const fast_pass *p, hga_id stage, hga_id first, hga_id end);
void columns_end(const fast_pass *p);

/* Rows of the column at a position: key and value, and what is added to; without meaning where nothing is asked. */
static inline void near_column(const fast_pass *p, hga_id at, const float **k, const float **v, float **dk, float **dv)
{
    const column_chunks *x = p->chunks;
    const hga_stage *s = &p->program->stage[x->stage];
    ptrdiff_t dim = p->field[s->key].padded, dim_v = p->field[s->value].padded, chunk = at / CHUNK, row = at % CHUNK;
    int32_t slot = p->slot ? p->slot[chunk] : -1;
    float *rows = x->at[chunk] ? x->at[chunk] : bring_chunk(p, (hga_id)chunk);
    *k = rows + row * dim, *v = rows + x->value + row * dim_v;
    *dk = slot < 0 ? rows + x->d_key + row * dim : p->own_dk + (slot * CHUNK + row) * dim;
    *dv = slot < 0 ? rows + x->d_value + row * dim_v : p->own_dv + (slot * CHUNK + row) * dim_v;
}

/* Key and value of a source of an attended stage. */
static inline void find_source(const fast_pass *p, hga_id s, hga_id u, const float **k, const float **v)
{
    const hga_stage *stage = &p->program->stage[s];
    const hga_id *rank = p->call->strips[s].rank;
    float *dk, *dv;
    if (p->chunks && p->chunks->stage == s)
        near_column(p, rank ? rank[u] : u, k, v, &dk, &dv);
    else
        *k = value_row(p, stage->key, u), *v = value_row(p, stage->value, u);
}

/* fast_tensors.c: the caller's rows of a field into its values; its adjoint to where it is wanted; the gradients of
   the output into its adjoint. */
void fast_load(fast_pass *p, hga_id f);
void fast_store(const fast_pass *p, hga_id f);
void fast_seed(fast_pass *p);
/* The same of these nodes alone. */
void load_range(fast_pass *p, hga_id f, row_range nodes);
void store_range(const fast_pass *p, hga_id f, row_range nodes);
void seed_range(fast_pass *p, row_range nodes);
/* Where the rows of the field's gradient go from node v's on, as floats; first NULL: not so simple. */
typedef struct direct_rows {
    float *first;
    ptrdiff_t stride;
    kernel_put put;
} direct_rows;
direct_rows find_direct_rows(const fast_pass *p, hga_id f, hga_id v);

/* fast_trees.c: is a row of a sum's adjoint looked at once more: by a stage before it, or as a gradient of what the
   caller gave? */
int is_read_again(const fast_pass *p, const hga_stage *stage, hga_id v);

/* fast_stages.c: a stage's rows that go now go back. */
hga_status stage_back(fast_pass *p, hga_id s);
/* A stage of sums, forward or back. */
hga_status walk_sum(fast_pass *p, hga_id s, int backwards);

/* fast_trees.c: sums of children in place, forwards or backwards. */
int is_of_children(const hga_stage *s);
void fast_children(fast_pass *p, const hga_stage *s, int backwards);
/* Of a program that goes by subtrees: the sums of these nodes alone; and what they give their children, added where it
   is, or, where are_children_of says so, with what is there to the caller's rows `out`. */
void sum_families(const fast_pass *p, hga_id f, row_range nodes);
void give_families(const fast_pass *p, hga_id f, row_range nodes, const direct_rows *out);
int are_children_of(const fast_pass *p, hga_id f, row_range nodes, row_range parents);
/* Are families rows side by side, and all nodes rows of the field? */
int families_lie_together(const hga_program *p, const hga_nodes *nodes, hga_id f);

/* fast_places.c: rows of fields lie in the order that attention takes them in. */
void plan_places(fast_pass *p);

/* fast_attend.c: the adjoint of an attended stage for the head at hand; fast_again.c: its states, forward. */
hga_status panel_create(const hga_plan *plan, struct panel **out);
void panel_destroy(const hga_allocator *a, struct panel *panel);
/* For a call: what was found with scores of other parts is forgotten. */
void panel_open(const gradient_call *c, struct panel *panel);
int64_t panel_bytes(const hga_plan *plan);
hga_status fast_attend(fast_pass *p, hga_id s);
/* The rows [begin, end) alone; and, when all are done, what is left to be summed up. */
hga_status attend_range(fast_pass *p, hga_id s, hga_id begin, hga_id end);
void attend_ends(fast_pass *p);

/* fast_whole.c: the same of a panel's rows, from position `first` on and before `end`, that a threshold of all their
   scores weighs; its memory. */
hga_status attend_whole(fast_pass *p, hga_id s, hga_id first, hga_id end);
void whole_row_lay_out(int64_t edges, whole_row *x, carver *room);

/* fast_energies.c: programs that go on with states. */
/* Is the field a state whose energies are taken? */
int has_energies(const hga_program *p, hga_id field);
/* States, energies and what is left of each node, forward; the adjoints of the latter two; and what they ask of a
   state as attention wants it. */
hga_status fast_attend_forward(fast_pass *p, hga_id s);
hga_status fast_energy(fast_pass *p, hga_id s, int backwards);
hga_status fast_descend(fast_pass *p, hga_id s, int backwards);
void ask_of_states(const fast_pass *p, hga_id field);

/* fast_states.c: the adjoint of states merged down the tree or along a relation: a row's adjoint is merged into those
   of its sources, as a state is. */
hga_status fast_spread(fast_pass *p, hga_id s);
/* What the slopes of row i of the output are relative to, which is given so much: of sigmoids to nothing; of whole rows
   fast_whole.c finds it. */
static inline float asked_delta(const fast_pass *p, int64_t i, hga_id columns, const float *given, const float *result)
{
    const hga_tensor *d_lse = &p->call->grad->d_lse;
    double less = 0;
    if (weights_are_sigmoids(p->plan) || rows_are_whole(p->plan)) return 0;
    if (d_lse->data) less = (double)*(const float *)tensor_at(d_lse, p->plan->shape.n_heads, 1, i, p->head);
    return (float)(p->plan->kernels->dot(columns, given, result) - less);
}
/* What the children of these nodes ask of them, which nobody else has asked of yet but the output's gradient. */
void merge_families(const fast_pass *p, hga_id f, row_range nodes);

/* fast_subtrees.c: fast_gradient and fast_end subtree by subtree. */
hga_status subtrees_gradient(fast_pass *p);
void subtrees_end(fast_pass *p);

/* kept.c: the panels of all threads that a plan may have, which stay in a workspace: n of them are made where they are
   not; for a call. */
hga_status keep_panels(const hga_plan *plan, hga_workspace *workspace, hga_id n);
struct panel **kept_panels_of(hga_workspace *workspace);

/* fast_way.c: what is made once: where stages are cut, by key/value heads and, where turns may be of query heads, by
   these; when columns go; rows of stages that go row by row. */
typedef struct made_fast {
    subtrees trees;    /* n = 0: stage by stage */
    strips *strips[2]; /* [stages] */
    last_uses last_uses;
    row_list *lists;           /* NULL: rows are read for every head */
    int64_t widest, of_biased; /* most edges of a row that is read; where calls bring biases of edges */
} made_fast;

/* The most edges of a row that such calls read: where biases of edges count them, of any. */
static inline int64_t widest_row(const made_fast *made, const call_needs *needs)
{
    return needs->features & BRINGS_EDGE_BIASES ? made->of_biased : made->widest;
}

/* The strips of each stage, as they are cut for the call's turns. */
static inline const strips *strips_for(const made_fast *made, const hga_plan *plan, const call_needs *needs)
{
    return made->strips[needs->turns > plan->shape.n_kv_heads];
}

/* lanes.c: a lane's memory, measured or handed out and begun; and strips of a stage, one after the other or side by
   side. */
void lane_lay_out(const hga_plan *plan, const made_fast *made, const call_needs *needs, lane *l, carver *room);
void lane_begin(const gradient_call *c, struct panel *kept, lane *l);
typedef hga_status (*strip_rows)(fast_pass *p, hga_id stage, hga_id first, hga_id end);
hga_status each_strip(fast_pass *p, hga_id stage, strip_rows rows);
/* fast_find.c: what a lane finds out on all strips of a call, or on every n_lanes-th of them from strip `first` on. */
hga_status fast_find(fast_pass *p, lane *l, hga_id first, hga_id n_lanes);

/* fast.c: a pass's memory, measured or handed out; begun; and the gradients of one turn, but for what keys and values
   are given; and that, behind the turns before it where several give to the same. */
void fast_lay_out(const hga_plan *plan, const made_fast *made, const call_needs *needs, fast_pass *p, carver *room);
int fast_has_padding(const fast_pass *p);
void fast_clear(const fast_pass *p, hga_id part, hga_id parts); /* that part of the pass's memory, which is padded */
void fast_begin(const gradient_call *c, lane *first, hga_id n_lanes, fast_pass *p);
hga_status fast_gradient(fast_pass *p, hga_id turn);
hga_status fast_end(fast_pass *p);
/* Does attention alone look at all fields? Then no head leaves anything behind but sums. */
int goes_by_panels(const hga_plan *plan);

#endif
