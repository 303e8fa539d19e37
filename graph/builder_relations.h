/* builder_relations.h: blocks (relation_blocks.c) and choices (choices.c) of a relation that is built. */
#ifndef BUILDER_RELATIONS_H
#define BUILDER_RELATIONS_H

#include "builder.h"

/* ---- relation_blocks.c ---- */

/* Checks the draft's blocks; sorts and indexes copies of those that have edges, which are the relation's. */
hga_status relation_blocks(const hga_graph *g, const draft *d, stored_relation *r);

/* ---- choices.c ---- */

/* Checks a choice and copies it to the draft. */
hga_status choice_add(hga_builder *b, draft *d, const hga_choice *c);
/* Moves the draft's choices to the relation. HGA_EGRAPH if it has blocks, single edges or an order as well. */
hga_status choices_finish(draft *d, stored_relation *r);
/* Frees the draft's choices. */
void choices_drop(const hga_allocator *a, draft *d);

#endif
