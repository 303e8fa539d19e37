/* fast_attend.c: the adjoint of an attended stage, one head, sixteen rows at a time. Columns that enough of the sixteen
   have an edge to are computed in tiles, side by side as they lie; what is left, and every edge whose score has more
   than a product, a mass and a weight in it, goes row by row. Which is which depends on the graph and on what the call
   brings, never on threads. */
#include "fast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A window of columns is a tile when at least one in TILE_SHARE of its pairs has an edge. */
enum { WINDOW = KERNEL_CHUNK, TILE_SHARE = 4 };

/* An edge that no tile took. */
typedef struct left_edge {
    hga_id row; /* of the panel */
    row_edge e;
    hga_pos position; /* canonical in the row, where that matters */
} left_edge;

/* Sixteen rows and what belongs to them. */
typedef struct panel {
    hga_id node[KERNEL_TILE]; /* -1: no row, or one that nothing is asked of */
    float lse[KERNEL_TILE], delta[KERNEL_TILE];
    float *q, *g, *dq;      /* turned, [padded][KERNEL_TILE] */
    float *q_rows, *g_rows; /* [KERNEL_TILE][padded] */
    float *k, *v, *dk, *dv; /* a window's columns where they do not lie side by side */
    hga_segment *segment;   /* of the panel, by source */
    left_edge *left;        /* edges for rows, by row once they are all there */
    left_edge *sorted;
    int64_t segment_room, n_segments, left_room, n_left, sorted_room;
    float *memory;
    int64_t floats;
} panel;

static hga_id padded_columns(hga_id n) { return (n + KERNEL_PAD - 1) / KERNEL_PAD * KERNEL_PAD; }

static int64_t panel_floats(const hga_plan *plan)
{
    int64_t both = padded_columns(plan->shape.dim) + padded_columns(plan->shape.dim_v);
    return 2 * both * KERNEL_TILE + padded_columns(plan->shape.dim) * KERNEL_TILE + 2 * both * WINDOW + LINE_FLOATS;
}

int64_t panel_bytes(const hga_plan *plan)
{
    return (int64_t)sizeof(panel) + panel_floats(plan) * (int64_t)sizeof(float);
}

hga_status panel_create(const hga_plan *plan, panel **out)
{
    hga_status st = HGA_OK;
    panel *x = NULL;
    hga_id dim = padded_columns(plan->shape.dim), dim_v = padded_columns(plan->shape.dim_v);
    HGA_TRY(hga_new_zero(&plan->given, 1, sizeof *x, &x));
    x->floats = panel_floats(plan);
    HGA_TRY(hga_new_zero(&plan->given, x->floats, sizeof *x->memory, &x->memory));
    x->q = first_line(x->memory);
    x->dq = x->q + dim * KERNEL_TILE;
    x->q_rows = x->dq + dim * KERNEL_TILE;
    x->g = x->q_rows + dim * KERNEL_TILE;
    x->g_rows = x->g + dim_v * KERNEL_TILE;
    x->k = x->g_rows + dim_v * KERNEL_TILE;
    x->dk = x->k + dim * WINDOW;
    x->v = x->dk + dim * WINDOW;
    x->dv = x->v + dim_v * WINDOW;
done:
    if (st) panel_destroy(plan, x), x = NULL;
    *out = x;
    return st;
}

void panel_destroy(const hga_plan *plan, panel *x)
{
    if (!x) return;
    const hga_allocator *a = &plan->given;
    hga_delete(a, x->segment, x->segment_room, sizeof *x->segment);
    hga_delete(a, x->left, x->left_room, sizeof *x->left);
    hga_delete(a, x->sorted, x->sorted_room, sizeof *x->sorted);
    hga_delete(a, x->memory, x->floats, sizeof *x->memory);
    hga_delete(a, x, 1, sizeof *x);
}

/* ---- the rows ---- */

static int row_is_wanted(const fast_pass *p, const hga_stage *s, hga_id v)
{
    return program_row(&p->nodes, p->program->field[s->out].rows, v) && p->field[s->out].lse[v] < INFINITY;
}

/* Fill the panel's rows; 0 when nothing is asked of any. */
static int load_rows(fast_pass *p, hga_id s, hga_id first, hga_id n)
{
    const hga_stage *stage = &p->program->stage[s];
    const hga_relation *r = &p->plan->stage[s].relation;
    panel *x = p->panel;
    hga_id dim = p->field[stage->query].padded, dim_v = p->field[stage->out].padded, some = 0;
    memset(x->q_rows, 0, (size_t)(dim * KERNEL_TILE) * sizeof *x->q_rows);
    memset(x->g_rows, 0, (size_t)(dim_v * KERNEL_TILE) * sizeof *x->g_rows);
    memset(x->dq, 0, (size_t)(dim * KERNEL_TILE) * sizeof *x->dq);
    for (hga_id i = 0; i < KERNEL_TILE; i++) {
        hga_id v = i >= n ? -1 : r->dst_order ? r->dst_order[first + i] : first + i;
        x->node[i] = v >= 0 && row_is_wanted(p, stage, v) ? v : -1;
        x->lse[i] = INFINITY, x->delta[i] = 0;
        if (x->node[i] < 0) continue;
        some = 1;
        const float *q = value_row(p, stage->query, v);
        for (hga_id c = 0; c < dim; c++) x->q_rows[i * dim + c] = p->call->scale * q[c];
        memcpy(x->g_rows + i * dim_v, adjoint_row(p, stage->out, v), (size_t)dim_v * sizeof(float));
        x->lse[i] = p->field[stage->out].lse[v], x->delta[i] = p->field[stage->out].delta[v];
    }
    for (hga_id c = 0; c < dim; c++)
        for (hga_id i = 0; i < KERNEL_TILE; i++) x->q[c * KERNEL_TILE + i] = x->q_rows[i * dim + c];
    for (hga_id c = 0; c < dim_v; c++)
        for (hga_id i = 0; i < KERNEL_TILE; i++) x->g[c * KERNEL_TILE + i] = x->g_rows[i * dim_v + c];
    return some;
}

static void store_rows(fast_pass *p, const hga_stage *stage)
{
    panel *x = p->panel;
    hga_id dim = p->field[stage->query].padded;
    for (hga_id i = 0; i < KERNEL_TILE; i++) {
        if (x->node[i] < 0) continue;
        double *scale = p->sums.of[SCALE];
        for (hga_id c = 0; scale && c < dim; c++)
            *scale += (double)x->dq[c * KERNEL_TILE + i] * (double)value_row(p, stage->query, x->node[i])[c];
        if (!p->field[stage->query].adjoint) continue;
        float *to = adjoint_row(p, stage->query, x->node[i]);
        for (hga_id c = 0; c < dim; c++) to[c] += p->call->scale * x->dq[c * KERNEL_TILE + i];
    }
}

/* ---- edges row by row ---- */

static hga_status leave(fast_pass *p, hga_id row, row_edge e, hga_pos position)
{
    panel *x = p->panel;
    hga_status st = hga_grow(&p->plan->given, &x->left, &x->left_room, x->n_left, x->n_left + 1, sizeof *x->left);
    if (!st) x->left[x->n_left++] = (left_edge){row, e, position};
    return st;
}

/* What the score of an edge has besides the product with the key. */
static float base_score(const fast_pass *p, hga_id s, hga_id v, const left_edge *x)
{
    const hga_io *io = p->call->io;
    const hga_stage *stage = &p->program->stage[s];
    double sum = x->e.weight == 1 ? 0 : log((double)x->e.weight);
    if (stage->by_mass) sum += log((double)p->nodes.mass[x->e.src]);
    if (io->rel_bias) sum += (double)io->rel_bias[(ptrdiff_t)x->e.type * p->plan->shape.n_heads + p->head];
    if (io->edge_bias && s == p->plan->bias_stage) {
        hga_id heads = io->edge_bias_heads;
        sum += (double)io->edge_bias[(p->plan->stage[s].row_ptr[v] + x->position) * heads + (heads == 1 ? 0 : p->head)];
    }
    hga_id own = x->e.pos_of ? x->e.pos_of - 1 : v, dim = p->plan->shape.pos_dim;
    for (hga_id c = 0; io->node_pos && c < dim; c++)
        sum += (double)io->node_pos[(ptrdiff_t)own * dim + c] * (double)io->node_pos[(ptrdiff_t)x->e.src * dim + c];
    return (float)sum;
}

/* The gradients of what the scores of n edges of a row have besides the product. */
static void sum_tables(fast_pass *p, hga_id s, hga_id row, const left_edge *x, hga_id n, const float *ds)
{
    const hga_io *io = p->call->io;
    const table_sums *sums = &p->sums;
    hga_id v = p->panel->node[row], key_dim = p->plan->shape.dim, dim = p->plan->shape.pos_dim;
    const float *q = p->panel->q_rows + (ptrdiff_t)row * p->field[p->program->stage[s].query].padded;
    for (hga_id i = 0; i < n; i++) {
        double d = (double)ds[i];
        ptrdiff_t type = x[i].e.type;
        for (hga_id c = 0; sums->of[REL_KEY] && c < key_dim; c++)
            sums->of[REL_KEY][type * key_dim + c] += d * (double)q[c];
        if (sums->of[REL_BIAS]) sums->of[REL_BIAS][type * p->plan->shape.n_heads + p->head] += d;
        if (sums->of[EDGE_BIAS] && s == p->plan->bias_stage) {
            hga_id heads = io->edge_bias_heads;
            sums->of[EDGE_BIAS][(p->plan->stage[s].row_ptr[v] + x[i].position) * heads + (heads == 1 ? 0 : p->head)] +=
                d;
        }
        if (sums->of[LOG_MASS]) sums->of[LOG_MASS][x[i].e.src] += d;
        hga_id own = x[i].e.pos_of ? x[i].e.pos_of - 1 : v;
        for (hga_id c = 0; sums->of[NODE_POS] && c < dim; c++) {
            ptrdiff_t mine = (ptrdiff_t)own * dim + c, other = (ptrdiff_t)x[i].e.src * dim + c;
            sums->of[NODE_POS][mine] += d * (double)io->node_pos[other];
            sums->of[NODE_POS][other] += d * (double)io->node_pos[mine];
        }
    }
}

/* At most KERNEL_CHUNK edges of one row. */
static void run_row(fast_pass *p, hga_id s, hga_id row, const left_edge *x, hga_id n)
{
    const hga_stage *stage = &p->program->stage[s];
    const hga_io *io = p->call->io;
    panel *rows = p->panel;
    hga_id padded_dim = p->field[stage->query].padded, v = rows->node[row];
    const float *k[KERNEL_CHUNK], *value[KERNEL_CHUNK], *r[KERNEL_CHUNK];
    float *dk[KERNEL_CHUNK], *dv[KERNEL_CHUNK], score[KERNEL_CHUNK], kept[KERNEL_CHUNK], ds[KERNEL_CHUNK];
    float dq[padded_dim];
    int with_keys = p->field[stage->key].adjoint != NULL, with_values = p->field[stage->value].adjoint != NULL;
    for (hga_id i = 0; i < n; i++) {
        k[i] = value_row(p, stage->key, x[i].e.src), value[i] = value_row(p, stage->value, x[i].e.src);
        if (with_keys) dk[i] = adjoint_row(p, stage->key, x[i].e.src);
        if (with_values) dv[i] = adjoint_row(p, stage->value, x[i].e.src);
        score[i] = base_score(p, s, v, &x[i]);
        kept[i] = (float)dropout_factor(p->call, &x[i].e, v, p->head);
        if (io->rel_key) r[i] = p->rel_key + (ptrdiff_t)x[i].e.type * padded_dim;
    }
    memset(dq, 0, sizeof dq);
    p->plan->kernels->grad_row(&(kernel_grad_row){.n = n,
                                                  .dim = p->plan->shape.dim,
                                                  .dim_v = p->plan->shape.dim_v,
                                                  .k = k,
                                                  .v = value,
                                                  .r = io->rel_key ? r : NULL,
                                                  .dk = with_keys ? dk : NULL,
                                                  .dv = with_values ? dv : NULL,
                                                  .score = score,
                                                  .kept = p->plan->options.dropout > 0 ? kept : NULL,
                                                  .q = rows->q_rows + (ptrdiff_t)row * padded_dim,
                                                  .g = rows->g_rows + (ptrdiff_t)row * p->field[stage->out].padded,
                                                  .lse = rows->lse[row],
                                                  .delta = rows->delta[row],
                                                  .dq = dq,
                                                  .ds = ds});
    for (hga_id c = 0; c < padded_dim; c++) rows->dq[c * KERNEL_TILE + row] += dq[c];
    sum_tables(p, s, row, x, n, ds);
}

/* The edges that are left, row after row, each in the order they were left in. */
static hga_status run_left(fast_pass *p, hga_id s)
{
    panel *x = p->panel;
    int64_t begin[KERNEL_TILE + 1] = {0};
    hga_status st = hga_grow(&p->plan->given, &x->sorted, &x->sorted_room, 0, x->n_left, sizeof *x->sorted);
    if (st) return st;
    for (int64_t i = 0; i < x->n_left; i++) begin[x->left[i].row + 1]++;
    for (hga_id r = 0; r < KERNEL_TILE; r++) begin[r + 1] += begin[r];
    int64_t at[KERNEL_TILE];
    memcpy(at, begin, sizeof at);
    for (int64_t i = 0; i < x->n_left; i++) x->sorted[at[x->left[i].row]++] = x->left[i];
    for (hga_id r = 0; r < KERNEL_TILE; r++)
        for (int64_t i = begin[r]; i < begin[r + 1]; i += KERNEL_CHUNK) {
            int64_t n = begin[r + 1] - i < KERNEL_CHUNK ? begin[r + 1] - i : KERNEL_CHUNK;
            run_row(p, s, r, x->sorted + i, (hga_id)n);
        }
    x->n_left = 0;
    return HGA_OK;
}

/* ---- tiles ---- */

/* Bits of the rows that have edges to each column of a window, and the columns' common score. */
typedef struct window {
    hga_id first, n;
    uint16_t rows[WINDOW];
} window;

static int has_row(const panel *x, hga_id row) { return x->node[row] >= 0; }

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

/* Put the segment's pairs into the window; a pair that is there already is left. */
static hga_status add_segment(fast_pass *p, window *w, const hga_segment *s, hga_id first)
{
    hga_status st = HGA_OK;
    const hga_id *order = p->rows.r.src_order;
    for (hga_id position = s->row; !st && position < s->row + s->n_rows; position++) {
        hga_id row = position - first, begin, end, hole;
        if (!has_row(p->panel, row)) continue;
        window_columns(w, s, position, &begin, &end, &hole);
        for (hga_id c = begin; !st && c < end; c++) {
            if (c == hole) continue;
            uint16_t bit = (uint16_t)(1u << row);
            hga_id at = w->first + c;
            if (w->rows[c] & bit)
                st = leave(p, row, (row_edge){order ? order[at] : at, s->type, s->weight, s->pos_of}, 0);
            w->rows[c] |= bit;
        }
    }
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
        for (hga_id j = 0; j < columns; j++) to[j] += from[(ptrdiff_t)c * columns + j];
    }
    memset(from, 0, (size_t)(n * columns) * sizeof *from);
}

static void run_window(fast_pass *p, hga_id s, const window *w)
{
    const hga_stage *stage = &p->program->stage[s];
    panel *x = p->panel;
    const hga_id *node = p->rows.r.src_order ? p->rows.r.src_order + w->first : NULL;
    float bias[WINDOW], column_sum[WINDOW] = {0};
    uint32_t full = 0, all = 0xffff;
    for (hga_id i = 0; i < KERNEL_TILE; i++) full |= (uint32_t)has_row(x, i) << i;
    for (hga_id c = 0; c < w->n; c++) {
        hga_id u = node ? node[c] : w->first + c;
        bias[c] = stage->by_mass ? logf(p->nodes.mass[u]) : 0;
        all &= w->rows[c];
    }
    int with_keys = p->field[stage->key].adjoint != NULL, with_values = p->field[stage->value].adjoint != NULL;
    if (node) gather(p, stage->key, node, w->n, x->k), gather(p, stage->value, node, w->n, x->v);
    p->plan->kernels->grad_tile(
        &(kernel_grad_tile){.n = w->n,
                            .dim = p->plan->shape.dim,
                            .dim_v = p->plan->shape.dim_v,
                            .k = node ? x->k : value_row(p, stage->key, w->first),
                            .v = node ? x->v : value_row(p, stage->value, w->first),
                            .bias = bias,
                            .rows = all == full ? NULL : w->rows,
                            .q = x->q,
                            .g = x->g,
                            .q_rows = x->q_rows,
                            .g_rows = x->g_rows,
                            .lse = x->lse,
                            .delta = x->delta,
                            .dq = p->field[stage->query].adjoint || p->sums.of[SCALE] ? x->dq : NULL,
                            .dk = !with_keys ? NULL
                                  : node     ? x->dk
                                             : adjoint_row(p, stage->key, w->first),
                            .dv = !with_values ? NULL
                                  : node       ? x->dv
                                               : adjoint_row(p, stage->value, w->first),
                            .column_sum = p->sums.of[LOG_MASS] ? column_sum : NULL});
    if (node && with_keys) scatter(p, stage->key, node, w->n, x->dk);
    if (node && with_values) scatter(p, stage->value, node, w->n, x->dv);
    for (hga_id c = 0; p->sums.of[LOG_MASS] && c < w->n; c++)
        p->sums.of[LOG_MASS][node ? node[c] : w->first + c] += (double)column_sum[c];
}

static hga_status run_or_leave(fast_pass *p, hga_id s, const window *w)
{
    hga_id pairs = 0;
    for (hga_id c = 0; c < w->n; c++) pairs += __builtin_popcount(w->rows[c]);
    if (pairs == 0) return HGA_OK;
    if (pairs * TILE_SHARE < w->n * KERNEL_TILE) return leave_window(p, w);
    run_window(p, s, w);
    return HGA_OK;
}

/* The part of a run of overlapping segments [begin, end) that ends before `stop`, window by window. */
static hga_status run_segments(fast_pass *p, hga_id s, hga_id first, int64_t begin, int64_t end, hga_id stop)
{
    hga_status st = HGA_OK;
    panel *x = p->panel;
    for (hga_id at = x->segment[begin].src; !st && at < stop; at += WINDOW) {
        window w = {.first = at, .n = stop - at < WINDOW ? stop - at : WINDOW};
        for (int64_t i = begin; !st && i < end; i++)
            if (x->segment[i].src < at + w.n && x->segment[i].src + x->segment[i].n_src > at)
                st = add_segment(p, &w, &x->segment[i], first);
        if (!st) st = run_or_leave(p, s, &w);
    }
    return st;
}

/* Every pair of a segment with a weight of its own goes to the rows. */
static hga_status leave_segment(fast_pass *p, const hga_segment *s, hga_id first)
{
    hga_status st = HGA_OK;
    const hga_id *order = p->rows.r.src_order;
    for (hga_id position = s->row; !st && position < s->row + s->n_rows; position++) {
        hga_id c0, c1, hole;
        if (!has_row(p->panel, position - first)) continue;
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

/* Regular edges: runs of segments that overlap or touch, by source. */
static hga_status run_blocks(fast_pass *p, hga_id s, hga_id first, hga_id n)
{
    panel *x = p->panel;
    hga_status st = read_segments(p, s, first, n);
    for (int64_t i = 0; !st && i < x->n_segments; i++)
        if (x->segment[i].weight != 1) st = leave_segment(p, &x->segment[i], first);
    int64_t kept = 0;
    for (int64_t i = 0; i < x->n_segments; i++)
        if (x->segment[i].weight == 1) x->segment[kept++] = x->segment[i];
    for (int64_t begin = 0, end; !st && begin < kept; begin = end) {
        hga_id stop = x->segment[begin].src + x->segment[begin].n_src;
        for (end = begin + 1; end < kept && x->segment[end].src <= stop; end++)
            if (x->segment[end].src + x->segment[end].n_src > stop) stop = x->segment[end].src + x->segment[end].n_src;
        st = run_segments(p, s, first, begin, end, stop);
    }
    return st;
}

/* Explicit edges of the panel's rows. */
static hga_status leave_explicit(fast_pass *p)
{
    const hga_relation *r = &p->rows.r;
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < KERNEL_TILE && r->ptr; i++) {
        hga_id v = p->panel->node[i];
        for (hga_pos e = v < 0 ? 0 : r->ptr[v]; !st && v >= 0 && e < r->ptr[v + 1]; e++)
            st = leave(p, i, (row_edge){r->src[e], 0, r->weight ? r->weight[e] : 1, 0}, 0);
    }
    return st;
}

/* Rows whose scores depend on types, positions or places: each edge by itself. */
static hga_status leave_rows(fast_pass *p)
{
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < KERNEL_TILE; i++) {
        if (p->panel->node[i] < 0) continue;
        HGA_TRY(rows_read(&p->rows, p->panel->node[i]));
        for (int64_t e = 0; e < p->rows.n; e++) HGA_TRY(leave(p, i, p->rows.edge[e], e));
    }
done:
    return st;
}

/* Do all edges' scores consist of a product, a mass and a weight? */
static int is_simple(const fast_pass *p, hga_id s)
{
    const hga_io *io = p->call->io;
    return !io->rel_key && !io->rel_bias && !io->node_pos && !(io->edge_bias && s == p->plan->bias_stage) &&
           p->plan->options.dropout == 0;
}

hga_status fast_attend(fast_pass *p, hga_id s)
{
    const hga_stage *stage = &p->program->stage[s];
    hga_status st = HGA_OK;
    int simple = is_simple(p, s);
    rows_open(&p->rows, p->plan, s);
    for (hga_id first = 0; first < p->nodes.n; first += KERNEL_TILE) {
        hga_id n = p->nodes.n - first < KERNEL_TILE ? p->nodes.n - first : KERNEL_TILE;
        if (!load_rows(p, s, first, n)) continue;
        if (!simple) HGA_TRY(leave_rows(p));
        if (simple && p->rows.r.n_blocks) HGA_TRY(run_blocks(p, s, first, n));
        if (simple) HGA_TRY(leave_explicit(p));
        HGA_TRY(run_left(p, s));
        store_rows(p, stage);
    }
done:
    return st;
}

/* ---- forward ---- */

/* The scores of n edges of a row to `score`, and where their values are. */
static void row_scores(const fast_pass *p, hga_id s, hga_id v, const float *q, const row_edge *e, hga_pos position,
                       hga_id n, float *score, const float **value)
{
    const hga_stage *stage = &p->program->stage[s];
    const float *k[KERNEL_CHUNK], *r[KERNEL_CHUNK];
    float base[KERNEL_CHUNK];
    for (hga_id i = 0; i < n; i++) {
        left_edge x = {.e = e[i], .position = position + i};
        k[i] = value_row(p, stage->key, e[i].src), value[i] = value_row(p, stage->value, e[i].src);
        base[i] = base_score(p, s, v, &x);
        if (p->rel_key) r[i] = p->rel_key + (ptrdiff_t)e[i].type * p->field[stage->query].padded;
    }
    p->plan->kernels->grad_scores(
        &(kernel_grad_row){
            .n = n, .dim = p->plan->shape.dim, .k = k, .r = p->rel_key ? r : NULL, .score = base, .q = q},
        score);
}

/* A row's state; weights that are dropped do not count in its log-sum-exp. */
static hga_status attend_row(fast_pass *p, hga_id s, hga_id v, float *q)
{
    const hga_stage *stage = &p->program->stage[s];
    const kernel_table *kernels = p->plan->kernels;
    fast_field *out = &p->field[stage->out];
    float greatest = -INFINITY, score[KERNEL_CHUNK];
    double sum = 0;
    hga_status st = rows_read(&p->rows, v);
    if (st) return st;
    memset(value_row(p, stage->out, v), 0, (size_t)out->padded * sizeof(float));
    kernels->scale(p->field[stage->query].padded, p->call->scale, value_row(p, stage->query, v), q);
    for (int64_t at = 0, n; at < p->rows.n; at += n) {
        const row_edge *e = &p->rows.edge[at];
        const float *value[KERNEL_CHUNK];
        float most = greatest, *o = value_row(p, stage->out, v);
        n = p->rows.n - at < KERNEL_CHUNK ? p->rows.n - at : KERNEL_CHUNK;
        row_scores(p, s, v, q, e, at, (hga_id)n, score, value);
        for (int64_t i = 0; i < n; i++) most = fmaxf(most, score[i]);
        if (most == -INFINITY) continue;
        float keep = expf(greatest - most);
        if (greatest > -INFINITY) kernels->scale(out->padded, keep, o, o);
        sum *= (double)keep, greatest = most;
        for (int64_t i = 0; i < n; i++) score[i] -= greatest;
        kernels->exp((hga_id)n, score);
        for (int64_t i = 0; i < n; i++) sum += (double)score[i];
        for (int64_t i = 0; i < n && p->plan->options.dropout > 0; i++)
            score[i] *= (float)dropout_factor(p->call, &e[i], v, p->head);
        kernels->sum((hga_id)n, value, 0, score, out->padded, o);
    }
    out->own_lse[v] = sum > 0 ? (float)((double)greatest + log(sum)) : -INFINITY;
    if (sum > 0)
        kernels->scale(out->padded, (float)(1 / sum), value_row(p, stage->out, v), value_row(p, stage->out, v));
    return HGA_OK;
}

hga_status fast_attend_forward(fast_pass *p, hga_id s)
{
    hga_status st = HGA_OK;
    hga_id field = p->program->stage[s].out;
    rows_open(&p->rows, p->plan, s);
    for (hga_id v = 0; v < p->nodes.n; v++) {
        p->field[field].own_lse[v] = -INFINITY;
        if (program_row(&p->nodes, p->program->field[field].rows, v)) HGA_TRY(attend_row(p, s, v, p->panel->q_rows));
    }
done:
    return st;
}
