/* blocks.h: blocks of a relation (block.c, blocks.c), and those whose rows choose (choices.c). */
#ifndef BLOCKS_H
#define BLOCKS_H

#include "graph.h"

/* block.c */
hga_status block_check(const hga_block *b, hga_id n_rows, hga_id n_columns, hga_id n_nodes, const char *relation_name,
                       hga_pos index);
int64_t block_edges(const hga_block *b);                             /* of all instances; -1 on overflow */
void block_types(const hga_block *b, int64_t *least, int64_t *most); /* over its edges; least > most when it has none */
/* blocks.c */
void blocks_sort(hga_block *blocks, hga_pos n);
void blocks_index(const hga_block *blocks, hga_pos n, int64_t *reach);
void blocks_visit(const stored_relation *r, hga_id first, hga_id n, hga_segments_visit visit, void *context);
/* choices.c: the same of a relation of choices. */
void choices_visit(const stored_relation *r, hga_id first, hga_id n, hga_segments_visit visit, void *context);
void choices_clear(const hga_allocator *a, stored_relation *r);
int64_t choices_bytes(const stored_relation *r);

#endif
