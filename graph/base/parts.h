/* parts.h: parts of a graph, which rows read one of: hga_builder_set_parts. For the sources of this project; not
   installed. */
#ifndef HGA_PARTS_H
#define HGA_PARTS_H

#include "hga_graph.h"

/* The number of parts, 0: none set; *first becomes the first node of each. */
hga_id graph_parts(const hga_graph *g, const hga_id **first);

#endif
