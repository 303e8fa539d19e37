/* sides.h: on which side of attention a node stands, also where the view of the nodes does not tell. For the sources of
   this project; not installed. */
#ifndef HGA_SIDES_H
#define HGA_SIDES_H

#include "hga_graph.h"

/* Queries and keys are different tokens. */
static inline int is_cross(const hga_nodes *nodes)
{
    return nodes->query_first != nodes->key_first || nodes->n_queries != nodes->n_keys;
}

/* The side of a node for which the builder has set none. */
static inline int side_by_default(const hga_nodes *nodes, hga_id v)
{
    if (!is_cross(nodes) || v >= nodes->level_ptr[1]) return HGA_SIDE_BOTH;
    return v >= nodes->query_first && v < nodes->query_first + nodes->n_queries ? HGA_SIDE_QUERY : HGA_SIDE_KEY;
}

/* A node's side, also where the view has none. */
static inline int node_side(const hga_nodes *nodes, hga_id v)
{
    return nodes->side ? nodes->side[v] : side_by_default(nodes, v);
}

#endif
