/* neighbours.h: the undirected neighbours of nodes over all relations. Only graph/ includes this. */
#ifndef NEIGHBOURS_H
#define NEIGHBOURS_H

#include "hga_graph.h"

/* Node v's neighbours are node[ptr[v] .. ptr[v + 1]), ascending, each once, never v itself. */
typedef struct neighbours {
    hga_id n;
    hga_pos *ptr; /* [n + 1] */
    int64_t *node, capacity;
    hga_allocator allocator;
} neighbours;

/* Of all relations and the tree together, every edge of a block expanded. */
hga_status neighbours_find(const hga_graph *g, neighbours *out);
/* Frees the lists. */
void neighbours_clear(neighbours *x);

/* Visits an edge; a status other than HGA_OK ends the walk. */
typedef hga_status (*edge_visit)(void *context, hga_id source, hga_id destination);
/* Calls `visit` with every edge of every relation, but the tree's; rows ascend within a relation. */
hga_status edges_visit(const hga_graph *g, edge_visit visit, void *context);

#endif
