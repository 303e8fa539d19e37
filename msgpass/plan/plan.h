/* plan.h: how a plan is stored. What executes reads it and changes nothing.

   plan.c     graph + program -> plan              storage.c   where the values of each field live
   phases.c   stages -> phases (levels.c: level by level), panels.c: cut into panels (long_rows.c: rows into pieces)
   workspace.c what everybody may ask of a workspace
   parts.c    which thread gets which part
   sample_queue.c     the samples of a batch, among threads
   owners.c   which rows of the caller's tensors are whose
   binding.c  where threads go, and binding them for the length of a call
   schedule.c which panel runs when (accesses.c, dependences.c, live_ranges.c: schedule.h)
   allocate.c rows of the workspace that serve one node after another
   strays.c   blocks whose columns are not all rows
   overlap.c  which of the caller's arrays share memory (overlap.h)
   ranges.c   which rows of the output a call asks for
   brought.c  lists of the graph for calls that bring slopes or biases of edges
   slices.c   which rows of all stages those need (slices.h, slice_plan.c)
   retain.c   memory that updates use again */
#ifndef HGA_PLAN_ROOM_H
#define HGA_PLAN_ROOM_H

#include "hga_plan.h"
#include "kernels.h"
#include "program.h"
#include "row_pieces.h"
#include "machine.h"
#include "sums.h"
#include "retain.h"

#include <pthread.h>

/* Rows that are looked up together, in groups of a tile's height; a phase with few rows has smaller panels. */
enum { PANEL_GROUPS = 16, PANEL_ROWS = PANEL_GROUPS * KERNEL_TILE };

/* ---- where a field lives ---- */

/* Rows of the workspace for nodes [first, first + n). */
typedef struct area {
    hga_id first, n;
    int64_t floats; /* of a row */
    hga_id apart;   /* the field that has a pool of such rows for itself; 0: nodes of any field take them */
    int64_t at;     /* floats from the start of the workspace */
    /* [n]: the row of node first + i among those that nodes take and give back; NULL: row i, for itself alone */
    hga_id *slot;
} area;

/* Of a rank: rows of a field of the program's own that live in rows of the caller's until these are written. */
typedef struct alias_rows {
    hga_id host; /* the field in whose tensor; 0: none */
    hga_id first, n;
    hga_id *row; /* [n]: of node first + i: which row of the rank's tensor; -1: it lives in the workspace */
} alias_rows;

typedef struct field_storage {
    hga_id columns, heads;
    hga_id io_first, io_n; /* nodes whose rows are the caller's; 0 rows when internal */
    hga_id given_n;        /* so many rows does a call bring: all of them, or the rank's */
    area rows;             /* of the others, [heads][columns] */
    area lse;              /* states: of all of them, [heads] */
    /* operands that flat stages read rounded to bfloat16: of all nodes, in 16 bits in a plan of bf16 rows, else in
       floats. They are made anew where the field was written since */
    area rounded;
    /* keep_fields: a copy of the caller's rows, [kept_n][heads][columns], made after each execution */
    int64_t kept_at;
    hga_id kept_n;
    /* the field in whose rows this one's values live, since nobody needs them once those are written; 0: its own */
    hga_id host;
    alias_rows aliases;
} field_storage;

/* Rows of one length that nodes take and give back. */
typedef struct row_pool {
    int64_t floats, rows, at;
    hga_id apart;  /* see area */
    int64_t nodes; /* that they serve */
} row_pool;
static inline int pool_is_of(const row_pool *p, const area *x)
{
    return p->floats == x->floats && p->apart == x->apart;
}

/* ---- phases: rows that may run side by side ---- */

typedef struct long_row { /* a row whose pieces, `cut` edges each, are shared out and merged */
    hga_id position;
    hga_id first_piece, n_pieces;
    hga_pos cut, n_edges;
    lone_columns alone;
} long_row;

typedef enum phase_job { JOB_ROWS, JOB_PIECES, JOB_MERGE, JOB_ROUND, JOB_LSE } phase_job;

/* Stages down the tree: a row and its parent; only as far as parents are below the cut, so that a subtree is done with
   as soon as it has been attended to; and a row below the cut and its nearest ancestor that is not. */
typedef enum tree_part { TREE_WHOLE, TREE_BELOW, TREE_ACROSS } tree_part;

typedef struct phase {
    phase_job job;
    hga_id stage;    /* JOB_ROUND, JOB_LSE: the field */
    hga_id together; /* JOB_ROWS: so many stages, from that one on, go through the same rows; 0 and 1: it alone */
    hga_id first, n; /* rows: positions of the relation's order, or nodes */
    int by_position;
    tree_part part_of_tree;
    hga_id panel; /* rows in a panel */
    hga_id n_panels;
    hga_id head_parts; /* ranges of key/value heads that a panel is computed in, 0 and 1: all at once */
    int64_t *cost;     /* [n_panels]: edges, roughly, and a little for each row; NULL: rows alone */
    /* [n_panels][head_parts]: whose item it is; NULL: whose tokens its rows stand for */
    hga_id *part;
    int64_t jobs_at, items_at; /* for slices: jobs and items of the phases before */
} phase;

static inline hga_id head_parts(const phase *ph) { return ph->head_parts > 1 ? ph->head_parts : 1; }
static inline hga_id stages_end(const phase *ph) { return ph->stage + (ph->together > 1 ? ph->together : 1); }
/* Does the phase compute rows of the stage? */
static inline int runs_stage(const phase *ph, hga_id stage)
{
    return ph->job == JOB_ROWS && stage >= ph->stage && stage < stages_end(ph);
}
static inline int64_t count_items(const phase *ph) { return (int64_t)ph->n_panels * head_parts(ph); }

/* ---- waves: the order in which panels run ---- */

/* Where there are fewer panels than threads an item is a panel and a range of key/value heads. */
typedef struct wave_item {
    hga_id phase, panel, head_part;
} wave_item;

/* The threads wait for each other between waves; in wave w thread t runs item[ptr[w * threads + t]] .. item[ptr[w *
   threads + t + 1] - 1], along its tokens, which costs cost[w * threads + t]. */
typedef struct wave_order {
    wave_item *item;
    int64_t *ptr, n_items, *cost;
    hga_id n;  /* waves */
    int alone; /* so little work that one thread does it all */
    /* [threads + 1]: thread t goes along tokens token[t] .. token[t + 1] - 1, where rows follow the tokens; as the rows
       of the output are cut into panels */
    hga_id *token;
} wave_order;

/* What may serve one node after another: the rows of field f, and its rounded rows. */
enum { STORAGE_ROUNDED = HGA_FIELD_SLOTS, N_STORAGES = 2 * HGA_FIELD_SLOTS };

/* From when to when rows of a storage are needed: taken before item `begin` runs and given back after item `end`,
   never for -1; from and to thread `thread`'s free rows, which no other takes. */
typedef struct live_range {
    hga_id storage, first, n; /* nodes */
    hga_id thread;
    int64_t begin, end;
} live_range;

/* Runs of KERNEL_CHUNK columns at most, counted from the beginning of each part of the graph: window begin[i] is the
   first of part i, which begins with node first[i]. */
typedef struct column_windows {
    hga_id n, n_parts;
    const hga_id *first; /* [n_parts], the graph's where `told` */
    int told;            /* rows go by them, whatever it takes: see hga_builder_set_parts */
    hga_id *begin;       /* [n_parts + 1] */
    int64_t room;
} column_windows;

/* What the plan knows of a stage. */
typedef struct stage_plan {
    stage_kind kind;
    hga_relation relation; /* zeroed along the tree */
    double edges;
    hga_pos panels;
    hga_id cut_level, cut; /* stages down the tree: the level of the cut and its first node; 0: none */
    int crosses_all;       /* what comes across the cut goes to all nodes below it, not to the output's rows alone */
    long_row *long_row;    /* ascending position */
    hga_id n_long, n_pieces;
    int64_t long_room;
    int by_columns;      /* panels go by their columns, see by_columns.c */
    int pieces_share;    /* most pieces have the columns of some others */
    int waits_for_heads; /* most nodes are columns of a panel that runs head by head, and all panels share them */
    int strict;          /* what a row is computed with depends on no row beside it */
    int from_instances;  /* columns of a strict stage have places from their instance's first on, not their level's */
    int strays;          /* blocks have columns of nodes without rows: no tiles */
    program_shown shown; /* where an aggregate sees which fields */
    hga_pos *row_ptr;    /* [n + 1]: canonical position of a row's first edge, of a user's function; NULL */
    int64_t piece_at;    /* floats from the start of the workspace: [n_pieces][piece_floats] */
} stage_plan;

static inline hga_id level_of_node(const hga_nodes *nodes, hga_id v)
{
    hga_id l = nodes->n_levels - 1;
    while (l > 0 && nodes->level_ptr[l] > v) l--;
    return l;
}

/* The node at a position of the stage's relation. */
static inline hga_id node_at(const stage_plan *s, hga_id position)
{
    return s->relation.dst_order ? s->relation.dst_order[position] : position;
}

/* The long row at a position; NULL. */
static inline const long_row *long_row_at(const stage_plan *s, hga_id position)
{
    hga_id lo = 0, hi = s->n_long;
    if (hi == 0 || position < s->long_row[0].position || position > s->long_row[hi - 1].position) return NULL;
    while (lo < hi) {
        hga_id mid = lo + (hi - lo) / 2;
        if (s->long_row[mid].position < position)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < s->n_long && s->long_row[lo].position == position ? &s->long_row[lo] : NULL;
}

static inline const long_row *long_row_of(const stage_plan *s, hga_id piece)
{
    hga_id lo = 0, hi = s->n_long;
    while (hi - lo > 1) {
        hga_id mid = lo + (hi - lo) / 2;
        if (s->long_row[mid].first_piece <= piece)
            lo = mid;
        else
            hi = mid;
    }
    return &s->long_row[lo];
}

/* Whose value node v takes in a stage down the tree; -1: nobody's. */
static inline hga_id node_above(const hga_nodes *nodes, tree_part part, hga_id cut, hga_id v)
{
    hga_id u = nodes->parent ? nodes->parent[v] : -1;
    if (part == TREE_BELOW) return u < cut ? u : -1;
    while (part == TREE_ACROSS && u >= 0 && u < cut) u = nodes->parent[u];
    return u;
}

/* What somebody makes of a plan once and leaves with it, in its bytes: with memory of the plan's allocator, which
   whoever has the lock may use. An update drops it. */
typedef struct plan_kept {
    void *what; /* NULL: nothing */
    void (*drop)(const hga_plan *plan, void *what);
} plan_kept;
/* What calls that bring slopes or biases of edges need of the graph (brought.c); NULL: none has come. */
typedef struct call_lists {
    double *position;    /* [nodes] */
    hga_pos *first_edge; /* [nodes + 1]: canonical positions of rows' first edges in the stage that biases belong to */
    hga_pos degree;      /* edges of its widest row */
} call_lists;
typedef struct plan_keeper {
    pthread_mutex_t lock;
    call_lists lists;
    plan_kept back;    /* what gradients need to go back */
    plan_kept layouts; /* which tiles panels have, see execute/layouts.h */
} plan_keeper;

/* What keeps threads where the plan has them. */
typedef enum plan_binding { BIND_NOTHING, BIND_CALLS, BIND_BY_OPENMP } plan_binding;
typedef struct binding_failures binding_failures;

/* ---- processes that share a plan: ranks/ stands above this room, and is called by what it leaves here ---- */

typedef struct plan_wing {
    /* Of a plan that is made: what is asked for is checked; a copy that is lowered anew gets its own. */
    hga_status (*begin)(hga_plan *plan);
    hga_status (*renew)(hga_plan *plan);
    /* Once phases are known: whose rows are whose, and messages; once there are slices: what is computed when, and rows
       of the workspace for it. All processes call these together. */
    hga_status (*list)(hga_plan *plan);
    hga_status (*divide)(hga_plan *plan);
    void (*clear)(hga_plan *plan);
    /* A status that is not HGA_OK reaches all processes. */
    void (*tell)(const hga_plan *plan, hga_status st);
    const struct shared_execution *execution; /* execute.h */
    const struct shared_gradient *gradient;   /* gradient.h */
} plan_wing;

typedef struct plan_share {
    const plan_wing *wing;    /* NULL: one process has the plan, and all rows */
    struct rank_plan *ranks;  /* the wing's */
    const hga_interval *rows; /* [n_rows]: nodes whose rows are computed here, and brought by the caller */
    int64_t n_rows;
    const hga_id *number; /* [nodes]: of such a node, counted from the first; NULL: tensors have one interval at most */
    hga_id first_token, end_token; /* tokens that are this process' alone */
} plan_share;

struct hga_plan {
    hga_allocator given; /* the caller's: for the plan itself and for states, which may outlive it */
    retained *memory;    /* for all that updates use again */
    hga_allocator allocator;
    hga_graph *graph;
    hga_program program;
    hga_shape shape;
    hga_options options;
    hga_nodes nodes;
    const kernel_table *kernels;
    topology *machine;
    tuned tuning; /* which changes no bit */
    hga_id threads;
    hga_id cyclic;       /* tokens of the blocks that threads have in turn, 0: each has one run of them */
    hga_id *domain, *pu; /* [threads] */
    plan_binding binding;
    binding_failures *unbound; /* of calls so far */
    int lone_rows; /* rows that are computed alone may have other bits, see kernel_tile.lone: a decoder's choice */
    const struct rows_by_need *by_need; /* a workspace has rows for what is there at once (execute.h); NULL */
    int bf16_rows;                      /* bfloat16, and keys and values go to attending stages in 16 bits */
    field_storage storage[HGA_FIELD_SLOTS];
    hga_id columns[HGA_FIELD_SLOTS];    /* of the storage, for user functions */
    row_pool pool[3 * HGA_FIELD_SLOTS]; /* [n_pools], of different lengths */
    hga_id n_pools;
    stage_plan stage[HGA_MAX_STAGES];
    phase *phase;
    int64_t n_phases, phase_room;
    struct slice_plan *slices; /* options.rows: what slices.h says; NULL */
    plan_share share;          /* options.ranks: processes that share the plan */
    wave_order waves;
    int64_t workspace_floats;
    int64_t segment_room, list_room; /* of a thread's reader */
    int64_t visit_room;              /* of windows of columns that a panel's rows have, where stages go by columns */
    column_windows windows;
    int64_t plain_room; /* edges of the widest row of plain stages, -1: there are none */
    /* of the widest segment of rows that have no other and share it, 0 */
    hga_id wide_columns;
    /* of this plan for all its life: the next one at its address has another */
    uint64_t identity;
    /* changes with every update, so that a state knows when it is stale */
    uint64_t serial;
    hga_id bias_stage;  /* the attend stage that biases of edges belong to, -1 */
    hga_id panel_asked; /* rows of every panel, 0: as the plan thinks best */
    int generic_asked;  /* options.generic as it was given: graphs may make a plan generic, and updates fused again */
    plan_keeper *keeper;
};

/* A plan of one process, wing NULL, or of several. Panels have so many rows, a multiple of KERNEL_TILE and at most
   PANEL_ROWS; 0: as it thinks best. Outputs have the same bits, which tests show. */
hga_status plan_make(const hga_graph *g, const hga_program *p, const hga_shape *shape, const hga_options *options,
                     hga_id panel, const plan_wing *wing, hga_plan **out);

/* brought.c: HGA_EINVAL names a table that has other rows than the graph has types or edges, or numbers that draws have
   no room for. */
hga_status plan_check_call(const hga_plan *plan, const hga_io *io);
/* plan_check_call, and the lists that the call needs are there; HGA_ENOMEM, or what hga_graph_positions says. */
hga_status plan_bring(const hga_plan *plan, const hga_io *io);
/* Canonical positions of rows' first edges, [nodes + 1], in the plan's memory; *degree grows to the widest row's. */
hga_status first_edges_make(const hga_plan *plan, hga_id stage, hga_pos **first, hga_pos *degree);
void brought_clear(const hga_plan *plan);

/* ---- the tape: what an execution leaves for the gradient ---- */

enum { TAPE_MAGIC = 0x31546748 };

/* Which rows of the output were asked for: from the first to the last, in so many intervals, of which a number stands
   for where they lie. */
typedef struct asked_stamp {
    int64_t first, n, intervals;
    uint64_t places;
} asked_stamp;

typedef struct tape_header {
    uint64_t magic, identity, serial; /* the plan's: an update makes it one of another graph */
    asked_stamp asked;                /* the log-sum-exps of the other rows are -inf */
    uint64_t unused;
} tape_header;
_Static_assert(sizeof(tape_header) == 64, "rows begin at a whole line");

/* Dropout's draws of a call. */
static inline kernel_draw draw_of_call(const hga_plan *plan, const hga_io *io)
{
    return (kernel_draw){io->seed, io->layer, plan->options.dropout, io->first_head};
}

static inline int plan_is_shared(const hga_plan *plan) { return plan->share.wing != NULL; }
/* Is the token this process' own? */
static inline int owns_token(const hga_plan *plan, hga_id token)
{
    return !plan_is_shared(plan) || (plan->share.first_token <= token && token < plan->share.end_token);
}
/* All processes learn of a status that is not HGA_OK; it is returned. */
static inline hga_status plan_failed(const hga_plan *plan, hga_status st)
{
    if (st && plan && plan_is_shared(plan)) plan->share.wing->tell(plan, st);
    return st;
}

/* Do rows of the program's own fields outlive an execution? */
static inline int rows_stay(const hga_plan *plan) { return plan->options.rows == HGA_ROWS_THAT_STAY; }

/* The log-sum-exps of the output's rows, [rows][n_heads], behind the header: those that the caller's tensor has. */
static inline float *tape_lse(void *tape) { return (float *)(void *)((char *)tape + sizeof(tape_header)); }
static inline int64_t tape_lses(const hga_plan *plan)
{
    hga_id out = program_bound(&plan->program, HGA_IO_OUT);
    int state = out && plan->program.field[out].width == HGA_WIDTH_STATE;
    return state ? (int64_t)plan->storage[out].given_n * plan->shape.n_heads : 0;
}
/* ---- workspaces ---- */

/* Which thread had the workspace first in a batch, -1, to which it goes in the batch at hand, and whether it went. */
typedef struct workspace_turn {
    hga_id first, home;
    int taken;
} workspace_turn;

/* What somebody found out about the plan of that serial and keeps in a workspace, until that goes or is told to
   forget. */
typedef struct workspace_kept {
    uint64_t serial;
    void *what; /* NULL: nothing */
    void (*drop)(void *what);
} workspace_kept;

/* What a workspace begins with, and what those may know of it who do not execute. */
typedef struct workspace_base {
    uint64_t identity, serial; /* the plan's */
    hga_allocator allocator;
    int listed; /* in the batch at hand */
    workspace_turn turn;
    workspace_kept kept;
    char *spare; /* see workspace_spare */
    int64_t spare_bytes;
} workspace_base;

/* workspace.c: */
/* Memory of a workspace for whoever needs more than an execution, grown when it must, kept until the workspace goes
   and begun at a whole line; its bytes are as the last user left them. */
hga_status workspace_spare(hga_workspace *workspace, int64_t bytes, void **out);
/* Was the workspace made for the plan? */
int workspace_is_of(const hga_workspace *workspace, const hga_plan *plan);
/* Is the workspace one of the batch at hand? Says what it was before. */
int workspace_enlist(hga_workspace *workspace, int listed);

workspace_turn *workspace_turn_of(hga_workspace *workspace);

/* sample_queue.c: n samples for a team, of which any thread takes the next until there is none, -1; zeroed at first. */
typedef struct sample_queue {
    const hga_plan *plan;
    hga_workspace *const *workspaces;
    hga_id n;
} sample_queue;
typedef struct queue_place {
    int round;
    hga_id sample;
} queue_place;
sample_queue sample_queue_open(const hga_plan *plan, hga_workspace *const *workspaces, hga_id n, hga_id team);
hga_id sample_queue_next(const sample_queue *d, hga_id me, queue_place *at);

/* owners.c: of n rows side by side, which stand for all tokens, those of thread t. */
/* The field that the caller's tensor is of; HGA_EINVAL: the program has none. */
hga_status owned_field(const hga_plan *plan, hga_binding of, hga_id *field);
/* Once panels are shared out, token counts are moved to where panels meet. */
void owners_meet_panels(hga_plan *plan);
void owned_rows(const hga_plan *plan, hga_id thread, int64_t n, int64_t *first, int64_t *end);
/* Of a tensor's rows that are nodes [io_first, io_first + io_n) those of a level that are the thread's; are there any?
   Every row is one thread's. */
int owned_of_level(const hga_plan *plan, hga_id thread, hga_id level, hga_id io_first, hga_id io_n, hga_id *first,
                   hga_id *end);

/* workspace.c: */
workspace_kept *workspace_keeper(hga_workspace *workspace);
void workspace_forget(hga_workspace *workspace);

/* ---- the other files ---- */

/* Vectors that cross cache lines cost twice: arrays begin at whole lines, for which memory has this many floats more
   than it needs. */
enum { LINE_FLOATS = 16 };
static inline float *first_line(float *memory)
{
    return memory ? memory + (LINE_FLOATS - (uintptr_t)memory / sizeof *memory % LINE_FLOATS) % LINE_FLOATS : NULL;
}

/* A block of memory that is cut into arrays, each from a whole line on; without a block they are measured. */
typedef struct carver {
    void *base; /* NULL: measuring */
    int64_t used;
} carver;
/* The next n elements of `size` bytes; NULL while measuring. */
static inline void *carve(carver *room, int64_t n, size_t size)
{
    const int64_t line = LINE_FLOATS * sizeof(float);
    char *here = room->base ? (char *)room->base + room->used : NULL;
    room->used += (n * (int64_t)size + line - 1) / line * line;
    return here;
}
static inline float *carve_floats(carver *room, int64_t n) { return carve(room, n, sizeof(float)); }
static inline int64_t carved_floats(const carver *room) { return room->used / (int64_t)sizeof(float); }

static inline hga_id padded(hga_id n) { return (n + KERNEL_PAD - 1) / KERNEL_PAD * KERNEL_PAD; }
static inline hga_id kv_head(const hga_shape *s, hga_id head) { return head / (s->n_heads / s->n_kv_heads); }

/* Have rows one threshold, which needs all of their scores? Then they are not cut. */
static inline int rows_are_whole(const hga_plan *plan)
{
    return program_normaliser(&plan->program) == HGA_NORMALISER_ENTMAX;
}
/* Is each weight a sigmoid of its score? States are sums then. */
static inline int weights_are_sigmoids(const hga_plan *plan)
{
    return program_normaliser(&plan->program) == HGA_NORMALISER_SIGMOID;
}
/* Does a function of the stage's own kind compute it, in the plan's instruction set? Else the plain executor does: all
   stages of a generic plan, functions of the caller's own, and softmax with energies in one stage. Whatever depends on
   which of the two it is asks here. */
static inline int stage_is_fused(const hga_plan *plan, hga_id stage)
{
    const stage_kind kind = plan->stage[stage].kind;
    return kind != KIND_USER && (kind != KIND_ATTEND_INSIDE || rows_are_whole(plan)) && !plan->options.generic;
}
static inline int scores_are_sums(const hga_plan *plan) { return plan->program.scores == HGA_SCORES_ADDITIVE; }
/* Additive scores and whole rows go row by row, in float32. */
static inline int attends_by_rows(const hga_plan *plan) { return scores_are_sums(plan) || rows_are_whole(plan); }

/* Is the field an operand of a bfloat16 plan? Flat stages read it rounded; those that go level by level, which coarsen,
   as it is. */
int storage_is_rounded(const hga_plan *plan, hga_id field);
/* Does every flat stage that reads operands attend by a fused function, which alone reads 16 bits? Then
   plan->bf16_rows. */
int storage_can_be_bf16(const hga_plan *plan);
/* Does the stage read operands as they are rounded? */
static inline int reads_rounded(const hga_stage *s) { return s->order == HGA_FLAT || s->message == HGA_SCORE; }
/* The storage in which a stage reads a field; those in which it reads some. It writes to the field itself. */
hga_id read_storage(const hga_plan *plan, const hga_stage *s, hga_id field);
uint64_t read_storages(const hga_plan *plan, const hga_stage *s, uint32_t fields);
/* Are the caller's rows of the field more than caches hold? */
int storage_is_large(const hga_plan *plan, hga_id field);
/* May the alias's rows live in the host's until these are written, as far as what stages do tells? */
int storage_may_host(const hga_plan *plan, hga_id alias, hga_id host);
/* Does an attending stage read keys or values of the field? */
int storage_is_attended(const hga_plan *plan, hga_id field);
/* What has rows where, which field is whose alias; and, once slots are known, their addresses. */
void storage_find(hga_plan *plan);
void storage_count_given(hga_plan *plan);
hga_status storage_lay_out(hga_plan *plan);
/* Floats of a piece of a long row: a state of each head, or the sum of all and of their weights in double. */
int64_t piece_floats(const hga_plan *plan, hga_id stage);
/* strays.c: the stages whose blocks have columns of nodes without rows. */
void strays_find(hga_plan *plan);
hga_status phases_make(hga_plan *plan);
/* Costs and parts serve planning alone. */
void phases_forget_costs(hga_plan *plan);
void phases_clear(hga_plan *plan);
/* Parts of about equal cost; cost NULL: all alike. Things whose places are in one cell always have the same part. */
enum { CELL = 16 };
static inline hga_id cells_of(const hga_plan *plan) { return plan->nodes.level_ptr[1] / CELL + 1; }
void share_by_cost(hga_id n, const int64_t *cost, hga_id parts, hga_id *part);
/* cyclic.c: what plan->cyclic is to be, once storage is known. */
hga_id cyclic_tokens(const hga_plan *plan);
/* Parts of a phase's panels, for rows that have nothing to do with the order of the tokens. */
hga_status part_by_cost(const hga_plan *plan, phase *ph);
/* binding.c: where threads go. */
hga_status binding_choose(hga_plan *plan);
void binding_clear(hga_plan *plan);
/* For topology_unbind: a thread of a call's own region, and no other; the calling thread of a call that has no region,
   when the caller asked for it by name. A thread that cannot be bound is noted, and computes where it is. */
void binding_take(const hga_plan *plan, binding *old);
void binding_take_alone(const hga_plan *plan, binding *old);
/* How often that was, and the first time of all in words (NULL accepted); as hga_error_detail() of the calling
   thread. */
int64_t binding_failed(const hga_plan *plan, char what[200]);
void binding_say(const hga_plan *plan);
/* The order of all panels, once their storage is known; the plan's waves must be clear. */
hga_status waves_make(hga_plan *plan);
/* The longest share of each wave, all in all, as a part of all work: 1 when threads wait for each other all along. */
double waves_longest_shares(const hga_plan *plan);
void waves_clear(hga_plan *plan);
/* storage.c: the field has no aliases any more. */
void aliases_clear(hga_plan *plan, hga_id field);
static inline int is_alias(const alias_rows *x, hga_id v)
{
    return (uint32_t)(v - x->first) < (uint32_t)x->n && x->row[v - x->first] >= 0;
}
/* Does a storage give rows back? */
int slots_recycle(const hga_plan *plan, hga_id storage);
/* Slots for all ranges, in the order of n_items items. */
hga_status slots_assign(hga_plan *plan, const live_range *ranges, int64_t n, int64_t n_items);
void slots_clear(hga_plan *plan);
/* Executions of some rows of the output, or of rows that others are there for: may there be any? What a slice needs of
   the plan (slices.h), and the bytes of its memory. */
hga_status slices_make(hga_plan *plan);
void slices_clear(hga_plan *plan);
/* storage.c: the next of the rows that the caller brings of a field, of those that are computed here, from a zeroed
   struct on: nodes [first, first + n), which are rows row .. row + n - 1; are there any? */
typedef struct rows_here {
    int64_t interval, row;
    hga_id first, n;
} rows_here;
int rows_here_next(const hga_plan *plan, hga_id field, rows_here *at);
int64_t slices_bytes(const hga_plan *plan);
/* Rows of the output that a call asks for: [n] intervals, one for all of them where it names none, for which `room`
   serves; they do not meet each other, and ascend. */
typedef struct asked_rows {
    const hga_interval *interval;
    int64_t n;
    hga_interval room;
    int all;
} asked_rows;
hga_status ranges_asked(const hga_plan *plan, const hga_io *io, asked_rows *out);
asked_stamp ranges_stamp(const asked_rows *rows);
hga_id range_of_rows(const hga_plan *plan, hga_field_rows rows, hga_id *first);

#endif
