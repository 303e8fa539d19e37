/* fast_states.c: the adjoint of merging states. In linear form a merge is a sum, and its adjoint a copy to every part:
   so a row's adjoint (G, delta, lse) is added to its sources', which is the merge of states again, with -lse in the
   log-sum-exp's place. */
#include "fast.h"

#include <math.h>

/* Merge node v's adjoint, times w, into node u's. */
static void merge_into(const fast_pass *p, hga_id f, hga_id v, hga_id u, float w)
{
    const fast_field *x = &p->field[f];
    double a = -(double)x->lse[u], b = log((double)w) - (double)x->lse[v];
    if (b == -INFINITY) return;
    double hi = a > b ? a : b, keep = exp(a - hi), add = exp(b - hi), sum = keep + add;
    if (a == -INFINITY)
        p->plan->kernels->scale(x->padded, 1, adjoint_row(p, f, v), adjoint_row(p, f, u));
    else
        p->plan->kernels->blend(x->padded, (float)(keep / sum), adjoint_row(p, f, u), (float)(add / sum),
                                adjoint_row(p, f, v), adjoint_row(p, f, u));
    x->delta[u] = (float)((keep * (double)x->delta[u] + add * (double)x->delta[v]) / sum);
    x->lse[u] = (float)-(hi + log(sum));
}

hga_status fast_spread(fast_pass *p, hga_id s)
{
    const hga_stage *stage = &p->program->stage[s];
    hga_status st = HGA_OK;
    rows_open(&p->rows, p->plan, s);
    for (hga_id v = 0; v < p->nodes.n; v++) { /* from the lowest level up */
        if (!program_row(&p->nodes, p->program->field[stage->out].rows, v) || p->field[stage->out].lse[v] == INFINITY)
            continue;
        HGA_TRY(rows_read(&p->rows, v));
        for (int64_t i = 0; i < p->rows.n; i++)
            merge_into(p, stage->out, v, p->rows.edge[i].src, p->rows.edge[i].weight);
    }
done:
    return st;
}
