/* pieces.h: rows that come as runs of columns, and the blocks that are found in them. Only graph/ includes this. */
#ifndef PIECES_H
#define PIECES_H

#include "hga_graph.h"

typedef struct cell { /* an edge of a row */
    hga_id column;
    int32_t type;
    float weight;
} cell;

typedef struct edge_run { /* columns [src, src + n) of one row; column c has type + (c - src) * slope */
    hga_id row, src, n;
    int32_t type, slope;
    float weight;
} edge_run;

typedef struct piece piece;

/* Zeroed but for the first five members, which are whose memory it takes and where it tells what it found. */
typedef struct pieces {
    const hga_allocator *allocator;
    hga_builder *b;
    hga_id index;                        /* of the relation */
    const hga_id *dst_order, *src_order; /* position -> node, for explicit edges; NULL: the identity */
    int64_t n_list, list_room, n_open, open_room, n_next, next_room, n_slots, from;
    piece *list;
    int64_t *open, *next; /* pieces that end in the row before, by their columns there; those that end in this row */
    int64_t *slots;       /* hash table: where a repeated piece is expected next; -1 empty */
    int64_t *places;      /* hash table: where pieces begin */
} pieces;

/* The next run of a row, to the right of the one before; and that the row has no more. Rows ascend. */
hga_status pieces_add_run(pieces *c, const edge_run *x);
void pieces_end_row(pieces *c);
/* n more rows with the runs of the row that ended. 0, and nothing done, where they would not make every piece of that
   row longer as it is: then the rows are to be added one by one. */
int pieces_repeat_row(pieces *c, hga_id n);
/* A whole row by its edges, no two of one column and type, which are sorted. */
hga_status pieces_add_row(pieces *c, hga_id row, cell *cells, int64_t n);
/* Blocks and explicit edges into the builder. */
hga_status pieces_tell(pieces *c);
void pieces_clear(pieces *c);

#endif
