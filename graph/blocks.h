/* blocks.h: blocks of a relation (block.c, blocks.c), and those whose rows choose (choices.c). */
#ifndef BLOCKS_H
#define BLOCKS_H

#include "graph.h"

/* ---- block.c ---- */

/* Checks that block `index` of a relation has rows, columns, types and positions that exist, and a weight in
   [0, 3e38]; else HGA_EGRAPH. */
hga_status block_check(const hga_block *b, hga_id n_rows, hga_id n_columns, hga_id n_nodes, const char *relation_name,
                       hga_pos index);
/* Edges of all instances; -1: 63 bits do not suffice. */
int64_t block_edges(const hga_block *b);
/* The least and the greatest type of its edges; least > most when it has none. */
void block_types(const hga_block *b, int64_t *least, int64_t *most);

/* ---- blocks.c ---- */

/* Sorts by first row, then by other members. */
void blocks_sort(hga_block *blocks, hga_pos n);
/* Fills reach[n] of sorted blocks, see stored_relation. */
void blocks_index(const hga_block *blocks, hga_pos n, int64_t *reach);
/* Calls `visit` with the segments of rows [first, first + n) of blocks, in their order, or of choices. */
void blocks_visit(const stored_relation *r, hga_id first, hga_id n, hga_segments_visit visit, void *context);

/* ---- choices.c ---- */

/* Calls `visit` with the segments of rows [first, first + n), choice by choice and list by list. */
void choices_visit(const stored_relation *r, hga_id first, hga_id n, hga_segments_visit visit, void *context);
/* Frees the relation's choices. */
void choices_clear(const hga_allocator *a, stored_relation *r);
/* Bytes of the relation's choices. */
int64_t choices_bytes(const stored_relation *r);

#endif
