/* degrees.h: how many edges nodes have, without listing one. */
#ifndef CLI_DEGREES_H
#define CLI_DEGREES_H

#include <jansson.h>

#include "complain.h"

/* Add to `row` what the in-degrees of a relation are, over the nodes that have edges: members PREFIX_nodes, _min,
   _mean, _median, _max and _histogram, a list of {from, to, nodes}. */
int degrees_add(const hga_graph *g, hga_id relation, const char *prefix, json_t *row);

#endif
