/* residues.h: an order of tokens in which dilated masks are regular. Only graph/ includes this. */
#ifndef RESIDUES_H
#define RESIDUES_H

#include "hga_graph.h"

/* Rewrites a graph of tokens only with one relation, whose edges all lead from keys to queries, in the order of
   residues where that takes fewer blocks and edges. */
hga_status residues_order(hga_graph **g);

#endif
