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
    hga_id parent, level; /* -1 without, level -1: not told */
    float mass;           /* -1: not told */
    int side;             /* HGA_SIDE_BOTH: not told */
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

/* Everything in the file, for a reader that then scans it; *out is NULL, `wish` checked. */
hga_status import_open(import *x, const hga_allocator *a, const char *path, const hga_import *wish, hga_graph **out);
/* With st = HGA_OK make the graph; free what was collected. Returns the first failure. */
hga_status import_close(import *x, hga_status st, hga_graph **out);

/* There is a node of that number, at least. HGA_EFORMAT beyond what an id can count. */
hga_status import_reach(import *x, int64_t node);
/* What the file tells of a node, to be filled in; valid until the next call. */
hga_status import_tell(import *x, hga_id node, import_node **out);
/* Keep a text of n bytes; *at is its place in x->text. HGA_EFORMAT for what is not UTF-8 or has a zero byte. */
hga_status import_text(import *x, const char *text, int64_t n, int64_t *at);
/* No relation told, which is not the tree either. */
enum { NO_RELATION = -9 };
/* The relation of that name, a new one at need; NULL: the wish's. Edges of "tree up" and "tree down" are parents. */
hga_status import_relation(import *x, const char *name, hga_id *relation);
hga_status import_edge_add(import *x, hga_id relation, int64_t src, int64_t dst, int64_t type, double weight);
/* The type of an edge. Once one is no number of a type, types are something else: has_strange_types, and those of all
   edges are passed over. */
void import_type(import *x, const char *value, int64_t n, int64_t *type);

/* What a dictionary of Python's, whose { is the first of n bytes, says of an edge. */
hga_status edge_data_read(import *x, const char *text, int64_t n, double *weight);

/* ---- what the file's names were taken for ---- */

/* The file gives "nodes", "edges" something by that name, n bytes. Who is passed over once is passed over. */
hga_status import_note_name(import *x, const char *of, const char *name, int64_t n, int understood);
/* The line of hga_import.attributes; *out = NULL without a name. */
hga_status import_tell_names(const import *x, char **out);

/* ---- text being scanned ---- */

/* Before a text is read: over a byte order mark, and lines that end in \r alone end in \n. */
hga_status scan_start(import *x);
/* HGA_EFORMAT with the file's name and the line. */
hga_status scan_wrong(const import *x, const char *format, ...) HGA_PRINTF(2, 3);
/* Over blanks and tabs; over them and ends of lines. */
void scan_blanks(import *x);
/* At the end of a line or of the text? */
int scan_at_line_end(const import *x);
/* To the start of the next line, whatever is left of this; 0 at the end of the text. */
int scan_next_line(import *x);
/* A number up to the next blank, comma, semicolon or end of line. */
hga_status scan_integer(import *x, const char *what, int64_t least, int64_t most, int64_t *out);
hga_status scan_real(import *x, const char *what, double *out);
/* The same of a text of n bytes. */
int scan_text_integer(const char *text, int64_t n, int64_t *out);
int scan_text_real(const char *text, int64_t n, double *out);
/* The weight of an edge, told by a text of n bytes. */
hga_status scan_weight(const import *x, const char *text, int64_t n, double *out);
/* What to do about weights that are none. */
#define WITHOUT_WEIGHTS "--pattern, in Python weights=\"ignore\", reads edges without weights"
/* A word of at most room - 1 bytes up to a blank, comma, semicolon or end of line; its length. */
int64_t scan_word(import *x, char *out, int64_t capacity);

#endif
