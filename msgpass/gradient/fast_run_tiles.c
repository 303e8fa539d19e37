/* fast_run_tiles.c: runs the tiles of a panel, by column: gathers the kernel's arguments and adds its results to
   gradients. */
#include "carve.h"
#include "fast_additive.h"
#include "fast_columns.h"
#include "fast_draws.h"
#include "fast_rows.h"
#include "fast_tiles.h"
#include "panel.h"
#include "plan.h"

#include <string.h>

/* ---- columns ---- */

/* The node of a tile's column. */
static hga_id column_node(const fast_pass *p, const tile *t, hga_id c)
{
    hga_id at = t->columns < 0 ? t->first + c : p->panel->lists.number[t->columns + c];
    return p->rows.r.src_order ? p->rows.r.src_order[at] : at;
}

static int same_columns(const tile *a, const tile *b)
{
    return a && a->columns < 0 && b->columns < 0 && a->first == b->first && a->n == b->n;
}

/* Finds the columns in chunks. */
static void find_near(const fast_pass *p, const tile *t)
{
    tile_columns *x = &p->panel->near;
    for (hga_id c = 0; c < t->n; c++) {
        hga_id at = t->columns < 0 ? t->first + c : p->panel->lists.number[t->columns + c];
        x->node[c] = column_node(p, t, c);
        near_column(p, at, &x->k[c], &x->v[c], &x->dk[c], &x->dv[c]);
    }
}

/* Finds the columns in rows of the fields. */
static void find_near_rows(const fast_pass *p, const hga_stage *stage, const tile *t)
{
    tile_columns *x = &p->panel->near;
    int with_keys = p->field[stage->key].adjoint != NULL, with_values = p->field[stage->value].adjoint != NULL;
    for (hga_id c = 0; c < t->n; c++) {
        hga_id u = x->node[c] = column_node(p, t, c);
        x->k[c] = value_row(p, stage->key, u), x->v[c] = value_row(p, stage->value, u);
        if (with_keys) x->dk[c] = source_row(p, stage->key, p->own.dk, u);
        if (with_values) x->dv[c] = source_row(p, stage->value, p->own.dv, u);
    }
}

/* Finds the tile's columns, unless they are those of the tile before. */
static void find_near_columns(fast_pass *p, hga_id s, const tile *t)
{
    tile_columns *x = &p->panel->near;
    int known = same_columns(x->tile, t);
    x->tile = t;
    if (known) return;
    if (p->chunks && p->chunks->stage == s)
        find_near(p, t);
    else
        find_near_rows(p, &p->program->stage[s], t);
    for (hga_id c = 0; p->scores.slopes && c < t->n; c++) x->at[c] = (float)p->plan->cache->lists.position[x->node[c]];
}

/* ---- types ---- */

static const float *key_of_type(const fast_pass *p, const tile *t, hga_id i)
{
    return p->scores.rel_key + (ptrdiff_t)p->panel->lists.number[t->types + i] * p->field_dim;
}

/* Adds the biases of columns that have one type each. */
static void add_type_biases(const fast_pass *p, const tile *t, float *bias)
{
    hga_id heads = p->plan->shape.n_heads;
    const float *rel_bias = p->call->io->rel_bias.data;
    for (hga_id c = 0; rel_bias && c < t->n; c++)
        bias[c] += rel_bias[(ptrdiff_t)p->panel->lists.number[t->types + c] * heads + p->heads.head];
}

/* Gathers keys of such columns, with their types' added, and their gradients, in the panel's own rows. */
static void gather_typed_keys(fast_pass *p, const tile *t, const float **k, float **dk)
{
    panel *x = p->panel;
    hga_id dim = p->field_dim;
    for (hga_id c = 0; c < t->n; c++) {
        float *to = x->operands.typed + (ptrdiff_t)c * dim;
        p->plan->machine.kernels->blend(dim, 1, x->near.k[c], 1, key_of_type(p, t, c), to);
        k[c] = to, dk[c] = x->operands.d_typed + (ptrdiff_t)c * dim;
    }
    if (p->own.d_rel_key) memset(x->operands.d_typed, 0, (size_t)(t->n * dim) * sizeof *x->operands.d_typed);
}

/* Adds the gradients of typed keys to keys and to types, and sums of columns' score gradients to biases. */
static void take_types(fast_pass *p, const tile *t, int with_keys, const float *column_sum)
{
    panel *x = p->panel;
    const kernel_table *kernels = p->plan->machine.kernels;
    hga_id dim = p->field_dim, heads = p->plan->shape.n_heads;
    double *d_bias = p->sums.of[HGA_TABLE_REL_BIAS];
    for (hga_id c = 0; c < t->n; c++) {
        ptrdiff_t type = x->lists.number[t->types + c];
        const float *d = x->operands.d_typed + (ptrdiff_t)c * dim;
        if (d_bias) d_bias[type * heads + p->heads.head] += (double)column_sum[c];
        if (!p->own.d_rel_key) continue;
        kernels->blend(dim, 1, p->own.d_rel_key + type * dim, 1, d, p->own.d_rel_key + type * dim);
        if (with_keys) kernels->blend(dim, 1, x->near.dk[c], 1, d, x->near.dk[c]);
    }
}

/* What pairs of a column with several types read by index: rows of the tables, biases, and the gradients of both. */
typedef struct typed_indices {
    const float *r[KERNEL_INDICES];
    float *dr[KERNEL_INDICES], bias[KERNEL_INDICES], d_bias[KERNEL_INDICES];
} typed_indices;

static kernel_grad_indices gather_indices(const fast_pass *p, const tile *t, typed_indices *y)
{
    const panel *x = p->panel;
    hga_id heads = p->plan->shape.n_heads;
    const float *rel_bias = p->call->io->rel_bias.data;
    for (hga_id i = 0; i < t->n_types; i++) {
        const ptrdiff_t type = x->lists.number[t->types + i];
        if (p->scores.rel_key) y->r[i] = key_of_type(p, t, i);
        if (p->own.d_rel_key) y->dr[i] = p->own.d_rel_key + type * p->field_dim;
        if (rel_bias) y->bias[i] = rel_bias[type * heads + p->heads.head];
    }
    return (kernel_grad_indices){.n = t->n_types,
                                 .of = x->lists.index + t->n_indices,
                                 .r = p->scores.rel_key ? y->r : NULL,
                                 .bias = rel_bias ? y->bias : NULL,
                                 .dr = p->own.d_rel_key ? y->dr : NULL,
                                 .d_bias = p->sums.of[HGA_TABLE_REL_BIAS] ? y->d_bias : NULL};
}

/* Adds the tile's gradients of types to those of relative biases. */
static void take_indices(fast_pass *p, const tile *t, const float *d_bias)
{
    double *sum = p->sums.of[HGA_TABLE_REL_BIAS];
    const hga_id heads = p->plan->shape.n_heads;
    for (hga_id i = 0; sum && i < t->n_types; i++)
        sum[(ptrdiff_t)p->panel->lists.number[t->types + i] * heads + p->heads.head] += (double)d_bias[i];
}

/* ---- dropout ---- */

/* Sets the dropout mask of the tile's weights. */
static hga_status drop_weights(fast_pass *p, tile *t, kernel_grad_tile *out)
{
    const uint16_t *drop_mask[2];
    if (p->plan->options.dropout == 0) return HGA_OK;
    hga_status st = tile_draws(p, t, drop_mask);
    for (hga_id i = 0; !st && i < t->n_groups; i++) out->group[i].drop_mask = drop_mask[i];
    out->keep = 1 / (1 - p->plan->options.dropout);
    return st;
}

/* ---- positions ---- */

/* The node whose position a row of the group uses in this tile; -1 without a row. */
static hga_id own_node(const panel *x, const tile *t, const group *g, hga_id row)
{
    hga_id named = x->lists.number[t->own + row];
    return g->node[row] < 0 ? -1 : named ? named - 1 : g->node[row];
}

/* Gathers the positions of a tile's columns and rows, and zeros their gradients where these are required. */
static kernel_grad_positions gather_positions(fast_pass *p, const tile *t, const group *g)
{
    panel *x = p->panel;
    hga_id dim = p->plan->shape.pos_dim, width = padded(dim);
    const float *at = p->call->io->node_pos.data, *rows[KERNEL_TILE];
    for (hga_id c = 0; c < t->n; c++)
        memcpy(x->operands.position + (ptrdiff_t)c * width, at + (ptrdiff_t)x->near.node[c] * dim,
               (size_t)dim * sizeof *at);
    for (hga_id row = 0; row < KERNEL_TILE; row++) {
        hga_id own = own_node(x, t, g, row);
        rows[row] = own < 0 ? NULL : at + (ptrdiff_t)own * dim;
        if (own >= 0) memcpy(x->operands.own + (ptrdiff_t)row * width, rows[row], (size_t)dim * sizeof *at);
        if (own < 0) memset(x->operands.own + (ptrdiff_t)row * width, 0, (size_t)dim * sizeof *at);
        for (hga_id c = 0; c < dim; c++)
            x->operands.own_transposed[c * KERNEL_TILE + row] = x->operands.own[(ptrdiff_t)row * width + c];
    }
    int needs_grad = p->sums.of[HGA_TABLE_NODE_POS] != NULL;
    if (needs_grad) memset(x->operands.d_own, 0, (size_t)(width * KERNEL_TILE) * sizeof *x->operands.d_own);
    if (needs_grad) memset(x->operands.d_position, 0, (size_t)(width * t->n) * sizeof *x->operands.d_own);
    return (kernel_grad_positions){.dim = dim,
                                   .row = x->operands.own,
                                   .row_transposed = x->operands.own_transposed,
                                   .column = x->operands.position,
                                   .d_row = needs_grad ? x->operands.d_own : NULL,
                                   .d_column = needs_grad ? x->operands.d_position : NULL};
}

/* Adds the tile's gradients of positions to those of its nodes. */
static void take_positions(fast_pass *p, const tile *t, const group *g)
{
    panel *x = p->panel;
    hga_id dim = p->plan->shape.pos_dim, width = padded(dim);
    double *to = p->sums.of[HGA_TABLE_NODE_POS];
    for (hga_id c = 0; to && c < t->n; c++)
        for (hga_id i = 0; i < dim; i++)
            to[(ptrdiff_t)x->near.node[c] * dim + i] += (double)x->operands.d_position[(ptrdiff_t)c * width + i];
    for (hga_id row = 0; to && row < KERNEL_TILE; row++)
        for (hga_id i = 0; own_node(x, t, g, row) >= 0 && i < dim; i++)
            to[(ptrdiff_t)own_node(x, t, g, row) * dim + i] += (double)x->operands.d_own[(ptrdiff_t)row * width + i];
}

/* ---- biases of edges ---- */

/* Lane mask of the group's rows that have an edge to column c. */
static uint32_t rows_with(const panel *x, const tile *t, const group *g, hga_id c)
{
    return t->rows[0] < 0 ? g->there : x->lists.bits[t->rows[0] + c];
}

/* Gathers the bias of each pair from the edges' table: pair_bias[pair] = bias; or, back, adds each pair's slope to
   the table's sums. */
static void gather_biases(fast_pass *p, const tile *t, const group *g, int back)
{
    panel *x = p->panel;
    const hga_io *io = p->call->io;
    hga_id heads = io->edge_bias.columns, head = heads == 1 ? 0 : p->heads.head, rank[KERNEL_TILE];
    memcpy(rank, x->lists.number + t->rank, sizeof rank);
    if (!back) memset(x->operands.pair_bias, 0, (size_t)(t->n * KERNEL_TILE) * sizeof *x->operands.pair_bias);
    for (hga_id c = 0; c < t->n; c++)
        for (uint32_t left = rows_with(x, t, g, c); left; left &= left - 1) {
            hga_id row = __builtin_ctz(left), i = c * KERNEL_TILE + row;
            ptrdiff_t at = (ptrdiff_t)(p->plan->cache->lists.first_edge[g->node[row]] + rank[row]++) * heads + head;
            if (back)
                p->sums.of[HGA_TABLE_EDGE_BIAS][at] += (double)x->operands.slopes[i];
            else
                x->operands.pair_bias[i] = io->edge_bias.data[at];
        }
}

/* ---- a tile ---- */

/* The kernel's arguments of group i of a tile. */
static kernel_grad_group group_of(const fast_pass *p, const hga_stage *stage, const tile *t, hga_id i)
{
    const panel *x = p->panel;
    const group *g = &x->group[t->group + i];
    return (kernel_grad_group){.rows = t->rows[i] < 0 ? NULL : x->lists.bits + t->rows[i],
                               .q = g->q,
                               .g = g->g,
                               .q_rows = g->q_rows,
                               .g_rows = g->g_rows,
                               .lse = g->lse,
                               .delta = g->delta,
                               .row_at = g->at,
                               .dq = has_adjoint(p, stage->query) || p->sums.of[HGA_TABLE_SCALE] ? g->dq : NULL};
}

/* The kernel's arguments of any tile: its groups, columns and their gradients, the cap, the head's slope. */
static kernel_grad_tile tile_of(fast_pass *p, const hga_stage *stage, const tile *t)
{
    panel *x = p->panel;
    kernel_grad_tile out = {.n_groups = t->n_groups,
                            .n = t->n,
                            .dim = p->plan->shape.dim,
                            .dim_v = p->plan->shape.dim_v,
                            .k = x->near.k,
                            .v = x->near.v,
                            .dk = has_adjoint(p, stage->key) ? x->near.dk : NULL,
                            .dv = has_adjoint(p, stage->value) ? x->near.dv : NULL,
                            .additive = additive_at_hand(p),
                            .d_leaky_relu = additive_sums_begin(p),
                            .terms.cap = p->scores.softcap,
                            .sigmoid.on = weights_are_sigmoids(p->plan)};
    if (p->scores.slopes) out.terms.column_at = x->near.at, out.terms.slope = p->scores.slopes[p->heads.head];
    if (p->sums.of[HGA_TABLE_SLOPES]) out.d_slope = &p->sums.of[HGA_TABLE_SLOPES][p->heads.head];
    for (hga_id i = 0; i < t->n_groups; i++) out.group[i] = group_of(p, stage, t, i);
    return out;
}

/* Logarithms of the columns' masses, for sigmoids also 1 / the masses; and the sums of their gradients. */
static void add_masses(const fast_pass *p, const tile *t, float *bias, float *inverse, kernel_grad_tile *out)
{
    const hga_id *node = p->panel->near.node;
    for (hga_id c = 0; c < t->n; c++) bias[c] = p->scores.log_mass[node[c]];
    for (hga_id c = 0; out->sigmoid.on && c < t->n; c++) inverse[c] = 1 / p->nodes.mass[node[c]];
    out->terms.bias = bias, out->sigmoid.inverse_count = out->sigmoid.on ? inverse : NULL;
}
static void take_masses(fast_pass *p, const tile *t, const float *column_sum)
{
    for (hga_id c = 0; p->sums.of[HGA_TABLE_LOG_MASS] && c < t->n; c++)
        p->sums.of[HGA_TABLE_LOG_MASS][p->panel->near.node[c]] += (double)column_sum[c];
}

/* Sets where the gradients of counts' logarithms are summed: those of scores, except for sigmoids. */
static void sum_counts(kernel_grad_tile *t, float *column_sum, float *count)
{
    *(t->sigmoid.on ? &t->column_count : &t->column_sum) = t->sigmoid.on ? count : column_sum;
}

/* Runs a tile whose pairs have no terms of their own. */
static hga_status run_alike(fast_pass *p, const hga_stage *stage, tile *t)
{
    float bias[WINDOW], column_sum[WINDOW] = {0}, count[WINDOW] = {0}, inverse[WINDOW];
    kernel_grad_tile out = tile_of(p, stage, t);
    hga_status st = drop_weights(p, t, &out);
    if (st) return st;
    if (stage->by_mass) add_masses(p, t, bias, inverse, &out);
    if (p->sums.of[HGA_TABLE_LOG_MASS]) sum_counts(&out, column_sum, count);
    p->plan->machine.kernels->grad_tile(&out);
    additive_sums_end(p);
    take_masses(p, t, out.sigmoid.on ? count : column_sum);
    return HGA_OK;
}

hga_status run_plain_tile(fast_pass *p, hga_id s, tile *t)
{
    find_near_columns(p, s, t);
    return run_alike(p, &p->program->stage[s], t);
}

/* Runs a tile of one group whose pairs may have types, positions or biases of their own. */
static hga_status run_alone(fast_pass *p, hga_id s, tile *t)
{
    const hga_stage *stage = &p->program->stage[s];
    panel *x = p->panel;
    const group *g = &x->group[t->group];
    float bias[WINDOW] = {0}, column_sum[WINDOW] = {0}, count[WINDOW] = {0}, inverse[WINDOW];
    typed_indices typed;
    const float *k[WINDOW];
    float *dk[WINDOW];
    int by_type = p->scores.rel_key || p->call->io->rel_bias.data, by_column = by_type && t->n_indices < 0;
    kernel_grad_tile out = tile_of(p, stage, t);
    kernel_grad_indices indices;
    kernel_grad_positions positions;
    int with_keys = out.dk != NULL;
    hga_status st = drop_weights(p, t, &out);
    if (st) return st;
    if (stage->by_mass) add_masses(p, t, bias, inverse, &out);
    if (by_column) add_type_biases(p, t, bias);
    if (by_column && p->scores.rel_key) gather_typed_keys(p, t, k, dk), out.k = k;
    if (by_column && p->own.d_rel_key) out.dk = dk;
    if (by_column) out.terms.bias = bias;
    if (p->sums.of[HGA_TABLE_LOG_MASS]) sum_counts(&out, column_sum, count);
    if (p->sums.of[HGA_TABLE_REL_BIAS]) out.column_sum = column_sum;
    if (by_type && !by_column) indices = gather_indices(p, t, &typed), out.indices = &indices;
    if (x->parts.positions) positions = gather_positions(p, t, g), out.positions = &positions;
    if (x->parts.ranks) gather_biases(p, t, g, 0), out.pair_bias = x->operands.pair_bias;
    if (p->sums.of[HGA_TABLE_EDGE_BIAS] && x->parts.ranks) out.slopes = x->operands.slopes;
    p->plan->machine.kernels->grad_tile(&out);
    additive_sums_end(p);
    if (by_column) take_types(p, t, with_keys, column_sum);
    if (out.indices) take_indices(p, t, typed.d_bias);
    if (out.positions) take_positions(p, t, g);
    if (out.slopes) gather_biases(p, t, g, 1);
    take_masses(p, t, out.sigmoid.on ? count : column_sum);
    return HGA_OK;
}

/* The next tile of all groups, by column and then by group; NULL: none left. */
static tile *next_tile(panel *x, int64_t *at)
{
    tile *best = NULL;
    hga_id from = 0;
    for (hga_id i = 0; i < GROUPS; i++) {
        const group *g = &x->group[i];
        if (at[i] == g->n_tiles) continue;
        tile *t = &x->lists.tile[g->tiles + at[i]];
        if (!best || t->first < best->first) best = t, from = i;
    }
    if (best) at[from]++;
    return best;
}

/* Runs the panel's tiles. Where scores have more than products each group has tiles of its own; else two groups
   share theirs. */
hga_status run_panel_tiles(fast_pass *p, hga_id s)
{
    hga_status st = HGA_OK;
    const hga_stage *stage = &p->program->stage[s];
    int64_t at[GROUPS] = {0};
    p->panel->near.tile = NULL;
    for (tile *t; !st && (t = next_tile(p->panel, at));) {
        find_near_columns(p, s, t);
        st = has_parts(p->panel) ? run_alone(p, s, t) : run_alike(p, stage, t);
    }
    return st;
}
