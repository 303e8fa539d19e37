/* tile_scratch.h: what a worker has for panels that run tile by tile (attend_panel.c, run_tiles.c). */
#ifndef TILE_SCRATCH_H
#define TILE_SCRATCH_H

#include "tiles.h"

/* A chunk's keys and values, of all heads, and the terms of its columns' scores that all heads share. */
typedef struct tile_operands {
    /* at: positions, where the call has slopes; inverse_count: where sigmoids have counts */
    float base[KERNEL_CHUNK], at[KERNEL_CHUNK], inverse_count[KERNEL_CHUNK];
    kernel_sigmoids sigmoid;
    const float *k[KERNEL_CHUNK], *v[KERNEL_CHUNK];
    int same_k, same_v; /* do all rows have the same head stride? */
    ptrdiff_t k_stride, v_stride;
    const uint16_t *k16[KERNEL_CHUNK], *v16[KERNEL_CHUNK]; /* plans of bf16 rows: in place of k and v */
} tile_operands;

/* Types of the pairs of a part whose columns' types vary: their number and list, and which pairs have which. */
typedef struct part_types {
    hga_id n;
    const int32_t *list;
    const uint8_t *many;  /* [the part's columns]: number of the column's entries of `pick` */
    const uint32_t *pick; /* index in the list | lane mask << 16, column after column */
} part_types;

/* Scratch of run_tiles.c. */
typedef struct tile_scratch {
    /* of each of PANEL_GROUPS groups and of as many slots for a key's heads: [heads][dim][tile], [heads][tile][dim_v
       padded], [heads][tile] twice */
    float *query, *acc, *greatest, *sum;
    float *pair_base, *pair_bias;   /* [PANEL_GROUPS][KERNEL_CHUNK][tile], [2][KERNEL_CHUNK][tile] */
    tile_operands *operand;         /* [BATCH_CHUNKS] */
    part_types types[PANEL_GROUPS]; /* of the batch's parts whose types vary, by the chunks' `typed` */
    int32_t *type_list;             /* [PANEL_GROUPS][KERNEL_CHUNK][tile]: scratch for the parts' lists */
    uint32_t *type_pick;            /* [the same]: for their picks */
    uint8_t *type_many;             /* [PANEL_GROUPS][KERNEL_CHUNK]: for each column's number of them */
    int32_t *type_index;            /* [n_types]: -1, or the index in the current list */
    struct pair_edges *edges;       /* of calls with biases of edges, allocated by the first */
    float *type_score;              /* [KERNEL_CHUNK * tile][tile]: of each type of a list, one head */
    /* dropout: [BATCH_CHUNKS][PANEL_GROUPS][8][KERNEL_CHUNK] of eight heads, see kernel_tile_group */
    uint16_t *drop_mask;
} tile_scratch;

/* Of panels that run tile by tile (choose_tiles.c, run_tiles.c). */
typedef struct worker_tiles {
    tile_chooser chooser;
    tile_scratch tile;
    /* a chunk's, of one head, contiguous: [KERNEL_CHUNK][dim padded], [KERNEL_CHUNK][dim_v padded] */
    float *packed_key, *packed_value;
} worker_tiles;

#endif
