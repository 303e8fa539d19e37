/* variant_routed.h: who chooses, in a call of routed. */
#ifndef CLI_VARIANT_ROUTED_H
#define CLI_VARIANT_ROUTED_H

#include "variant.h"

/* Is it a variant whose graph queries and keys choose? */
int routed_is(const typed_variant *typed);
/* How many tokens ahead a causal choice reads queries: query blocks of several tokens; 0 of other variants. */
int routed_ahead(const typed_variant *typed, hga_id *ahead);
/* How many choose, each with a graph of its own, in a call of so many heads; 1 of other variants. */
int routed_choosers(const typed_variant *typed, hga_id heads, hga_id kv_heads, hga_id *n);

#endif
