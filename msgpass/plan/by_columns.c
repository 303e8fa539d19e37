/* by_columns.c: whether solving a stage by columns (execute/attend/run_by_columns.c) pays: where rows have runs of
   columns that they share with few of the sixteen that they are computed with, and with many of their panel, as where
   each token chooses its own blocks. Samples some panels. */
#include "panels.h"
#include "by_columns.h"
#include "parts.h"
#include "plan.h"

#include <string.h>

/* Number of panels sampled, and how many times as many tiles groups of sixteen rows must need. */
enum { SAMPLED = 8, AS_MANY = 2 };

/* For a panel: how many of its rows each window of KERNEL_CHUNK columns has, and which groups. */
typedef struct window_rows {
    uint16_t *rows, *groups; /* [windows] */
    hga_id *touched;         /* [windows]: the first n are those that some row has */
    hga_id n;
} window_rows;

/* Whether all edges are of one type and one weight, in blocks. */
static int blocks_are_plain(const hga_relation *r)
{
    if (r->ptr || r->src_order || r->n_types > 1) return 0;
    if (r->n_choices) return 1;
    for (hga_pos i = 0; i < r->n_blocks; i++) {
        const hga_block *b = &r->blocks[i];
        if (b->type != 0 || (b->weight != 0 && (b->weight < 1 || b->weight > 1))) return 0;
    }
    return r->n_blocks > 0;
}

/* Whether a good part of the pairs are in blocks of fewer rows than a tile has, and of many columns. */
static int blocks_are_low(const hga_relation *r)
{
    double low = 0, all = 0;
    if (r->n_choices) return r->choices->row_block < KERNEL_TILE && r->choices->block >= KERNEL_TILE;
    for (hga_pos i = 0; i < r->n_blocks; i++) {
        const hga_block *b = &r->blocks[i];
        double pairs = (double)b->n_dst * b->n_src * (b->count ? b->count : 1);
        all += pairs;
        if (b->n_dst < KERNEL_TILE && b->n_src >= KERNEL_TILE) low += pairs;
    }
    return low * 4 > all;
}

static void meet(window_rows *w, hga_id window, hga_id row)
{
    if (!w->rows[window]) w->touched[w->n++] = window;
    w->rows[window]++;
    w->groups[window] |= (uint16_t)(1u << row / KERNEL_TILE);
}

static void meet_segment(window_rows *w, const hga_segment *s, hga_id first)
{
    for (hga_id p = s->row; p < s->row + s->n_rows; p++) {
        hga_id c0, c1, hole;
        hga_segment_columns(s, p, &c0, &c1, &hole);
        for (hga_id x = (s->src + c0) / KERNEL_CHUNK; c0 < c1 && x <= (s->src + c1 - 1) / KERNEL_CHUNK; x++)
            meet(w, x, p - first);
    }
}

/* Counts the tiles of a panel by columns, and of groups of sixteen rows; clears the windows. */
static void count_tiles(window_rows *w, int64_t *by_columns, int64_t *side_by_side)
{
    for (hga_id i = 0; i < w->n; i++) {
        hga_id x = w->touched[i];
        *by_columns += (w->rows[x] + KERNEL_TILE - 1) / KERNEL_TILE, *side_by_side += __builtin_popcount(w->groups[x]);
        w->rows[x] = w->groups[x] = 0;
    }
    w->n = 0;
}

/* Samples panels pseudo-randomly, since graphs repeat at equal steps. */
static hga_status count_panels(const hga_plan *plan, hga_id stage, window_rows *w, int *pays)
{
    hga_status st = HGA_OK;
    int64_t by_columns = 0, side_by_side = 0;
    hga_segment *segment = NULL;
    hga_pos capacity = 0;
    const hga_id n = plan->nodes.n, panels = n / PANEL_ROWS, relation = plan->program.stage[stage].relation;
    for (hga_id i = 0; i < SAMPLED && i < panels; i++) {
        const uint64_t here = (uint64_t)(i + 1) * 0x9e3779b1 % (UINT64_C(1) << 32);
        hga_id first = (hga_id)((uint64_t)panels * here >> 32) * PANEL_ROWS;
        hga_pos some = hga_graph_segments(plan->graph, relation, first, PANEL_ROWS, segment, capacity);
        if (some > capacity) {
            HGA_TRY(hga_grow(&plan->memory.allocator, &segment, &capacity, 0, some, sizeof *segment));
            hga_graph_segments(plan->graph, relation, first, PANEL_ROWS, segment, capacity);
        }
        for (hga_pos j = 0; j < some; j++) meet_segment(w, &segment[j], first);
        count_tiles(w, &by_columns, &side_by_side);
    }
    *pays = by_columns > 0 && side_by_side >= AS_MANY * by_columns;
done:
    hga_delete(&plan->memory.allocator, segment, capacity, sizeof *segment);
    return st;
}

/* ---- windows ---- */

/* Windows begin anew with each part of the graph; a graph that declares no parts is one. */
static hga_status make_windows(hga_plan *plan)
{
    static const hga_id whole[] = {0};
    hga_status st = HGA_OK;
    column_windows *x = &plan->windows;
    x->n_parts = graph_parts(plan->graph, &x->first), x->declared = x->n_parts > 0, x->n = 0;
    if (!x->declared) x->first = whole, x->n_parts = 1;
    HGA_TRY(hga_grow(&plan->memory.allocator, &x->begin, &x->capacity, 0, (int64_t)x->n_parts + 1, sizeof *x->begin));
    for (hga_id i = 0; i < x->n_parts; i++) {
        hga_id n = (i + 1 < x->n_parts ? x->first[i + 1] : plan->nodes.n) - x->first[i];
        x->begin[i] = x->n, x->n += n / KERNEL_CHUNK + (n % KERNEL_CHUNK != 0);
    }
    x->begin[x->n_parts] = x->n;
done:
    return st;
}

/* Whether the stage's rows can run by columns. */
static int may_go(const hga_plan *plan, hga_id stage)
{
    const hga_relation *r = &plan->stage[stage].relation;
    return kind_attends(plan->stage[stage].kind) && plan->program.stage[stage].relation >= 0 &&
           plan->program.stage[stage].order == HGA_FLAT && !r->dst_order && blocks_are_plain(r);
}

/* Decides for one stage: as a graph that declares its parts says, else by sampling panels. */
static hga_status find_by_columns(hga_plan *plan, hga_id stage)
{
    hga_status st = HGA_OK;
    window_rows w = {0};
    stage_plan *s = &plan->stage[stage];
    const hga_id windows = plan->nodes.n / KERNEL_CHUNK + 1;
    s->by_columns = 0;
    if (!may_go(plan, stage)) return HGA_OK;
    HGA_TRY(make_windows(plan));
    s->by_columns = plan->windows.declared;
    if (s->by_columns || s->strict || plan->fields.lone_rows || graph_longer(plan->graph)) return HGA_OK;
    if (!blocks_are_low(&s->relation)) return HGA_OK;
    HGA_TRY(hga_new_zero(&plan->memory.allocator, windows, sizeof *w.rows, &w.rows));
    HGA_TRY(hga_new_zero(&plan->memory.allocator, windows, sizeof *w.groups, &w.groups));
    HGA_TRY(hga_new(&plan->memory.allocator, windows, sizeof *w.touched, &w.touched));
    HGA_TRY(count_panels(plan, stage, &w, &s->by_columns));
done:
    hga_delete(&plan->memory.allocator, w.rows, windows, sizeof *w.rows);
    hga_delete(&plan->memory.allocator, w.groups, windows, sizeof *w.groups);
    hga_delete(&plan->memory.allocator, w.touched, windows, sizeof *w.touched);
    return st;
}

hga_status by_columns_find(hga_plan *plan)
{
    hga_status st = HGA_OK;
    for (hga_id s = 0; !st && s < plan->program.n_stages; s++) st = find_by_columns(plan, s);
    return st;
}
