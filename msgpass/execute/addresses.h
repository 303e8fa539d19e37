/* addresses.h: addresses of many nodes' rows, and gathers and scatters of their scalars, [nodes][heads]: the field's
   layout is read once, not once per row. */
#ifndef ADDRESSES_H
#define ADDRESSES_H

#include "bound.h"

/* Nodes: those of a list, or where that is NULL all from `first` on. */
typedef struct some_nodes {
    hga_id n, first;
    const hga_id *list;
} some_nodes;

static inline hga_id node_of(const some_nodes *x, hga_id i) { return x->list ? x->list[i] : x->first + i; }
/* Nodes of a list; a list of contiguous nodes becomes a range. */
some_nodes nodes_of(hga_id n, const hga_id *list);
static inline some_nodes nodes_from(hga_id n, hga_id first) { return (some_nodes){.n = n, .first = first}; }

void find_rows(const bound_field *field, some_nodes of, float **at);
void find_lses(const bound_field *field, some_nodes of, float **at);

/* Load and store log-sum-exps, and rows of fields of scalars, [nodes][heads]. */
void load_lses(const bound_field *field, some_nodes of, float *to);
void store_lses(const bound_field *field, some_nodes of, const float *from);
void load_scalars(const bound_field *field, some_nodes of, float *to);
void store_scalars(const bound_field *field, some_nodes of, const float *from);

enum { CHILDREN_AT_ONCE = 128 };
typedef struct some_families {
    some_nodes parents, children;
    const hga_id *ptr; /* [families + 1]: from ptr[i] - ptr[0] on, children are the i-th parent's */
    const float *mass; /* of the children, maybe in .. */
    float buffer[CHILDREN_AT_ONCE];
} some_families;

/* Finds whole families of the first of n nodes, as long as these are contiguous: each of fewer children than a chunk,
   at most `most` children together. Returns how many; 0: the first has more. */
hga_id take_families(const hga_nodes *nodes, hga_id most, hga_id n, const hga_id *node, some_families *out);

#endif
