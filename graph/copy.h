/* copy.h: what a graph is made of, said again to a builder. Only graph/ includes this. */
#ifndef COPY_H
#define COPY_H

#include "hga_graph.h"
#include "sides.h"

/* The longest run of nodes from v that stand on one side, all by default or none; nodes->side must not be NULL. */
typedef struct side_run {
    hga_id first, n;
    int side, is_default;
} side_run;
side_run side_run_at(const hga_nodes *nodes, hga_id v);

/* The mass that a builder gives each of n nodes when it knows those of the children only; *out is [n]. parent may be
   NULL. */
hga_status masses_by_default(const hga_allocator *a, hga_id n, const hga_id *parent, const float *mass, float **out);

/* The longest run of children starting at `child`, whose parent must be >= 0, that one call of hga_builder_set_families
   can describe. */
typedef struct family_run {
    hga_id parent, child, n, each;
} family_run;
family_run family_run_at(const hga_id *parent, hga_id n_nodes, hga_id child);

/* Say these parents (NULL: none), [n_nodes] with -1 for none, to a builder. */
hga_status parents_copy(hga_builder *b, const hga_id *parent, hga_id n_nodes);
/* Say those masses to it that it would not find itself. */
hga_status masses_copy(hga_builder *b, const hga_allocator *a, hga_id n, const hga_id *parent, const float *mass);
/* Say the names of all nodes, of node v for node map[v]; NULL: the identity. */
/* Where tokens are, if the graph says so; with `index` also where they are at their index. */
hga_status positions_copy(hga_builder *b, const hga_graph *g, int index, const hga_id *map);
hga_status names_copy(hga_builder *b, const hga_graph *g, const hga_id *map);
hga_status kinds_copy(hga_builder *b, const hga_graph *g, const hga_id *map);
/* Levels, tokens, sides, parents, masses and names: hga_nodes but for its claims. */
hga_status nodes_copy(hga_builder *b, const hga_graph *g);

/* The relation's blocks, or its choices. */
hga_status blocks_copy(hga_builder *b, hga_id relation, const hga_relation *r);

#endif
