/* fast_column_runs.c: which columns a group of rows has edges to, window by window in order, and the types and
   positions of its pairs. */
#include "fast_edges.h"
#include "fast_tiles.h"
#include "panel.h"

#include <string.h>

/* Finds the columns [*begin, *end) of the window that the segment's row has; columns count from the window's first. */
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

/* Sets the row's bit from column `begin` on and clears it from `end` on, once prefix XORs are taken. */
static void flip(lane_mask *on, hga_id row, hga_id begin, hga_id end)
{
    on[begin] ^= (lane_mask)(1u << row), on[end] ^= (lane_mask)(1u << row);
}

/* Finds the rows that the segment has at each column of the window, as lane masks. */
static void segment_rows(const group *g, const window *w, const hga_segment *s, hga_id first, lane_mask *rows)
{
    lane_mask on[WINDOW + 1] = {0}, now = 0;
    for (hga_id position = s->row; position < s->row + s->n_rows; position++) {
        hga_id row = position - first, begin, end, hole;
        if (!(g->there >> row & 1u)) continue;
        window_columns(w, s, position, &begin, &end, &hole);
        flip(on, row, begin, end);
        if (hole >= begin && hole < end) flip(on, row, hole, hole + 1);
    }
    for (hga_id c = 0; c < w->n; c++) rows[c] = now ^= on[c];
}

static int32_t type_of(const hga_segment *s, hga_id position, hga_id column)
{
    return s->type + (position - s->row) * s->type_dst + column * s->type_src;
}

/* The edge of a pair of the window and the segment. */
static row_edge edge_of(const fast_pass *p, const window *w, const hga_segment *s, hga_id position, hga_id c)
{
    const hga_id *order = p->rows.r.src_order;
    hga_id at = w->first + c;
    return (row_edge){order ? order[at] : at, type_of(s, position, at - s->src), s->weight, s->pos_of, s->src_pos_of};
}

/* Leaves all pairs of `rows` to the row-by-row kernels. */
static hga_status leave_pairs(fast_pass *p, const window *w, const hga_segment *s, hga_id first, const lane_mask *rows)
{
    hga_status st = HGA_OK;
    p->panel->finding.unranked = 1;
    for (hga_id c = 0; c < w->n; c++)
        for (hga_id row = 0; !st && rows[c] && row < KERNEL_TILE; row++)
            if (rows[c] >> row & 1u) st = leave(p, row, edge_of(p, w, s, first + row, c), 0);
    return st;
}

/* Rows that the window already has, but with another node's position than the segment's. */
static lane_mask other_owners(window *w, const hga_segment *s, lane_mask seen, const lane_mask *rows)
{
    lane_mask any = 0, other = 0;
    for (hga_id c = 0; c < w->n; c++) any |= rows[c];
    for (hga_id row = 0; row < KERNEL_TILE; row++) {
        const lane_mask bit = (lane_mask)(1u << row);
        if (!(any & bit)) continue;
        if (!(seen & bit)) w->own[row] = s->pos_of;
        if (w->own[row] != s->pos_of) other |= bit;
    }
    return other;
}

/* Sets the type of each column; `mixed` if a column has several. */
static void see_types(pair_types *t, const window *w, const hga_segment *s, hga_id first, const lane_mask *rows)
{
    for (hga_id c = 0; c < w->n; c++) {
        if (!rows[c]) continue;
        hga_id row = __builtin_ctz(rows[c]);
        int32_t type = type_of(s, first + row, w->first + c - s->src);
        t->mixed |= s->type_dst != 0 && (rows[c] & (rows[c] - 1)) != 0;
        t->mixed |= w->rows[c] != 0 && t->column[c] != type;
        t->column[c] = type;
    }
}

/* Adds the segment's pairs to the window; pairs that are there already, or have another position of the row, are
   left. */
static hga_status add_segment(fast_pass *p, const group *g, window *w, const hga_segment *s, hga_id first)
{
    hga_status st = HGA_OK;
    panel *x = p->panel;
    lane_mask rows[WINDOW], left[WINDOW], seen = 0, other = 0, some = 0;
    segment_rows(g, w, s, first, rows);
    for (hga_id c = 0; x->parts.positions && c < w->n; c++) seen |= w->rows[c];
    if (x->parts.positions) other = other_owners(w, s, seen, rows);
    for (hga_id c = 0; c < w->n; c++) left[c] = rows[c] & (w->rows[c] | other), some |= left[c], rows[c] &= ~left[c];
    if (some) st = leave_pairs(p, w, s, first, left);
    if (x->parts.types) see_types(&x->finding.seen, w, s, first, rows);
    for (hga_id c = 0; c < w->n; c++) w->rows[c] |= rows[c];
    return st;
}

/* Sets the types of all pairs, segment by segment in the order they were added. */
static void see_pairs(fast_pass *p, const group *g, const window *w, hga_id first, int64_t begin, int64_t end)
{
    panel *x = p->panel;
    lane_mask seen[WINDOW] = {0}, rows[WINDOW];
    for (int64_t i = begin; i < end; i++) {
        const hga_segment *s = &x->finding.segment[i];
        if (s->src >= w->first + w->n || s->src + s->n_src <= w->first) continue;
        segment_rows(g, w, s, first, rows);
        for (hga_id c = 0; c < w->n; c++)
            for (uint32_t left = rows[c] & ~(uint32_t)seen[c]; left; left &= left - 1) {
                hga_id row = __builtin_ctz(left);
                if (x->parts.positions && w->own[row] != s->pos_of) continue;
                x->finding.seen.pair[c][row] = type_of(s, first + row, w->first + c - s->src),
                seen[c] |= (lane_mask)(1u << row);
            }
    }
}

/* Leaves all pairs of the window to the row-by-row kernels. */
static hga_status leave_window(fast_pass *p, const window *w)
{
    hga_status st = HGA_OK;
    panel *x = p->panel;
    const hga_id *order = p->rows.r.src_order;
    hga_id rank[KERNEL_TILE];
    memcpy(rank, w->rank, sizeof rank);
    for (hga_id c = 0; c < w->n; c++)
        for (uint32_t left = w->rows[c]; !st && left; left &= left - 1) {
            hga_id row = __builtin_ctz(left), u = order ? order[w->first + c] : w->first + c;
            int32_t type = !x->parts.types         ? 0
                           : x->finding.seen.mixed ? x->finding.seen.pair[c][row]
                                                   : x->finding.seen.column[c];
            st = leave(p, row, (row_edge){u, type, 1, w->own[row], 0}, rank[row]++);
        }
    return st;
}

/* The window's types, one for each column. */
static hga_status keep_columns(fast_pass *p, const window *w, tile *t)
{
    panel *x = p->panel;
    hga_status st = make_capacity(p, &x->lists.number, &x->lists.number_capacity, x->lists.n.numbers, w->n,
                                  sizeof *x->lists.number);
    if (st) return st;
    t->types = x->lists.n.numbers, t->n_types = w->n, x->lists.n.numbers += w->n;
    for (hga_id c = 0; c < w->n; c++) x->lists.number[t->types + c] = w->rows[c] ? x->finding.seen.column[c] : 0;
    return HGA_OK;
}

/* Numbers the types of the pairs in the order they come; if there are more than KERNEL_INDICES, *kept is 0. */
static hga_status keep_indices(fast_pass *p, const window *w, tile *t, int *kept)
{
    panel *x = p->panel;
    int16_t *index = x->finding.seen.index;
    hga_status st = make_capacity(p, &x->lists.number, &x->lists.number_capacity, x->lists.n.numbers, KERNEL_INDICES,
                                  sizeof *x->lists.number);
    if (!st)
        st = make_capacity(p, &x->lists.index, &x->lists.index_capacity, x->lists.n.n_indices,
                           (int64_t)w->n * KERNEL_TILE, sizeof *x->lists.index);
    if (st) return st;
    t->types = x->lists.n.numbers, t->n_indices = x->lists.n.n_indices, t->n_types = 0, *kept = 0;
    uint8_t *to = x->lists.index + t->n_indices;
    int32_t *types = x->lists.number + t->types;
    memset(to, 0, (size_t)(w->n * KERNEL_TILE) * sizeof *to);
    for (hga_id c = 0; c < w->n; c++)
        for (uint32_t left = w->rows[c]; left; left &= left - 1) {
            hga_id row = __builtin_ctz(left);
            int32_t type = x->finding.seen.pair[c][row];
            if (index[type] < 0) {
                if (t->n_types == KERNEL_INDICES) goto full;
                index[type] = (int16_t)t->n_types, types[t->n_types++] = type;
            }
            to[c * KERNEL_TILE + row] = (uint8_t)index[type];
        }
    x->lists.n.numbers += t->n_types, x->lists.n.n_indices += (int64_t)w->n * KERNEL_TILE, *kept = 1;
full:
    for (hga_id i = 0; i < t->n_types; i++) index[types[i]] = -1;
    return HGA_OK;
}

/* Makes a window whose pairs have types or positions a tile of its own. */
static hga_status keep_alone(fast_pass *p, group *g, const window *w)
{
    tile t = {.types = -1, .n_indices = -1};
    int kept = 1;
    panel *x = p->panel;
    hga_status st = HGA_OK;
    if (x->parts.types && x->finding.seen.mixed) st = keep_indices(p, w, &t, &kept);
    if (x->parts.types && !x->finding.seen.mixed) st = keep_columns(p, w, &t);
    if (!st && !kept) return leave_window(p, w);
    return st ? st : lay_window(p, g, w, &t);
}

/* Adds a window to the list, or leaves its pairs if they are too few. */
static hga_status keep_or_leave(fast_pass *p, group *g, window *w)
{
    hga_id pairs = 0;
    uint32_t all = g->there;
    panel *x = p->panel;
    for (hga_id c = 0; c < w->n; c++) all &= w->rows[c];
    w->full = all == g->there;
    for (hga_id c = 0; !w->full && c < w->n; c++) pairs += __builtin_popcount(w->rows[c]);
    if (!w->full && pairs == 0) return HGA_OK;
    if (!w->full && pairs * WINDOW_SHARE < w->n * KERNEL_TILE) return leave_window(p, w);
    if (has_parts(x)) return keep_alone(p, g, w);
    hga_status st = make_capacity(p, &x->finding.window, &x->finding.window_capacity, x->finding.n_windows, 1,
                                  sizeof *x->finding.window);
    if (!st) x->finding.window[x->finding.n_windows++] = *w, g->n_windows++;
    return st;
}

/* Counts the edges of the group's rows so far, this window included. */
static void rank_edges(panel *x, const window *w)
{
    for (hga_id c = 0; c < w->n; c++)
        for (hga_id row = 0; row < KERNEL_TILE; row++) x->finding.rank[row] += (w->rows[c] & 1u << row) != 0;
}

/* Runs the columns before `stop` of overlapping segments [begin, end), window by window. */
static hga_status run_segments(fast_pass *p, group *g, hga_id first, int64_t begin, int64_t end, hga_id stop)
{
    hga_status st = HGA_OK;
    panel *x = p->panel;
    for (hga_id at = x->finding.segment[begin].src; !st && at < stop; at += WINDOW) {
        window w = {.first = at, .n = stop - at < WINDOW ? stop - at : WINDOW};
        memcpy(w.rank, x->finding.rank, sizeof w.rank);
        x->finding.seen.mixed = 0;
        for (int64_t i = begin; !st && i < end; i++)
            if (x->finding.segment[i].src < at + w.n && x->finding.segment[i].src + x->finding.segment[i].n_src > at)
                st = add_segment(p, g, &w, &x->finding.segment[i], first);
        if (x->finding.seen.mixed) see_pairs(p, g, &w, first, begin, end);
        if (!st) st = keep_or_leave(p, g, &w);
        if (x->parts.ranks) rank_edges(x, &w);
    }
    return st;
}

/* Segments of weighted edges, and columns with the position of another node, do not run in tiles. */
static int runs_in_tiles(const panel *x, const hga_segment *s)
{
    return s->weight == 1 && (!x->parts.positions || s->src_pos_of == HGA_POS_OWN);
}

/* Leaves every pair of such a segment to the row-by-row kernels. */
static hga_status leave_segment(fast_pass *p, const group *g, const hga_segment *s, hga_id first)
{
    hga_status st = HGA_OK;
    const hga_id *order = p->rows.r.src_order;
    p->panel->finding.unranked = 1;
    for (hga_id position = s->row; !st && position < s->row + s->n_rows; position++) {
        hga_id c0, c1, hole;
        if (!(g->there >> (position - first) & 1u)) continue;
        hga_segment_columns(s, position, &c0, &c1, &hole);
        for (hga_id c = c0; !st && c < c1; c++)
            if (c != hole)
                st = leave(p, position - first,
                           (row_edge){order ? order[s->src + c] : s->src + c, type_of(s, position, c), s->weight,
                                      s->pos_of, s->src_pos_of},
                           0);
    }
    return st;
}

hga_status read_segments(fast_pass *p, hga_id s, hga_id first, hga_id n)
{
    panel *x = p->panel;
    hga_id relation = p->program->stage[s].relation;
    x->finding.n_segments =
        hga_graph_segments(p->plan->graph, relation, first, n, x->finding.segment, x->finding.segment_capacity);
    if (x->finding.n_segments <= x->finding.segment_capacity) return HGA_OK;
    hga_status st = hga_grow(&p->plan->memory.user, &x->finding.segment, &x->finding.segment_capacity, 0,
                             x->finding.n_segments, sizeof *x->finding.segment);
    if (!st) hga_graph_segments(p->plan->graph, relation, first, n, x->finding.segment, x->finding.segment_capacity);
    return st;
}

/* Has the segment a row whose adjoint is not zero? The columns of other rows are perhaps nodes without rows. */
static int has_adjoint_row(const group *g, const hga_segment *s, hga_id first)
{
    uint32_t rows = ((UINT32_C(1) << s->n_rows) - 1) << (s->row - first);
    return (g->there & rows) != 0;
}

/* Finds windows in runs of segments that overlap or touch, by source. */
hga_status find_windows(fast_pass *p, hga_id s, group *g, hga_id first, hga_id n)
{
    panel *x = p->panel;
    hga_status st = read_segments(p, s, first, n);
    if (st) return st;
    memset(x->finding.rank, 0, sizeof x->finding.rank);
    for (int64_t i = 0; !st && i < x->finding.n_segments; i++)
        if (!runs_in_tiles(x, &x->finding.segment[i])) st = leave_segment(p, g, &x->finding.segment[i], first);
    int64_t kept = 0;
    for (int64_t i = 0; i < x->finding.n_segments; i++)
        if (has_adjoint_row(g, &x->finding.segment[i], first) && runs_in_tiles(x, &x->finding.segment[i]))
            x->finding.segment[kept++] = x->finding.segment[i];
    for (int64_t begin = 0, end; !st && begin < kept; begin = end) {
        hga_id stop = x->finding.segment[begin].src + x->finding.segment[begin].n_src;
        for (end = begin + 1; end < kept && x->finding.segment[end].src <= stop; end++)
            if (x->finding.segment[end].src + x->finding.segment[end].n_src > stop)
                stop = x->finding.segment[end].src + x->finding.segment[end].n_src;
        st = run_segments(p, g, first, begin, end, stop);
    }
    return st;
}
