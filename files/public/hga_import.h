/* hga_import.h: graphs from other programs' files. */
#ifndef HGA_IMPORT_H
#define HGA_IMPORT_H

#include "hga_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a file of edges does not say; zeroed: nothing. NULL is accepted everywhere. */
typedef struct hga_import {
    /* [n_parents] the parent of every node by the file's own numbers from 0, -1 without; NULL: what the file says of
       parents (GraphML and GML may), else every node is a token. Without levels in the file a node is one level above
       its highest child, and a node without children is a token. */
    const hga_id *parents;
    hga_id n_parents;
    const char *relation; /* its name where the file has none; NULL: "edges" */
    int depth_first; /* tokens go in the order of the tree, children by the file's numbers; 0: by the file's numbers */
    /* NULL, or it gets one graph's map: id[0][the file's number] = the graph's id, for hga_node_map_clear. Zeroed for
       JSON and on failure. */
    hga_node_map *node_map;
    /* NULL, or it gets a line, for hga_text_free, that says how the file's own names were understood: "understood:
       weight (edges); passed over: color (nodes)". The line is NULL where the file has no names of its own, for JSON,
       for files that hga wrote, and on failure. */
    char **attributes;
    int64_t pattern;      /* 1: every edge has weight 1, even where the file has zeros, negative or complex numbers */
    uint64_t reserved[4]; /* 0 */
} hga_import;

/* Read a graph from a file ("-": stdin), by its suffix: one explicit edge for each of the file's, with its types and
   weights. Undirected edges go both ways. Nodes keep their numbers if these go level by level, tokens first; else they
   are numbered anew in that order, and hga_graph_name returns the file's id. GraphML and GML keep labels as names.
   Text is UTF-8, with or without a byte order mark.
   .mtx: Matrix Market: real, integer, pattern, with `pattern` complex; general, symmetric, skew-symmetric, hermitian:
   rows are destinations, columns sources, values weights. Every stored entry of a coordinate matrix is an edge, in an
   array every entry that is not 0. A non-square matrix is cross-attention: the rows are queries, the columns keys.
   .csv, .tsv, .edges: lines of source, destination, and perhaps a weight, or as a first line names the columns: source
   (src, from, u), destination (dst, target, to, v), type, weight, relation, source_name, destination_name. The
   separator is that of the first line: semicolons, commas, tabs or blanks; # and % begin comments. Where columns are
   named and the first edge's ends are not numbers, ends are names, and nodes are numbered as they first occur; a line
   of as many cells that begins with # or % is refused then, unless the name is in quotes. A type is a whole number, or
   Directed or Undirected.
   .graphml, .gml: label (else name) of nodes, and weight, type (whole numbers) and relation of edges, with GraphML's
   defaults. level, parent, mass and side of nodes are used in files that hga wrote; in other files they may mean
   anything: write hga_level, hga_parent, hga_mass and hga_side there. Hyperedges, nested graphs and two nodes or keys
   of one id are refused. GML's characters may be written as in HTML (&#233; &eacute;).
   .graph: METIS's: undirected, weights of edges are weights, the first of each vertex is its mass.
   .npy: integers [edges][2 or 3] = source, destination, type, refused where several rows are of 0 and 1 alone, which
   may be a mask, and where two rows may be sources above destinations; int32 [2][3] is two edges. Or truth values, a
   mask: [rows][columns], row i attends to the columns that are true. A square one is self-attention, else rows are
   queries and columns keys. Without parents a mask becomes blocks instead of single edges, by
   hga_graph_from_predicate.
   .npz: a scipy.sparse matrix from save_npz: csr, csc, coo, bsr or dia; rows are destinations, columns sources, values
   weights. Every stored entry is an edge, except zeros that pad a block of bsr or a diagonal.
   Every other name is JSON, which begins with a brace. Any other file is HGA_EFORMAT; the error lists the supported
   suffixes, and a command that converts the file where there is one. HGA_EIO, HGA_EFORMAT with the file's name and
   line or byte, HGA_EGRAPH for what a builder refuses. Several threads may read. *program (NULL accepted) is NULL, or
   for JSON the text of its program, for hga_text_free. */
HGA_API hga_status hga_graph_read(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out,
                                  char **program);
/* Does hga_graph_read read a file of that name as JSON, as hga writes it? Other programs' files have no program. */
HGA_API int hga_graph_is_json(const char *path);

#ifdef __cplusplus
}
#endif
#endif
