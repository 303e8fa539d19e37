/* execute.h: what runs a plan, and who does what. Only execute/ includes this.

   execute.c      threads and barriers             bound.c      this call's addresses
   edges.c        the in-edges of a row, a chunk at a time
   stage_table.c  which function a stage gets      worker.c     a thread's scratch
   attend_rows.c  attention by rows                plain.c      the plain stages, which define what a stage means
   choose_tiles.c which edges go into tiles        run_tiles.c  tiles, head by head
   sums.c         sums and means                   states.c     finished states along the tree
   explain.c      the plan in words */
#ifndef EXECUTE_H
#define EXECUTE_H

#include "plan.h"

/* Columns that narrow segments side by side may span. */
enum { RUN_COLUMNS = 256 };

/* A home with this call's addresses. */
typedef struct view {
    float *io, *ws, *lse;
    uint16_t *halves;
    const hga_id *ws_slot, *lse_slot, *halves_slot; /* the areas' */
    ptrdiff_t io_row, io_head, ws_row, ws_head, halves_row;
    hga_id io_first, io_n, ws_first, lse_first, halves_first, columns, heads;
} view;

static inline int view_is_io(const view *f, hga_id v) { return (uint32_t)(v - f->io_first) < (uint32_t)f->io_n; }
/* Node v's values for head 0. */
static inline float *view_row(const view *f, hga_id v)
{
    if (view_is_io(f, v)) return f->io + (v - f->io_first) * f->io_row;
    hga_id i = v - f->ws_first;
    return f->ws + (f->ws_slot ? f->ws_slot[i] : i) * f->ws_row;
}
static inline float *view_lse(const view *f, hga_id v)
{
    hga_id i = v - f->lse_first;
    return f->lse + (ptrdiff_t)(f->lse_slot ? f->lse_slot[i] : i) * f->heads;
}
/* Node v's key or value in bfloat16, for head 0; heads lie side by side. */
static inline uint16_t *view_halves(const view *f, hga_id v)
{
    hga_id i = v - f->halves_first;
    return f->halves + (f->halves_slot ? f->halves_slot[i] : i) * f->halves_row;
}
static inline ptrdiff_t view_head(const view *f, hga_id v) { return view_is_io(f, v) ? f->io_head : f->ws_head; }

/* ---- reading rows ---- */

/* In-edges of one row, at most KERNEL_CHUNK of them. */
typedef struct edge_chunk {
    hga_id n;
    hga_id src[KERNEL_CHUNK];
    int32_t type[KERNEL_CHUNK];
    float weight[KERNEL_CHUNK];
    hga_id pos_of[KERNEL_CHUNK];
    hga_pos number; /* of the chunk's first edge in the row, in the order read */
} edge_chunk;

typedef struct rank_key { /* what canonical order compares; weights only tell twins apart */
    hga_id src;
    int32_t type;
    float weight;
    hga_pos number; /* in the order read */
    hga_pos place;  /* canonical, of the edge that was read as number i, in rank[i] */
} rank_key;

/* Reads the rows of one stage's relation, a panel at a time. */
typedef struct row_reader {
    const hga_graph *graph;
    hga_id relation;
    hga_relation r;
    hga_nodes nodes;
    hga_segment *segment; /* [segment_room] of the panel, sorted */
    hga_id *list;         /* [list_room] segments of each row of the panel */
    /* [degree_room] the edges of row `ranked` in canonical order, rank[i].place being that of edge i as read; for the
       stages that ask and whose relation has blocks */
    rank_key *rank;
    hga_id ranked;
    hga_pos n_segments, segment_room, list_room, degree_room;
    hga_id first, n; /* positions loaded */
    hga_id list_ptr[PANEL_ROWS + 1];
} row_reader;

typedef struct edge_cursor {
    const row_reader *reader;
    const uint16_t *done; /* NULL, or by segment of the panel: leave it out when it has one of `done_bits` */
    unsigned done_bits;
    hga_id v;
    hga_id position;
    hga_id list_at, list_end;        /* segments to come */
    hga_id column, column_end, hole; /* of the current one */
    hga_pos explicit_at, explicit_end;
    hga_id tree_at, tree_end;
    hga_pos number;
} edge_cursor;

/* Point the reader at a stage's relation. */
void reader_open(row_reader *r, const hga_plan *plan, hga_id stage);
/* Load the segments of positions [first, first + n), n <= PANEL_ROWS. */
void reader_load(row_reader *r, hga_id first, hga_id n);
/* Start on node v, whose position must be loaded (not needed along the tree). */
edge_cursor cursor_start(const row_reader *r, hga_id v);
/* The same without the edges of segments that are done: done[segment] has one of done_bits. */
edge_cursor cursor_start_beyond(const row_reader *r, hga_id v, const uint16_t *done, unsigned done_bits);
/* The next edges, at most `limit` and KERNEL_CHUNK; chunk->n = 0 at the end. */
void cursor_next(edge_cursor *c, hga_pos limit, edge_chunk *chunk);
/* Step over n edges. */
void cursor_skip(edge_cursor *c, hga_pos n);
/* Canonical positions of a chunk's edges within the row (add row_ptr[v]). */
void reader_ranks(row_reader *r, hga_id v, const edge_chunk *chunk, hga_pos *rank);

/* ---- one thread at work ---- */

typedef struct tile_block tile_block; /* tiles.h */

typedef struct worker {
    const hga_plan *plan;
    hga_workspace *state;
    const hga_io *io;
    row_reader reader;
    hga_id reading; /* the stage the reader is open on, -1 */
    int begun;      /* its thread has cleared the arrays below */
    edge_chunk chunk;
    float *memory;         /* [floats]: all of the arrays below, from its first whole cache line on */
    float *query;          /* [heads][dim padded]: the row's queries, scaled */
    uint16_t *query16;     /* [heads][dim]: the same in bfloat16, not scaled; plans with halves */
    float *acc;            /* [heads][columns padded] */
    float *bias;           /* [KERNEL_CHUNK] + padding */
    float *greatest, *sum; /* [heads] */
    float *scalars[4];     /* [lanes]: of a few rows, [rows][heads] */
    hga_id lanes;
    /* of each of PANEL_GROUPS groups and of as many slots for a key's heads: [heads][dim][tile], [heads][tile][dim_v
       padded], [heads][tile] twice */
    float *group_query, *group_acc, *group_greatest, *group_sum;
    float *pair_base, *pair_bias; /* [PANEL_GROUPS][KERNEL_CHUNK][tile], [2][KERNEL_CHUNK][tile] */
    /* a chunk's, side by side: [KERNEL_CHUNK][dim padded], [KERNEL_CHUNK][dim_v padded] */
    float *tile_key, *tile_value;
    tile_block *block;
    int types_vary; /* some column of the chunk has types that differ from row to row */
    int32_t *types; /* [type_room]: the four arrays below */
    /* [PANEL_GROUPS][KERNEL_CHUNK][tile]: of each pair, -1 without an edge; and the different ones among them, .. */
    int32_t *pair_type, *part_type;
    hga_id n_part_types[PANEL_GROUPS]; /* .. so many, whose places in part_type then stand in pair_type */
    int32_t *run_type, *type_place;    /* [RUN_COLUMNS][tile]; [n_types]: -1, or the place in part_type */
    int64_t type_room;
    float *type_score; /* [KERNEL_CHUNK * tile][tile]: of each of part_type, one head */
    /* [segment_room] each: bit g when group g of the panel has the segment in tiles; when it has rows of it, and few
       columns */
    uint16_t *tiled, *narrow;
    hga_id *own; /* [segment_room + 1], the first n_own: the segments of the group at hand, ascending */
    hga_pos n_own;
    /* generic executor: a row's aggregate and a piece's, plain_bytes each; attend: the state of the pieces so far;
       sums: what was poured; energies: a family's sums */
    double *plain;
    int64_t plain_bytes, floats;
    hga_pos rank[KERNEL_CHUNK];
    float edge_base[KERNEL_CHUNK];
    const float *k[KERNEL_CHUNK], *v[KERNEL_CHUNK], *r[KERNEL_CHUNK], *k_head[KERNEL_CHUNK], *v_head[KERNEL_CHUNK];
    const uint16_t *k16[KERNEL_CHUNK], *v16[KERNEL_CHUNK], *k16_head[KERNEL_CHUNK], *v16_head[KERNEL_CHUNK];
} worker;

struct hga_workspace {
    uint64_t identity, serial; /* the plan's */
    hga_allocator allocator;
    float *memory, *workspace; /* the workspace begins at the memory's first whole cache line */
    int64_t workspace_floats;
    worker *workers;
    hga_id n_workers;
    view view[HGA_FIELD_SLOTS];
    float scale;
};

/* One row of a stage: node v at its position, from edge `from` on, at most `count` edges; piece >= 0: leave the state
   in that piece's place. */
typedef struct row_job {
    hga_id stage, v, position;
    hga_pos from, count;
    hga_id piece;
} row_job;
typedef void (*row_function)(worker *w, const row_job *job);
/* Rows [first, first + n) of the loaded panel; node[i] < 0: leave row first + i alone. */
typedef void (*panel_function)(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);

typedef struct stage_kernel {
    const char *name;
    row_function row;     /* NULL: only along the tree, by panels */
    panel_function panel; /* NULL: row by row */
} stage_kernel;
/* By stage_kind. */
extern const stage_kernel fused_stages[N_KINDS], generic_stages[N_KINDS];
/* Which of the two a plan runs. */
const stage_kernel *plan_kernel(const hga_plan *plan, hga_id stage);

/* tiles.c */
void attend_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);
/* stages.c: an attended row begins empty or with what is there, reads its edges (but those of the segments that are
   done), and is stored. */
void attend_start(worker *w, const row_job *job);
void attend_rest(worker *w, const row_job *job, const uint16_t *done, unsigned done_bits);
/* The part of a chunk's scores that all heads share, into edge_base: log mass, log weight, and for row v >= 0
   positions. */
void score_bases(worker *w, hga_id stage, hga_id v);
/* stages.c: merge a wide row's pieces into its state; copy a caller's row to the workspace; round a row there, or into
   halves. */
void merge_pieces(worker *w, hga_id stage, const wide_row *wide);
void copy_input(worker *w, hga_id field, hga_id v);
void round_row(worker *w, hga_id field, hga_id v);

/* bound.c: this call's addresses, after what the caller brings has been checked. */
hga_status views_bind(const hga_plan *plan, const hga_io *io, hga_workspace *state);
/* One thread's scratch: its bytes, and handing them out. */
hga_status workers_create(const hga_plan *plan, hga_workspace *state);
void workers_destroy(hga_workspace *state);
/* After an update: are they large enough for what the plan needs now? */
int workers_fit(const hga_plan *plan, const hga_workspace *state);
/* To be called by the worker's own thread before its first row. */
void worker_begin(worker *w);
int64_t workers_bytes(const hga_plan *plan);

#endif
