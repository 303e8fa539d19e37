/* copy.h: copies a graph's contents to a builder. Only graph/ includes this. */
#ifndef COPY_H
#define COPY_H

#include "hga_graph.h"
#include "sides.h"

/* Nodes [first, first + n), all on one side, which is the default of all or of none. */
typedef struct side_run {
    hga_id first, n;
    int side, is_default;
} side_run;
/* The longest run that starts at node v; nodes->side must not be NULL. */
side_run side_run_at(const hga_nodes *nodes, hga_id v);

/* The mass that a builder gives each of n nodes when only those of the children are set; *out is [n]. parent may be
   NULL. */
hga_status masses_by_default(const hga_allocator *a, hga_id n, const hga_id *parent, const float *mass, float **out);

/* The arguments of one call of hga_builder_set_families. */
typedef struct family_run {
    hga_id parent, child, n, each;
} family_run;
/* The longest run of children that starts at `child`, whose parent must be >= 0, and that one call can describe. */
family_run family_run_at(const hga_id *parent, hga_id n_nodes, hga_id child);

/* Sets parents (NULL: none), [n_nodes] with -1 for none. */
hga_status parents_copy(hga_builder *b, const hga_id *parent, hga_id n_nodes);
/* Sets the masses that the builder would not derive itself. */
hga_status masses_copy(hga_builder *b, const hga_allocator *a, hga_id n, const hga_id *parent, const float *mass);
/* Sets the positions of g's tokens, of token v for node map[v] (NULL: the identity). Where g has none, `index` sets the
   tokens' indices; without it nothing is set. */
hga_status positions_copy(hga_builder *b, const hga_graph *g, int index, const hga_id *map);
/* Sets the names that g's nodes have, of node v for node map[v] (NULL: the identity). */
hga_status names_copy(hga_builder *b, const hga_graph *g, const hga_id *map);
/* Sets the kinds likewise; they keep their numbers where the builder has none. */
hga_status kinds_copy(hga_builder *b, const hga_graph *g, const hga_id *map);
/* Levels, tokens, sides, parents, masses and names: hga_nodes but for its claims. */
hga_status nodes_copy(hga_builder *b, const hga_graph *g);

/* The relation's blocks, or its choices. */
hga_status blocks_copy(hga_builder *b, hga_id relation, const hga_relation *r);

#endif
