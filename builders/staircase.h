/* staircase.h: a rectangle of edges moved by steps for as long as it meets its rows and columns; what regular levels
   are made of. */
#ifndef HGA_BUILDERS_STAIRCASE_H
#define HGA_BUILDERS_STAIRCASE_H

#include "hga_graph.h"

/* Instance m, for every integer m, has rows row + m * row_step .. + n_rows - 1 and columns col + m * col_step .. +
   n_cols - 1, clipped to [row_begin, row_end) and [col_begin, col_end); steps are > 0. type(r, c) = type + r * type_dst
   + c * type_src inside the unclipped instance. A shape other than HGA_ALL may be clipped at the high ends only. */
typedef struct hga_staircase {
    int64_t row, n_rows, row_step, col, n_cols, col_step;
    int64_t row_begin, row_end, col_begin, col_end;
    int64_t type, type_dst, type_src;
    hga_shape_kind shape;
    float weight; /* 0 means 1 */
} hga_staircase;

/* Add its edges: the whole instances as one repeated block, each clipped one as a block of its own. */
hga_status hga_staircase_add(hga_builder *b, hga_id relation, const hga_staircase *s);

#endif
