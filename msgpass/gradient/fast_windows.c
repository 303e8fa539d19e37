/* fast_windows.c: the windows of a panel, by column: what the kernel of a tile is given, and where what it gives back
   goes. */
#include "panel.h"

#include <string.h>

static void gather(const fast_pass *p, hga_id f, const hga_id *node, hga_id n, float *to)
{
    hga_id columns = p->field[f].padded;
    for (hga_id c = 0; c < n; c++)
        memcpy(to + (ptrdiff_t)c * columns, value_row(p, f, node[c]), (size_t)columns * sizeof *to);
}

/* Node ids of a window's columns. */
static hga_id column_node(const fast_pass *p, const window *w, hga_id c)
{
    return p->rows.r.src_order ? p->rows.r.src_order[w->first + c] : w->first + c;
}

static void scatter(fast_pass *p, hga_id f, const window *w, float *own, float *from)
{
    hga_id columns = p->field[f].padded;
    for (hga_id c = 0; c < w->n; c++) {
        float *to = source_row(p, f, own, column_node(p, w, c));
        p->plan->kernels->blend(columns, 1, to, 1, from + (ptrdiff_t)c * columns, to);
    }
    memset(from, 0, (size_t)(w->n * columns) * sizeof *from);
}

/* Do the window's sources lie apart, in the order of nodes or among the lane's rows? */
static int lies_apart(const fast_pass *p, const window *w)
{
    if (p->rows.r.src_order) return 1;
    hga_id a = w->first / CHUNK, b = (w->first + w->n - 1) / CHUNK;
    return p->slot && a != b && p->slot[b] != (p->slot[a] < 0 ? -1 : p->slot[a] + 1);
}

/* ---- types ---- */

static const float *key_of_type(const fast_pass *p, const window *w, hga_id i)
{
    return p->rel_key + (ptrdiff_t)p->panel->type[w->types + i] * p->field_dim;
}

/* Columns of one type each: keys with theirs added, and the bias with theirs. */
static void add_types(fast_pass *p, const window *w, kernel_grad_tile *t, float *bias)
{
    panel *x = p->panel;
    hga_id dim = p->field_dim, heads = p->plan->shape.n_heads;
    const float *rel_bias = p->call->io->rel_bias;
    for (hga_id c = 0; rel_bias && c < w->n; c++)
        bias[c] += rel_bias[(ptrdiff_t)x->type[w->types + c] * heads + p->head];
    if (!p->rel_key) return;
    for (hga_id c = 0; c < w->n; c++)
        p->plan->kernels->blend(dim, 1, t->k + (ptrdiff_t)c * dim, 1, key_of_type(p, w, c), x->r + (ptrdiff_t)c * dim);
    t->k = x->r;
    if (!p->d_rel_key) return;
    memset(x->dr, 0, (size_t)(w->n * dim) * sizeof *x->dr);
    t->dk = x->dr;
}

/* What keys and types are given alike, and what the columns' slopes are to biases. */
static void take_types(fast_pass *p, const window *w, float *dk, const float *column_sum)
{
    panel *x = p->panel;
    const kernel_table *kernels = p->plan->kernels;
    hga_id dim = p->field_dim, heads = p->plan->shape.n_heads;
    double *d_bias = p->sums.of[REL_BIAS];
    for (hga_id c = 0; c < w->n; c++) {
        ptrdiff_t type = x->type[w->types + c];
        const float *d = x->dr + (ptrdiff_t)c * dim;
        if (d_bias) d_bias[type * heads + p->head] += (double)column_sum[c];
        if (!p->d_rel_key) continue;
        kernels->blend(dim, 1, p->d_rel_key + type * dim, 1, d, p->d_rel_key + type * dim);
        if (dk) kernels->blend(dim, 1, dk + (ptrdiff_t)c * dim, 1, d, dk + (ptrdiff_t)c * dim);
    }
}

/* Pairs of one column with several types: the tables' rows by place. */
static kernel_grad_places bring_places(fast_pass *p, const window *w, float *bias, float *d_bias)
{
    panel *x = p->panel;
    hga_id dim = p->field_dim, heads = p->plan->shape.n_heads;
    const float *rel_bias = p->call->io->rel_bias;
    for (hga_id i = 0; p->rel_key && i < w->n_types; i++)
        memcpy(x->r + (ptrdiff_t)i * dim, key_of_type(p, w, i), (size_t)dim * sizeof *x->r);
    for (hga_id i = 0; rel_bias && i < w->n_types; i++)
        bias[i] = rel_bias[(ptrdiff_t)x->type[w->types + i] * heads + p->head];
    return (kernel_grad_places){.n = w->n_types,
                                .of = x->place + w->places,
                                .r = p->rel_key ? x->r : NULL,
                                .bias = rel_bias ? bias : NULL,
                                .dr = p->d_rel_key ? x->dr : NULL,
                                .d_bias = p->sums.of[REL_BIAS] ? d_bias : NULL};
}

static void take_places(fast_pass *p, const window *w, const float *d_bias)
{
    panel *x = p->panel;
    hga_id dim = p->field_dim, heads = p->plan->shape.n_heads;
    for (hga_id i = 0; i < w->n_types; i++) {
        ptrdiff_t type = x->type[w->types + i];
        if (p->sums.of[REL_BIAS]) p->sums.of[REL_BIAS][type * heads + p->head] += (double)d_bias[i];
        if (!p->d_rel_key) continue;
        float *to = p->d_rel_key + type * dim;
        p->plan->kernels->blend(dim, 1, to, 1, x->dr + (ptrdiff_t)i * dim, to);
    }
}

/* ---- dropout ---- */

static void draw(fast_pass *p, const window *w, const group *g)
{
    panel *x = p->panel;
    hga_id source[WINDOW];
    for (hga_id c = 0; c < w->n; c++) {
        source[c] = column_node(p, w, c);
        for (hga_id row = 0; row < KERNEL_TILE; row++) {
            hga_id i = c * KERNEL_TILE + row;
            x->pair_type[i] = x->type[w->types + (w->places < 0 ? c : x->place[w->places + i])];
        }
    }
    p->plan->kernels->drop(&(kernel_drop){.n = w->n,
                                          .destination = g->node,
                                          .source = source,
                                          .type = x->pair_type,
                                          .seed = p->call->io->seed,
                                          .layer = p->call->io->layer,
                                          .head = p->head,
                                          .dropout = p->plan->options.dropout},
                           x->kept);
}

/* ---- positions ---- */

/* The node whose position a row of the group uses in this window; -1 without a row. */
static hga_id own_node(const window *w, const group *g, hga_id row)
{
    return g->node[row] < 0 ? -1 : w->own[row] ? w->own[row] - 1 : g->node[row];
}

static kernel_grad_positions bring_positions(fast_pass *p, const window *w, const group *g)
{
    panel *x = p->panel;
    hga_id dim = p->plan->shape.pos_dim, padded = padded_columns(dim);
    const float *at = p->call->io->node_pos, *rows[KERNEL_TILE];
    for (hga_id c = 0; c < w->n; c++)
        memcpy(x->position + (ptrdiff_t)c * padded, at + (ptrdiff_t)column_node(p, w, c) * dim,
               (size_t)dim * sizeof *at);
    for (hga_id row = 0; row < KERNEL_TILE; row++) {
        hga_id own = own_node(w, g, row);
        rows[row] = own < 0 ? NULL : at + (ptrdiff_t)own * dim;
        if (own >= 0) memcpy(x->own + (ptrdiff_t)row * padded, rows[row], (size_t)dim * sizeof *at);
        if (own < 0) memset(x->own + (ptrdiff_t)row * padded, 0, (size_t)dim * sizeof *at);
        for (hga_id c = 0; c < dim; c++) x->own_turned[c * KERNEL_TILE + row] = x->own[(ptrdiff_t)row * padded + c];
    }
    int wanted = p->sums.of[NODE_POS] != NULL;
    if (wanted) memset(x->d_own, 0, (size_t)(padded * KERNEL_TILE) * sizeof *x->d_own);
    if (wanted) memset(x->d_position, 0, (size_t)(padded * w->n) * sizeof *x->d_own);
    return (kernel_grad_positions){.dim = dim,
                                   .row = x->own,
                                   .row_turned = x->own_turned,
                                   .column = x->position,
                                   .d_row = wanted ? x->d_own : NULL,
                                   .d_column = wanted ? x->d_position : NULL};
}

static void take_positions(fast_pass *p, const window *w, const group *g)
{
    panel *x = p->panel;
    hga_id dim = p->plan->shape.pos_dim, padded = padded_columns(dim);
    double *to = p->sums.of[NODE_POS];
    for (hga_id c = 0; to && c < w->n; c++)
        for (hga_id i = 0; i < dim; i++)
            to[(ptrdiff_t)column_node(p, w, c) * dim + i] += (double)x->d_position[(ptrdiff_t)c * padded + i];
    for (hga_id row = 0; to && row < KERNEL_TILE; row++)
        for (hga_id i = 0; own_node(w, g, row) >= 0 && i < dim; i++)
            to[(ptrdiff_t)own_node(w, g, row) * dim + i] += (double)x->d_own[(ptrdiff_t)row * padded + i];
}

/* ---- biases of edges ---- */

/* Where the bias of each pair is in its table, pair by pair: to[pair] <- bias, or, back, the table's sums += slope. */
static void bring_biases(fast_pass *p, hga_id s, const window *w, const group *g, int back)
{
    panel *x = p->panel;
    const hga_io *io = p->call->io;
    hga_id heads = io->edge_bias_heads, head = heads == 1 ? 0 : p->head, rank[KERNEL_TILE];
    memcpy(rank, w->rank, sizeof rank);
    if (!back) memset(x->pair_bias, 0, (size_t)(w->n * KERNEL_TILE) * sizeof *x->pair_bias);
    for (hga_id c = 0; c < w->n; c++)
        for (uint32_t left = w->rows[c]; left; left &= left - 1) {
            hga_id row = __builtin_ctz(left), i = c * KERNEL_TILE + row;
            ptrdiff_t at = (ptrdiff_t)(p->plan->stage[s].row_ptr[g->node[row]] + rank[row]++) * heads + head;
            if (back)
                p->sums.of[EDGE_BIAS][at] += (double)x->slopes[i];
            else
                x->pair_bias[i] = io->edge_bias[at];
        }
}

/* ---- a window ---- */

static kernel_grad_tile tile_of(fast_pass *p, const hga_stage *stage, const window *w, const group *g)
{
    panel *x = p->panel;
    int moved = p->rows.r.src_order != NULL, apart = lies_apart(p, w);
    int with_keys = p->field[stage->key].adjoint != NULL, with_values = p->field[stage->value].adjoint != NULL;
    return (kernel_grad_tile){.n = w->n,
                              .dim = p->plan->shape.dim,
                              .dim_v = p->plan->shape.dim_v,
                              .k = moved ? x->k : value_row(p, stage->key, w->first),
                              .v = moved ? x->v : value_row(p, stage->value, w->first),
                              .rows = w->full ? NULL : w->rows,
                              .q = g->q,
                              .g = g->g,
                              .q_rows = g->q_rows,
                              .g_rows = g->g_rows,
                              .lse = g->lse,
                              .delta = g->delta,
                              .dq = p->field[stage->query].adjoint || p->sums.of[SCALE] ? g->dq : NULL,
                              .dk = !with_keys ? NULL
                                    : apart    ? x->dk
                                               : source_row(p, stage->key, p->own_dk, w->first),
                              .dv = !with_values ? NULL
                                    : apart      ? x->dv
                                                 : source_row(p, stage->value, p->own_dv, w->first)};
}

/* Masses of columns, and the sums of their slopes. */
static void take_masses(fast_pass *p, const window *w, const float *column_sum)
{
    for (hga_id c = 0; p->sums.of[LOG_MASS] && c < w->n; c++)
        p->sums.of[LOG_MASS][column_node(p, w, c)] += (double)column_sum[c];
}

static void run_window(fast_pass *p, hga_id s, const window *w)
{
    const hga_stage *stage = &p->program->stage[s];
    panel *x = p->panel;
    const group *g = &x->group[w->group];
    float bias[WINDOW] = {0}, column_sum[WINDOW] = {0}, type_bias[KERNEL_PLACES], d_type_bias[KERNEL_PLACES];
    int by_type = p->rel_key || p->call->io->rel_bias, by_column = by_type && w->places < 0;
    kernel_grad_tile t = tile_of(p, stage, w, g);
    kernel_grad_places places;
    kernel_grad_positions positions;
    float *dk = t.dk;
    for (hga_id c = 0; stage->by_mass && c < w->n; c++) bias[c] = p->log_mass[column_node(p, w, c)];
    if (by_column) add_types(p, w, &t, bias);
    if (stage->by_mass || by_column) t.bias = bias;
    if (p->sums.of[LOG_MASS] || p->sums.of[REL_BIAS]) t.column_sum = column_sum;
    if (by_type && !by_column) places = bring_places(p, w, type_bias, d_type_bias), t.places = &places;
    if (x->parts.positions) positions = bring_positions(p, w, g), t.positions = &positions;
    if (x->parts.ranks) bring_biases(p, s, w, g, 0), t.pair_bias = x->pair_bias;
    if (p->sums.of[EDGE_BIAS] && x->parts.ranks) t.slopes = x->slopes;
    if (p->plan->options.dropout > 0) draw(p, w, g), t.kept = x->kept;
    p->plan->kernels->grad_tile(&t);
    if (by_column) take_types(p, w, dk, column_sum);
    if (t.places) take_places(p, w, d_type_bias);
    if (t.positions) take_positions(p, w, g);
    if (t.slopes) bring_biases(p, s, w, g, 1);
    take_masses(p, w, column_sum);
}

/* Columns that do not lie side by side are, while windows use them. */
static void bring(fast_pass *p, const hga_stage *s, const window *w)
{
    const hga_id *node = p->rows.r.src_order + w->first;
    gather(p, s->key, node, w->n, p->panel->k), gather(p, s->value, node, w->n, p->panel->v);
}
static void take_back(fast_pass *p, const hga_stage *s, const window *w)
{
    if (p->field[s->key].adjoint) scatter(p, s->key, w, p->own_dk, p->panel->dk);
    if (p->field[s->value].adjoint) scatter(p, s->value, w, p->own_dv, p->panel->dv);
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
        if (!p->rows.r.src_order && lies_apart(p, w)) take_back(p, stage, w);
    }
    if (near) take_back(p, stage, near);
}
