/* run_splits.c: computes splits of several rows that share all or some of their columns (as spans of all levels share
   their tokens) as rows of one tile, which reads the columns once. Each stores its state in its split's slot, to be
   merged. Rows of a tile are independent, so the bits do not depend on which rows share it. */
#include "attend_solvers.h"
#include "row_solvers.h"
#include "dropout.h"
#include "split_groups.h"
#include "run_tiles.h"
#include "stage_plan.h"
#include "stages.h"

/* ---- grouping ---- */

split_columns columns_of_split(const stage_plan *s, hga_id split)
{
    const long_row *row = long_row_of(s, split);
    const hga_pos begin = (split - row->first_split) * row->cut, left = row->n_edges - begin;
    return (split_columns){row->alone.first + (hga_id)begin, (hga_id)(left < row->cut ? left : row->cut)};
}

static split_columns all_of(split_columns x, split_columns y)
{
    const hga_id first = x.first < y.first ? x.first : y.first,
                 end = x.first + x.n > y.first + y.n ? x.first + x.n : y.first + y.n;
    return (split_columns){first, end - first};
}

/* The kernel sums a group's columns two by two: the number of columns before a row's own does not change its bits, as
   long as it is even. */
static int may_join(const split_group *x, const lone_columns *alone, split_columns y)
{
    if (alone->first < 0) return 0;
    if (x->n == 0) return 1;
    return all_of(x->columns, y).n <= KERNEL_CHUNK && (y.first - x->columns.first) % 2 == 0 &&
           !(alone->weight < x->weight) && !(alone->weight > x->weight);
}

/* Adds a split to the group; 0: it does not fit. */
static int join_split(split_group *x, const worker *w, hga_id stage, hga_id split)
{
    const stage_plan *s = &w->plan->stage[stage];
    const long_row *row = long_row_of(s, split);
    const split_columns of = columns_of_split(s, split);
    const hga_id v = node_at(s, row->position), r = x->n;
    if (!may_join(x, &row->alone, of)) return 0;
    x->columns = r ? all_of(x->columns, of) : of, x->weight = row->alone.weight;
    x->of[r] = of, x->split[r] = split, x->node[r] = has_row(w, stage, v) ? v : NO_ROW;
    x->type_step[r] = row->alone.type_step;
    x->type[r] = row->alone.type + (of.first - row->alone.first) * row->alone.type_step;
    x->n++;
    return 1;
}

void find_split_group(const worker *w, const wave_item *item, int64_t n, split_group *x)
{
    const phase *ph = &w->plan->phases.list[item->phase];
    x->n = 0;
    while (x->n < n && x->n < KERNEL_TILE && item[x->n].phase == item->phase &&
           join_split(x, w, ph->stage, item[x->n].panel))
        continue;
}

/* ---- as a tile ---- */

static void lay_split(const split_group *x, edge_chunk *c)
{
    c->n = x->columns.n, c->more = 0;
    for (hga_id e = 0; e < c->n; e++) c->src[e] = x->columns.first + e, c->weight[e] = x->weight, c->type[e] = 0;
}

/* Sets each column's lane mask; returns whether all rows have all columns. */
static int mark_rows(const split_group *x, lane_mask *rows)
{
    hga_id pairs = 0;
    for (hga_id e = 0; e < x->columns.n; e++) rows[e] = 0;
    for (hga_id r = 0; r < x->n; pairs += x->of[r++].n)
        for (hga_id e = x->of[r].first - x->columns.first, end = e + x->of[r].n; e < end; e++)
            rows[e] = (lane_mask)(rows[e] | 1u << r);
    return pairs == x->n * x->columns.n;
}

/* Types of all pairs, even where a column's rows have one type, so that a row's bits depend on no other row. */
static void lay_types(const split_group *x, int32_t *type)
{
    for (hga_id i = 0; i < x->columns.n * KERNEL_TILE; i++) type[i] = -1;
    for (hga_id r = 0; r < x->n; r++)
        for (hga_id e = 0, at = x->of[r].first - x->columns.first; e < x->of[r].n; e++)
            type[(at + e) * KERNEL_TILE + r] = x->type[r] + e * x->type_step[r];
}

/* Runs the group's splits as the rows of a tile of one chunk. */
static void run_split_group(worker *w, hga_id stage, const split_group *x)
{
    tile_batch *b = w->tiles.chooser.batch;
    tile_chunk *c = &b->chunk[0];
    row_group rows = {.stage = stage, .n_rows = x->n, .node = x->node, .split = x->split, .complete = 1};
    const int typed = w->memory.types && (w->io->rel_key.data || w->io->rel_bias.data || drops_weights(w));
    b->stage = stage, b->n = 1, b->n_typed = typed, b->pair_type = w->tiles.chooser.pair_type;
    c->n_parts = 1, c->odd = 0, c->typed = 0, c->pairs = typed, c->types_vary = typed ? ~UINT64_C(0) : 0;
    lay_split(x, &c->columns);
    if (typed) lay_types(x, b->pair_type);
    c->part[0] = (tile_part){.group = &rows, .last = x->columns.n, .full = mark_rows(x, c->rows[0])};
    run_tiles(w, b);
    b->n = b->n_typed = 0;
}

int64_t splits_fit(worker *w, const wave_item *item, int64_t n)
{
    split_group x;
    find_split_group(w, item, n, &x);
    return x.n;
}

void splits_take(worker *w, const wave_item *item, int64_t n)
{
    split_group x;
    find_split_group(w, item, n, &x);
    run_split_group(w, w->plan->phases.list[item->phase].stage, &x);
}
