/* write.h: common to the writers: the edges of a relation in chunks. Only files/ includes this. */
#ifndef WRITE_H
#define WRITE_H

#include "hga_export.h"
#include "output.h"

/* HGA_EINVAL unless it is a relation of the graph, or its tree. */
hga_status relation_check(const hga_graph *g, hga_id relation);
/* The same, and HGA_ALL_RELATIONS is accepted. */
hga_status relations_check(const hga_graph *g, hga_id relation);
/* hga_graph_relation, and the tree ("tree up", "tree down"). */
hga_relation relation_view(const hga_graph *g, hga_id relation);
/* hga_graph_rows, for the tree as well. */
hga_status relation_rows(const hga_graph *g, hga_id relation, hga_id first, hga_id n, hga_csr *out);
/* hga_graph_degrees, for the tree as well. */
void relation_degrees(const hga_graph *g, hga_id relation, hga_id first, hga_id n, hga_pos *degree);

/* The relation of the transposed graph, whose tree is the same, that has these edges reversed. */
hga_id relation_transposed(hga_id relation);

/* One relation, or all. */
typedef struct relations {
    hga_id n, first;
    int all;
    int weighted; /* some edge of some has a weight */
    hga_pos n_edges;
} relations;
/* Relation `relation`; with HGA_ALL_RELATIONS all, and the tree where the graph has one. */
relations relations_of(const hga_graph *g, hga_id relation);
/* Number i of them, i < r->n; the tree is HGA_TREE_UP and comes last. */
hga_id relations_at(const hga_graph *g, const relations *r, hga_id i);

/* The index of every node among the nodes of its side, and the number of nodes of each side; *rank = NULL in
   self-attention, where ids are unchanged. */
typedef struct local_ids {
    hga_id *rank;
    hga_id n_side[3];
} local_ids;
/* Finds them; *out is yours: local_ids_clear. */
hga_status local_ids_find(const hga_graph *g, local_ids *out);
/* Frees the ranks. */
void local_ids_clear(const hga_graph *g, local_ids *ids);

/* Visits a chunk of rows; a status other than HGA_OK ends the visits. */
typedef hga_status (*chunk_visitor)(const hga_csr *rows, void *context);
/* Calls `visit` with all in-edges of all nodes, in canonical order, in chunks of consecutive rows of about a million
   edges. HGA_EGRAPH if they are not as many as the relation has. */
hga_status chunks_visit(const hga_graph *g, hga_id relation, chunk_visitor visit, void *context, hga_progress progress,
                        void *progress_context);

#endif
