/* children.h: families of contiguous nodes, which are summed up the tree together. */
#ifndef CHILDREN_H
#define CHILDREN_H

#include "addresses.h"

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
