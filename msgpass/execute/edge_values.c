/* edge_values.c: what features of edges come to with the weights of the output, once that is there: the scores of a
   row are computed again, and its log-sum-exp makes weights of them. So whatever way the output went, its weights are
   these. */
#include "attend_ways.h"
#include "stages.h"

#include <math.h>
#include <string.h>

int has_edge_values(const hga_plan *plan, const hga_workspace *workspace)
{
    return workspace->staged->edge_value.data && stage_is_fused(plan, plan->bias_stage);
}

float *edge_out_row(const worker *w, hga_id v, hga_id head)
{
    const hga_id out = stage_of(w, w->plan->bias_stage)->out;
    return tensor_at(&w->io->edge_out, w->plan->shape.n_heads, w->io->edge_value.columns,
                     v - w->workspace->field[out].io_first, head);
}

/* ---- weights ---- */

static void weigh_all_heads(worker *w, kernel_heads *heads, hga_id first, void *context)
{
    (void)context;
    heads->weight = w->edges.weight + (ptrdiff_t)first * heads->heads;
    w->plan->kernels->weigh_heads(heads);
}

static void weigh_head(worker *w, const row_job *job, const chunk_heads *at, hga_id h)
{
    const hga_id heads = w->plan->shape.n_heads, n = w->chunk.n;
    const float *kept = drops_weights(w) ? w->row.kept + h : NULL;
    float *score = w->tile.pair_base, *to = w->edges.weight + h;
    score_biases(w, job, h);
    kernel_chunk part = attend_part(w, job, at, h);
    w->plan->kernels->scores(&part, score);
    for (hga_id e = 0; e < n; e++) to[e * heads] = exp2f(score[e] - w->row.greatest[h]) * (kept ? kept[e * heads] : 1);
}

/* The chunk's weights, [edge][head]. */
static void weigh_chunk(worker *w, const row_job *job)
{
    chunk_heads at = attend_open(w, job);
    drop_chunk(w, job->v);
    if (goes(w, job->stage, WAY_HEADS) && !w->plan->bf16_rows) {
        run_all_heads(w, job, &at, weigh_all_heads, NULL);
        return;
    }
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++) weigh_head(w, job, &at, h);
}

/* ---- rows ---- */

/* Log-sum-exps in base 2, as kernels take them. */
static void find_lse(worker *w, const row_job *job)
{
    const float *lse = bound_lse(field(w, stage_of(w, job->stage)->out), job->v);
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++)
        w->row.greatest[h] = lse[h] == -INFINITY ? INFINITY : lse[h] * KERNEL_LOG2E;
}

static void sum_chunk(worker *w, const row_job *job)
{
    const hga_id heads = w->plan->shape.n_heads, columns = w->io->edge_value.columns;
    const float *x[KERNEL_CHUNK];
    for (hga_id e = 0; e < w->chunk.n; e++) x[e] = edge_row(w, job->v, HGA_TABLE_EDGE_VALUE, e);
    float *to = edge_out_row(w, job->v, 0);
    ptrdiff_t step = heads > 1 ? edge_out_row(w, job->v, 1) - to : 0;
    w->plan->kernels->sum_heads(w->chunk.n, heads, x, columns, w->edges.weight, to, step);
}

static void run_row(worker *w, const row_job *job)
{
    edge_cursor c = cursor_start(&w->reader, job->v);
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++)
        memset(edge_out_row(w, job->v, h), 0, (size_t)w->io->edge_value.columns * sizeof(float));
    cursor_next(&c, KERNEL_CHUNK, &w->chunk);
    if (!w->chunk.n) return;
    attend_load(w, job), find_lse(w, job);
    for (; w->chunk.n; cursor_next(&c, KERNEL_CHUNK, &w->chunk)) weigh_chunk(w, job), sum_chunk(w, job);
}

/* Nodes first .. first + n - 1, n <= PANEL_ROWS. Where there are blocks, whose segments a panel may have more of than
   there is room for, rows are loaded one by one. */
static void run_rows(worker *w, hga_id stage, hga_id first, hga_id n)
{
    const hga_relation *r = &w->plan->stage[stage].relation;
    const int together = !r->dst_order && !r->n_blocks;
    if (together) reader_load(&w->reader, first, n);
    for (hga_id v = first; v < first + n; v++) {
        hga_id position = r->dst_order ? r->dst_rank[v] : v;
        if (!together) reader_load(&w->reader, position, 1);
        run_row(w, &(row_job){.stage = stage, .v = v, .position = position, .count = INT64_MAX, .piece = -1});
    }
}

void edge_values_run(worker *w, hga_id me, hga_id n)
{
    const asked_rows *asked = &w->workspace->asked;
    const hga_id stage = w->plan->bias_stage, first = w->workspace->field[stage_of(w, stage)->out].io_first;
    hga_id panel = 0;
    open_stage(w, stage);
    for (const hga_interval *x = asked->interval; x < asked->interval + asked->n; x++)
        for (hga_id at = 0, many; at < x->n; at += many) {
            many = (hga_id)x->n - at < PANEL_ROWS ? (hga_id)x->n - at : PANEL_ROWS;
            if (panel++ % n == me) run_rows(w, stage, first + (hga_id)x->first + at, many);
        }
}
