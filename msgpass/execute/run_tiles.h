/* run_tiles.h: tiles are computed (run_tiles.c), and what differs from pair to pair of a tile (pair_scores.c). */
#ifndef RUN_TILES_H
#define RUN_TILES_H

#include "worker.h"

/* Compute a batch; the context is the worker. */
void run_tiles(void *worker, tile_batch *batch);
/* A batch whose pairs' types are listed. */
void run_listed_tiles(worker *w, tile_batch *batch);
/* Copy the state of a group's row r, from the group's place, to w->row, for the rest of the row's edges. */
void take_states(worker *w, const row_group *g, hga_id r);
/* Normalise the states in a group's place, and store them. */
void store_group(worker *w, const row_group *g);

/* A group with its queries and states at a place, which are loaded there where it `opens`. */
kernel_tile_group open_group(worker *w, const row_group *g, hga_id head, ptrdiff_t slot, int opens);
/* The group ends with this tile: the kernel writes its rows where the array `row` tells; those that nobody wants stay
   where their states are. */
void end_group(const worker *w, const row_group *g, hga_id head, float **row, kernel_tile_group *to);
/* Store the log-sum-exps of a group that has ended. */
void store_lse(worker *w, const row_group *g, hga_id head, const float *lse);
/* Do tiles take keys of 16 bits as they are, and values as pairs of columns? */
int has_pairs(const worker *w);
/* Point a tile at the pairs of a list of values, `row` words apart, from its column `column` on. */
void point_at_pairs(const uint32_t *values, ptrdiff_t row, hga_id column, kernel_tile *t);
/* Compute one tile. */
void run_tile(const worker *w, const kernel_tile *t);
/* Set a tile's cap and slope, for columns at these positions. */
void modify_tile(const worker *w, hga_id head, const float *column_at, kernel_tile *t);
/* Positions of a group's rows, [KERNEL_TILE]. */
void find_rows_at(const worker *w, const row_group *g, float *at);

/* ---- pair_scores.c: part i is one of the batch's last chunk ---- */

/* Find the positions that part i adds to its scores; once, for all heads. */
void pair_positions(worker *w, const tile_chunk *c, hga_id i);
/* List the types of a batch's pairs, of columns whose types vary. */
void pair_list_types(worker *w, const tile_batch *b);
/* The memory for a part's list of types, by the part's number among the batch's typed ones. */
static inline int32_t *type_list_at(const worker *w, hga_id typed)
{
    return w->tiles.tile.type_list + (ptrdiff_t)typed * KERNEL_CHUNK * KERNEL_TILE;
}
/* The memory for its picks. */
static inline uint32_t *type_picks_at(const worker *w, hga_id typed)
{
    return w->tiles.tile.type_pick + (ptrdiff_t)typed * KERNEL_CHUNK * KERNEL_TILE;
}
/* The types of all pairs of part i's columns, lane by lane. */
void pair_types(const worker *w, const tile_chunk *c, hga_id i, int32_t *type);
/* The biases of one head; NULL: there are none. */
const float *pair_biases(worker *w, const tile_chunk *c, hga_id i, hga_id head, const float *queries);

#endif
