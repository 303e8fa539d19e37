/* row_splits.c: which rows have their columns alone. */
#include "row_splits.h"

#include "longer.h"
#include "sums.h"

#include <string.h>

/* Blocks of rows that have many columns alone: their edges, and their columns [least, end). */
typedef struct lone_blocks {
    int64_t edges, least, end;
} lone_blocks;

static void add_block(lone_blocks *x, const hga_block *b)
{
    const int64_t count = b->count ? b->count : 1, end = b->src + (count - 1) * b->src_step + b->n_src;
    if (b->n_dst != 1 || b->n_src <= LONG_ALONE || (count > 1 && b->dst_step == 0)) return;
    if (b->src < x->least) x->least = b->src;
    if (end > x->end) x->end = end;
    x->edges += count * b->n_src;
}

/* Whether each column is in several such rows, as tokens are in spans of several levels. Rows after the present ones
   make no difference. */
static int lone_rows_meet(const hga_graph *g, hga_id relation)
{
    const hga_relation r = hga_graph_relation(g, relation);
    lone_blocks x = {.least = INT64_MAX};
    if (graph_longer(g)) return 1;
    for (hga_block_walk w = {0}; hga_relation_next(&r, &w);) add_block(&x, &w.block);
    return x.edges > 0 && x.edges >= SPLIT_GROUP_EDGES * (x.end - x.least);
}

/* Only attention and sums have such rows; attention's splits are computed together where several such rows share
   columns. */
split_rule split_rule_of(const hga_graph *g, const hga_program *p, hga_id stage, hga_pos cut_edges)
{
    const hga_stage *s = &p->stage[stage];
    const split_rule none = {.longer = INT64_MAX};
    stage_kind kind = program_kind(s);
    if (s->order != HGA_FLAT || s->relation < 0 || program_is_plain(p)) return none;
    if (kind == KIND_ATTEND && hga_graph_relation(g, s->relation).n_choices) return none; /* blocks are shared */
    if (kind == KIND_ATTEND && program_normaliser_is(p) & NORMALISER_MERGES)
        return lone_rows_meet(g, s->relation) ? (split_rule){LONG_TOGETHER, SPLIT_ALONE, 1}
                                              : (split_rule){LONG_ALONE, SPLIT_ALONE, 0};
    if (!kind_sums(kind)) return none;
    hga_pos split = cut_edges < SPLIT_SUM ? cut_edges : SPLIT_SUM;
    return (split_rule){split, split, 0};
}

typedef struct split_look {
    hga_id first, n;
    row_look *row;
} split_look;

static void look_at(row_look *r, const hga_segment *s, hga_id row, hga_id times)
{
    hga_id c0, c1, hole;
    hga_segment_columns(s, row, &c0, &c1, &hole);
    r->degree += (hga_pos)times * (c1 - c0 - (hole >= 0));
    r->segments += times, r->shared |= s->n_rows > 1 || s->has_hole;
    r->alone = (lone_columns){s->src, s->type, s->type_src, s->weight}, r->columns = s->n_src;
}

/* Instances that share their rows have equally many columns each. */
static void look_at_segments(const hga_segments *s, void *context)
{
    const split_look *w = context;
    const hga_id n = s->row_step == 0 ? 1 : s->count, times = s->count / n;
    for (hga_id i = 0; i < n; i++) {
        const hga_segment one = hga_segments_at(s, i);
        const hga_id first = one.row > w->first ? one.row : w->first, end = one.row + one.n_rows;
        for (hga_id p = first; p < end && p < w->first + w->n; p++) look_at(&w->row[p - w->first], &one, p, times);
    }
}

void look_at_rows(const hga_graph *g, hga_id relation, hga_id first, hga_id n, row_look *row)
{
    const hga_id before = first > 0, behind = first + n < hga_graph_nodes(g).n;
    split_look w = {first, n, row};
    memset(row, 0, (size_t)n * sizeof *row);
    hga_graph_visit_segments(g, relation, first - before, before + n + behind, look_at_segments, &w);
}

/* Whether the row, one of its level's last few, would share its columns with rows of the longer graph. */
static int shares_later(const hga_graph *g, hga_id relation, hga_id position)
{
    const hga_graph *longer = graph_longer(g);
    if (!longer) return 0;
    const hga_id level = hga_graph_level(g, position), *here = hga_graph_nodes(g).level_ptr + level,
                 inside = position - here[0];
    if (inside < (here[1] - here[0]) / LONGER_ROWS * LONGER_ROWS) return 0;
    row_look there;
    look_at_rows(longer, relation, hga_graph_nodes(longer).level_ptr[level] + inside, 1, &there);
    return there.shared;
}

lone_columns lone_columns_of(const hga_graph *g, const hga_program *p, hga_id stage, hga_id position, const row_look *r)
{
    static const lone_columns none = {.first = -1};
    const hga_stage *s = &p->stage[stage];
    const hga_relation rel = hga_graph_relation(g, s->relation);
    if (rel.dst_order || (rel.src_order && !kind_sums(program_kind(s)))) return none;
    const int alone = r->segments == 1 && !r->shared && r->columns == r->degree;
    return alone && !shares_later(g, s->relation, position) ? r->alone : none;
}
