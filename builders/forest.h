/* forest.h: the nodes of hierarchical self-attention, before there is a graph. Only builders/ includes this. */
#ifndef FOREST_H
#define FOREST_H

#include "hga_builders.h"

/* A forest by graph ids: tokens first, then level by level. */
typedef struct forest {
    const hga_allocator *a;
    hga_id n, n_tokens, n_roots, n_levels;
    hga_id *level_size;   /* [n_levels] */
    hga_id *first, *size; /* [n]: the tokens below node v are first[v] .. first[v] + size[v] - 1 */
    /* [n + 1]: the children of v are at positions family_ptr[v] .. family_ptr[v + 1] - 1, from left to right */
    hga_id *family_ptr;
    hga_id *order; /* [n]: position -> node, roots last; NULL: the identity */
} forest;

/* The node at a position. */
static inline hga_id forest_member(const forest *f, hga_id position)
{
    return f->order ? f->order[position] : position;
}

/* Hopping windows over the tokens, or the caller's tree of parents; f->a is set, the rest zero. To be cleared whatever
   the status. */
hga_status forest_plant(const hga_hsa *p, forest *f);
/* Frees the arrays. */
void forest_clear(forest *f);

#endif
