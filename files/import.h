/* import.h: what the readers of other programs' files share: a graph being collected in any order, and a text being
   scanned. Only files/ includes this. */
#ifndef IMPORT_H
#define IMPORT_H

#include "hga_import.h"
#include "names.h"

/* ---- a graph being collected ---- */

typedef struct import_edge {
    hga_id relation, dst, src;
    int32_t type;
    float weight;
} import_edge;

typedef struct import_node {
    hga_id parent, level; /* -1 without, level -1: not declared */
    float mass;           /* -1: not declared */
    int side;             /* HGA_SIDE_BOTH: not declared */
    int64_t label;        /* in `text`, -1 without */
} import_node;

/* What the file calls something by, and whether that was understood. */
typedef struct import_note {
    const char *of; /* "nodes" */
    int64_t name;   /* in `text` */
    int understood;
} import_note;

typedef struct import_edges {
    int64_t n, capacity;
    import_edge *list;
} import_edges;
typedef struct import_nodes {
    int64_t capacity;
    import_node *list; /* [n of the import] where the file says anything of nodes, else NULL */
} import_nodes;
/* Labels and names, each ended by 0. */
typedef struct import_strings {
    int64_t bytes, capacity;
    char *at;
} import_strings;
typedef struct import_relations {
    int64_t n, capacity;
    int64_t *name; /* where it begins in the text */
} import_relations;
typedef struct import_notes {
    int64_t n, capacity;
    import_note *list;
} import_notes;
/* Text that is being read: `at` moves on to `end`, line counts from 1. */
typedef struct import_reader {
    const char *at, *end;
    int64_t line;
} import_reader;
typedef struct import_bytes {
    char *at;
    int64_t n, capacity;
} import_bytes;

typedef struct import {
    const hga_allocator *allocator;
    const char *name; /* of the file */
    const hga_import *wish;
    hga_id n;         /* nodes: one more than the largest number */
    hga_id n_queries; /* cross-attention: the first nodes, the others are keys; -1 self-attention */
    import_edges edges;
    import_nodes node;
    import_strings text;
    import_relations relations;
    import_notes notes;
    int has_levels, has_sides, has_strange_types;
    import_reader reader;
    hga_graph *made; /* by the reader, of tokens as the file numbers them, instead of what is collected; NULL */
    import_bytes file;
} import;

/* Loads the file for a reader that then scans it; checks `wish` and sets *out = NULL. */
hga_status import_open(import *x, const hga_allocator *a, const char *path, const hga_import *wish, hga_graph **out);
/* With st = HGA_OK makes the graph; frees what was collected. Returns the first failure. */
hga_status import_close(import *x, hga_status st, hga_graph **out);

/* Extends the graph to contain a node of that number. HGA_EFORMAT beyond the range of an id. */
hga_status import_reach(import *x, int64_t node);
/* The record of a node's attributes, to be filled in; valid until the next call. */
hga_status import_tell(import *x, hga_id node, import_node **out);
/* Stores a text of n bytes; *at is its offset in x->text. HGA_EFORMAT for invalid UTF-8 or a zero byte. */
hga_status import_text(import *x, const char *text, int64_t n, int64_t *at);
/* No relation given; distinct from the tree's relations. */
enum { NO_RELATION = -9 };
/* The relation of that name, added if new; NULL: the default name of the options. Edges of "tree up" and "tree down"
   are parents. */
hga_status import_relation(import *x, const char *name, hga_id *relation);
/* Adds an edge; one of the tree sets a parent. HGA_EFORMAT for a type out of range, or a weight that is not
   positive and finite; with wish->pattern every weight is 1. */
hga_status import_edge_add(import *x, hga_id relation, int64_t src, int64_t dst, int64_t type, double weight);
/* Reads the type of an edge. If any type is not a valid number, has_strange_types is set and the types of all edges are
   ignored. */
void import_type(import *x, const char *value, int64_t n, int64_t *type);

/* ---- text being scanned ---- */

/* Advice in errors about invalid weights. */
#define WITHOUT_WEIGHTS "--pattern, in Python weights=\"ignore\", reads edges without weights"

#endif
