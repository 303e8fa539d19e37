/* rank_blocks.h: a score matrix cut into the blocks of a hierarchy, and the numerical rank of each (H-Transformer-1D,
   section 4). */
#ifndef CLI_RANK_BLOCKS_H
#define CLI_RANK_BLOCKS_H

#include "complain.h"

/* SIBLINGS, as in eq. (9): at level l the two halves of each block of 2^(l+1) leaf blocks see each other. NEIGHBOURS,
   as in eq. (16)-(19) with the overlap removed: leaf blocks see themselves and the next ones; at level l >= 1, the
   quarters of what adjacent blocks of 2^l leaf blocks leave to see. */
typedef enum partition { PARTITION_NEIGHBOURS, PARTITION_SIBLINGS } partition;

typedef struct rank_block {
    hga_id row, column, rows, columns;
    hga_id level; /* of a near block -1 */
    hga_id rank;
} rank_block;

/* A_ij = exp(score(i, j)). */
typedef struct score_source {
    double (*score)(hga_id i, hga_id j, const void *data);
    const void *data;
} score_source;

typedef struct rank_map {
    hga_id n, block; /* tokens, and tokens in a leaf block */
    partition structure;
    double tolerance;
    int relative; /* to the largest singular value of the block */
    rank_block *blocks;
    int64_t n_blocks;
    hga_id n_levels; /* of far blocks */
} rank_map;

/* Cut [0, n) x [0, n); every pair is in one block, whatever n is. near blocks first, then level by level. */
int rank_map_cut(hga_id n, hga_id block, partition structure, rank_map *out);
/* Fill in the ranks: the least r with sigma_(r+1) + sigma_(r+2) + .. < tolerance, (8), or tolerance sigma_1 when
   relative. What rounding leaves of a zero counts as zero. A score whose exponential is no double is CLI_DATA, except
   when relative, which no factor of a block changes. */
int rank_map_measure(const score_source *a, rank_map *m);
void rank_map_clear(rank_map *m);

/* Numbers kept for a block: all of a near one, else of the block itself or of its two factors, whichever are fewer. */
int64_t block_stored(const rank_block *b);

/* The tokens in a far block of a level: block * 2^level, or for neighbours half of that. */
int64_t level_size(const rank_map *m, hga_id level);

#endif
