/* positions.h: the tokens' positions. For the sources of this project; not installed. */
#ifndef HGA_POSITIONS_H
#define HGA_POSITIONS_H

#include "hga_graph.h"

/* [tokens], -1: none. NULL: all are at their index. */
const float *graph_token_positions(const hga_graph *g);

#endif
