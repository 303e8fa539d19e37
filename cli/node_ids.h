/* node_ids.h: the graph's id of each of the caller's nodes. */
#ifndef CLI_NODE_IDS_H
#define CLI_NODE_IDS_H

#include "hga_graph.h"
#include "outfile.h"

/* A graph that has a map finds in it every one of its nodes, once: node_ids_fit makes it so. */
typedef struct node_ids {
    hga_id *id; /* [n]; NULL: the caller's ids are the graph's */
    hga_id n;
} node_ids;

/* Allocates n of the caller's nodes, for the reader that numbers them; node_ids_fit then fits it to the graph. */
int node_ids_make(hga_id n, node_ids *out);
/* Nodes that the graph has beyond the caller's own, clusters over a file of edges, keep the graph's ids. `title` is
   what complaints call the graph. */
int node_ids_fit(const hga_graph *g, const char *title, node_ids *map);
hga_id node_ids_at(const node_ids *map, hga_id caller);
/* Writes [nodes] int32 to an open file: the caller's id of each node of the graph. The file is still to be kept. */
int node_ids_put(const node_ids *map, const hga_graph *g, outfile *out);
void node_ids_clear(node_ids *map);

#endif
