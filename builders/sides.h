/* sides.h: what builders of self- and cross-attention share. */
#ifndef HGA_SIDES_H
#define HGA_SIDES_H

#include "hga_builders.h"

/* Check a builder's numbers of tokens: there are some, and they fit an id. n_keys = 0 is self-attention. Causal
   attention compares positions: only sides of equal length have a meaning (else HGA_EUNSUPPORTED). */
hga_status sides_check(hga_id n_tokens, hga_id n_keys, int causal);
/* Append a level of one side or two: n_queries nodes of both sides when n_keys is 0, else of the query side, then
   n_keys of the key side; *first is its first id. */
hga_status sides_add_level(hga_builder *b, hga_id n_queries, hga_id n_keys, hga_id *first);
/* Append level 0, and say which of its nodes are queries and which are keys (n_keys 0: all are both). */
hga_status sides_add_tokens(hga_builder *b, hga_id n_tokens, hga_id n_keys);

#endif
