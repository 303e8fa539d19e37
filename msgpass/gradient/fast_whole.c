/* fast_whole.c: attention's adjoint where a threshold of all its scores weighs a row (entmax). Row by row: scores of
   all edges; which of them have weights p and slopes u = p^(2 - alpha) count^(alpha - 1), most often few; the
   gradients dp of these weights, and their mean by u; then the gradients of these few edges, ds = u (dp - mean). */
#include "carve.h"
#include "fast_attend.h"
#include "fast_columns.h"
#include "fast_edges.h"
#include "fast_rows.h"
#include "panel.h"

void whole_row_lay_out(int64_t edges, whole_row *x, carver *arena)
{
    const int64_t written = edges + KERNEL_PAD;
    x->score = carve_floats(arena, edges), x->count = carve_floats(arena, edges);
    x->weight = carve_floats(arena, written), x->slope = carve_floats(arena, written);
    x->product = carve_floats(arena, edges), x->index = carve(arena, written, sizeof *x->index);
}

/* Sets how many tokens each of the row's edges counts as; returns whether any count is not 1. */
static int count_edges(const fast_pass *p, hga_id s)
{
    const hga_stage *stage = &p->program->stage[s];
    int counts = 0;
    for (int64_t i = 0; i < p->rows.n; i++) {
        const row_edge *e = &p->rows.edge[i];
        p->own.whole.count[i] = e->weight * (stage->by_mass ? p->nodes.mass[e->src] : 1);
        counts |= p->own.whole.count[i] != 1;
    }
    return counts;
}

/* The row's weights; returns how many. */
static hga_id weigh_row(const fast_pass *p, hga_id s, hga_id v, const float *q)
{
    const whole_row *x = &p->own.whole;
    const double alpha = program_alpha(&p->plan->program);
    for (int64_t at = 0; at < p->rows.n; at += KERNEL_CHUNK) {
        const int64_t left = p->rows.n - at, n = left < KERNEL_CHUNK ? left : KERNEL_CHUNK;
        score_edges(p, s, v, q, p->rows.edge + at, at, (hga_id)n, x->score + at);
    }
    return p->plan->machine.kernels->entmax(&(kernel_entmax){.n = (hga_id)p->rows.n,
                                                             .alpha = (float)alpha,
                                                             .step = (float)(alpha - 1),
                                                             .unit = 1,
                                                             .score = x->score,
                                                             .count = count_edges(p, s) ? x->count : NULL,
                                                             .index = x->index,
                                                             .weight = x->weight,
                                                             .slope = x->slope});
}

/* Lists the next edges that have weights, from number `at` of them on. */
static hga_id find_some(const fast_pass *p, hga_id row, hga_id at, hga_id have, left_edge *out)
{
    const hga_id n = have - at < KERNEL_CHUNK ? have - at : KERNEL_CHUNK;
    for (hga_id i = 0; i < n; i++) {
        const hga_id index = p->own.whole.index[at + i];
        out[i] = (left_edge){row, p->rows.edge[index], index};
    }
    return n;
}

/* Computes the gradients of the weights of n edges to `out`. */
static void ask_weights(const fast_pass *p, hga_id s, hga_id v, const float *g, const left_edge *x, hga_id n,
                        float *out)
{
    static const float none[KERNEL_CHUNK];
    const float *value[KERNEL_CHUNK], *key;
    float drop_mask[KERNEL_CHUNK];
    for (hga_id i = 0; i < n; i++) find_source(p, s, x[i].e.src, &key, &value[i]);
    p->plan->machine.kernels->grad_scores(
        &(kernel_grad_row){.n = n, .dim = p->plan->shape.dim_v, .k = value, .terms.bias = none, .q = g}, out);
    if (p->plan->options.dropout == 0) return;
    drop_row(p, v, &x->e, sizeof *x, n, p->heads.head, 1, drop_mask);
    for (hga_id i = 0; i < n; i++) out[i] *= drop_mask[i];
}

/* The mean of the gradients of the row's weights, each weighted by its slope. */
static float mean_adjoint(const fast_pass *p, hga_id s, hga_id v, const float *g, hga_id have)
{
    const whole_row *w = &p->own.whole;
    left_edge x[KERNEL_CHUNK];
    double along = 0, all = 0;
    for (hga_id at = 0, n; at < have; at += n) {
        n = find_some(p, 0, at, have, x);
        ask_weights(p, s, v, g, x, n, w->product + at);
    }
    for (hga_id i = 0; i < have; i++) all += (double)w->slope[i], along += (double)w->slope[i] * (double)w->product[i];
    return (float)(along / all);
}

/* Computes one row whose weights depend on all its scores: weights, the mean of their gradients, then its edges. */
static hga_status run_row(fast_pass *p, hga_id s, group *g, hga_id r)
{
    const hga_stage *stage = &p->program->stage[s];
    const hga_id v = g->node[r];
    const float *q = g->q_rows + (ptrdiff_t)r * p->field[stage->query].padded,
                *input = g->g_rows + (ptrdiff_t)r * p->field[stage->out].padded;
    left_edge x[KERNEL_CHUNK];
    hga_status st = edges_read(&p->rows, v);
    if (st) return st;
    const hga_id have = weigh_row(p, s, v, q);
    g->delta[r] = mean_adjoint(p, s, v, input, have);
    for (hga_id at = 0, n; at < have; at += n) {
        n = find_some(p, r, at, have, x);
        run_some_edges(p, s, g, r, x, n,
                       (known_edges){.weight = p->own.whole.weight + at, .slope = p->own.whole.slope + at});
    }
    return HGA_OK;
}

/* Sixteen rows at a time. Weights depend on all scores of a row, so that nothing is found for later calls. */
hga_status attend_whole(fast_pass *p, hga_id s, hga_id first, hga_id end)
{
    hga_status st = HGA_OK;
    group *g = p->panel->group;
    if (p->finds) return HGA_OK;
    for (hga_id at = first; at < end && at < first + ROW_RANGE_PANEL; at += KERNEL_TILE) {
        load_sixteen(p, s, g, at);
        for (hga_id r = 0; r < KERNEL_TILE; r++)
            if (g->there >> r & 1u) HGA_TRY(run_row(p, s, g, r));
        store_sixteen(p, s, g, at);
    }
    columns_leave(p, s, first / ROW_RANGE_PANEL, first / ROW_RANGE_PANEL + 1);
done:
    return st;
}
