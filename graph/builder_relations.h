/* builder_relations.h: blocks (relation_blocks.c) and choices (choices.c) of a relation that is built. */
#ifndef BUILDER_RELATIONS_H
#define BUILDER_RELATIONS_H

#include "builder.h"

/* relation_blocks.c: a relation's blocks, checked and sorted. */
hga_status relation_blocks(const hga_graph *g, const draft *d, stored_relation *r);
/* choices.c: checks and copies a choice. */
hga_status choice_add(hga_builder *b, draft *d, const hga_choice *c);
hga_status choices_finish(draft *d, stored_relation *r);
void choices_drop(const hga_allocator *a, draft *d);

#endif
