/* execute.h: what runs a plan, and who does what. Only execute/ includes this.

   execute.c      the call                         bound.c        this call's addresses
   execution.c    an execution: threads, barriers  workspace.c    a workspace's life (workspace_rows.c: rows in it)
   items.c        the walk over a plan's items     panel_rows.c   which rows of a panel run
   batch.c        many executions in one parallel region
   arrays.c       which of the caller's arrays meet
   stage_table.c  which function a stage gets      worker.c       a thread's scratch
   edges.c        the in-edges of a row, a chunk at a time (edges.h); ranks.c their canonical positions
   ways.c         the ways to attend, as a table   unknowns.c     what some of them do not know
   attend_panel.c attention of a panel's rows: choose_tiles.c chooses (tiles.h), run_tiles.c computes, and
   run_family.c   families of a few rows           coming.c       what they ask of memory meanwhile
   run_equal.c    whole panels of equal families   run_rows.c     panels and pieces by their stage's own function
   dropout.c      which weights all of them drop
   layouts.h      tiles that are chosen once for a plan
   attend_rows.c  does what is left, row by row; scores.c is what both add to scores
   splits.c       long rows, cut and merged        inputs.c       operands rounded, into rows of their own
   sums.c         sums and means                   states.c       finished states down the tree
   energies.c     energies up the tree             children.c     families of nodes side by side
   addresses.c    where rows of many nodes are
   plain.c        stages in double, as meaning/ defines them */
#ifndef EXECUTE_H
#define EXECUTE_H

#include "bindings.h"
#include "call.h"
#include "edges.h"
#include "meeting.h"
#include "overlap.h"
#include "slices.h"
#include "stage_meanings.h"
#include "columns.h"
#include "tiles.h"
#include "wants.h"

/* Of plans with by_need: somebody else's memory, in which a node's row is. */
typedef struct lent_row {
    float *row;
    hga_id owner, next; /* -1, and the next that is free, as row_places.lent_back has it */
} lent_row;

/* A field's storage with this call's addresses. */
typedef struct bound_field {
    float *io, *ws, *lse;
    uint16_t *bf16;
    const hga_id *ws_slot, *lse_slot, *bf16_slot; /* the areas' */
    /* [io_n]: the row of node io_first + i in the caller's tensor, which begins with row io_base; -1: it has none.
       NULL: row i */
    const hga_id *io_slot;
    const lent_row *lent;                                          /* ~x, where ws_slot is some x below 0 */
    ptrdiff_t io_row, io_head, io_step, ws_row, ws_head, bf16_row; /* io_step: see row_layout.step */
    hga_id io_fold, io_first, io_n, io_base, ws_first, lse_first, bf16_first, columns, heads;
    int streams; /* the caller's rows are more than caches hold, and whoever writes them does not soon read them */
} bound_field;

static inline int bound_is_io(const bound_field *f, hga_id v)
{
    return (uint32_t)(v - f->io_first) < (uint32_t)f->io_n && (!f->io_slot || f->io_slot[v - f->io_first] >= 0);
}
/* The number in the caller's tensor of node v's row, which is in there. */
static inline hga_id bound_io_number(const bound_field *f, hga_id v)
{
    return f->io_slot ? f->io_slot[v - f->io_first] - f->io_base : v - f->io_first;
}
/* Where row i of the caller's tensor begins. */
static inline float *bound_io_row(const bound_field *f, hga_id i)
{
    return f->io + i * f->io_row + (f->io_fold ? i / f->io_fold * f->io_step : 0);
}
/* Node v's values for head 0: in the workspace, and wherever they are. */
static inline float *bound_ws_row(const bound_field *f, hga_id v)
{
    hga_id i = v - f->ws_first, row = f->ws_slot ? f->ws_slot[i] : i;
    return row < 0 ? f->lent[~row].row : f->ws + row * f->ws_row;
}
static inline float *bound_row(const bound_field *f, hga_id v)
{
    return bound_is_io(f, v) ? bound_io_row(f, bound_io_number(f, v)) : bound_ws_row(f, v);
}
static inline float *bound_lse(const bound_field *f, hga_id v)
{
    hga_id i = v - f->lse_first;
    return f->lse + (ptrdiff_t)(f->lse_slot ? f->lse_slot[i] : i) * f->heads;
}
/* Node v's key or value in bfloat16, for head 0; heads lie side by side. */
static inline uint16_t *bound_bf16(const bound_field *f, hga_id v)
{
    hga_id i = v - f->bf16_first;
    return f->bf16 + (f->bf16_slot ? f->bf16_slot[i] : i) * f->bf16_row;
}
static inline ptrdiff_t bound_head(const bound_field *f, hga_id v)
{
    return bound_is_io(f, v) ? f->io_head : f->ws_head;
}

/* ---- one thread at work ---- */

/* A chunk's keys and values, of all heads, and what every head adds to the scores of its columns. */
typedef struct tile_operands {
    float base[KERNEL_CHUNK], at[KERNEL_CHUNK]; /* at: positions, where slopes are given */
    const float *k[KERNEL_CHUNK], *v[KERNEL_CHUNK];
    int same_k, same_v; /* do heads lie at the same strides? */
    ptrdiff_t k_stride, v_stride;
    const uint16_t *k16[KERNEL_CHUNK], *v16[KERNEL_CHUNK]; /* plans of bf16 rows: in place of k and v */
} tile_operands;

/* Types of the pairs of a part whose columns' types vary: so many, their list, and which pairs have which. */
typedef struct part_types {
    hga_id n;
    const int32_t *list;
    const uint8_t *many;  /* [the part's columns]: how many of `pick` are the column's */
    const uint32_t *pick; /* place in the list | lanes << 16, column after column */
} part_types;

/* Scratch of run_tiles.c. */
typedef struct tile_scratch {
    /* of each of PANEL_GROUPS groups and of as many slots for a key's heads: [heads][dim][tile], [heads][tile][dim_v
       padded], [heads][tile] twice */
    float *query, *acc, *greatest, *sum;
    float *pair_base, *pair_bias;   /* [PANEL_GROUPS][KERNEL_CHUNK][tile], [2][KERNEL_CHUNK][tile] */
    tile_operands *operand;         /* [BATCH_CHUNKS] */
    part_types types[PANEL_GROUPS]; /* of the batch's parts whose types vary, by the chunks' `typed` */
    int32_t *type_list;             /* [PANEL_GROUPS][KERNEL_CHUNK][tile]: room for the parts' lists */
    uint32_t *type_pick;            /* [the same]: room for their picks */
    uint8_t *type_many;             /* [PANEL_GROUPS][KERNEL_CHUNK]: room for how many each column has */
    int32_t *type_place;            /* [n_types]: -1, or the place in the list at hand */
    float *type_score;              /* [KERNEL_CHUNK * tile][tile]: of each type of a list, one head */
    /* dropout: [BATCH_CHUNKS][PANEL_GROUPS][8][KERNEL_CHUNK] of eight heads, see kernel_tile_group */
    uint16_t *kept;
} tile_scratch;

/* Addresses of a chunk's rows, at head 0, where those that edge_chunk.more says follow, and at the head at hand. */
typedef struct row_addresses {
    const float *k[CHUNK_AND_MORE], *v[CHUNK_AND_MORE], *r[KERNEL_CHUNK], *k_head[KERNEL_CHUNK], *v_head[KERNEL_CHUNK];
    const uint16_t *k16[CHUNK_AND_MORE], *v16[CHUNK_AND_MORE], *k16_head[KERNEL_CHUNK], *v16_head[KERNEL_CHUNK];
    ptrdiff_t v_row;         /* 0, or v_head's values lie side by side, that many floats apart */
    const uint32_t *v_pairs; /* has_pairs: in place of v_head, pairs of columns, v_row words apart */
} row_addresses;

/* Columns of some panels: source positions [first, end) of a block instance whose first column is at `origin`. */
typedef struct wide_span {
    hga_id origin, first, end;
    float weight;
    int shared; /* every row has all columns: even one panel is better off */
} wide_span;

/* Rows of equal families, group by group of sixteen: which of a group's rows have which of its columns, which are its
   own. */
typedef struct equal_families {
    hga_id first, n, edges; /* rows; edges of a group */
    float weight;
    lanes rows[KERNEL_TILE];
} equal_families;

/* A rectangle's columns, side by side: of one head [room][dim padded], [room][dim_v padded], which the addresses
   [room] are of; of all heads [room]. Where it has_pairs keys are of 16 bits, and values are pairs of columns. */
typedef struct wide_scratch {
    hga_id room;
    float *key, *value, *base, *at; /* at: positions, where slopes are given */
    const float **key_at, **value_at;
    const uint16_t **key16_at; /* plans of bf16 rows */
} wide_scratch;

/* Scratch of the stages that go row by row. */
typedef struct row_scratch {
    float *query;          /* [heads][dim padded]: the row's queries, scaled, in base 2 */
    float *additive;       /* alike, see kernel_heads: what additive scores are weighed with, scaled, in base 2 */
    uint16_t *query16;     /* [heads][dim]: the same in bfloat16, not scaled; plans of bf16 rows */
    float *acc;            /* [heads][columns padded] */
    float *bias;           /* [KERNEL_CHUNK] + padding */
    float *greatest, *sum; /* [heads]: see kernel_state */
    float *base;           /* [KERNEL_CHUNK] */
    float *kept;           /* dropout: [DROPPED_PAIRS][heads] + padding, see kernel_heads */
    hga_pos rank[KERNEL_CHUNK];
} row_scratch;

/* A row that is held whole, of as many edges as plain rows: [room] each, and a vector behind what kernels write. */
typedef struct whole_row {
    float *score; /* [heads][room] in base 2 */
    float *count; /* as how many tokens edges count */
    int counts;   /* is any of them not 1? */
    hga_id *src;
    int32_t *type;
    hga_id *place; /* in the row, of what has a weight in the head at hand */
    /* of all heads: so many have weights, and these with their values, [heads][room] */
    hga_id *have;
    float *weight;
    const float **value;
    float *slope; /* of the head at hand, see kernel_entmax */
} whole_row;

/* Single pairs whose draws are made together: a chunk's, or a family's. */
enum { DROPPED_PAIRS = KERNEL_FAMILY * KERNEL_TILE };
_Static_assert((int)DROPPED_PAIRS >= (int)KERNEL_CHUNK, "a chunk's draws have room");

/* Of calls that bring keys or features of edges, taken by the first: keys of some edges, those of the edges added; and
   what a chunk's edges weigh. */
typedef struct edge_scratch {
    float *key;    /* [KERNEL_HEAD_EDGES][heads of keys][dim] */
    float *weight; /* [KERNEL_CHUNK][heads] + padding */
    int64_t room;  /* floats of both */
    int at_once;   /* the row at hand sums features as it attends */
} edge_scratch;

typedef struct worker {
    const hga_plan *plan;
    hga_workspace *workspace;
    const hga_io *io;
    row_reader reader;
    hga_id reading;         /* the stage the reader is open on, -1 */
    tree_part part_of_tree; /* the panel's */
    /* the item's: tiles compute key/value heads [kv_first, kv_end) alone, and the heads that read them */
    hga_id kv_first, kv_end, head_first, head_end;
    edge_chunk chunk;
    row_scratch row;
    row_addresses at;
    tile_chooser chooser;
    tile_scratch tile;
    wide_scratch wide;
    /* what ways have found of the items that they fit, for those who take them */
    wide_span span;
    equal_families equal;
    column_rows columns;
    /* a chunk's, of one head, side by side: [KERNEL_CHUNK][dim padded], [KERNEL_CHUNK][dim_v padded] */
    float *packed_key, *packed_value;
    /* [KERNEL_CHUNK] rows of all heads, where the caller's rows may be beside the workspace's (mixes), whose heads
       may be at other strides */
    float *mixed_key, *mixed_value;
    int mixes;
    edge_scratch edges;
    float *scalars[4]; /* [lanes]: of a few rows, [rows][heads] */
    hga_id lanes;
    kernel_ahead coming; /* tokens that a later panel reads, of as many fields as go up the tree together */
    /* of plain stages: the row's edges, and room to compute it */
    edge_rows plain_edges;
    row_room plain_room;
    whole_row whole;
    /* functions of the caller's own: a row's aggregate and a piece's, plain_bytes each; attend: the state of the
       splits so far; sums: what was poured; energies: a family's sums */
    double *plain;
    int64_t plain_bytes;
    int begun;                     /* its thread has cleared its numbers */
    char *memory;                  /* [bytes]: all of the arrays above; numbers come first */
    int64_t bytes, numbers, types; /* types: so many did it make room for */
} worker;

/* The float32 copy of a tensor of 16 bits, and where it came from during a call. */
typedef struct widened {
    float *values;
    int64_t room;
    uint16_t *given; /* of `type`, the caller's; NULL: not in this call */
    hga_dtype type;
    hga_id rows;
    row_layout lies;
} widened;

/* What a call writes and what it reads, of the caller's. */
enum { MOST_ARRAYS = 7 + HGA_MAX_USER_TENSORS + HGA_N_TABLES };
typedef struct call_arrays {
    call_array array[MOST_ARRAYS];
    int n;
} call_arrays;

/* Of plans with by_need: of a field, or of the pieces of a stage, rows for those that need them, in
   arrays of as many numbers a row. Owners are nodes, or pieces. */
typedef enum place_part { PLACE_ROW, PLACE_LSE, PLACE_ROUNDED, PLACE_PARTS } place_part;
enum { N_PLACES = HGA_FIELD_SLOTS + HGA_MAX_STAGES };
typedef struct row_places {
    hga_id *place; /* of each owner; 0: it has none; below 0: its row is lent[~place] */
    int64_t floats[PLACE_PARTS];
    float *part[PLACE_PARTS]; /* [room] rows each */
    hga_id *owner;            /* [room]: whose a place is, -1 */
    hga_id *back, *young;     /* [n_back] places that were given back; [n_young] owners since the last settling */
    hga_id room, end, n_back, n_young; /* places from `end` on were never taken */
    hga_id idle;                       /* settlings since more than a quarter was in use */
    int taken_here; /* places are written first by the thread that takes them, which will read them: see places.c */
    void *memory;
    int64_t bytes;
    lent_row *lent;
    int64_t lent_room;
    hga_id n_lent, lent_end, lent_back; /* lent_back: ~ of the one that was given back last, 0 */
} row_places;

static inline float *place_in(const row_places *x, place_part part, hga_id owner)
{
    return x->part[part] + x->place[owner] * x->floats[part];
}

struct hga_workspace {
    workspace_base base;
    float *memory, *rows; /* the rows begin at the memory's first whole cache line */
    int64_t workspace_floats;
    worker *workers;
    hga_id n_workers;
    meeting meeting;               /* of the threads, between waves */
    bound_field field[N_STORAGES]; /* by storage */
    widened widened[HGA_FIELD_SLOTS];
    float scale, scale_2;       /* of scores; times log2 e, for kernels */
    float cap_2;                /* of contents, times log2 e, for kernels; 0: none */
    float sigmoid_bias_2;       /* what sigmoids add to scores, times log2 e; else 0 */
    const float *sink, *slopes; /* [heads], the call's; NULL: none */
    call_arrays arrays;         /* the call's */
    /* plans with options.rows: the rows of stages that this execution runs, where it is not all of
       them (sliced); its memory */
    slice slice;
    void *slice_memory;
    int64_t slice_bytes;
    int sliced;
    const hga_io *staged; /* what stages are given: the call's, or what stands in its place */
    void *shared;         /* of a plan that several processes share */
    int64_t shared_bytes;
    row_places places[N_PLACES];                   /* of fields, then of stages */
    hga_id taking_turns[N_PLACES], n_taking_turns; /* those that have room */
    void *owners;                                  /* all that tells owners their places */
    int64_t owner_bytes;
    const row_choice *choice; /* see wants.h; NULL: edges are the graph's */
    const wanted_row *wanted; /* [n_wanted]: see wants.h */
    int64_t n_wanted;
    int wanted_alone;              /* those alone, and of the output nothing */
    int wanted_by_token;           /* see slice.one_token */
    asked_rows asked;              /* rows of the output; by intervals of their numbers */
    const struct layouts *layouts; /* the plan's, until it is updated; NULL */
    unsigned brings;               /* the call's features, see call.h */
    struct {
        float *at; /* [pieces of the attending stage][heads][columns] */
        int64_t room;
        hga_id columns; /* 0: the call brings no features of edges */
    } piece_sums;
    uint16_t ways[HGA_MAX_STAGES]; /* of attending stages, the ways that they may go, as bits */
};

/* One row of a stage: node v, from edge `from` on, at most `count` edges; piece >= 0: leave the state in that piece's
   place. */
typedef struct row_job {
    hga_id stage, v;
    hga_pos from, count;
    hga_id piece;
} row_job;
typedef void (*row_function)(worker *w, const row_job *job);
/* Rows [first, first + n) of the loaded panel; node[i] < 0: leave row first + i alone (tiles.h says why). */
typedef void (*panel_function)(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);

/* What the pieces of a stage's long rows hold. */
typedef struct piece_kernel {
    /* a piece becomes what it and another one, which comes after it, hold */
    void (*join)(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id piece, hga_id next);
    /* the row of node v, from the piece that holds all of it */
    void (*finish)(worker *w, hga_id stage, hga_id v, hga_id piece);
    /* to or from a message; returns where it ends there (piece_bytes) */
    char *(*move)(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id piece, char *parcel,
                  int in);
} piece_kernel;

typedef struct stage_kernel {
    const char *name;
    row_function row;           /* NULL: only along the tree, by panels */
    panel_function panel;       /* NULL: row by row */
    const piece_kernel *pieces; /* NULL: no row is cut into pieces */
} stage_kernel;
/* What a plan runs for a stage. */
const stage_kernel *plan_kernel(const hga_plan *plan, hga_id stage);

static inline void worker_take_heads(worker *w, hga_id kv_first, hga_id kv_end)
{
    hga_id share = w->plan->shape.n_heads / w->plan->shape.n_kv_heads;
    w->kv_first = kv_first, w->kv_end = kv_end;
    w->head_first = kv_first * share, w->head_end = kv_end * share;
}

/* run_rows.c: a panel of any stage, by the stage's function of panels or of rows. */
void run_panel(worker *w, const phase *ph, hga_id stage, hga_id panel);

/* attend_panel.c: a panel's groups of sixteen; and the chooser, for the panel that is loaded. */
void find_groups(hga_id stage, hga_id first, hga_id n, const hga_id *node, row_panel *p);
void open_chooser(worker *w, hga_id stage, tile_runner run, family_runner families, void *context);
/* attend_rows.c: an attended row begins empty or with what is there, reads its edges (but those of the segments that
   are done), and is stored. */
void attend_row(worker *w, const row_job *job);
void attend_start(worker *w, const row_job *job);
void attend_rest(worker *w, const row_job *job, const uint16_t *done, unsigned done_bits);

/* dropout.c: does this call drop weights, and what are the others multiplied with? */
int drops_weights(const worker *w);
float weight_of_kept(const worker *w);
/* Draws of a chunk's parts for eight heads, where `head` is the first of them that the worker computes; and where those
   of one head are, see kernel_tile_group. */
void drop_parts(const worker *w, const tile_chunk *c, hga_id head);
uint16_t *kept_bits(const worker *w, const tile_chunk *c, hga_id part, hga_id head);
/* Draws, in row.kept, of the chunk's edges into node v; of families, whose rows' kept[r] are set. */
void drop_chunk(const worker *w, hga_id v);
/* Weights of the edges into v at w->whole's places. */
void drop_support(const worker *w, hga_id v, hga_id head, hga_id n, float *weight);
void drop_families(const worker *w, const row_group *g, const family_chunk *c, const float **kept);

/* run_family.c: compute some; the worker is the context. */
void run_families(void *worker, row_group *g, const family_chunk *c);

/* run_tiles.c: compute a batch; the worker is the context. A group whose states are in its own place: row r's become
   the row's, for the rest of its edges; or all are normalised and stored. */
void run_tiles(void *worker, tile_batch *batch);
/* A batch whose pairs' types are listed. */
void run_listed_tiles(worker *w, tile_batch *batch);
void take_states(worker *w, const row_group *g, hga_id r);
void store_group(worker *w, const row_group *g);

/* What else makes a tile: a group with its queries and states at a place, which is opened there first or was
   before; that it ends with this tile, its rows where the array `row` tells (those that nobody wants: where they are);
   its log-sum-exps; the tile itself, whose keys are of 16 bits as they are when it has_pairs, and whose values are
   pairs of columns: those of a list, `row` words apart, from its column `column` on. */
kernel_tile_group open_group(worker *w, const row_group *g, hga_id head, ptrdiff_t place, int opens);
void end_group(const worker *w, const row_group *g, hga_id head, float **row, kernel_tile_group *to);
void store_lse(worker *w, const row_group *g, hga_id head, const float *lse);
int has_pairs(const worker *w);
void point_at_pairs(const uint32_t *values, ptrdiff_t row, hga_id column, kernel_tile *t);
void run_tile(const worker *w, const kernel_tile *t);
/* A tile's cap and slope, for columns at these positions; and the positions of a group's rows, [KERNEL_TILE]. */
void modify_tile(const worker *w, hga_id head, const float *column_at, kernel_tile *t);
void find_rows_at(const worker *w, const row_group *g, float *at);

/* keep_layouts.c: tiles that are dear to choose are chosen once for a plan, when it gets its first workspace.
   replay.c: the words of a phase's panel, if this call has them, else NULL; computing its batches. */
hga_status layouts_open(const hga_plan *plan, hga_workspace *workspace);
/* Tiles for calls whose scores tell types apart are chosen when there is the first such call. */
hga_status layouts_learn_types(const hga_plan *plan, const hga_workspace *workspace);
const uint32_t *layout_of(const worker *w, wave_item item);
void replay_panel(worker *w, hga_id stage, row_panel *p, const uint32_t *kept);

/* pair_scores.c: what differs from pair to pair of part i of the batch's last chunk. Its positions and its types are
   taken once; the biases of one head, NULL where there are none. */
void pair_positions(worker *w, const tile_chunk *c, hga_id i);
/* List the types of a batch's pairs, of columns whose types vary. */
void pair_list_types(worker *w, const tile_batch *b);
/* Room for the list and the picks of a part, by its number among the batch's. */
static inline int32_t *type_list_at(const worker *w, hga_id typed)
{
    return w->tile.type_list + (ptrdiff_t)typed * KERNEL_CHUNK * KERNEL_TILE;
}
static inline uint32_t *type_picks_at(const worker *w, hga_id typed)
{
    return w->tile.type_pick + (ptrdiff_t)typed * KERNEL_CHUNK * KERNEL_TILE;
}
/* The types of all pairs of part i's columns, lane by lane. */
void pair_types(const worker *w, const tile_chunk *c, hga_id i, int32_t *type);
const float *pair_biases(worker *w, const tile_chunk *c, hga_id i, hga_id head, const float *queries);

/* The state of a row that is carried from tile to tile (run_by_columns.c), of a head of the key at hand: [dim_v
   padded], log-sum-exp. */
static inline float *carried_state(const worker *w, hga_id place, hga_id head)
{
    const hga_shape *s = &w->plan->shape;
    const ptrdiff_t heads = s->n_heads / s->n_kv_heads, room = padded(s->dim_v) + KERNEL_PAD;
    return w->columns.state + (place * heads + head % heads) * room;
}

/* panel_rows.c: rows of a panel, node[i] < 0 where there is nothing to write; and load their segments, which go by
   position. */
typedef struct panel_rows {
    hga_id first, n, node[PANEL_ROWS];
} panel_rows;
void list_panel(const worker *w, wave_item item, panel_rows *out);
/* What this execution runs of a panel, whose stage is opened; 0: nothing. Its segments are loaded, and behind its rows
   come those of the longer graph. Open: both. */
int find_panel(worker *w, const phase *ph, hga_id stage, hga_id panel, panel_rows *out);
void load_ahead(worker *w, panel_rows *p);
int open_panel(worker *w, wave_item item, panel_rows *out);
void load_panel(worker *w, wave_item item);
/* The worker's reader reads the stage's relation. */
void open_stage(worker *w, hga_id stage);
/* Rows [begin, begin + n) of the relation, or of nodes: NO_ROW where the phase has none of the stage's rows,
   left_out(v) where it has, but this execution does not run it. */
void list_nodes(const worker *w, const phase *ph, hga_id stage, hga_id begin, hga_id n, hga_id *node);
/* Behind a panel's n rows those of the longer graph, which are not run. */
hga_id list_ahead(hga_id n, hga_id all, hga_id *node);
/* Of a panel's rows the groups of sixteen from the first row to the last that this execution runs; 0: none. */
int narrow_panel(const worker *w, const phase *ph, hga_id stage, hga_id *begin, hga_id *n);
/* LEVELS_* stages go by node id: with a destination order their rows are loaded one by one. */
int goes_by_position(const worker *w, const phase *ph);
/* items.c: what thread t was given of a wave; of a slice the items [first, end) that it runs. */
void run_share(worker *w, hga_id wave, hga_id t);
void run_some_items(worker *w, int64_t first, int64_t end);

/* scores.c: the part of a chunk's scores that all heads share: log mass, log weight, and for row v >= 0 positions; and
   what one head of the job's row adds, into row.bias. All in base 2, as kernels take scores; what a caller means by the
   least number stays finite. */
float in_base_2(float x);
float slope_in_base_2(const worker *w, hga_id head);
void score_bases(const worker *w, hga_id stage, hga_id v, const edge_chunk *c, float *base);
void score_biases(worker *w, const row_job *job, hga_id head);
/* Rows of field x at the chunk's sources, for head 0. *same tells that one head stride serves all. */
void find_sources(const edge_chunk *c, const bound_field *x, const float **row, int *same, ptrdiff_t *stride);
/* Where they differ: columns first .. first + n - 1 of the worker's chunk, whose rows are
   row[0] .. row[n - 1], are brought side by side, to `to`, and are there then. */
void pack_sources(const worker *w, const bound_field *x, hga_id first, hga_id n, const float **row, float *to);
/* The same for another head, where strides differ from row to row. */
void move_to_head(const edge_chunk *c, const bound_field *x, const float *const *row, hga_id head, const float **out);

/* splits.c: the state of a row's splits so far, in `plain`: put the next one's to it, and get it back. */
void fold_split(worker *w, int first);
void unfold_splits(worker *w);
/* merge_pieces.c: pieces [lo, hi) of a stage's row become one, in the place of piece lo. On ranks each split is merged
   once in an execution, when it is sent or when its row is made, whichever comes first; those of others come merged. */
void pieces_merge(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id lo, hga_id hi);
/* panel_rows.c: a panel's rows. */
void panel_bounds(const phase *ph, hga_id panel, hga_id *first, hga_id *n);
/* coming.c: once item `done` of items up to `end` was run, what the next panel of its kind will read is known. */
void find_coming(worker *w, int64_t done, int64_t end);
/* inputs.c: a row of a field, rounded, to its rounded rows. */
void round_row(worker *w, hga_id field, hga_id v);
/* edge_sums.c: what features of edges come to with the weights of a row, or of a piece of one. Has node v's row such
   sums? Not where it is none of the caller's output. Row v of edge_out; what a piece has, of a head; and the row's,
   from a piece that holds all of it. */
int has_edge_out(const worker *w, hga_id stage, hga_id v);
float *edge_out_row(const worker *w, hga_id v, hga_id head);
float *piece_sum(const hga_plan *plan, const hga_workspace *workspace, hga_id piece, hga_id head);
void edge_sums_finish(const worker *w, hga_id v, hga_id piece);
/* plain.c */
void plain_row(worker *w, const row_job *job);

/* slice_run.c: which rows of the output the call asks for, and of a slice the rows of all stages that these need. */
hga_status slice_bind(const hga_plan *plan, const hga_io *io, hga_workspace *workspace);
/* Memory for slices, where the plan has any. */
hga_status slice_create(const hga_plan *plan, hga_workspace *workspace);
void slice_destroy(hga_workspace *workspace);
/* After an update: is there enough? Then nothing is there any more. */
int slice_fits(const hga_plan *plan, const hga_workspace *workspace);
void slice_renew(const hga_plan *plan, hga_workspace *workspace);
/* So little, or so much one row after the other, that one thread does it. */
int slice_is_for_one(const hga_plan *plan, const hga_workspace *workspace);
/* The rows of a job that the execution runs; NULL: all of them. */
static inline const row_bits *rows_to_run(const hga_workspace *workspace, const phase *ph, hga_id stage)
{
    return workspace->sliced ? slice_rows(&workspace->slice, ph, stage) : NULL;
}

/* What ranks/ does in an execution of a plan that several processes share, with workspace->shared. */
struct shared_execution {
    int64_t (*bytes)(const hga_plan *plan); /* of workspace->shared */
    /* *io, the caller's tensors, which have been checked, becomes what stages are given in their place. */
    hga_status (*stage)(const hga_plan *plan, hga_workspace *workspace, const hga_io **io);
    /* Is what pieces [lo, hi) of a stage's row come to there, from another process or from before? It is, from now. */
    int (*has_merged)(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id lo, hga_id hi);
    /* All behind execution_begin, of the first of so many samples that are left; without any, others are told. */
    hga_status (*run)(const hga_plan *plan, hga_workspace *workspace, const hga_io *io, hga_id samples);
};

/* What decode/ does with workspace->places: the bytes of memory for them, which is made, and goes with the workspace;
   places for all that an execution writes, once its rows are known, and this call's addresses, the caller's rows among
   them; a place for a node's row of a field; and nobody has one any more. */
struct rows_by_need {
    int64_t (*bytes)(const hga_plan *plan);
    hga_status (*create)(const hga_plan *plan, hga_workspace *workspace);
    hga_status (*bind)(const hga_plan *plan, hga_workspace *workspace);
    hga_status (*take)(hga_workspace *workspace, hga_id field, hga_id v, float **row);
    void (*leave_all)(hga_workspace *workspace);
};

/* workspace.c: a workspace serves a plan, also one that was updated since, where all in it is large enough. */
hga_status workspace_fit(const hga_plan *plan, hga_workspace *workspace);
/* execution.c: an execution. Begin: what the caller brings is checked and bound, or the workspace is as if it had never
   run. Then its rows: all on the calling thread, or by each thread of a team of n, which all have to call; and what
   comes after the rows. */
hga_status execution_begin(const hga_plan *plan, hga_workspace *workspace, const hga_io *io);
/* Its rows, by as many threads as there are and pay. */
hga_status execution_run(const hga_plan *plan, hga_workspace *workspace);
void execution_run_alone(const hga_plan *plan, hga_workspace *workspace);
void execution_run_together(const hga_plan *plan, hga_workspace *workspace, hga_id me, hga_id n);
void execution_end(const hga_plan *plan, hga_workspace *workspace, const hga_io *io);
/* The tape of an execution that has ended is a whole one. */
void tape_end(const hga_plan *plan, const hga_workspace *workspace, const hga_io *io);
void execution_forget(hga_workspace *workspace);
/* Is there no team for the calling thread? */
int execution_is_alone(const hga_plan *plan);

/* arrays.c: what the call writes lies apart from what it reads; and what samples write from what the others do, whose
   number `sample` becomes where they do not. workspace->arrays are the call's then. */
hga_status arrays_find(const hga_plan *plan, const hga_io *io, hga_workspace *workspace);
hga_status arrays_of_samples(hga_workspace *const *workspaces, hga_id n, hga_id *sample);

/* bound.c: fields_bind, this call's addresses, after what the caller brings has been checked. */
/* sixteen.c: room for a field's tensor of 16 bits, whose binding tells its rows; does the call have any? A thread's
   part of all of them, first copied and then, as far as they were written and asked for, rounded back; forget whose
   they are; free copies. */
hga_status sixteen_open(hga_workspace *workspace, hga_id field, const hga_tensor *t);
int sixteen_has(const hga_workspace *workspace);
void sixteen_widen(const hga_plan *plan, hga_workspace *workspace, hga_id thread);
void sixteen_narrow(const hga_plan *plan, hga_workspace *workspace, hga_id thread);
void sixteen_forget(hga_workspace *workspace);
void sixteen_clear(hga_workspace *workspace);
hga_status fields_bind(const hga_plan *plan, const hga_io *io, hga_workspace *workspace);
/* The scratch of n threads: its bytes, and handing them out. */
hga_status workers_create(const hga_plan *plan, hga_id n, hga_workspace *workspace);
/* Room for calls that bring tables of edges, to rank rows of blocks among it: taken once. */
hga_status workers_bring(const hga_plan *plan, const hga_io *io, hga_workspace *workspace);
void workers_destroy(hga_workspace *workspace);
/* Somebody looks at what panels have, as if there were a call: with a worker of its own, since the pages of a
   workspace's belong to their threads. */
hga_status worker_look(const hga_plan *plan, hga_status (*look)(worker *w, void *context), void *context);
/* After an update: are they large enough for what the plan needs now? */
int workers_fit(const hga_plan *plan, const hga_workspace *workspace);
/* To be called by the worker's own thread before its first row. */
void worker_begin(worker *w);
int64_t workers_bytes(const hga_plan *plan);

#endif
