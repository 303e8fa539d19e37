/* partition.h: cut a graph into parts of about equal weight with little weight between them. */
#ifndef HGA_PARTITION_H
#define HGA_PARTITION_H

#include "hga_base.h"

typedef void (*part_found)(void *context);

/* part[v] in [0, n_parts) for each of n_vertices. Neighbours of v are adj[ptr[v] .. ptr[v + 1]); the graph need not be
   symmetric and may have loops and multiple edges. Weights are >= 0; NULL: 1 each. Every part gets a vertex when there
   are enough; with fewer vertices than parts, vertex v is part v. Equal arguments give equal parts. HGA_EOVERFLOW: more
   than METIS can hold. Any thread may call; calls into METIS are serialised. `found` (NULL accepted) is called for
   every part that is found. */
hga_status partition_graph(const hga_allocator *a, int64_t n_vertices, const int64_t *ptr, const int64_t *adj,
                           const int64_t *vertex_weight, const int64_t *edge_weight, hga_id n_parts, part_found found,
                           void *context, hga_id *part);

#endif
