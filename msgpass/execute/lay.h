/* lay.h: how columns become chunks, for those who lay them.

   chunks.c          the chunk that is being laid, and its batch
   runs.c            what a group has of narrow segments, as runs of columns
   shared_chunks.c   long runs, in chunks that groups share
   choose_tiles.c    which way each edge of a panel goes */
#ifndef LAY_H
#define LAY_H

#include "row_bands.h"

/* ---- chunks.c ---- */

/* The chunk that is being laid, or a new one that gets so many parts at most. */
tile_chunk *open_chunk(tile_chooser *t, hga_id parts);
/* It is full, or its group has no more columns. */
void close_chunk(tile_chooser *t);
/* What has been laid is done with. */
void hand_over(tile_chooser *t);
/* The chunks to come belong to another group; are like none before. */
void next_group(tile_batch *b);
void forget_twins(tile_batch *b);
/* What columns [e, e + n) of the chunk are, whoever has them: those at source positions [position, position + n). */
void put_columns(const tile_chooser *t, edge_chunk *c, const hga_segment *s, hga_id e, hga_id n, int64_t position,
                 int64_t type, int32_t type_step);
/* Types of column e, lane by lane, of part i of the open chunk. */
static inline int32_t *pair_types(const tile_chooser *t, hga_id i, hga_id e)
{
    return t->batch->pair_type + ((ptrdiff_t)(t->batch->n_typed + i) * KERNEL_CHUNK + e) * KERNEL_TILE;
}

/* ---- runs.c ---- */

/* Numbers first .. last - 1 of the group's segments, as its rows see them: source positions [src, src + n), and which
   rows have each. */
typedef struct run {
    hga_pos first, last;
    hga_id n_row_bands, n;
    int64_t src, edges;
    unsigned any;      /* rows that have some column */
    row_band row_band; /* the first one */
    lane_mask rows[RUN_COLUMNS];
} run;

/* The segments that go into runs and in which the group has rows. */
void list_own(tile_chooser *t, const row_group *g);
static inline const hga_segment *own_segment(const tile_chooser *t, hga_pos i)
{
    return &t->reader->segments.at[t->seen.own[i]];
}
/* The run that begins at number `from` or later; 0 when there is none. */
int next_run(const tile_chooser *t, const row_group *g, hga_pos from, run *r);
/* Is it better off in tiles than row by row? The rows that are there stand for sixteen: a level's last group, of which
   there is one, goes the way that it would go with more rows behind it. */
int run_pays(const tile_chooser *t, const row_group *g, const run *r);
void mark_run(tile_chooser *t, const row_group *g, const run *r);
/* Have all rows of each of the run's columns one type, which the strip's columns have? */
static inline int run_types_are_columns(const run *r) { return r->n_row_bands == 1 && !r->row_band.segment->type_dst; }
/* Types of all pairs of a run, from the strips that have them; -1 without an edge. */
void load_run_types(tile_chooser *t, const row_group *g, const run *r);

/* ---- shared_chunks.c ---- */

/* Does the run go to chunks that groups share? Then it does, behind what the group has shared already: *place is -1
   before a group's first run. lay_shared lays them all. */
int is_shared_run(const tile_chooser *t, const row_group *g, const run *r);
void share_run(tile_chooser *t, row_group *g, const run *r, hga_id *index);
void lay_shared(tile_chooser *t);

/* ---- choose_tiles.c, strict_tiles.c ---- */

/* Has the group edges that were given one by one? Those stay with the rows. */
static inline int has_explicit(const tile_chooser *t, const row_group *g)
{
    const hga_relation *r = &t->reader->r;
    for (hga_id i = 0; i < g->n_rows && r->ptr; i++) {
        hga_id v = row_node(g->node[i]);
        if (v >= 0 && r->ptr[v + 1] > r->ptr[v]) return 1;
    }
    return 0;
}
/* Each column at its own place, see hga_options.strict_rows. */
void choose_strictly(tile_chooser *t, row_panel *p);

#endif
