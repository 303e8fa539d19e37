/* edge_rows.c: attended rows, and splits of them, with the weighted sums of their edges' features (edge_sums.c). Where
   these are not summed during attention, a second pass computes the scores again and the weights from the
   log-sum-exp. */
#include "attend.h"
#include "attend_rest.h"
#include "attend_row.h"
#include "attend_solvers.h"
#include "dropout.h"
#include "scores.h"
#include "splits.h"
#include "stages.h"

#include <math.h>

static void weigh_all_heads(worker *w, kernel_heads *heads, hga_id first, const row_job *job)
{
    (void)job;
    heads->weight = w->rows.edges.weight + (ptrdiff_t)first * heads->heads;
    w->plan->machine.kernels->weigh_heads(heads);
}

static void weigh_head(worker *w, const row_job *job, const chunk_heads *at, hga_id h)
{
    const hga_id heads = w->plan->shape.n_heads, n = w->chunk.n;
    const float *drop_mask = drops_weights(w) ? w->rows.row.drop_mask + h : NULL;
    float *score = w->tiles.tile.pair_base, *to = w->rows.edges.weight + h;
    score_biases(w, job, h);
    kernel_chunk part = attend_part(w, job, at, h);
    w->plan->machine.kernels->scores(&part, score);
    for (hga_id e = 0; e < n; e++)
        to[e * heads] = exp2f(score[e] - w->rows.row.greatest[h]) * (drop_mask ? drop_mask[e * heads] : 1);
}

/* Computes the chunk's weights, [edge][head]. */
static void weigh_chunk(worker *w, const row_job *job)
{
    chunk_heads at = attend_open(w, job);
    drop_chunk(w, job->v);
    if (applies(w, job->stage, SOLVER_HEADS) && !w->plan->fields.bf16_rows) {
        run_all_heads(w, job, &at, weigh_all_heads);
        return;
    }
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++) weigh_head(w, job, &at, h);
}

/* Converts log-sum-exps, stored in row.greatest, to base 2; -inf becomes +inf, so that weights are 0. */
static void lse_to_base_2(worker *w)
{
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++) {
        float lse = w->rows.row.greatest[h];
        w->rows.row.greatest[h] = lse == -INFINITY ? INFINITY : lse * KERNEL_LOG2E;
    }
}

/* Computes the row's weights again from its log-sum-exps, and sums the edges' features with them. */
static void sum_again(worker *w, const row_job *job)
{
    edge_cursor c = cursor_start(&w->reader, job->v);
    hga_pos left = job->count;
    cursor_skip(&c, job->from);
    lse_to_base_2(w);
    for (;; left -= w->chunk.n) {
        cursor_next(&c, left < KERNEL_CHUNK ? left : KERNEL_CHUNK, &w->chunk);
        if (!w->chunk.n) return;
        weigh_chunk(w, job), edge_sums_add(w, job);
    }
}

void attend_row(worker *w, const row_job *job)
{
    int sums = has_edge_out(w, job->stage, job->v);
    if (sums) edge_sums_begin(w, job);
    attend_start(w, job);
    attend_rest(w, job, NULL, 0);
    if (sums && !w->rows.edges.at_once) sum_again(w, job);
}
