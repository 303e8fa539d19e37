/* addresses.h: where rows of many nodes are, and their scalars, [rows][heads], there and back: what is the field's is
   looked at once, not row by row. */
#ifndef ADDRESSES_H
#define ADDRESSES_H

#include "bound.h"

/* Nodes: those of a list, or where that is NULL all from `first` on. */
typedef struct some_nodes {
    hga_id n, first;
    const hga_id *list;
} some_nodes;

static inline hga_id node_of(const some_nodes *x, hga_id i) { return x->list ? x->list[i] : x->first + i; }
/* Of a list, which may be one of nodes side by side. */
some_nodes nodes_of(hga_id n, const hga_id *list);
static inline some_nodes nodes_from(hga_id n, hga_id first) { return (some_nodes){.n = n, .first = first}; }

void find_rows(const bound_field *field, some_nodes of, float **at);
void find_lses(const bound_field *field, some_nodes of, float **at);

/* Log-sum-exps, and rows of fields of scalars. */
void load_lses(const bound_field *field, some_nodes of, float *to);
void store_lses(const bound_field *field, some_nodes of, const float *from);
void load_scalars(const bound_field *field, some_nodes of, float *to);
void store_scalars(const bound_field *field, some_nodes of, const float *from);

#endif
