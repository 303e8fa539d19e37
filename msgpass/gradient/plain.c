/* plain.c: what a gradient is. A program runs forward in double, one group of heads at a time, and every stage keeps
   what it is about to overwrite; then the stages are walked backwards, each by the adjoint of its formula, row by row.
   Slow and obvious; the fast way beside it must agree. */
#include "gradient.h"

#include <math.h>
#include <string.h>

/* A field's values for the heads at hand, [node][heads](columns), and the log-sum-exps of a state. */
typedef struct values {
    hga_id heads, columns;
    double *x, *lse;
} values;

typedef struct pass {
    const gradient_call *call;
    const hga_plan *plan;
    const hga_program *program;
    hga_nodes nodes;
    hga_id kv, group; /* the key/value head, and the query heads that read it: kv * group + 0 .. group - 1 */
    values value[HGA_FIELD_SLOTS], adjoint[HGA_FIELD_SLOTS];
    values before[HGA_MAX_STAGES][2]; /* a stage's out and keep fields, as it found them */
    uint32_t rounded;                 /* fields whose values are bfloat16 by now */
    edge_rows rows;
} pass;

/* ---- storage ---- */

static hga_status values_create(const pass *p, hga_id field, values *v)
{
    hga_status st = HGA_OK;
    hga_id all = field_heads(p->plan, field);
    v->heads = all == p->plan->shape.n_heads ? p->group : 1;
    v->columns = field_columns(p->plan, field);
    int64_t rows = (int64_t)p->nodes.n * v->heads;
    HGA_TRY(hga_new_zero(&p->plan->given, rows * v->columns, sizeof *v->x, &v->x));
    if (p->program->field[field].width == HGA_WIDTH_STATE)
        HGA_TRY(hga_new_zero(&p->plan->given, rows, sizeof *v->lse, &v->lse));
done:
    return st;
}

static void values_clear(const pass *p, values *v)
{
    int64_t rows = (int64_t)p->nodes.n * v->heads;
    hga_delete(&p->plan->given, v->x, rows * v->columns, sizeof *v->x);
    hga_delete(&p->plan->given, v->lse, rows, sizeof *v->lse);
    *v = (values){0};
}

static void values_copy(const pass *p, const values *from, values *to)
{
    size_t rows = (size_t)p->nodes.n * (size_t)from->heads;
    memcpy(to->x, from->x, rows * (size_t)from->columns * sizeof *to->x);
    if (from->lse) memcpy(to->lse, from->lse, rows * sizeof *to->lse);
}

/* Where node v's values of the group's head h are; fields of key/value heads have one. */
static int64_t place(const values *f, hga_id v, hga_id h) { return (int64_t)v * f->heads + (f->heads == 1 ? 0 : h); }
static double *at(const values *f, hga_id v, hga_id h) { return f->x + place(f, v, h) * f->columns; }
static double *lse_at(const values *f, hga_id v, hga_id h) { return f->lse + place(f, v, h); }

/* The tensor's head that is the group's head h. */
static hga_id head_of(const pass *p, hga_id field, hga_id h)
{
    return field_heads(p->plan, field) == p->plan->shape.n_heads ? p->kv * p->group + h : p->kv;
}

/* Entry i of an input, which is x, unless it is the one that is moved. */
static double entry_of(const pass *p, hga_gradient_input input, float x, int64_t i)
{
    const nudge *moved = &p->call->moved;
    return (double)x + (moved->input == input && moved->entry == i ? moved->by : 0);
}

/* The caller's rows of a field into it. */
static void load(pass *p, hga_id field, const hga_tensor *t)
{
    values *f = &p->value[field];
    hga_id first, n = field_io(p->plan, field, &first), heads = field_heads(p->plan, field);
    for (hga_id i = 0; i < n; i++)
        for (hga_id h = 0; h < f->heads; h++) {
            hga_id head = head_of(p, field, h);
            const float *x = tensor_at(t, heads, f->columns, i, head);
            for (hga_id c = 0; c < f->columns; c++)
                at(f, first + i, h)[c] =
                    entry_of(p, field_input(p->call, field), x[c], ((int64_t)i * heads + head) * f->columns + c);
        }
}

static hga_status pass_create(pass *p)
{
    hga_status st = HGA_OK;
    for (hga_id f = 1; f <= p->program->n_fields; f++) {
        HGA_TRY(values_create(p, f, &p->value[f]));
        HGA_TRY(values_create(p, f, &p->adjoint[f]));
        if (program_is_input(p->program->field[f].binding)) load(p, f, field_tensor(p->call, f));
    }
done:
    return st;
}

static void pass_clear(pass *p)
{
    for (hga_id f = 1; f <= p->program->n_fields; f++) values_clear(p, &p->value[f]), values_clear(p, &p->adjoint[f]);
    for (hga_id s = 0; s < p->program->n_stages; s++)
        for (int i = 0; i < 2; i++)
            if (p->before[s][i].x) values_clear(p, &p->before[s][i]);
    rows_close(&p->rows);
}

/* ---- numbers ---- */

static double log_add(double a, double b)
{
    double hi = fmax(a, b), lo = fmin(a, b);
    return lo == -INFINITY ? hi : hi + log1p(exp(lo - hi));
}

/* 1 / (1 + e^(b - a)), with the limits where one of them is -inf; 0 where both are. */
static double share(double a, double b) { return a == -INFINITY ? 0 : b == -INFINITY ? 1 : 1 / (1 + exp(b - a)); }

static double dot(const double *a, const double *b, hga_id n)
{
    double sum = 0;
    for (hga_id c = 0; c < n; c++) sum += a[c] * b[c];
    return sum;
}

static void axpy(double a, const double *x, hga_id n, double *y)
{
    for (hga_id c = 0; c < n; c++) y[c] += a * x[c];
}

static double to_bf16(double x)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (!isfinite(f)) return x;
    bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
    memcpy(&f, &bits, sizeof bits);
    return (double)f;
}

/* ---- the weight an edge has among the scores ---- */

/* An attended edge: everything its score is made of. */
typedef struct attended {
    const row_edge *e;
    hga_id v, h, head; /* destination; head of the group and of the shape */
    hga_pos position;  /* canonical, in the relation */
    int biased;        /* edge_bias belongs to this stage */
    const hga_stage *stage;
} attended;

/* Column c of the position of a node; of that which the row uses. */
static double position(const pass *p, hga_id node, hga_id c)
{
    int64_t i = (int64_t)node * p->plan->shape.pos_dim + c;
    return entry_of(p, HGA_GRADIENT_NODE_POS, p->call->io->node_pos[i], i);
}
static hga_id own_node(const attended *x) { return x->e->pos_of ? x->e->pos_of - 1 : x->v; }

static int64_t bias_place(const pass *p, const attended *x)
{
    hga_id heads = p->call->io->edge_bias_heads;
    return x->position * heads + (heads == 1 ? 0 : x->head);
}

/* q . (k + rel_key[type]) */
static double product(const pass *p, const attended *x)
{
    const hga_io *io = p->call->io;
    hga_id dim = p->plan->shape.dim;
    const double *q = at(&p->value[x->stage->query], x->v, x->h), *k = at(&p->value[x->stage->key], x->e->src, x->h);
    double sum = dot(q, k, dim);
    for (hga_id c = 0; io->rel_key && c < dim; c++) {
        int64_t i = (int64_t)x->e->type * dim + c;
        sum += q[c] * entry_of(p, HGA_GRADIENT_REL_KEY, io->rel_key[i], i);
    }
    return sum;
}

/* s(u, v, e) of hga_program.h. */
static double score(const pass *p, const attended *x)
{
    const hga_io *io = p->call->io;
    const hga_shape *shape = &p->plan->shape;
    int64_t bias = (int64_t)x->e->type * shape->n_heads + x->head;
    double sum = entry_of(p, HGA_GRADIENT_SCALE, p->call->scale, 0) * product(p, x) + log((double)x->e->weight);
    if (io->rel_bias) sum += entry_of(p, HGA_GRADIENT_REL_BIAS, io->rel_bias[bias], bias);
    if (x->biased) sum += entry_of(p, HGA_GRADIENT_EDGE_BIAS, io->edge_bias[bias_place(p, x)], bias_place(p, x));
    if (x->stage->by_mass) sum += log((double)p->nodes.mass[x->e->src]);
    sum += entry_of(p, HGA_GRADIENT_LOG_MASS, 0, x->e->src);
    for (hga_id c = 0; io->node_pos && c < shape->pos_dim; c++)
        sum += position(p, own_node(x), c) * position(p, x->e->src, c);
    return sum;
}

/* The score's gradient is ds: to everything it is made of. */
static void score_adjoint(pass *p, const attended *x, double ds)
{
    const hga_io *io = p->call->io;
    const table_sums *sums = &p->call->sums[p->kv];
    const hga_shape *shape = &p->plan->shape;
    double scale = (double)p->call->scale;
    const double *q = at(&p->value[x->stage->query], x->v, x->h), *k = at(&p->value[x->stage->key], x->e->src, x->h);
    double *dq = at(&p->adjoint[x->stage->query], x->v, x->h), *dk = at(&p->adjoint[x->stage->key], x->e->src, x->h);
    axpy(scale * ds, k, shape->dim, dq);
    axpy(scale * ds, q, shape->dim, dk);
    for (hga_id c = 0; io->rel_key && c < shape->dim; c++)
        dq[c] += scale * ds * (double)io->rel_key[(ptrdiff_t)x->e->type * shape->dim + c];
    if (sums->of[REL_KEY]) axpy(scale * ds, q, shape->dim, sums->of[REL_KEY] + (ptrdiff_t)x->e->type * shape->dim);
    if (sums->of[REL_BIAS]) sums->of[REL_BIAS][(ptrdiff_t)x->e->type * shape->n_heads + x->head] += ds;
    if (sums->of[EDGE_BIAS] && x->biased) sums->of[EDGE_BIAS][bias_place(p, x)] += ds;
    if (sums->of[LOG_MASS]) sums->of[LOG_MASS][x->e->src] += ds;
    if (sums->of[SCALE]) *sums->of[SCALE] += ds * product(p, x);
    if (!sums->of[NODE_POS]) return;
    for (hga_id c = 0; c < shape->pos_dim; c++) {
        ptrdiff_t mine = (ptrdiff_t)own_node(x) * shape->pos_dim + c, other = (ptrdiff_t)x->e->src * shape->pos_dim + c;
        sums->of[NODE_POS][mine] += ds * (double)io->node_pos[other];
        sums->of[NODE_POS][other] += ds * (double)io->node_pos[mine];
    }
}

/* ---- rows of a stage ---- */

/* The row at hand. */
typedef struct row {
    const hga_stage *stage;
    hga_id s, v;
} row;

static attended edge_of(const pass *p, const row *r, int64_t i, hga_id h)
{
    int biased = p->call->io->edge_bias && r->s == p->plan->bias_stage;
    hga_pos first = biased ? p->plan->stage[r->s].row_ptr[r->v] : 0;
    return (attended){.e = &p->rows.edge[i],
                      .v = r->v,
                      .h = h,
                      .head = p->kv * p->group + h,
                      .position = first + i,
                      .biased = biased,
                      .stage = r->stage};
}

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
        attended x = edge_of(p, r, i, h);
        greatest = fmax(greatest, score(p, &x));
    }
    greatest = fmax(greatest, was);
    double keep = was == -INFINITY ? 0 : exp(was - greatest);
    for (hga_id c = 0; c < out->columns; c++) o[c] = keep == 0 ? 0 : keep * o[c];
    for (int64_t i = 0; i < p->rows.n && greatest > -INFINITY; i++) {
        attended x = edge_of(p, r, i, h);
        double weight = exp(score(p, &x) - greatest);
        axpy(weight * dropout_factor(p->call, x.e, x.v, x.head), at(from, x.e->src, h), out->columns, o);
        sum += weight;
    }
    sum += keep;
    for (hga_id c = 0; c < out->columns && sum > 0; c++) o[c] /= sum;
    *lse = sum > 0 ? greatest + log(sum) : -INFINITY;
}

static void attend_adjoint(pass *p, const row *r, hga_id h)
{
    values *out = &p->value[r->stage->out], *from = &p->value[r->stage->value], *was = &p->before[r->s][0];
    values *dout = &p->adjoint[r->stage->out], *dfrom = &p->adjoint[r->stage->value];
    double lse = *lse_at(out, r->v, h), *o = at(out, r->v, h), *d_o = at(dout, r->v, h), *dl = lse_at(dout, r->v, h);
    double delta = dot(d_o, o, out->columns) - *dl;
    for (int64_t i = 0; i < p->rows.n && lse > -INFINITY; i++) {
        attended x = edge_of(p, r, i, h);
        double weight = exp(score(p, &x) - lse), kept = dropout_factor(p->call, x.e, x.v, x.head);
        double ds = weight * (kept * dot(d_o, at(from, x.e->src, h), out->columns) - delta);
        axpy(weight * kept, d_o, out->columns, at(dfrom, x.e->src, h));
        score_adjoint(p, &x, ds);
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
    values *out = &p->value[r->stage->out], *dout = &p->adjoint[r->stage->out], *was = &p->before[r->s][0];
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
    for (int64_t i = 0; i<p->rows.n && * at(psi, r->v, h)> - INFINITY; i++) {
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

/* A stage's formula and its adjoint, for one row and head. */
static const struct stage_rows {
    void (*row)(pass *p, const row *r, hga_id h), (*adjoint)(pass *p, const row *r, hga_id h);
} stage_rows[N_KINDS] = {
    [KIND_MEAN] = {sum_row, sum_adjoint},
    [KIND_SUM] = {sum_row, sum_adjoint},
    [KIND_WEIGHTED_SUM] = {sum_row, sum_adjoint},
    [KIND_ATTEND] = {attend_row, attend_adjoint},
    [KIND_ATTEND_MORE] = {attend_row, attend_adjoint},
    [KIND_SPREAD] = {spread_row, spread_adjoint},
    [KIND_ENERGY] = {energy_row, energy_adjoint},
    [KIND_DESCEND] = {descend_row, descend_adjoint},
};

/* Does the stage write node v? What is coarsened in place leaves the tokens as they are. */
static int writes(const pass *p, const hga_stage *stage, hga_id v)
{
    int in_place = stage->message == HGA_COPY && stage->value == stage->out;
    return program_row(&p->nodes, p->program->field[stage->out].rows, v) && !(in_place && v < p->nodes.level_ptr[1]);
}

/* Rows in the order of the stage, or backwards. */
static hga_status walk(pass *p, hga_id s, int backwards)
{
    const hga_stage *stage = &p->program->stage[s];
    int down = (stage->order == HGA_LEVELS_DOWN) != backwards;
    hga_id heads = p->value[stage->out].heads, n = p->nodes.n;
    hga_status st = HGA_OK;
    rows_open(&p->rows, p->plan, s);
    for (hga_id i = 0; i < n; i++) {
        row r = {stage, s, down ? n - 1 - i : i};
        if (!writes(p, stage, r.v)) continue;
        HGA_TRY(rows_read(&p->rows, r.v));
        const struct stage_rows *f = &stage_rows[p->plan->stage[s].kind];
        for (hga_id h = 0; h < heads; h++) (backwards ? f->adjoint : f->row)(p, &r, h);
    }
done:
    return st;
}

/* Operands of a bfloat16 plan are rounded before the first flat stage that reads them. */
static void round_operands(pass *p, const hga_stage *stage)
{
    for (hga_id f = 1; f <= p->program->n_fields; f++) {
        if (stage->order != HGA_FLAT || !(stage->reads >> f & 1u) || p->rounded >> f & 1u) continue;
        if (!home_is_rounded(p->plan, f)) continue;
        values *x = &p->value[f];
        for (int64_t i = 0; i < (int64_t)p->nodes.n * x->heads * x->columns; i++) x->x[i] = to_bf16(x->x[i]);
        p->rounded |= 1u << f;
    }
}

/* Keep a field of the stage as it is before the stage runs. */
static hga_status keep(pass *p, hga_id field, values *was)
{
    hga_status st = values_create(p, field, was);
    if (!st) values_copy(p, &p->value[field], was);
    return st;
}

static hga_status forward(pass *p)
{
    hga_status st = HGA_OK;
    for (hga_id s = 0; s < p->program->n_stages; s++) {
        const hga_stage *stage = &p->program->stage[s];
        round_operands(p, stage);
        HGA_TRY(keep(p, stage->out, &p->before[s][0]));
        if (p->plan->stage[s].kind == KIND_DESCEND) HGA_TRY(keep(p, stage->keep, &p->before[s][1]));
        HGA_TRY(walk(p, s, 0));
    }
done:
    return st;
}

/* Stages from last to first; behind each, its fields are again what it found. */
static hga_status backward(pass *p)
{
    hga_status st = HGA_OK;
    for (hga_id s = p->program->n_stages; s-- > 0;) {
        const hga_stage *stage = &p->program->stage[s];
        HGA_TRY(walk(p, s, 1));
        values_copy(p, &p->before[s][0], &p->value[stage->out]);
        values_clear(p, &p->before[s][0]);
        if (!p->before[s][1].x) continue;
        values_copy(p, &p->before[s][1], &p->value[stage->keep]);
        values_clear(p, &p->before[s][1]);
    }
done:
    return st;
}

/* The caller's gradients of the output into its adjoint. */
static void seed(pass *p)
{
    hga_id out = program_bound(p->program, HGA_IO_OUT), first, n = field_io(p->plan, out, &first);
    values *d = &p->adjoint[out];
    const hga_tensor *lse = &p->call->grad->d_lse;
    for (hga_id i = 0; i < n; i++)
        for (hga_id h = 0; h < d->heads; h++) {
            hga_id head = head_of(p, out, h), heads = p->plan->shape.n_heads;
            const float *given = tensor_at(&p->call->grad->d_out, heads, d->columns, i, head);
            for (hga_id c = 0; c < d->columns; c++) at(d, first + i, h)[c] = (double)given[c];
            if (lse->data) *lse_at(d, first + i, h) = (double)*tensor_at(lse, heads, 1, i, head);
        }
}

/* The gradients of the caller's rows of an input to where they are wanted. */
static void store(pass *p, hga_id field)
{
    const hga_tensor *t = field_gradient(p->call, field);
    if (!t || !t->data) return;
    values *d = &p->adjoint[field];
    hga_id first, n = field_io(p->plan, field, &first), heads = field_heads(p->plan, field);
    for (hga_id i = 0; i < n; i++)
        for (hga_id h = 0; h < d->heads; h++) {
            float *to = tensor_at(t, heads, d->columns, i, head_of(p, field, h));
            for (hga_id c = 0; c < d->columns; c++)
                to[c] = (float)((p->call->grad->accumulate ? (double)to[c] : 0) + at(d, first + i, h)[c]);
        }
}

/* Values, adjoints and what stages overwrite, of one key/value head. */
int64_t plain_bytes(const hga_plan *plan)
{
    int64_t doubles = 0, group = plan->shape.n_heads / plan->shape.n_kv_heads;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        int64_t heads = field_heads(plan, f) == plan->shape.n_heads ? group : 1, copies = 2;
        for (hga_id s = 0; s < plan->program.n_stages; s++) copies += plan->program.stage[s].writes >> f & 1u;
        doubles += copies * plan->nodes.n * heads * (field_columns(plan, f) + 1);
    }
    return doubles * (int64_t)sizeof(double);
}

static pass pass_of(const gradient_call *c, hga_id kv)
{
    return (pass){.call = c,
                  .plan = c->plan,
                  .program = &c->plan->program,
                  .nodes = c->plan->nodes,
                  .kv = kv,
                  .group = c->plan->shape.n_heads / c->plan->shape.n_kv_heads,
                  .rows = {.plan = c->plan}};
}

hga_status plain_gradient(const gradient_call *c, hga_id kv)
{
    hga_status st = HGA_OK;
    pass p = pass_of(c, kv);
    HGA_TRY(pass_create(&p));
    HGA_TRY(forward(&p));
    seed(&p);
    HGA_TRY(backward(&p));
    for (hga_id f = 1; f <= p.program->n_fields; f++)
        if (program_is_input(p.program->field[f].binding)) store(&p, f);
done:
    pass_clear(&p);
    return st;
}

hga_status plain_loss(const gradient_call *c, hga_id kv, double *loss)
{
    hga_status st = HGA_OK;
    pass p = pass_of(c, kv);
    HGA_TRY(pass_create(&p));
    HGA_TRY(forward(&p));
    seed(&p);
    hga_id out = program_bound(p.program, HGA_IO_OUT), first, n = field_io(p.plan, out, &first);
    const values *x = &p.value[out], *d = &p.adjoint[out];
    *loss = 0;
    for (hga_id i = first; i < first + n; i++)
        for (hga_id h = 0; h < x->heads; h++) {
            *loss += dot(at(d, i, h), at(x, i, h), x->columns);
            if (x->lse && *lse_at(x, i, h) > -INFINITY) *loss += *lse_at(d, i, h) * *lse_at(x, i, h);
        }
done:
    pass_clear(&p);
    return st;
}
