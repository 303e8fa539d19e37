/* plain_stages.c: what every stage computes and how its gradient goes back, row by row in double: the definitions. */
#include "plain.h"

#include <string.h>

/* What an edge of a mean or a sum is multiplied with, before a mean's division. */
static double sum_weight(const pass *p, const row *r, const row_edge *e)
{
    double weight = (double)e->weight;
    if (r->stage->reduce == HGA_MEAN && r->stage->by_mass) weight *= (double)p->nodes.mass[e->src];
    if (r->stage->message == HGA_SCALED)
        weight *= entry_of(p, HGA_GRADIENT_TYPE_SCALE, p->call->io->type_scale[e->type], e->type);
    return weight;
}

static double sum_total(const pass *p, const row *r)
{
    if (r->stage->reduce != HGA_MEAN) return 1;
    double total = 0;
    for (int64_t i = 0; i < p->rows.n; i++) total += sum_weight(p, r, &p->rows.edge[i]);
    return total;
}

static void sum_row(pass *p, const row *r, hga_id h)
{
    values *out = &p->value[r->stage->out], *from = &p->value[r->stage->value];
    double total = sum_total(p, r), *y = at(out, r->v, h);
    memset(y, 0, (size_t)out->columns * sizeof *y);
    for (int64_t i = 0; i < p->rows.n && total > 0; i++) {
        const row_edge *e = &p->rows.edge[i];
        axpy(sum_weight(p, r, e) / total, at(from, e->src, h), out->columns, y);
    }
}

static void sum_adjoint(pass *p, const row *r, hga_id h)
{
    values *dout = &p->adjoint[r->stage->out], *dx = &p->adjoint[r->stage->value], *x = &p->value[r->stage->value];
    double total = sum_total(p, r), *dy = at(dout, r->v, h), *scales = p->call->sums[p->kv].of[TYPE_SCALE];
    for (int64_t i = 0; i < p->rows.n && total > 0; i++) {
        const row_edge *e = &p->rows.edge[i];
        axpy(sum_weight(p, r, e) / total, dy, dout->columns, at(dx, e->src, h));
        if (scales && r->stage->message == HGA_SCALED)
            scales[e->type] += (double)e->weight * dot(dy, at(x, e->src, h), dout->columns);
    }
    memset(dy, 0, (size_t)dout->columns * sizeof *dy);
}

/* Merge the state (x, lse) into (o, *sum), which stays normalised. */
static void merge(double *o, double *sum, const double *x, double lse, hga_id columns)
{
    if (lse == -INFINITY) return;
    double both = log_add(*sum, lse), keep = exp(*sum - both), add = exp(lse - both);
    for (hga_id c = 0; c < columns; c++) o[c] = keep * o[c] + add * x[c];
    *sum = both;
}

/* The state (x, lse) had share e^(lse - after) of the row's merged state: its gradient. */
static void merge_adjoint(const double *o, double after, const double *d_o, double d_lse, const double *x, double lse,
                          hga_id columns, double *dx, double *d_share)
{
    if (lse == -INFINITY) return;
    double w = exp(lse - after);
    *d_share += w * (dot(d_o, x, columns) - dot(d_o, o, columns) + d_lse);
    axpy(w, d_o, columns, dx);
}

/* Attend, from nothing or from what is there. Dropped weights leave the log-sum-exp as it is. */
static void attend_row(pass *p, const row *r, hga_id h)
{
    values *out = &p->value[r->stage->out], *from = &p->value[r->stage->value];
    double *o = at(out, r->v, h), *lse = lse_at(out, r->v, h), sum = 0, greatest = -INFINITY;
    double was = r->stage->update == HGA_UPDATE_MERGE ? *lse : -INFINITY;
    for (int64_t i = 0; i < p->rows.n; i++) {
        attended x = attended_edge(p, r, i, h);
        greatest = greater_of(greatest, plain_score(p, &x));
    }
    greatest = greater_of(greatest, was);
    double keep = was == -INFINITY ? 0 : exp(was - greatest);
    for (hga_id c = 0; c < out->columns; c++) o[c] = keep == 0 ? 0 : keep * o[c];
    for (int64_t i = 0; i < p->rows.n && greatest != -INFINITY; i++) {
        attended x = attended_edge(p, r, i, h);
        double weight = exp(plain_score(p, &x) - greatest);
        axpy(weight * dropout_factor(p->call, x.e, x.v, x.head), at(from, x.e->src, h), out->columns, o);
        sum += weight;
    }
    sum += keep;
    for (hga_id c = 0; c < out->columns && sum != 0; c++) o[c] /= sum;
    *lse = sum != 0 ? greatest + log(sum) : -INFINITY;
}

static void attend_adjoint(pass *p, const row *r, hga_id h)
{
    values *out = &p->value[r->stage->out], *from = &p->value[r->stage->value], *was = &p->before[r->s][r->stage->out];
    values *dout = &p->adjoint[r->stage->out], *dfrom = &p->adjoint[r->stage->value];
    double lse = *lse_at(out, r->v, h), *o = at(out, r->v, h), *d_o = at(dout, r->v, h), *dl = lse_at(dout, r->v, h);
    double delta = dot(d_o, o, out->columns) - *dl;
    for (int64_t i = 0; i < p->rows.n && lse != -INFINITY; i++) {
        attended x = attended_edge(p, r, i, h);
        double weight = exp(plain_score(p, &x) - lse), kept = dropout_factor(p->call, x.e, x.v, x.head);
        double ds = weight * (kept * dot(d_o, at(from, x.e->src, h), out->columns) - delta);
        axpy(weight * kept, d_o, out->columns, at(dfrom, x.e->src, h));
        plain_score_adjoint(p, &x, ds);
    }
    if (r->stage->update != HGA_UPDATE_MERGE || lse == -INFINITY) {
        memset(d_o, 0, (size_t)out->columns * sizeof *d_o), *dl = 0;
        return;
    }
    double lse_was = *lse_at(was, r->v, h), keep = lse_was == -INFINITY ? 0 : exp(lse_was - lse);
    *dl = keep == 0 ? 0 : keep * (dot(d_o, at(was, r->v, h), out->columns) - delta);
    for (hga_id c = 0; c < out->columns; c++) d_o[c] *= keep;
}

static void spread_row(pass *p, const row *r, hga_id h)
{
    values *out = &p->value[r->stage->out];
    for (int64_t i = 0; i < p->rows.n; i++) {
        const row_edge *e = &p->rows.edge[i];
        merge(at(out, r->v, h), lse_at(out, r->v, h), at(out, e->src, h),
              *lse_at(out, e->src, h) + log((double)e->weight), out->columns);
    }
}

static void spread_adjoint(pass *p, const row *r, hga_id h)
{
    values *out = &p->value[r->stage->out], *dout = &p->adjoint[r->stage->out], *was = &p->before[r->s][r->stage->out];
    double lse = *lse_at(out, r->v, h), *o = at(out, r->v, h), *d_o = at(dout, r->v, h), *dl = lse_at(dout, r->v, h);
    if (lse == -INFINITY) return;
    for (int64_t i = 0; i < p->rows.n; i++) {
        const row_edge *e = &p->rows.edge[i];
        merge_adjoint(o, lse, d_o, *dl, at(out, e->src, h), *lse_at(out, e->src, h) + log((double)e->weight),
                      out->columns, at(dout, e->src, h), lse_at(dout, e->src, h));
    }
    double lse_was = *lse_at(was, r->v, h), keep = lse_was == -INFINITY ? 0 : exp(lse_was - lse);
    *dl = keep == 0 ? 0 : keep * (dot(d_o, at(was, r->v, h), out->columns) - dot(d_o, o, out->columns) + *dl);
    for (hga_id c = 0; c < out->columns; c++) d_o[c] *= keep;
}

static double family_mass(const pass *p)
{
    double mass = 0;
    for (int64_t i = 0; i < p->rows.n; i++) mass += (double)p->nodes.mass[p->rows.edge[i].src];
    return mass;
}

static void energy_row(pass *p, const row *r, hga_id h)
{
    values *psi = &p->value[r->stage->out], *state = &p->value[r->stage->value];
    double mass = family_mass(p), sum = 0;
    for (int64_t i = 0; i < p->rows.n; i++) {
        hga_id u = p->rows.edge[i].src;
        double m = (double)p->nodes.mass[u];
        if (m > 0) sum += m * log_add(*at(psi, u, h), *lse_at(state, u, h));
    }
    *at(psi, r->v, h) = mass > 0 ? sum / mass : -INFINITY;
}

static void energy_adjoint(pass *p, const row *r, hga_id h)
{
    values *psi = &p->value[r->stage->out], *state = &p->value[r->stage->value];
    values *dpsi = &p->adjoint[r->stage->out], *dstate = &p->adjoint[r->stage->value];
    double mass = family_mass(p), *d = at(dpsi, r->v, h);
    for (int64_t i = 0; i < p->rows.n && *at(psi, r->v, h) != -INFINITY; i++) {
        hga_id u = p->rows.edge[i].src;
        double part = (double)p->nodes.mass[u] / mass * *d, below = *at(psi, u, h), lse = *lse_at(state, u, h);
        *at(dpsi, u, h) += part * share(below, lse);
        *lse_at(dstate, u, h) += part * share(lse, below);
    }
    *d = 0;
}

static void descend_row(pass *p, const row *r, hga_id h)
{
    values *out = &p->value[r->stage->out], *keep = &p->value[r->stage->keep], *state = &p->value[r->stage->value];
    double lse = *lse_at(state, r->v, h), psi = *at(&p->value[r->stage->gate], r->v, h), left = 1,
           *y = at(out, r->v, h);
    memset(y, 0, (size_t)out->columns * sizeof *y);
    if (p->rows.n) {
        hga_id u = p->rows.edge[0].src;
        left = *at(keep, u, h);
        axpy(1, at(out, u, h), out->columns, y);
    }
    axpy(left * share(lse, psi), at(state, r->v, h), out->columns, y);
    *at(keep, r->v, h) = left * (lse == -INFINITY ? 1 : share(psi, lse));
}

static void descend_adjoint(pass *p, const row *r, hga_id h)
{
    values *state = &p->value[r->stage->value], *keep = &p->value[r->stage->keep];
    values *dout = &p->adjoint[r->stage->out], *dkeep = &p->adjoint[r->stage->keep],
           *dstate = &p->adjoint[r->stage->value];
    double lse = *lse_at(state, r->v, h), psi = *at(&p->value[r->stage->gate], r->v, h);
    double s = share(lse, psi), rest = lse == -INFINITY ? 1 : share(psi, lse);
    hga_id u = p->rows.n ? p->rows.edge[0].src : -1;
    double left = u < 0 ? 1 : *at(keep, u, h), *d_y = at(dout, r->v, h), *d_k = at(dkeep, r->v, h);
    double g = dot(d_y, at(state, r->v, h), dout->columns), ds = left * (g - *d_k);
    axpy(left * s, d_y, dout->columns, at(dstate, r->v, h));
    *lse_at(dstate, r->v, h) += s * rest * ds;
    *at(&p->adjoint[r->stage->gate], r->v, h) -= s * rest * ds;
    if (u >= 0) {
        *at(dkeep, u, h) += s * g + rest * *d_k;
        axpy(1, d_y, dout->columns, at(dout, u, h));
    }
    memset(d_y, 0, (size_t)dout->columns * sizeof *d_y), *d_k = 0;
}

/* ---- stages ---- */

const stage_rows plain_stages[N_KINDS] = {
    [KIND_MEAN] = {sum_row, sum_adjoint},
    [KIND_SUM] = {sum_row, sum_adjoint},
    [KIND_WEIGHTED_SUM] = {sum_row, sum_adjoint},
    [KIND_ATTEND] = {attend_row, attend_adjoint},
    [KIND_ATTEND_MORE] = {attend_row, attend_adjoint},
    [KIND_SPREAD] = {spread_row, spread_adjoint},
    [KIND_ENERGY] = {energy_row, energy_adjoint},
    [KIND_DESCEND] = {descend_row, descend_adjoint},
    [KIND_USER] = {user_row, user_adjoint},
};
