/* row_pieces.c: which rows have their columns alone. */
#include "row_pieces.h"

#include "sums.h"

piece_rule piece_rule_of(const hga_program *p, hga_id stage, hga_pos cut_edges)
{
    const hga_stage *s = &p->stage[stage];
    const piece_rule none = {.longer = INT64_MAX};
    stage_kind kind = program_kind(s);
    if (s->order != HGA_FLAT || s->relation < 0 || program_is_plain(p)) return none;
    if (kind == KIND_ATTEND && program_normaliser(p) == HGA_NORMALISER_SOFTMAX)
        return (piece_rule){LONG_ALONE, PIECE_ALONE};
    if (!kind_sums(kind)) return none;
    hga_pos piece = cut_edges < PIECE_SUM ? cut_edges : PIECE_SUM;
    return (piece_rule){piece, piece};
}

/* A row that may have its only segment alone. */
typedef struct lone_row {
    hga_id position, segments, first_column;
    hga_pos columns;
    int shared;
} lone_row;

static void look_for_others(const hga_segments *s, void *context)
{
    lone_row *r = context;
    for (hga_id i = 0; i < s->count; i++) {
        hga_segment one = hga_segments_at(s, i);
        if (r->position < one.row || r->position >= one.row + one.n_rows) continue;
        r->segments++, r->shared |= one.n_rows > 1 || one.has_hole;
        r->first_column = one.src, r->columns = one.n_src;
    }
}

hga_id first_lone_column(const hga_graph *g, const hga_program *p, hga_id stage, hga_id position, hga_pos degree)
{
    const hga_stage *s = &p->stage[stage];
    const hga_relation rel = hga_graph_relation(g, s->relation);
    hga_id first = position > 0 ? position - 1 : 0,
           end = position + 1 < hga_graph_nodes(g).n ? position + 2 : position + 1;
    lone_row r = {.position = position};
    if (rel.dst_order || (rel.src_order && !kind_sums(program_kind(s)))) return -1;
    hga_graph_visit_segments(g, s->relation, first, end - first, look_for_others, &r);
    return r.segments == 1 && !r.shared && r.columns == degree ? r.first_column : -1;
}
