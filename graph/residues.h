/* residues.h: an order of tokens in which dilated masks are regular. Only graph/ includes this. */
#ifndef RESIDUES_H
#define RESIDUES_H

#include "hga_graph.h"

/* A graph of tokens alone with one relation, whose edges all lead from keys to queries, said again in the order of
   residues where it then takes fewer blocks and edges; else it stays. */
hga_status residues_order(hga_graph **g);

#endif
