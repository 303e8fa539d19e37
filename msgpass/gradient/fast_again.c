/* fast_again.c: attention forward again, row by row, for programs that read its states. */
#include "carve.h"
#include "exponents.h"
#include "fast_edges.h"
#include "fast_states.h"
#include "panel.h"

#include <math.h>
#include <string.h>

/* Adds the row's edges [at, at + n) to its state, a sum of weights e^(score - greatest) and of their values; the
   first edges overwrite what was there. */
static void attend_chunk(fast_pass *p, hga_id s, hga_id v, const float *q, int64_t at, hga_id n, float *greatest,
                         double *sum)
{
    const hga_stage *stage = &p->program->stage[s];
    const kernel_table *kernels = p->plan->machine.kernels;
    const row_edge *e = &p->rows.edge[at];
    const float *value[KERNEL_CHUNK];
    float score[KERNEL_CHUNK], drop_mask[KERNEL_CHUNK], most = *greatest, *o = value_row(p, stage->out, v);
    hga_id columns = p->field[stage->out].padded;
    score_edges(p, s, v, q, e, at, n, score);
    for (hga_id i = 0; i < n; i++) value[i] = value_row(p, stage->value, e[i].src);
    for (hga_id i = 0; i < n; i++) most = (float)greater_of((double)most, (double)score[i]);
    if (most == -INFINITY) return;
    float keep = expf(*greatest - most);
    int first = *greatest == -INFINITY;
    for (hga_id i = 0; i < n; i++) score[i] -= most;
    kernels->exp(n, score);
    *sum *= (double)keep, *greatest = most;
    for (hga_id i = 0; i < n; i++) *sum += (double)score[i];
    if (p->plan->options.dropout > 0) drop_row(p, v, e, sizeof *e, n, p->heads.head, 1, drop_mask);
    for (hga_id i = 0; i < n && p->plan->options.dropout > 0; i++) score[i] *= drop_mask[i];
    if (first) {
        kernels->weigh(n, value, 0, score, 1, columns, o);
        return;
    }
    kernels->scale(columns, keep, o, o);
    kernels->sum(n, value, 0, score, columns, o);
}

/* Computes a row's state, starting from the state it has; the log-sum-exp is that without dropout. */
static hga_status attend_row(fast_pass *p, hga_id s, hga_id v, float *q)
{
    const hga_stage *stage = &p->program->stage[s];
    fast_field *out = &p->field[stage->out];
    float greatest = out->own_lse[v], *o = value_row(p, stage->out, v);
    double sum = greatest != -INFINITY ? 1 : 0;
    hga_status st = edges_read(&p->rows, v);
    if (st) return st;
    p->plan->machine.kernels->scale(p->field[stage->query].padded, query_scale(p), value_row(p, stage->query, v), q);
    for (int64_t at = 0; at < p->rows.n; at += KERNEL_CHUNK) {
        int64_t n = p->rows.n - at < KERNEL_CHUNK ? p->rows.n - at : KERNEL_CHUNK;
        attend_chunk(p, s, v, q, at, (hga_id)n, &greatest, &sum);
    }
    out->own_lse[v] = sum != 0 ? (float)((double)greatest + log(sum)) : -INFINITY;
    if (sum != 0)
        p->plan->machine.kernels->scale(out->padded, (float)(1 / sum), o, o);
    else
        memset(o, 0, (size_t)out->padded * sizeof *o);
    return HGA_OK;
}

/* Runs an attending stage forward again, row by row; one that merges adds to the state that is there. */
hga_status fast_attend_forward(fast_pass *p, hga_id s)
{
    hga_status st = HGA_OK;
    hga_id field = p->program->stage[s].out;
    rows_open(&p->rows, p->plan, s);
    for (node_walk w = {0}; node_next(p, 0, &w);) {
        hga_id v = w.v;
        if (p->plan->stage[s].kind == KIND_ATTEND) p->field[field].own_lse[v] = -INFINITY;
        if (program_row(&p->nodes, p->program->field[field].rows, v))
            HGA_TRY(attend_row(p, s, v, p->panel->group[0].q_rows));
    }
done:
    return st;
}
