/* lay.h: packing columns into chunks.

   chunks.c the open chunk and its batch; a group's columns in narrow segments, as runs
   shared_chunks.c long runs, in chunks that groups share
   choose_tiles.c which solver computes each edge of a panel */
#ifndef LAY_H
#define LAY_H

#include "tiles.h"

/* ---- chunks.c ---- */

/* The open chunk, or a new one, with at most so many parts. */
tile_chunk *open_chunk(tile_chooser *t, hga_id parts);
/* Closes a chunk that is full, or whose group has no more columns. */
void close_chunk(tile_chooser *t);
/* Runs the batch and empties it. */
void hand_over(tile_chooser *t);
/* The next chunks belong to another group. */
void next_group(tile_batch *b);
/* No earlier chunk may gain parts. */
void forget_twins(tile_batch *b);
/* Describes columns [e, e + n) of the chunk, at source positions [position, position + n); does not say which rows have
   them. */
void put_columns(const tile_chooser *t, edge_chunk *c, const hga_segment *s, hga_id e, hga_id n, int64_t position,
                 int64_t type, int32_t type_step);
/* Types of column e, by lane, of part i of the open chunk. */
int32_t *chunk_pair_types(const tile_chooser *t, hga_id i, hga_id e);

/* ---- chunks.c: runs ---- */

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

/* Lists the segments that go into runs and in which the group has rows. */
void list_own(tile_chooser *t, const row_group *g);
/* Segment i of that list. */
const hga_segment *own_segment(const tile_chooser *t, hga_pos i);
/* The run that begins at index `from` or later; 0 when there is none. */
int next_run(const tile_chooser *t, const row_group *g, hga_pos from, run *r);
/* Whether the run is faster in tiles than row by row. The group's present rows stand for sixteen: a level's last group,
   of which there is one, uses the solver that it would use with more rows after it. */
int run_pays(const tile_chooser *t, const row_group *g, const run *r);
/* Notes that the group has the run's segments in tiles (chooser_segments.tiled). */
void mark_run(tile_chooser *t, const row_group *g, const run *r);
/* Whether all rows of each of the run's columns have one type, that of the row band's column. */
int run_types_are_columns(const run *r);
/* Loads the types of all pairs of a run from their row bands; -1 without an edge. */
void load_run_types(tile_chooser *t, const row_group *g, const run *r);

/* ---- shared_chunks.c ---- */

/* Whether the run belongs to chunks that groups share. */
int is_shared_run(const tile_chooser *t, const row_group *g, const run *r);
/* Adds a run after the group's earlier shared runs; *index is -1 before the first. */
void share_run(tile_chooser *t, row_group *g, const run *r, hga_id *index);
/* Makes the chunks of all shared runs. */
void lay_shared(tile_chooser *t);

/* ---- choose_tiles.c, strict_tiles.c ---- */

/* Whether the group has edges that are listed one by one. The row kernel computes those. */
int has_explicit(const tile_chooser *t, const row_group *g);
/* Each column at a fixed slot of its chunk, see hga_options.strict_rows. */
void choose_strictly(tile_chooser *t, row_panel *p);

#endif
