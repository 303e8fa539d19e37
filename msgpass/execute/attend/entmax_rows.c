/* entmax_rows.c: rows whose weights need a threshold of all their scores. Computes the scores chunk by chunk; then, for
   each head, tau of those that can be above it, and the weighted sum of the few values above. The energy of the inside
   may be one of the scores. Equals the plain versions, semantics/entmax.c and all_stage_semantics.c. */
#include "dropout.h"
#include "tree_stages.h"
#include "inside.h"
#include "attend_row.h"
#include "plan.h"
#include "scores.h"
#include "stages.h"

#include <math.h>

/* ---- scores ---- */

/* Stores the chunk's edges at position `at` of the row: sources, types, and counts (weight times mass). */
static void keep_edges(worker *w, const hga_stage *s, hga_pos at)
{
    const edge_chunk *c = &w->chunk;
    whole_row *row = &w->rows.whole;
    for (hga_id e = 0; e < c->n; e++) {
        row->src[at + e] = c->src[e], row->type[at + e] = c->type[e];
        row->count[at + e] = c->weight[e] * (s->by_mass ? w->plan->nodes.mass[c->src[e]] : 1);
        row->counts |= row->count[at + e] != 1;
    }
}

static void score_chunk(worker *w, const row_job *job, hga_pos at)
{
    chunk_heads heads = attend_open(w, job);
    keep_edges(w, stage_of(w, job->stage), at);
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++) {
        score_biases(w, job, h);
        kernel_chunk part = attend_part(w, job, &heads, h);
        w->plan->machine.kernels->scores(&part, w->rows.whole.score + h * w->plan->most.plain_edges + at);
    }
}

/* Computes all scores of the row, [head][edge]; returns its number of edges. */
static hga_id score_row(worker *w, const row_job *job)
{
    edge_cursor c = cursor_start(&w->reader, job->v);
    hga_id n = 0;
    w->rows.whole.counts = 0;
    for (;; n += w->chunk.n) {
        cursor_next(&c, KERNEL_CHUNK, &w->chunk);
        if (!w->chunk.n) return n;
        if (!n) attend_load(w, job);
        score_chunk(w, job, n);
    }
}

/* ---- weights ---- */

/* Factor of a score in base 2: (alpha - 1) ln 2. */
static double step_of(double alpha) { return (alpha - 1) * (double)KERNEL_LN2; }

/* Computes the head's nonzero weights and their slots; returns how many. */
static hga_id weigh_head(worker *w, float *score, hga_id n, float *to)
{
    const whole_row *row = &w->rows.whole;
    const double alpha = program_alpha(&w->plan->program);
    return w->plan->machine.kernels->entmax(&(kernel_entmax){.n = n,
                                                             .alpha = (float)alpha,
                                                             .step = (float)step_of(alpha),
                                                             .unit = KERNEL_LOG2E,
                                                             .score = score,
                                                             .count = row->counts ? row->count : NULL,
                                                             .index = row->slot,
                                                             .weight = to,
                                                             .slope = row->slope});
}

/* ---- rows ---- */

/* Prefetches the head's values: they arrive while other heads' weights are computed. */
static void find_values(worker *w, const row_job *job, hga_id h)
{
    enum { LINE_FLOATS_AHEAD = 16 };
    const hga_stage *s = stage_of(w, job->stage);
    const bound_field *value = read_field(w, s, s->value);
    hga_id kv = kv_head(&w->plan->shape, h), dim_v = w->plan->shape.dim_v;
    const float **to = w->rows.whole.value + h * w->plan->most.plain_edges;
    for (hga_id i = 0; i < w->rows.whole.have[h]; i++) {
        hga_id u = w->rows.whole.src[w->rows.whole.slot[i]];
        to[i] = bound_row(value, u) + kv * bound_head(value, u);
        for (hga_id c = 0; c < dim_v; c += LINE_FLOATS_AHEAD) __builtin_prefetch(to[i] + c);
    }
}

/* All heads' weights first, so that their values arrive from memory, then the sums. */
void entmax_row(worker *w, const row_job *job)
{
    const bound_field *out = field(w, stage_of(w, job->stage)->out);
    int64_t capacity = w->plan->most.plain_edges;
    hga_id n = score_row(w, job), heads = w->plan->shape.n_heads;
    for (hga_id h = 0; h < heads; h++) {
        w->rows.whole.have[h] =
            weigh_head(w, w->rows.whole.score + h * capacity, n, w->rows.whole.weight + h * capacity);
        find_values(w, job, h);
        if (drops_weights(w)) drop_support(w, job->v, h, w->rows.whole.have[h], w->rows.whole.weight + h * capacity);
    }
    for (hga_id h = 0; h < heads; h++) {
        w->plan->machine.kernels->weigh(w->rows.whole.have[h], w->rows.whole.value + h * capacity, 0,
                                        w->rows.whole.weight + h * capacity, 1, w->plan->shape.dim_v,
                                        bound_row(out, job->v) + h * bound_head(out, job->v));
        bound_lse(out, job->v)[h] = INFINITY; /* entmax has no log-sum-exp */
    }
}

/* ---- rows with the energy of the inside ---- */

/* Lists the scores that can be above tau, as entmax_threshold takes them; the energy of the inside comes last. */
static hga_id find_scores(worker *w, const float *score, hga_id n, double inside, double most, double step,
                          hga_id *edges)
{
    const plain_scratch *x = &w->plain.scratch;
    hga_id many = 0;
    for (hga_id i = 0; i <= n; i++) {
        const double s = i < n ? (double)score[i] : inside;
        if (i == n) *edges = many;
        if (s == -INFINITY || s < most - 1 / step) continue;
        x->score[many] = x->slope[many] = (s - most) * step, x->d_count[many] = 1;
        if (i < n) w->rows.whole.slot[many] = i;
        many++;
    }
    return many;
}

/* Computes the head's nonzero weights and returns how many; *psi, on entry the energy of the inside, becomes the row's
   energy; *lse becomes its state's scalar. */
static hga_id weigh_inside(worker *w, const float *score, hga_id n, float *to, float *psi, float *lse)
{
    const double alpha = program_alpha(&w->plan->program), step = step_of(alpha), own = (double)(*psi * KERNEL_LOG2E);
    double most = own, *weight = w->plain.scratch.weight, sum[2] = {0, 0}, along = 0;
    hga_id edges = 0, have = 0;
    for (hga_id i = 0; i < n; i++)
        if (!((double)score[i] <= most)) most = (double)score[i];
    *lse = -INFINITY;
    if (most == -INFINITY) return 0;
    const hga_id many = find_scores(w, score, n, own, most, step, &edges);
    const double tau = entmax_threshold(alpha, many, w->plain.scratch.slope, w->plain.scratch.d_count);
    for (hga_id i = 0; i < many; i++) {
        const double above = w->plain.scratch.score[i] - tau, p = entmax_power(above, 1 / (alpha - 1));
        if (above <= 0) continue;
        sum[i >= edges] += p, along += p * above;
        if (i < edges) weight[have] = p, w->rows.whole.slot[have++] = w->rows.whole.slot[i];
    }
    const double all = sum[0] + sum[1],
                 g = most * (double)KERNEL_LN2 + (tau + 1 / alpha) / (alpha - 1) + along / all / alpha;
    *psi = (float)(g + log(sum[1] / all));
    if (sum[0] != 0) *lse = (float)(g + log(sum[0] / all));
    for (hga_id i = 0; i < have; i++) to[i] = (float)(weight[i] / sum[0]);
    return have;
}

/* Attends a row with the energy of the inside as one of its scores; the row's own energy replaces it. */
void inside_row(worker *w, const row_job *job)
{
    const hga_stage *s = stage_of(w, job->stage);
    const bound_field *out = field(w, s->out), *gate = field(w, s->gate);
    const int64_t capacity = w->plan->most.plain_edges;
    const hga_id heads = w->plan->shape.n_heads;
    float *psi = bound_row(gate, job->v);
    energies_of_families(w, gate, out, 1, &job->v);
    const hga_id n = score_row(w, job);
    for (hga_id h = 0; h < heads; h++) {
        w->rows.whole.have[h] =
            weigh_inside(w, w->rows.whole.score + h * capacity, n, w->rows.whole.weight + h * capacity,
                         psi + h * bound_head(gate, job->v), bound_lse(out, job->v) + h);
        find_values(w, job, h);
    }
    for (hga_id h = 0; h < heads; h++)
        w->plan->machine.kernels->weigh(w->rows.whole.have[h], w->rows.whole.value + h * capacity, 0,
                                        w->rows.whole.weight + h * capacity, 1, w->plan->shape.dim_v,
                                        bound_row(out, job->v) + h * bound_head(out, job->v));
}
