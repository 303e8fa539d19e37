/* sides.h: the token level of self- and of cross-attention, the same in every builder that has both. */
#ifndef HGA_BUILDERS_SIDES_H
#define HGA_BUILDERS_SIDES_H

#include "hga_graph.h"

/* Are there tokens, and do they fit an id? n_keys = 0 is self-attention. Causal attention compares positions: only
   sides of equal length have a meaning. */
hga_status hga_sides_check(hga_id n_tokens, hga_id n_keys, int causal);

/* Append a level: n_queries nodes of both sides when n_keys is 0, else of the query side and behind them n_keys of the
   key side; *first is its first id. */
hga_status hga_sides_add_level(hga_builder *b, hga_id n_queries, hga_id n_keys, hga_id *first);

/* Level 0, and which of its nodes are queries and keys. */
hga_status hga_sides_add_tokens(hga_builder *b, hga_id n_tokens, hga_id n_keys);

#endif
