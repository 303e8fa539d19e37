/* builder_parts.h: what a finished builder hands to its graph: labels (labels.c), kinds (kinds.c), parts (parts.c). */
#ifndef BUILDER_PARTS_H
#define BUILDER_PARTS_H

#include "builder.h"

/* labels.c: moves the names to the graph. */
hga_status labels_finish(hga_builder *b, hga_graph *g);
/* kinds.c: moves the kinds to the graph. */
hga_status kinds_finish(hga_builder *b, hga_graph *g);
/* parts.c: moves the parts to the graph. */
hga_status parts_finish(hga_builder *b, hga_graph *g);

#endif
