/* fast_tiles.c: which columns the groups of a panel have edges to, side by side as they lie, and the tiles of them. */
#include "panel.h"

#include <string.h>

/* The columns [*begin, *end) of the window that the segment's row has; columns count from the window's first. */
static void window_columns(const window *w, const hga_segment *s, hga_id position, hga_id *begin, hga_id *end,
                           hga_id *hole)
{
    hga_id c0, c1;
    hga_segment_columns(s, position, &c0, &c1, hole);
    int64_t shift = (int64_t)s->src - w->first, b = c0 + shift, e = c1 + shift;
    *begin = b < 0 ? 0 : b > w->n ? w->n : (hga_id)b;
    *end = e > w->n ? w->n : e < *begin ? *begin : (hga_id)e;
    *hole = *hole < 0 ? -1 : (hga_id)(*hole + shift);
}

/* Bit of row, on from column `begin` and off at `end`. */
static void flip(uint16_t *on, hga_id row, hga_id begin, hga_id end)
{
    on[begin] ^= (uint16_t)(1u << row), on[end] ^= (uint16_t)(1u << row);
}

/* The rows that the segment has at each column of the window. */
static void segment_rows(const group *g, const window *w, const hga_segment *s, hga_id first, uint16_t *rows)
{
    uint16_t on[WINDOW + 1] = {0}, now = 0;
    for (hga_id position = s->row; position < s->row + s->n_rows; position++) {
        hga_id row = position - first, begin, end, hole;
        if (!(g->there >> row & 1u)) continue;
        window_columns(w, s, position, &begin, &end, &hole);
        flip(on, row, begin, end);
        if (hole >= begin && hole < end) flip(on, row, hole, hole + 1);
    }
    for (hga_id c = 0; c < w->n; c++) rows[c] = now ^= on[c];
}

/* Put the segment's pairs into the window; a pair that is there already is left. */
static hga_status add_segment(fast_pass *p, const group *g, window *w, const hga_segment *s, hga_id first)
{
    hga_status st = HGA_OK;
    const hga_id *order = p->rows.r.src_order;
    uint16_t rows[WINDOW], twins = 0;
    segment_rows(g, w, s, first, rows);
    for (hga_id c = 0; c < w->n; c++) twins |= rows[c] & w->rows[c];
    for (hga_id c = 0; twins && c < w->n; c++)
        for (hga_id row = 0; !st && row < KERNEL_TILE; row++) {
            hga_id at = w->first + c;
            if ((rows[c] & w->rows[c]) >> row & 1u)
                st = leave(p, row, (row_edge){order ? order[at] : at, s->type, s->weight, s->pos_of}, 0);
        }
    for (hga_id c = 0; c < w->n; c++) w->rows[c] |= rows[c];
    return st;
}

/* All pairs of the window to the rows. */
static hga_status leave_window(fast_pass *p, const window *w)
{
    hga_status st = HGA_OK;
    const hga_id *order = p->rows.r.src_order;
    for (hga_id c = 0; !st && c < w->n; c++)
        for (hga_id row = 0; !st && row < KERNEL_TILE; row++)
            if (w->rows[c] >> row & 1u)
                st = leave(p, row, (row_edge){order ? order[w->first + c] : w->first + c, 0, 1, 0}, 0);
    return st;
}

static void gather(const fast_pass *p, hga_id f, const hga_id *node, hga_id n, float *to)
{
    hga_id columns = p->field[f].padded;
    for (hga_id c = 0; c < n; c++)
        memcpy(to + (ptrdiff_t)c * columns, value_row(p, f, node[c]), (size_t)columns * sizeof *to);
}

static void scatter(fast_pass *p, hga_id f, const hga_id *node, hga_id n, float *from)
{
    hga_id columns = p->field[f].padded;
    for (hga_id c = 0; c < n; c++) {
        float *to = adjoint_row(p, f, node[c]);
        p->plan->kernels->blend(columns, 1, to, 1, from + (ptrdiff_t)c * columns, to);
    }
    memset(from, 0, (size_t)(n * columns) * sizeof *from);
}

static void run_window(fast_pass *p, hga_id s, const window *w)
{
    const hga_stage *stage = &p->program->stage[s];
    panel *x = p->panel;
    const group *g = &x->group[w->group];
    const hga_id *node = p->rows.r.src_order ? p->rows.r.src_order + w->first : NULL;
    float bias[WINDOW], column_sum[WINDOW] = {0};
    for (hga_id c = 0; stage->by_mass && c < w->n; c++) bias[c] = p->log_mass[node ? node[c] : w->first + c];
    int with_keys = p->field[stage->key].adjoint != NULL, with_values = p->field[stage->value].adjoint != NULL;
    p->plan->kernels->grad_tile(
        &(kernel_grad_tile){.n = w->n,
                            .dim = p->plan->shape.dim,
                            .dim_v = p->plan->shape.dim_v,
                            .k = node ? x->k : value_row(p, stage->key, w->first),
                            .v = node ? x->v : value_row(p, stage->value, w->first),
                            .bias = stage->by_mass ? bias : NULL,
                            .rows = w->full ? NULL : w->rows,
                            .q = g->q,
                            .g = g->g,
                            .q_rows = g->q_rows,
                            .g_rows = g->g_rows,
                            .lse = g->lse,
                            .delta = g->delta,
                            .dq = p->field[stage->query].adjoint || p->sums.of[SCALE] ? g->dq : NULL,
                            .dk = !with_keys ? NULL
                                  : node     ? x->dk
                                             : adjoint_row(p, stage->key, w->first),
                            .dv = !with_values ? NULL
                                  : node       ? x->dv
                                               : adjoint_row(p, stage->value, w->first),
                            .column_sum = p->sums.of[LOG_MASS] ? column_sum : NULL});
    for (hga_id c = 0; p->sums.of[LOG_MASS] && c < w->n; c++)
        p->sums.of[LOG_MASS][node ? node[c] : w->first + c] += (double)column_sum[c];
}

/* Columns that do not lie side by side are, while windows use them. */
static void bring(fast_pass *p, const hga_stage *s, const window *w)
{
    const hga_id *node = p->rows.r.src_order + w->first;
    gather(p, s->key, node, w->n, p->panel->k), gather(p, s->value, node, w->n, p->panel->v);
}
static void take_back(fast_pass *p, const hga_stage *s, const window *w)
{
    const hga_id *node = p->rows.r.src_order + w->first;
    if (p->field[s->key].adjoint) scatter(p, s->key, node, w->n, p->panel->dk);
    if (p->field[s->value].adjoint) scatter(p, s->value, node, w->n, p->panel->dv);
}

/* The next window of all groups, by column and then by group; NULL: no more. */
static const window *next_window(panel *x, int64_t *at)
{
    const window *best = NULL;
    hga_id from = 0;
    for (hga_id i = 0; i < GROUPS; i++) {
        const group *g = &x->group[i];
        if (!g->there || at[i] == g->n_windows) continue;
        const window *w = &x->window[g->windows + at[i]];
        if (!best || w->first < best->first) best = w, from = i;
    }
    if (best) at[from]++;
    return best;
}

void run_windows(fast_pass *p, hga_id s)
{
    const hga_stage *stage = &p->program->stage[s];
    int64_t at[GROUPS] = {0};
    const window *near = NULL, *w;
    while ((w = next_window(p->panel, at))) {
        int moves = p->rows.r.src_order && (!near || near->first != w->first || near->n != w->n);
        if (moves && near) take_back(p, stage, near);
        if (moves) bring(p, stage, w), near = w;
        run_window(p, s, w);
    }
    if (near) take_back(p, stage, near);
}

/* A window joins the list, or has too few pairs for it. */
static hga_status keep_or_leave(fast_pass *p, group *g, window *w)
{
    hga_id pairs = 0;
    uint32_t all = g->there;
    panel *x = p->panel;
    for (hga_id c = 0; c < w->n; c++) all &= w->rows[c];
    w->full = all == g->there, w->group = (hga_id)(g - x->group);
    for (hga_id c = 0; !w->full && c < w->n; c++) pairs += __builtin_popcount(w->rows[c]);
    if (!w->full && pairs == 0) return HGA_OK;
    if (!w->full && pairs * TILE_SHARE < w->n * KERNEL_TILE) return leave_window(p, w);
    hga_status st =
        hga_grow(&p->plan->given, &x->window, &x->window_room, x->n_windows, x->n_windows + 1, sizeof *x->window);
    if (!st) x->window[x->n_windows++] = *w, g->n_windows++;
    return st;
}

/* The part of a run of overlapping segments [begin, end) that ends before `stop`, window by window. */
static hga_status run_segments(fast_pass *p, group *g, hga_id first, int64_t begin, int64_t end, hga_id stop)
{
    hga_status st = HGA_OK;
    panel *x = p->panel;
    for (hga_id at = x->segment[begin].src; !st && at < stop; at += WINDOW) {
        window w = {.first = at, .n = stop - at < WINDOW ? stop - at : WINDOW};
        for (int64_t i = begin; !st && i < end; i++)
            if (x->segment[i].src < at + w.n && x->segment[i].src + x->segment[i].n_src > at)
                st = add_segment(p, g, &w, &x->segment[i], first);
        if (!st) st = keep_or_leave(p, g, &w);
    }
    return st;
}

/* Every pair of a segment with a weight of its own goes to the rows. */
static hga_status leave_segment(fast_pass *p, const group *g, const hga_segment *s, hga_id first)
{
    hga_status st = HGA_OK;
    const hga_id *order = p->rows.r.src_order;
    for (hga_id position = s->row; !st && position < s->row + s->n_rows; position++) {
        hga_id c0, c1, hole;
        if (!(g->there >> (position - first) & 1u)) continue;
        hga_segment_columns(s, position, &c0, &c1, &hole);
        for (hga_id c = c0; !st && c < c1; c++)
            if (c != hole)
                st = leave(p, position - first, (row_edge){order ? order[s->src + c] : s->src + c, 0, s->weight, 0}, 0);
    }
    return st;
}

static hga_status read_segments(fast_pass *p, hga_id s, hga_id first, hga_id n)
{
    panel *x = p->panel;
    hga_id relation = p->program->stage[s].relation;
    x->n_segments = hga_graph_segments(p->plan->graph, relation, first, n, x->segment, x->segment_room);
    if (x->n_segments <= x->segment_room) return HGA_OK;
    hga_status st = hga_grow(&p->plan->given, &x->segment, &x->segment_room, 0, x->n_segments, sizeof *x->segment);
    if (!st) hga_graph_segments(p->plan->graph, relation, first, n, x->segment, x->segment_room);
    return st;
}

/* Runs of segments that overlap or touch, by source. */
hga_status find_windows(fast_pass *p, hga_id s, group *g, hga_id first, hga_id n)
{
    panel *x = p->panel;
    hga_status st = read_segments(p, s, first, n);
    for (int64_t i = 0; !st && i < x->n_segments; i++)
        if (x->segment[i].weight != 1) st = leave_segment(p, g, &x->segment[i], first);
    int64_t kept = 0;
    for (int64_t i = 0; i < x->n_segments; i++)
        if (x->segment[i].weight == 1) x->segment[kept++] = x->segment[i];
    for (int64_t begin = 0, end; !st && begin < kept; begin = end) {
        hga_id stop = x->segment[begin].src + x->segment[begin].n_src;
        for (end = begin + 1; end < kept && x->segment[end].src <= stop; end++)
            if (x->segment[end].src + x->segment[end].n_src > stop) stop = x->segment[end].src + x->segment[end].n_src;
        st = run_segments(p, g, first, begin, end, stop);
    }
    return st;
}
