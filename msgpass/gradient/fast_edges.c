/* fast_edges.c: edges that are in no tile, row by row: explicit ones, twins, weighted ones, and those of windows
   that hold too few. */
#include "fast_edges.h"
#include "carve.h"
#include "fast_additive.h"
#include "fast_columns.h"
#include "fast_rows.h"
#include "panel.h"
#include "plan.h"

#include <math.h>
#include <string.h>

hga_status leave(fast_pass *p, hga_id row, row_edge e, hga_pos position)
{
    panel *x = p->panel;
    hga_status st = HGA_OK;
    if (x->finding.n_left == x->finding.left_capacity)
        st = hga_grow(&p->plan->memory.user, &x->finding.left, &x->finding.left_capacity, x->finding.n_left,
                      x->finding.n_left + 1, sizeof *x->finding.left);
    if (!st) x->finding.left[x->finding.n_left++] = (left_edge){row, e, position};
    return st;
}

/* |x_q - x_k|, which slopes multiply. */
static double distance(const fast_pass *p, hga_id v, hga_id u)
{
    const double *at = p->plan->cache->lists.position;
    return fabs(at[v] - at[u]);
}

/* The terms of an edge's score besides the product with the key. */
float base_score(const fast_pass *p, hga_id s, hga_id v, const left_edge *x)
{
    const hga_io *io = p->call->io;
    const hga_stage *stage = &p->program->stage[s];
    int plain = !io->rel_bias.data && !io->edge_bias.data && !io->node_pos.data && !p->scores.slopes;
    if (!stage->by_mass && x->e.weight == 1 && plain) return 0;
    double sum = x->e.weight == 1 ? 0 : log((double)x->e.weight);
    if (stage->by_mass) sum += (double)p->scores.log_mass[x->e.src];
    if (io->rel_bias.data)
        sum += (double)io->rel_bias.data[(ptrdiff_t)x->e.type * p->plan->shape.n_heads + p->heads.head];
    if (io->edge_bias.data && s == p->plan->bias_stage) {
        hga_id heads = io->edge_bias.columns;
        sum +=
            (double)io->edge_bias
                .data[(p->plan->cache->lists.first_edge[v] + x->position) * heads + (heads == 1 ? 0 : p->heads.head)];
    }
    hga_id own = x->e.pos_of ? x->e.pos_of - 1 : v, other = x->e.src_pos_of ? x->e.src_pos_of - 1 : x->e.src,
           dim = p->plan->shape.pos_dim;
    for (hga_id c = 0; io->node_pos.data && c < dim; c++)
        sum +=
            (double)io->node_pos.data[(ptrdiff_t)own * dim + c] * (double)io->node_pos.data[(ptrdiff_t)other * dim + c];
    if (p->scores.slopes) sum -= (double)p->scores.slopes[p->heads.head] * distance(p, v, x->e.src);
    return (float)sum;
}

/* Do scores of the stage have terms besides products? */
static int adds_to_products(const fast_pass *p, hga_id s)
{
    const hga_io *io = p->call->io;
    return edges_have_counts(p->plan, s) || io->rel_bias.data || io->edge_bias.data || io->node_pos.data ||
           p->scores.slopes;
}

/* A row's scores before softmax, with all that types, biases and positions add. */
void score_edges(const fast_pass *p, hga_id s, hga_id v, const float *q, const row_edge *e, hga_pos position, hga_id n,
                 float *score)
{
    const float *k[KERNEL_CHUNK], *r[KERNEL_CHUNK], *value;
    float base[KERNEL_CHUNK] = {0};
    for (hga_id i = 0; i < n; i++) find_source(p, s, e[i].src, &k[i], &value);
    for (hga_id i = 0; i < n && p->scores.rel_key; i++)
        r[i] = p->scores.rel_key + (ptrdiff_t)e[i].type * p->field[p->program->stage[s].query].padded;
    for (hga_id i = 0; i < n && adds_to_products(p, s); i++)
        base[i] = base_score(p, s, v, &(left_edge){.e = e[i], .position = position + i});
    p->plan->machine.kernels->grad_scores(&(kernel_grad_row){.n = n,
                                                             .dim = p->plan->shape.dim,
                                                             .k = k,
                                                             .additive = additive_at_hand(p),
                                                             .terms.r = p->scores.rel_key ? r : NULL,
                                                             .terms.bias = base,
                                                             .q = q,
                                                             .terms.cap = p->scores.softcap},
                                          score);
}

/* Adds the gradients of n edges of a row to the tables of their scores, and of relative keys. */
static void sum_tables(fast_pass *p, hga_id s, const group *g, hga_id row, const left_edge *x, hga_id n,
                       const float *ds, const float *dc, const float *counts)
{
    const hga_io *io = p->call->io;
    const table_sums *sums = &p->sums;
    hga_id v = g->node[row], padded = p->field[p->program->stage[s].query].padded, dim = p->plan->shape.pos_dim;
    const float *q = g->q_rows + (ptrdiff_t)row * padded;
    for (hga_id i = 0; i < n; i++) {
        double d = (double)ds[i];
        ptrdiff_t type = x[i].e.type;
        if (p->own.d_rel_key) {
            float *dr = p->own.d_rel_key + type * padded;
            p->plan->machine.kernels->blend(padded, 1, dr, dc[i], q, dr);
        }
        if (sums->of[HGA_TABLE_REL_BIAS])
            sums->of[HGA_TABLE_REL_BIAS][type * p->plan->shape.n_heads + p->heads.head] += d;
        if (sums->of[HGA_TABLE_EDGE_BIAS] && s == p->plan->bias_stage) {
            hga_id heads = io->edge_bias.columns;
            sums->of[HGA_TABLE_EDGE_BIAS][(p->plan->cache->lists.first_edge[v] + x[i].position) * heads +
                                          (heads == 1 ? 0 : p->heads.head)] += d;
        }
        if (sums->of[HGA_TABLE_LOG_MASS]) sums->of[HGA_TABLE_LOG_MASS][x[i].e.src] += (double)counts[i];
        if (sums->of[HGA_TABLE_SLOPES]) sums->of[HGA_TABLE_SLOPES][p->heads.head] -= d * distance(p, v, x[i].e.src);
        hga_id own = x[i].e.pos_of ? x[i].e.pos_of - 1 : v,
               source = x[i].e.src_pos_of ? x[i].e.src_pos_of - 1 : x[i].e.src;
        for (hga_id c = 0; sums->of[HGA_TABLE_NODE_POS] && c < dim; c++) {
            ptrdiff_t mine = (ptrdiff_t)own * dim + c, other = (ptrdiff_t)source * dim + c;
            sums->of[HGA_TABLE_NODE_POS][mine] += d * (double)io->node_pos.data[other];
            sums->of[HGA_TABLE_NODE_POS][other] += d * (double)io->node_pos.data[mine];
        }
    }
}

/* The dropout mask of n edges of row v, `stride` bytes apart, in some heads; 0: dropped. */
void drop_row(const fast_pass *p, hga_id v, const row_edge *e, size_t stride, hga_id n, hga_id first_head, hga_id heads,
              float *drop_mask)
{
    const hga_io *io = p->call->io;
    hga_id destination[KERNEL_CHUNK], source[KERNEL_CHUNK];
    int32_t type[KERNEL_CHUNK];
    for (hga_id i = 0; i < n; i++, e = (const row_edge *)(const void *)((const char *)e + stride))
        destination[i] = v, source[i] = e->src, type[i] = e->type;
    p->plan->machine.kernels->drop_pairs(&(kernel_drop_pairs){.draw = draw_of_call(p->plan, io),
                                                              .n = n,
                                                              .first_head = first_head,
                                                              .heads = heads,
                                                              .destination = destination,
                                                              .source = source,
                                                              .type = type},
                                         drop_mask);
}

/* The same of a row's left edges in the current head, from `bits` where they are drawn. */
static void drop_left(const fast_pass *p, hga_id v, const left_edge *x, hga_id n, const uint8_t *bits, float *drop_mask)
{
    float keep = 1 / (1 - p->plan->options.dropout);
    if (!bits) drop_row(p, v, &x->e, sizeof *x, n, p->heads.head, 1, drop_mask);
    for (hga_id i = 0; bits && i < n; i++) drop_mask[i] = (float)(bits[i] >> p->heads.head % 8 & 1) * keep;
}

/* How the edges are weighed. Where sigmoids have counts, fills `inverse` with 1 / those of the edges. */
static kernel_sigmoids sigmoids_of(const fast_pass *p, hga_id s, const left_edge *x, hga_id n, float *inverse)
{
    const int on = weights_are_sigmoids(p->plan), counts = on && edges_have_counts(p->plan, s),
              by_mass = p->program->stage[s].by_mass;
    for (hga_id i = 0; counts && i < n; i++)
        inverse[i] = 1 / (x[i].e.weight * (by_mass ? p->nodes.mass[x[i].e.src] : 1));
    return (kernel_sigmoids){.on = on, .inverse_count = counts ? inverse : NULL};
}

/* Adds n edges of a row that are in no tile to the gradients of its query, of keys and values, and of tables. */
void run_some_edges(fast_pass *p, hga_id s, const group *g, hga_id row, const left_edge *x, hga_id n, known_edges known)
{
    const hga_stage *stage = &p->program->stage[s];
    const hga_io *io = p->call->io;
    hga_id padded_dim = p->field[stage->query].padded, v = g->node[row];
    const float *k[KERNEL_CHUNK], *value[KERNEL_CHUNK], *r[KERNEL_CHUNK];
    float *dk[KERNEL_CHUNK], *dv[KERNEL_CHUNK], score[KERNEL_CHUNK], drop_mask[KERNEL_CHUNK], ds[KERNEL_CHUNK],
        dc[KERNEL_CHUNK], count[KERNEL_CHUNK], inverse[KERNEL_CHUNK];
    int with_keys = has_adjoint(p, stage->key), with_values = has_adjoint(p, stage->value),
        near = p->chunks && p->chunks->stage == s, drops = p->plan->options.dropout > 0,
        counts_differ = weights_are_sigmoids(p->plan) || known.weight;
    const hga_id *rank = p->call->row_ranges[s].rank;
    for (hga_id i = 0; i < n; i++) {
        hga_id u = x[i].e.src;
        if (near) near_column(p, rank ? rank[u] : u, &k[i], &value[i], &dk[i], &dv[i]);
        if (!near) k[i] = value_row(p, stage->key, u), value[i] = value_row(p, stage->value, u);
        if (!near && with_keys) dk[i] = source_row(p, stage->key, p->own.dk, u);
        if (!near && with_values) dv[i] = source_row(p, stage->value, p->own.dv, u);
        score[i] = base_score(p, s, v, &x[i]);
        if (io->rel_key.data) r[i] = p->scores.rel_key + (ptrdiff_t)x[i].e.type * padded_dim;
    }
    if (drops) drop_left(p, v, x, n, known.bits, drop_mask);
    p->plan->machine.kernels->grad_row(&(kernel_grad_row){.n = n,
                                                          .dim = p->plan->shape.dim,
                                                          .dim_v = p->plan->shape.dim_v,
                                                          .k = k,
                                                          .v = value,
                                                          .additive = additive_at_hand(p),
                                                          .d_leaky_relu = additive_sums_begin(p),
                                                          .terms.r = io->rel_key.data ? r : NULL,
                                                          .dk = with_keys ? dk : NULL,
                                                          .dv = with_values ? dv : NULL,
                                                          .terms.bias = score,
                                                          .drop_mask = drops ? drop_mask : NULL,
                                                          .q = g->q_rows + (ptrdiff_t)row * padded_dim,
                                                          .g = g->g_rows + (ptrdiff_t)row * p->field[stage->out].padded,
                                                          .lse = g->lse[row],
                                                          .delta = g->delta[row],
                                                          .terms.cap = p->scores.softcap,
                                                          .dq = g->dq + (ptrdiff_t)row * padded_dim,
                                                          .ds = ds,
                                                          .dc = dc,
                                                          .sigmoid = sigmoids_of(p, s, x, n, inverse),
                                                          .counts = counts_differ ? count : NULL,
                                                          .weight = known.weight,
                                                          .slope = known.slope});
    additive_sums_end(p);
    if (p->scores.needs_tables) sum_tables(p, s, g, row, x, n, ds, dc, counts_differ ? count : ds);
}

/* Appends the left edges to the panel's list, sorted by row, each row's in the order they were left in. */
hga_status sort_left(fast_pass *p, group *g)
{
    panel *x = p->panel;
    hga_id at[KERNEL_TILE + 1];
    memset(g->row_end, 0, sizeof g->row_end);
    g->edges = x->lists.n.edges;
    if (x->lists.n.edges + x->finding.n_left > x->lists.edge_capacity) {
        hga_status st = hga_grow(&p->plan->memory.user, &x->lists.edge, &x->lists.edge_capacity, x->lists.n.edges,
                                 x->lists.n.edges + x->finding.n_left, sizeof *x->lists.edge);
        if (st) return st;
    }
    for (int64_t i = 0; i < x->finding.n_left; i++) g->row_end[x->finding.left[i].row + 1]++;
    for (hga_id r = 0; r < KERNEL_TILE; r++) g->row_end[r + 1] += g->row_end[r];
    memcpy(at, g->row_end, sizeof at);
    for (int64_t i = 0; i < x->finding.n_left; i++)
        x->lists.edge[g->edges + at[x->finding.left[i].row]++] = x->finding.left[i];
    x->lists.n.edges += x->finding.n_left, x->finding.n_left = 0;
    return HGA_OK;
}

void run_left(fast_pass *p, hga_id s, const group *g, const uint8_t *bits)
{
    const left_edge *edge = p->panel->lists.edge;
    for (hga_id r = 0; r < KERNEL_TILE; r++)
        for (hga_id i = g->row_end[r]; i < g->row_end[r + 1]; i += KERNEL_CHUNK) {
            hga_id n = g->row_end[r + 1] - i < KERNEL_CHUNK ? g->row_end[r + 1] - i : KERNEL_CHUNK;
            run_some_edges(p, s, g, r, edge + g->edges + i, n, (known_edges){.bits = bits ? bits + i : NULL});
        }
}

/* Leaves explicit edges of the group's rows; where there are no other edges their order is canonical. */
hga_status leave_explicit(fast_pass *p, const group *g)
{
    const hga_relation *r = &p->rows.r;
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < KERNEL_TILE && r->ptr; i++) {
        hga_id v = g->node[i];
        for (hga_pos e = v < 0 ? 0 : r->ptr[v]; !st && v >= 0 && e < r->ptr[v + 1]; e++)
            st = leave(p, i, (row_edge){r->src[e], r->type ? r->type[e] : 0, r->weight ? r->weight[e] : 1, 0, 0},
                       e - r->ptr[v]);
    }
    return st;
}

/* Leaves all edges of the group's rows, each with its canonical position in the row. */
hga_status leave_rows(fast_pass *p, const group *g)
{
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < KERNEL_TILE; i++) {
        if (g->node[i] < 0) continue;
        HGA_TRY(edges_read(&p->rows, g->node[i]));
        for (int64_t e = 0; e < p->rows.n; e++) HGA_TRY(leave(p, i, p->rows.edge[e], e));
    }
done:
    return st;
}
