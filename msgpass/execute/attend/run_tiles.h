/* run_tiles.h: computes tiles (run_tiles.c), and the terms that differ from pair to pair of a tile (scores.c). */
#ifndef RUN_TILES_H
#define RUN_TILES_H

#include "worker.h"

/* Computes a batch; the context is the worker. */
void run_tiles(void *worker, tile_batch *batch);
/* Computes a batch whose pairs' types are listed. */
void run_listed_tiles(worker *w, tile_batch *batch);
/* Copies the state of a group's row r, from the group's slot, to w->row, for the rest of the row's edges. */
void take_states(worker *w, const row_group *g, hga_id r);
/* Normalizes the states in a group's slot, and stores them. */
void store_group(worker *w, const row_group *g);

/* The kernel's arguments of a group, with its queries and states in a slot; they are loaded there where it `opens`. */
kernel_tile_group open_group(worker *w, const row_group *g, hga_id head, ptrdiff_t slot, int opens);
/* Ends a group with this tile: the kernel writes its rows to the addresses in `row`; rows that are not requested stay
   in their slots. */
void end_group(const worker *w, const row_group *g, hga_id head, float **row, kernel_tile_group *to);
/* Stores the log-sum-exps of a group that has ended. */
void store_lse(worker *w, const row_group *g, hga_id head, const float *lse);
/* Whether tiles take keys of 16 bits unchanged, and values as pairs of columns. */
int has_pairs(const worker *w);
/* Points a tile at the pairs of a list of values, with stride `row` words, from its column `column` on. */
void point_at_pairs(const uint32_t *values, ptrdiff_t row, hga_id column, kernel_tile *t);
/* Computes one tile. */
void run_tile(const worker *w, const kernel_tile *t);
/* Sets a tile's cap and slope, for columns at these positions. */
void modify_tile(const worker *w, hga_id head, const float *column_at, kernel_tile *t);
/* Positions of a group's rows, [KERNEL_TILE]. */
void find_rows_at(const worker *w, const row_group *g, float *at);

/* ---- scores.c: part i is one of the batch's last chunk ---- */

/* Computes the positions' terms of part i's scores; once, for all heads. */
void pair_positions(worker *w, const tile_chunk *c, hga_id i);
/* Lists the types of a batch's pairs, of columns whose types vary. */
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
/* The types of all pairs of part i's columns, [column][lane]. */
void pair_types(const worker *w, const tile_chunk *c, hga_id i, int32_t *type);
/* The biases of one head; NULL: there are none. */
const float *pair_biases(worker *w, const tile_chunk *c, hga_id i, hga_id head, const float *queries);

#endif
