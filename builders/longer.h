/* longer.h: a causal builder tells what the last rows of its levels would see of more tokens: hga_builder_set_longer.
 */
#ifndef BUILDER_LONGER_H
#define BUILDER_LONGER_H

#include "hga_graph.h"

/* Adds the levels and the relations' blocks over n_tokens tokens, and neither families nor claims. Of those the first
   `there` are the graph's own. */
typedef hga_status (*draw_tokens)(hga_builder *b, const void *parameters, hga_id n_tokens, hga_id there);

/* Draw what b's levels see of so many more tokens that each has a whole sixteen: a node of the highest one stands for
   `widest` tokens. Where these do not fit an id, nobody is told. */
hga_status draw_longer(hga_builder *b, const hga_allocator *a, hga_id n_tokens, int64_t widest, draw_tokens draw,
                       const void *parameters);

/* Rows keep their edges, and these their places in their blocks, whatever tokens are added: for graphs with orders. */
hga_status keep_positions(hga_builder *b, const hga_allocator *a);

#endif
