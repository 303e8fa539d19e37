/* fast_again.c: attention forward again, row by row, for programs that go on with its states. */
#include "panel.h"

#include <math.h>
#include <string.h>

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
        if (program_row(&p->nodes, p->program->field[field].rows, v))
            HGA_TRY(attend_row(p, s, v, p->panel->group[0].q_rows));
    }
done:
    return st;
}
