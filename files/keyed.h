/* keyed.h: graphs whose nodes have texts for ids, and attributes by name: GraphML, GML. Only files/ includes this. */
#ifndef KEYED_H
#define KEYED_H

#include "import.h"

/* The attributes that are understood, of the node or edge being read. */
typedef struct attributes {
    int64_t label, level, type; /* label: in import.text; -1 each: not told */
    int64_t parent;             /* text in import.text, an id; -1 not told */
    double weight, mass;        /* NO_RELATION: not told */
    hga_id relation;            /* -1: not told */
} attributes;

typedef struct keyed {
import x;
    int directed, graphs, is_edge; /* is_edge: an edge is being read, no node */
    hga_id node, source, target;   /* being read; -1 not told */
    attributes now;
    int64_t n_ids, id_room;
    int64_t *id; /* node -> its id in import.text */
    int64_t parents_room;
    int64_t *parent; /* node -> the id of its parent in import.text, -1 without */
    name_index index;
} keyed;

/* The node of that id, a new one at need. */
hga_status keyed_find(keyed *k, const char *id, int64_t n, hga_id *node);
/* Before a node or an edge: nothing is told. */
void keyed_start(keyed *k, int is_edge);
/* An attribute of the node or edge being read; what is not understood is passed over. */
hga_status keyed_note(keyed *k, const char *name, const char *value, int64_t n);
hga_status keyed_node_end(keyed *k);
hga_status keyed_edge_end(keyed *k);
/* Make the graph, free everything. */
hga_status keyed_close(keyed *k, hga_status st, hga_graph **out);

#endif
