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
    uint64_t reserved[6]; /* 0 */
} hga_import;

/* Each function reads a file, "-" for stdin, into a graph of its own; explicit edges, one for each that the file has,
   with the file's types and weights. Undirected edges go both ways. Nodes keep their numbers where these go level by
   level, tokens first; where not they are numbered anew in that order, and hga_graph_name tells the file's id. GraphML
   and GML keep labels as names. HGA_EIO, HGA_EFORMAT with the file's name and line or byte, HGA_EGRAPH for what a
   builder refuses. Several threads may read. */

/* Matrix Market, coordinate, real, integer or pattern: rows are destinations, columns sources, values weights. What is
   not square is cross-attention: the rows are queries, the columns keys. */
HGA_API hga_status hga_graph_read_mtx(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out);

/* Lines of source, destination, and perhaps a weight, or as a first line names the columns: source (src, from, u),
   destination (dst, target, to, v), type, weight. Between them commas, semicolons or blanks; # and % begin comments. */
HGA_API hga_status hga_graph_read_csv(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out);

/* GraphML; of nodes level, parent, mass and label (name), of edges type, weight and relation are understood. */
HGA_API hga_status hga_graph_read_graphml(const hga_allocator *a, const char *path, const hga_import *o,
                                          hga_graph **out);
/* GML; the same. */
HGA_API hga_status hga_graph_read_gml(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out);

/* METIS's .graph: undirected, weights of edges are weights, those of vertices masses. */
HGA_API hga_status hga_graph_read_metis(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out);

/* A NumPy array of integers, [edges][2 or 3] = source, destination, type; or of truth values, a mask: [rows][columns],
   row i attends to the columns that are true. A square one is of tokens that see each other, else rows are queries and
   columns keys. Without parents a mask is not listed edge by edge: its blocks are found, hga_graph_from_predicate. */
HGA_API hga_status hga_graph_read_npy(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out);

/* A scipy.sparse matrix from save_npz: csr, csc or coo; rows are destinations, columns sources, values weights. */
HGA_API hga_status hga_graph_read_npz(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out);

/* Any of these by the end of the name: .mtx, .csv, .tsv, .edges, .graphml, .gml, .graph, .npy, .npz; every other name
   is JSON. *program (NULL accepted) is NULL, or of JSON the text of its program, for hga_text_free. */
HGA_API hga_status hga_graph_read(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out,
                                  char **program);

#ifdef __cplusplus
}
#endif
#endif
