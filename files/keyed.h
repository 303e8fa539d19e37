/* keyed.h: graphs whose nodes have texts as ids, and attributes by name: GraphML, GML, tables of names. Only files/
   includes this. */
#ifndef KEYED_H
#define KEYED_H

#include "import.h"

enum { LABEL, NAME, LEVEL, PARENT, MASS, SIDE, WEIGHT, TYPE, RELATION, ATTRIBUTES, UNKNOWN = -1 };

/* What the file declares of the node or edge being read. */
typedef struct attributes {
    unsigned declared;           /* 1 << LABEL and so on */
    int64_t label, name, parent; /* in import.text */
    int64_t level, type;
    double weight, mass;
    int side;
    hga_id relation;
} attributes;

/* What hga_import has no index for. */
typedef struct keyed_node {
    int64_t id, parent; /* in import.text; the parent's id, -1 without */
    hga_id index;       /* among those that the file lists, -1: an edge alone names it */
} keyed_node;

typedef struct keyed {
import x;
    int is_own;                  /* hga wrote the file: what nodes have is what hga means by it */
    int directed;                /* the edge being read */
    int graphs, is_edge;         /* is_edge: an edge is being read, no node */
    hga_id node, source, target; /* being read; -1 not declared */
    attributes now;
    int64_t n_ids, id_capacity;
    keyed_node *ids; /* by node */
    hga_id n_listed;
    name_index index;
} keyed;

/* The node of that id, added if it is new. */
hga_status keyed_find(keyed *k, const char *id, int64_t n, hga_id *node);
/* The node being read is the next of the file's list; its id must be new. */
hga_status keyed_list(keyed *k, const char *id, int64_t n);
/* Starts a node or an edge, with no attributes. */
void keyed_start(keyed *k, int is_edge);
/* The attribute of nodes (edges) of that name; UNKNOWN ones are ignored. */
int keyed_attribute(const keyed *k, int of_edges, const char *name);
/* Notes an attribute of the node or edge being read. */
hga_status keyed_note(keyed *k, const char *name, const char *value, int64_t n);
/* Stores the noted attributes of the node being read. HGA_EFORMAT without an id, or for a wrong mass or level. */
hga_status keyed_node_end(keyed *k);
/* Adds the edge being read with the noted attributes, both ways where it is undirected. HGA_EFORMAT without an end. */
hga_status keyed_edge_end(keyed *k);
/* Makes every edge so far undirected. */
hga_status keyed_both_ways(keyed *k);
/* Orders nodes as the file lists them, those not listed last; makes the graph and frees everything. */
hga_status keyed_close(keyed *k, hga_status st, hga_graph **out);

#endif
