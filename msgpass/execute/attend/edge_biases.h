/* edge_biases.h: biases of edges for the pairs of tiles (edge_biases.c). */
#ifndef EDGE_BIASES_H
#define EDGE_BIASES_H

#include "worker.h"

/* Heads whose biases are read together. */
enum { BIAS_HEADS = 8 };

/* Which columns of a chunk a row has edges to, as bits, and where the first one's biases are in the call's table. */
typedef struct row_ranks {
    uint64_t columns;
    hga_pos first;
    int in_order; /* the others' biases follow, in the order of the columns */
} row_ranks;

/* Of a chunk's parts, the only one of its batch: ranks of their edges, and the biases of their pairs in some heads. */
typedef struct pair_edges {
    row_ranks rank[PANEL_GROUPS][KERNEL_TILE];
    float bias[PANEL_GROUPS][BIAS_HEADS][KERNEL_CHUNK * KERNEL_TILE];
} pair_edges;

/* Whether the call has biases of this stage's edges. */
int has_edge_biases(const worker *w, hga_id stage);
/* Finds the ranks of a chunk's edges, once for all heads. */
void find_edge_ranks(worker *w, const tile_chunk *c);
/* The biases of part i's pairs in a head of the worker's, [column][lane], in base 2; heads come in order. */
const float *edge_biases_of(worker *w, const tile_chunk *c, hga_id i, hga_id head);

#endif
