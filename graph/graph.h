/* graph.h: how a graph is stored. Only graph/ includes this. */
#ifndef GRAPH_H
#define GRAPH_H

#include "hga_graph.h"
#include "names.h"

enum { NAME_BYTES = 64 };

/* Blocks whose rows choose their columns. */
typedef struct stored_choices {
    hga_pos n, capacity;
    hga_choice *row; /* [n]; their lists are in these: */
    hga_pos *list, list_capacity;
    hga_id *chosen;
    hga_pos chosen_capacity;
} stored_choices;

/* The orders of a relation whose blocks count in orders of its own. */
typedef struct stored_order {
    hga_id n_src;
    hga_id *dst, *dst_rank, *src;
} stored_order;

/* Explicit edges: row v has [ptr[v], ptr[v + 1]). */
typedef struct stored_edges {
    hga_pos n;
    hga_pos *ptr;
    hga_id *src;
    int32_t *type;
    float *weight;
} stored_edges;

typedef struct stored_relation {
    char name[NAME_BYTES];
    hga_pos n_blocks, n_edges;
    hga_block *blocks;
    int64_t *reach; /* [n_blocks]: one past the last row of any block in the subtree that block roots; see blocks.c */
    stored_choices choices;
    stored_order order;
    stored_edges edges;
    int32_t n_types;
    int weighted, positioned;
} stored_relation;

/* Names of kinds, in the order of their numbers. */
typedef struct kind_list {
    int32_t n;
    int64_t capacity, name_capacity;
    char (*text)[NAME_BYTES];
    const char **name; /* [n]: each one's text */
    name_index index;
} kind_list;

/* Tokens: nodes of level 0 that have queries, and those that have keys. */
typedef struct token_ranges {
    hga_id query_first, n_queries, key_first, n_keys;
} token_ranges;

/* What nodes have, [n] each. */
typedef struct node_arrays {
    hga_id *level_ptr; /* [n_levels + 1] */
    hga_id *parent;
    uint8_t *side;
    float *mass;
    float *position; /* [level_ptr[1]], of tokens; -1: none. NULL: all are at their index */
    hga_id *span_first, *span_last;
    int32_t *kind; /* -1: none; NULL: none was declared */
} node_arrays;

/* The children of node v are list[ptr[v]] .. list[ptr[v + 1] - 1]. */
typedef struct child_lists {
    hga_id *ptr, *list;
    hga_id n;
} child_lists;

typedef struct node_names {
    int64_t *at; /* [n] where a node's name begins in `text`, -1 without; NULL: no node has one */
    char *text;
    int64_t bytes;
} node_names;

struct hga_graph {
    _Atomic int owners;
    hga_allocator allocator;
    hga_graph *base;       /* whose everything but names and kinds this graph shares; NULL: it owns all */
    hga_graph *longer;     /* longer.h; NULL */
    hga_id n_parts, *part; /* parts.h; [n_parts] */
    hga_id n, n_levels, n_relations;
    node_arrays node;
    child_lists children;
    token_ranges token;
    uint32_t claims;
    stored_relation *relation;
    name_index names; /* of the relations */
    node_names node_names;
    kind_list kinds;
};

/* Edges declared one by one, each of their properties in an array of its own. */
typedef struct declared_edges {
    hga_pos n, src_capacity, dst_capacity, type_capacity, weight_capacity;
    hga_id *src, *dst;
    int32_t *type; /* NULL: 0 each */
    float *weight; /* NULL: 1 each */
} declared_edges;

/* degrees.c: HGA_EGRAPH if blocks give a row more edges than can be listed, as small files could declare. */
hga_status rows_can_be_listed(const hga_graph *g);
/* degrees.c: HGA_EGRAPH unless count * n_dst <= max(1024 n, 2^28) for each block. */
hga_status instances_can_be_visited(const hga_graph *g);

/* A token's index among the queries or, if it is none, among the keys. */
static inline hga_id token_index(const hga_graph *g, hga_id v)
{
    return v >= g->token.query_first && v - g->token.query_first < g->token.n_queries ? v - g->token.query_first
                                                                                      : v - g->token.key_first;
}

/* Nodes of equal numbers may be exchanged in a renumbering: those of a level, on level 0 those of a side. */
static inline hga_id node_stand(const hga_graph *g, hga_id v)
{
    hga_id second = g->token.query_first > g->token.key_first ? g->token.query_first : g->token.key_first;
    return v >= g->node.level_ptr[1] ? hga_graph_level(g, v) + 1 : v >= second;
}

/* sparse.c: CSR by destination, ascending (source, type), every edge once; `sums`: with the sum of its weights. weight
   stays NULL when all are 1, type when all are 0. */
hga_status sparse_compress(const hga_allocator *a, hga_id n, const declared_edges *declared, int sums,
                           stored_relation *out);

/* graph.c: frees the graph; one that shares its base's contents releases the base. */
void graph_free(hga_graph *g);

#endif
