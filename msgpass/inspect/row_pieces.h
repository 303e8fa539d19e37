/* row_pieces.h: where a row that has its columns alone is cut into pieces, and in which order these become the row
   again. Both hang on the row alone, never on threads or ranks, so that whoever computes a piece, the row has the same
   bits. */
#ifndef ROW_PIECES_H
#define ROW_PIECES_H

#include "program.h"

/* Rows with more edges than `longer` that have their columns alone are cut into pieces of `piece` edges; INT64_MAX:
   none are. */
typedef struct piece_rule {
    hga_pos longer, piece;
} piece_rule;

/* That of a stage which a fused function computes, where there is one; cut_edges as the plan has it, above 0. */
piece_rule piece_rule_of(const hga_program *p, hga_id stage, hga_pos cut_edges);

/* The first column of the row of a stage at a position, of so many edges, where all of them are with columns that
   follow each other and that its neighbours have not; else -1. An attended row's columns are nodes, those of a sum may
   be positions of an order. */
hga_id first_lone_column(const hga_graph *g, const hga_program *p, hga_id stage, hga_id position, hga_pos degree);

/* Pieces [lo, hi) of a row, two at least: those before this one become one, those from it on become one, and then
   these two. Before it are as many as the greatest power of two below all of them; so n neighbours take part as
   log2 n at most. */
static inline hga_id pieces_middle(hga_id lo, hga_id hi)
{
    return lo + (hga_id)(UINT32_C(1) << (31 - __builtin_clz((unsigned)(hi - lo - 1))));
}

/* Bytes of a piece between ranks: a state of each head, or the sums of all columns and of the factors, in double. */
static inline int64_t piece_bytes(stage_kind kind, int64_t heads, int64_t columns)
{
    return kind_sums(kind) ? (heads * columns + 1) * (int64_t)sizeof(double)
                           : heads * (columns + 1) * (int64_t)sizeof(float);
}

#endif
