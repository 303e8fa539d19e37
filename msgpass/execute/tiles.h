/* tiles.h: attention in tiles: tiles.c chooses the columns, block.c computes them. */
#ifndef TILES_H
#define TILES_H

#include "execute.h"

/* Rows that are computed together: group `number` of a panel. */
typedef struct tile_group {
    hga_id stage, number, first, n_rows;
    const hga_id *node; /* < 0: leave the row alone */
    int tiled;          /* has columns in tiles .. */
    int begun;          /* .. some of which have been computed: the states are in the group's own place */
    int rest;           /* has edges that stay with the rows */
    /* whatever is not in the block has been computed, and there is no rest: the block ends its rows */
    int complete;
    int stored; /* .. and has */
} tile_group;

/* A group that has the columns [first, last) of a chunk. */
typedef struct tile_part {
    tile_group *group;
    hga_id first, last;
    int full;          /* every row has every column of these */
    int opens, closes; /* the group's first part of the block, the last one of all */
    hga_id slot;       /* where its states are meanwhile */
} tile_part;

/* Columns, at most KERNEL_CHUNK, and the groups that have them: of part i rows[i] tells which rows have which. */
typedef struct tile_chunk {
    hga_id n, n_parts;
    int pairs; /* what is added to a score differs from row to row: positions, or types */
    int types_vary;
    hga_id src[KERNEL_CHUNK];
    int32_t type[KERNEL_CHUNK];
    float base[KERNEL_CHUNK]; /* what all heads and rows add to the scores of a column */
    const float *k[KERNEL_CHUNK], *v[KERNEL_CHUNK];
    const uint16_t *k16[KERNEL_CHUNK], *v16[KERNEL_CHUNK]; /* plans with halves: in place of k and v */
    tile_part part[PANEL_GROUPS];
    uint16_t rows[PANEL_GROUPS][KERNEL_CHUNK];
} tile_chunk;

/* Chunks that are computed head by head: a head's queries and states stay in the first cache while its chunks pass. */
enum { BLOCK_CHUNKS = 8 };

struct tile_block {
    hga_id stage, n;
    /* chunks of the group before that the next ones may be the same as; the first one of this group, -1 */
    hga_id twin, twin_end, own_first;
    tile_chunk chunk[BLOCK_CHUNKS];
};

void block_begin(worker *w, hga_id stage);
/* The chunk that is being laid; its parts and rows are the caller's to fill, its columns come from w->chunk. */
tile_chunk *block_chunk(worker *w);
/* It is full, or its group has no more columns. */
void block_add(worker *w);
/* The chunks to come belong to another group. */
void block_next_group(worker *w);
/* Compute and forget. */
void block_run(worker *w);

/* A group whose states are in its own place: row r's become the row's, for the rest of its edges; or all are normalised
   and stored. */
void take_states(worker *w, const tile_group *g, hga_id r);
void store_group(worker *w, const tile_group *g);

static inline int has_types(const worker *w) { return w->io->rel_key || w->io->rel_bias; }
/* Types of column e, lane by lane, of the part i of the chunk that is being laid. */
static inline int32_t *pair_types(const worker *w, hga_id i, hga_id e)
{
    return w->pair_type + ((ptrdiff_t)i * KERNEL_CHUNK + e) * KERNEL_TILE;
}

#endif
