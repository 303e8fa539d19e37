/* longer.h: a causal builder sets what the last rows of its levels would see of more tokens: hga_builder_set_longer. */
#ifndef BUILDER_LONGER_H
#define BUILDER_LONGER_H

#include "hga_graph.h"

/* Adds the levels and the relations' blocks over n_tokens tokens, and neither families nor claims. The first `there`
   tokens are the graph's own. */
typedef hga_status (*draw_tokens)(hga_builder *b, const void *parameters, hga_id n_tokens, hga_id there);

/* Draws the longer graph of b, with enough more tokens that each level has a whole sixteen: a node of the highest level
   stands for `widest` tokens. Sets none where these do not fit an id. */
hga_status draw_longer(hga_builder *b, const hga_allocator *a, hga_id n_tokens, int64_t widest, draw_tokens draw,
                       const void *parameters);

/* Declares that rows keep their edges, and these their positions in their blocks, whatever tokens are appended: for
   graphs with orders. */
hga_status keep_positions(hga_builder *b, const hga_allocator *a);

#endif
