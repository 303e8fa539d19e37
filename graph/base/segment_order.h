/* segment_order.h: the order of segments that begin at the same position, in the one order of all lists of segments. */
#ifndef SEGMENT_ORDER_H
#define SEGMENT_ORDER_H

#include "hga_graph.h"

/* By every member but where it begins: source, type and row. */
static inline int segment_shape_before(const hga_segment *a, const hga_segment *b)
{
    if (a->n_rows != b->n_rows) return a->n_rows < b->n_rows;
    if (a->n_src != b->n_src) return a->n_src < b->n_src;
    if (a->band_first != b->band_first) return a->band_first < b->band_first;
    if (a->band_last != b->band_last) return a->band_last < b->band_last;
    if (a->has_hole != b->has_hole) return a->has_hole < b->has_hole;
    if (a->hole != b->hole) return a->hole < b->hole;
    if (a->type_dst != b->type_dst) return a->type_dst < b->type_dst;
    if (a->type_src != b->type_src) return a->type_src < b->type_src;
    if (a->pos_of != b->pos_of) return a->pos_of < b->pos_of;
    if (a->src_pos_of != b->src_pos_of) return a->src_pos_of < b->src_pos_of;
    return a->weight < b->weight;
}

#endif
