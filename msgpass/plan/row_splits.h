/* row_splits.h: where a row that has its columns alone is cut into splits, and in which order these are merged. Both
   depend on the row alone, never on threads or ranks, so that the row has the same bits, whichever computes a split. */
#ifndef ROW_SPLITS_H
#define ROW_SPLITS_H

#include "program.h"

/* Rows with more edges than `longer` that have their columns alone are cut into splits of `split` edges; INT64_MAX:
   none are. `together`: splits mostly have the columns of others, too, and are computed with them. */
typedef struct split_rule {
    hga_pos longer, split;
    int together;
} split_rule;

/* The rule of a stage that a fused function computes, if there is one; cut_edges > 0 as the plan has it. */
split_rule split_rule_of(const hga_graph *g, const hga_program *p, hga_id stage, hga_pos cut_edges);

/* Consecutive columns that a row has alone: the first one, -1 without; and of these edges the weight, the first one's
   type, and the step of types from edge to edge. An attended row's columns are nodes, those of a
   sum may be positions of an order. */
typedef struct lone_columns {
    hga_id first;
    int32_t type, type_step;
    float weight;
} lone_columns;

/* Measures of a row's segments: its edges, and the columns of the last segment, which the row has alone where that is
   the only one and not shared with a neighbour. */
typedef struct row_look {
    hga_pos degree, columns;
    hga_id segments;
    int shared;
    lone_columns alone;
} row_look;

/* Looks at the rows of a relation at positions [first, first + n). */
void look_at_rows(const hga_graph *g, hga_id relation, hga_id first, hga_id n, row_look *row);

/* The columns of a stage's row at a position, if all of its edges are in them and its neighbours have none of them. */
lone_columns lone_columns_of(const hga_graph *g, const hga_program *p, hga_id stage, hga_id position,
                             const row_look *row);

/* Splits [lo, hi) of a row, at least two: those before the middle are merged, those from it on, and then these two.
   Before it are as many as the greatest power of two below their number; so n neighbours are merged as at most log2 n
   ranges. */
static inline hga_id splits_middle(hga_id lo, hga_id hi)
{
    return lo + (hga_id)(UINT32_C(1) << (31 - __builtin_clz((unsigned)(hi - lo - 1))));
}

/* Bytes of a split's message between ranks: a state of each head, or the sums of all columns and of the factors, in
   double. */
static inline int64_t split_bytes(stage_kind kind, int64_t heads, int64_t columns)
{
    return kind_sums(kind) ? (heads * columns + 1) * (int64_t)sizeof(double)
                           : heads * (columns + 1) * (int64_t)sizeof(float);
}

#endif
