/* pieces.h: pieces of rows that have their columns alone (phases.h: long_row), which are computed together where others
   have these columns, too. */
#ifndef PIECES_H
#define PIECES_H

#include "stage_plan.h"
#include "worker.h"

/* Columns [first, first + n), as a piece has them or all of a group of pieces. */
typedef struct piece_columns {
    hga_id first, n;
} piece_columns;

/* Pieces that are computed together, and the rows that they are of. */
typedef struct piece_group {
    piece_columns columns;
    float weight;
    hga_id n, node[KERNEL_TILE], piece[KERNEL_TILE];
    piece_columns of[KERNEL_TILE];
    int32_t type[KERNEL_TILE], type_step[KERNEL_TILE]; /* of a piece's first edge, and what types grow by */
} piece_group;

/* A piece's columns. Of rows that have no columns only the number of edges tells something, and the first column
   nothing. */
piece_columns columns_of_piece(const stage_plan *s, hga_id piece);
/* The first of n items, as long as they are pieces that go together; n 0: they do not. */
void find_piece_group(const worker *w, const wave_item *item, int64_t n, piece_group *x);

#endif
