/* edges.h: attention along a list of edges that is new in every call, as layers of graph networks bring it: the list is
   checked, sorted and attended along in C, by a plan of the pool that is updated to it. */
#ifndef HGA_PY_EDGES_H
#define HGA_PY_EDGES_H

#include "pool.h"

/* A list of edges, where its owner has it: row 0 are sources, row 1 destinations. */
typedef struct hga_py_edge_index {
    uintptr_t ends;
    int64_t row_stride, edge_stride; /* bytes */
    int64_t n;
    int number;                   /* bytes of a node's number, 8, 4, 2 or 1; -1: one without a sign */
    hga_id sources, destinations; /* equal: the same nodes, unless is_bipartite */
    hga_id loops;  /* of the first so many nodes, in place of those that the list has; 0: none is added */
    int by_itself; /* 1: every edge has a row of tables; 0: one that repeats counts as often */
    int is_bipartite;
} hga_py_edge_index;

/* HGA_EINVAL names a node that is not there. */
hga_status hga_py_edge_index_check(const hga_py_edge_index *index);

/* 128 bits that other nodes, or the same in another order, do not have. */
void hga_py_edge_index_hash(const hga_py_edge_index *index, uint64_t hash[2]);

/* Edges in the order of their graph. */
typedef struct hga_py_edges hga_py_edges;

/* *out is the caller's: hga_py_edges_destroy. HGA_EINVAL as above. */
hga_status hga_py_edges_create(const hga_py_edge_index *index, hga_py_edges **out);
void hga_py_edges_destroy(hga_py_edges *edges);
/* The graph, retained for the caller. */
hga_graph *hga_py_edges_graph(const hga_py_edges *edges);
/* How many there are, loops among them. */
int64_t hga_py_edges_n(const hga_py_edges *edges);
/* [n]: which edge is where, of those by themselves: the list's, then loops behind them. NULL: of others. */
const int64_t *hga_py_edges_order(const hga_py_edges *edges);

/* What calls of a layer have in common. Tensors are of float32, packed, [rows][heads][columns]. */
typedef struct hga_py_edge_kind {
    int64_t key; /* of such kinds, at least 1 */
    hga_id heads, dim, dim_v, threads;
    int is_additive, gradient;
    float negative_slope, dropout;
    int of_values; /* 1: dim is 1, and query and key are products of a row of values with weights of its head, the
                          same nodes' (GAT, Velickovic et al. 2018) */
    int edge_rows; /* 1: every edge has a row [heads * dim] that is added to its key; 2: and to its value; 0: none */
} hga_py_edge_kind;

/* Addresses of a call's tensors; what it has not is 0. edge [edges][heads * dim], in the order in which edges came,
   loops last; out [destinations][heads][dim_v]. of_values: query and key are weights [heads][dim_v]. */
typedef struct hga_py_edge_call {
    uintptr_t query, key, value, additive, edge, out;
    uint64_t seed;
} hga_py_edge_call;

/* Where gradients go, overwritten; 0: not wanted. */
typedef struct hga_py_edge_gradients {
    uintptr_t query, key, value, additive, edge;
} hga_py_edge_gradients;

/* What a forward pass leaves for its backward pass: a plan that nobody else has, and its tape. */
typedef struct hga_py_pass hga_py_pass;

/* Products of each row of values [nodes][heads][columns] with two weights of its head [heads][columns], queries and
   keys [nodes][heads]: what calls with of_values begin with. */
typedef struct hga_py_products {
    int64_t nodes;
    hga_id heads, columns;
    const float *values, *weights[2];
} hga_py_products;

void hga_py_multiply(const hga_py_products *x, float *query, float *key);
/* Given the gradients of both, adds that of values, and writes those of weights; NULL: not wanted. */
void hga_py_multiply_back(const hga_py_products *x, const float *d_query, const float *d_key, float *d_values,
                          float *d_query_weights, float *d_key_weights);

/* Forward. pass NULL: no backward pass follows; else *pass is the caller's: hga_py_pass_end. */
hga_status hga_py_attend_along(const hga_py_edge_kind *kind, const hga_py_edges *edges, const hga_py_edge_call *call,
                               hga_py_pass **pass);
/* Back, of the same tensors, as often as you like; d_out has the shape of out, packed. */
hga_status hga_py_gradient_along(const hga_py_pass *pass, const hga_py_edge_call *call, uintptr_t d_out,
                                 const hga_py_edge_gradients *to);
void hga_py_pass_end(hga_py_pass *pass);

#endif
