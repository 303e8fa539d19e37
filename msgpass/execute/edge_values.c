/* edge_values.c: what features of edges come to with the weights of a row, or of a piece of one. Where edges are listed
   one by one, and few enough to be attended without a cut, they are summed as the row attends (attend_rows.c). Else the
   scores are computed again once the row is done, and its log-sum-exp makes weights of them. */
#include "attend_ways.h"
#include "stages.h"

#include <math.h>
#include <string.h>

/* ---- where sums are ---- */

int has_edge_out(const worker *w, hga_id stage, hga_id v)
{
    return w->io->edge_value.data && stage == w->plan->bias_stage && bound_is_io(field(w, stage_of(w, stage)->out), v);
}

float *edge_out_row(const worker *w, hga_id v, hga_id head)
{
    const hga_id out = stage_of(w, w->plan->bias_stage)->out;
    return tensor_at(&w->io->edge_out, w->plan->shape.n_heads, w->io->edge_value.columns,
                     v - w->workspace->field[out].io_first, head);
}

/* Of all heads, from head to head. */
typedef struct edge_sums {
    float *at;
    ptrdiff_t head;
} edge_sums;

static edge_sums sums_of(const worker *w, const row_job *job)
{
    const hga_id heads = w->plan->shape.n_heads, columns = w->io->edge_value.columns;
    if (job->piece >= 0) return (edge_sums){piece_sum(w->plan, w->workspace, job->piece, 0), columns};
    float *row = edge_out_row(w, job->v, 0);
    return (edge_sums){row, heads > 1 ? edge_out_row(w, job->v, 1) - row : 0};
}

/* ---- at once ---- */

static hga_pos edges_of(const worker *w, const row_job *job)
{
    const hga_relation *r = &w->plan->stage[job->stage].relation;
    hga_pos left = r->ptr[job->position + 1] - r->ptr[job->position] - job->from;
    return left < job->count ? left : job->count;
}

static int sums_at_once(const worker *w, const row_job *job)
{
    const hga_relation *r = &w->plan->stage[job->stage].relation;
    int listed = r->ptr && !r->n_blocks && goes(w, job->stage, WAY_HEADS) && !w->plan->bf16_rows;
    return listed && edges_of(w, job) <= w->plan->options.cut_edges;
}

void edge_sums_begin(worker *w, const row_job *job)
{
    edge_sums sums = sums_of(w, job);
    w->edges.at_once = sums_at_once(w, job);
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++)
        memset(sums.at + h * sums.head, 0, (size_t)w->io->edge_value.columns * sizeof(float));
}

/* The features of n edges of the chunk, from `first` on. */
static void find_features(const worker *w, const row_job *job, hga_id first, hga_id n, const float **x)
{
    for (hga_id e = 0; e < n; e++) x[e] = edge_row(w, job->v, HGA_TABLE_EDGE_VALUE, first + e);
}

void attend_and_sum(worker *w, kernel_heads *heads, hga_id first, const row_job *job)
{
    edge_sums sums = sums_of(w, job);
    const float *x[KERNEL_CHUNK];
    find_features(w, job, first, heads->n, x);
    heads->x = x, heads->features = w->io->edge_value.columns, heads->sums = sums.at, heads->sums_head = sums.head;
    w->plan->kernels->attend_heads(heads);
}

/* ---- once more ---- */

static void weigh_all_heads(worker *w, kernel_heads *heads, hga_id first, const row_job *job)
{
    (void)job;
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
        run_all_heads(w, job, &at, weigh_all_heads);
        return;
    }
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++) weigh_head(w, job, &at, h);
}

static void sum_chunk(worker *w, const row_job *job)
{
    const float *x[KERNEL_CHUNK];
    edge_sums sums = sums_of(w, job);
    find_features(w, job, 0, w->chunk.n, x);
    w->plan->kernels->sum_heads(w->chunk.n, w->plan->shape.n_heads, x, w->io->edge_value.columns, w->edges.weight,
                                sums.at, sums.head);
}

/* Log-sum-exps, which are where the greatest scores were, in base 2, as kernels take them. */
static void turn_lse(worker *w)
{
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++) {
        float lse = w->row.greatest[h];
        w->row.greatest[h] = lse == -INFINITY ? INFINITY : lse * KERNEL_LOG2E;
    }
}

static void sum_again(worker *w, const row_job *job)
{
    edge_cursor c = cursor_start(&w->reader, job->v);
    hga_pos left = job->count;
    cursor_skip(&c, job->from);
    turn_lse(w);
    for (;; left -= w->chunk.n) {
        cursor_next(&c, left < KERNEL_CHUNK ? left : KERNEL_CHUNK, &w->chunk);
        if (!w->chunk.n) return;
        weigh_chunk(w, job), sum_chunk(w, job);
    }
}

void edge_sums_end(worker *w, const row_job *job)
{
    edge_sums sums = sums_of(w, job);
    if (!w->edges.at_once) sum_again(w, job);
    for (hga_id h = 0; w->edges.at_once && h < w->plan->shape.n_heads; h++) {
        float *x = sums.at + h * sums.head;
        w->plan->kernels->scale(w->io->edge_value.columns, w->row.sum[h], x, x);
    }
}

/* ---- pieces ---- */

float *piece_sum(const hga_plan *plan, const hga_workspace *workspace, hga_id piece, hga_id head)
{
    return workspace->piece_sums.at + ((ptrdiff_t)piece * plan->shape.n_heads + head) * workspace->piece_sums.columns;
}

void edge_sums_finish(const worker *w, hga_id v, hga_id piece)
{
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++)
        memcpy(edge_out_row(w, v, h), piece_sum(w->plan, w->workspace, piece, h),
               (size_t)w->io->edge_value.columns * sizeof(float));
}
