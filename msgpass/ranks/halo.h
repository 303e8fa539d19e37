/* halo.h: hga_halo's search with owners of nodes, for plans of ranks. */
#ifndef HALO_H
#define HALO_H

#include "hga_halo.h"

enum { OWNED_BY_ALL = -1 };

/* owner[v] becomes the rank that owns node v, or OWNED_BY_ALL if it is shared; NULL: not needed. Shared rows are cut
   into splits as a plan with that options.cut_edges cuts them; 0, or where the plan cuts none: they are whole, and
   every rank is sent all that they read. */
hga_status halo_find(const hga_graph *g, const hga_program *p, const hga_shape *shape, const hga_id *cuts,
                     hga_id n_ranks, hga_pos cut_edges, hga_id *owner, hga_halo_list *out);

#endif
