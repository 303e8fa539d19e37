/* hga_export.h: graphs as other programs' files. JSON, which holds all of a graph, is hga_graph_write_json. */
#ifndef HGA_EXPORT_H
#define HGA_EXPORT_H

#include "hga_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Write the edges of a relation as NumPy's int32 [edges][3]: source, destination, type. All writers here stream them in
   canonical order: memory does not grow with the edges. The relation may be HGA_TREE_UP or HGA_TREE_DOWN; csv, graphml,
   gexf and dot, where an edge can name its relation, also take HGA_ALL_RELATIONS, the others refuse it with
   HGA_EUNSUPPORTED. For a cross-attention graph ids count within their side. */
HGA_API hga_status hga_graph_write_npy(const hga_graph *g, hga_id relation, const char *path, hga_progress progress,
                                       void *context);
/* Write the edges as Matrix Market's coordinates, pattern or real general: rows are destinations. */
HGA_API hga_status hga_graph_write_mtx(const hga_graph *g, hga_id relation, const char *path, hga_progress progress,
                                       void *context);
/* Write the edges as lines of text: the names of the columns, then source,destination,type and, where some edge has
   one, weight; of all relations also relation, in quotes; where some node has a name, source_name,destination_name in
   quotes. */
HGA_API hga_status hga_graph_write_csv(const hga_graph *g, hga_id relation, const char *path, hga_progress progress,
                                       void *context);
/* Write the edges as GraphML: nodes with level, mass, span, parent and side, edges with type and weight; ids are the
   graph's own. */
HGA_API hga_status hga_graph_write_graphml(const hga_graph *g, hga_id relation, const char *path, hga_progress progress,
                                           void *context);
/* Write the edges as GEXF, which Gephi reads, with the attributes of GraphML. */
HGA_API hga_status hga_graph_write_gexf(const hga_graph *g, hga_id relation, const char *path, hga_progress progress,
                                        void *context);
/* Write the edges as METIS's .graph, undirected: pairs joined in either direction, without self loops; weights count
   the edges between two nodes, left out where all are 1. */
HGA_API hga_status hga_graph_write_metis(const hga_graph *g, hga_id relation, const char *path, hga_progress progress,
                                         void *context);
/* Write the edges as Graphviz's dot; HGA_EINVAL above `max_edges`. */
HGA_API hga_status hga_graph_write_dot(const hga_graph *g, hga_id relation, const char *path, hga_pos max_edges);

#ifdef __cplusplus
}
#endif
#endif
