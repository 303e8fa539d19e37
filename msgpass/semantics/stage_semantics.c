/* stage_semantics.c: every kind's row and adjoint: the definitions. */
#include "stage_semantics.h"
#include "bindings.h"
#include "exponents.h"
#include "vectors.h"

#include <string.h>

/* ---- operands of rows ---- */

static const stage_semantics *semantics_of(const stage_row *r) { return &all_stage_semantics[r->kind]; }
static hga_id source_field(const stage_row *r) { return program_role(r->stage, semantics_of(r)->source); }
static hga_id own_field(const stage_row *r) { return program_role(r->stage, semantics_of(r)->own); }
static int merges(const stage_row *r) { return r->stage->update == HGA_UPDATE_MERGE; }

static hga_id columns_of(const stage_row *r, hga_id field)
{
    return program_columns(r->m->program, &r->m->shape, field);
}

static const double *source_row(const stage_row *r, hga_id field, int64_t i)
{
    return r->values->read(r->values, field, r->edge[i].src, r->head, r->scratch.source);
}

/* The first entry of edge i's row of edge_value that is added to values, of the value's head; -1: none is. */
static int64_t added_entry(const stage_row *r, int64_t i)
{
    const hga_shape *s = &r->m->shape;
    const hga_id kv = r->head / (s->n_heads / s->n_kv_heads);
    if (!call_adds_edge_values(r->m->io) || r->s != r->m->biased) return -1;
    return ((r->m->first_edge[r->v] + i) * s->n_kv_heads + kv) * s->dim_v;
}

/* What edge i sends to the row: its source's, and its own. */
static const double *sent_row(const stage_row *r, hga_id field, int64_t i)
{
    const double *source = source_row(r, field, i);
    const int64_t at = added_entry(r, i);
    if (at < 0) return source;
    for (hga_id c = 0; c < r->m->shape.dim_v; c++)
        r->scratch.source[c] =
            source[c] + table_entry(r->m, HGA_TABLE_EDGE_VALUE, r->m->io->edge_value.data[at + c], at + c);
    return r->scratch.source;
}

static double source_lse(const stage_row *r, hga_id field, int64_t i)
{
    return r->values->read_lse(r->values, field, r->edge[i].src, r->head);
}

/* The row's own operand: another field's row, or its own old value. */
static const double *own_row(const stage_row *r)
{
    hga_id field = own_field(r);
    const field_values *from = field == r->stage->out ? r->was : r->values;
    return from->read(from, field, r->v, r->head, r->scratch.own);
}

static double number_at(const stage_row *r, hga_id field, hga_id v)
{
    double number;
    return *r->values->read(r->values, field, v, r->head, &number);
}

/* Dropout's factor of an edge; it does not change log-sum-exps. */
static double undropped(const stage_row *r, int64_t i)
{
    if (r->stage->message != HGA_SCORE) return 1;
    return edge_dropout_factor(r->m->dropout, r->m->io, &r->edge[i], r->v, r->head);
}

void row_add_up(const stage_row *r, hga_id columns, double *out)
{
    hga_id field = source_field(r);
    const double *own = r->scratch.weight[r->n] != 0 ? own_row(r) : NULL;
    for (hga_id c = 0; c < columns; c++) out[c] = own ? r->scratch.weight[r->n] * own[c] : 0;
    for (int64_t i = 0; i < r->n; i++)
        if (r->scratch.score[i] != -INFINITY)
            axpy(r->scratch.weight[i] * undropped(r, i), sent_row(r, field, i), columns, out);
}

/* ---- features of edges ---- */

static int64_t feature_entry(const stage_row *r, int64_t i)
{
    return (r->m->first_edge[r->v] + i) * r->m->io->edge_value.columns;
}

static double feature(const stage_row *r, int64_t i, hga_id c)
{
    int64_t at = feature_entry(r, i) + c;
    return table_entry(r->m, HGA_TABLE_EDGE_VALUE, r->m->io->edge_value.data[at], at);
}

double row_add_features(const stage_row *r, hga_id c)
{
    double sum = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (r->scratch.weight[i] != 0) sum += r->scratch.weight[i] * undropped(r, i) * feature(r, i, c);
    return sum;
}

/* Adds edge i's share of the gradient of edge_out to its features; returns the gradient of its weight. */
static double features_adjoint(const stage_row *r, const row_gradients *g, int64_t i)
{
    double *d = g->sums->of[HGA_TABLE_EDGE_VALUE], slope = 0;
    for (hga_id c = 0; g->d_edge_out && c < r->m->io->edge_value.columns; c++) {
        slope += (double)g->d_edge_out[c] * feature(r, i, c);
        if (d) d[feature_entry(r, i) + c] += r->scratch.weight[i] * undropped(r, i) * (double)g->d_edge_out[c];
    }
    return slope;
}

/* ---- rows ---- */

static void write_meant(stage_row *r)
{
    semantics_of(r)->weigh(r);
    row_add_up(r, columns_of(r, r->stage->out), r->scratch.out);
    r->values->write(r->values, r->stage->out, r->v, r->head, r->scratch.out);
}

/* Gradients: of a row; of a source from edge i; of the weight of edge i. */
static double *d_row(const stage_row *r, const row_gradients *g, hga_id field, hga_id v)
{
    return double_row(g->d, field, v, r->head);
}

static void give_to_source(const stage_row *r, const row_gradients *g, int64_t i)
{
    hga_id out = r->stage->out;
    const double weight = r->scratch.weight[i] * undropped(r, i);
    const int64_t at = added_entry(r, i);
    axpy(weight, d_row(r, g, out, r->v), columns_of(r, out), d_row(r, g, source_field(r), r->edge[i].src));
    if (at >= 0 && g->sums->of[HGA_TABLE_EDGE_VALUE])
        axpy(weight, d_row(r, g, out, r->v), columns_of(r, out), g->sums->of[HGA_TABLE_EDGE_VALUE] + at);
}

static double weight_slope(const stage_row *r, const row_gradients *g, const double *x)
{
    return dot(d_row(r, g, r->stage->out, r->v), x, columns_of(r, r->stage->out));
}

static void scale_row(const stage_row *r, const row_gradients *g, double a)
{
    double *d = d_row(r, g, r->stage->out, r->v);
    for (hga_id c = 0; c < columns_of(r, r->stage->out); c++) d[c] = a == 0 ? 0 : a * d[c];
}

/* ---- mean, sum, weighted sum ---- */

/* The weight of each edge in the sum or mean; a mean of mass 0 has no edges. */
static void sum_weigh(stage_row *r)
{
    double total = 0, *weight = r->scratch.weight;
    for (int64_t i = 0; i < r->n; i++) total += weight[i] = sum_factor(r->m, r->stage, &r->edge[i]);
    if (r->stage->reduce != HGA_MEAN) total = 1;
    for (int64_t i = 0; i < r->n; i++) {
        weight[i] = total > 0 ? weight[i] / total : 0;
        r->scratch.score[i] = total > 0 ? 0 : -INFINITY;
    }
    weight[r->n] = 0;
}

/* Adds the row's gradient to its sources, and to the scales of types. */
static void sum_adjoint(stage_row *r, const row_gradients *g)
{
    double *scales = r->stage->message == HGA_SCALED ? g->sums->of[HGA_TABLE_TYPE_SCALE] : NULL;
    sum_weigh(r);
    for (int64_t i = 0; i < r->n && r->scratch.score[i] != -INFINITY; i++) {
        give_to_source(r, g, i);
        if (scales)
            scales[r->edge[i].type] +=
                (double)r->edge[i].weight * weight_slope(r, g, source_row(r, r->stage->value, i));
    }
    scale_row(r, g, 0);
}

/* ---- softened states: attend, new or merged, and spread ---- */

/* The number of scores: of the edges, and a last one for the old state, or for the energy inside. */
static int64_t places(const stage_row *r) { return r->n + (merges(r) || r->kind == KIND_ATTEND_INSIDE); }

static void score_edges(stage_row *r)
{
    if (!r->n) return;
    const double *q = r->values->read(r->values, r->stage->query, r->v, r->head, r->scratch.own);
    for (int64_t i = 0; i < r->n; i++) {
        scored_edge x = edge_between(r->m, r->s, r->v, r->head, &r->edge[i], i, q, source_row(r, r->stage->key, i));
        r->scratch.score[i] = edge_score(r->m, &x), r->scratch.count[i] = edge_moved_count(r->m, r->stage, &r->edge[i]);
    }
}

static void score_states(stage_row *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        r->scratch.count[i] = (double)r->edge[i].weight;
        r->scratch.score[i] = source_lse(r, r->stage->value, i) + log(r->scratch.count[i]);
    }
}

/* All scores for a softening. */
static soften_row softened(const stage_row *r)
{
    const semantics *m = r->m;
    return (soften_row){.n = places(r),
                        .number = program_normaliser_is(m->program) & NORMALISER_HAS_BIAS ? m->bias
                                                                                          : program_alpha(m->program),
                        .score = r->scratch.score,
                        .weight = r->scratch.weight,
                        .count = r->scratch.count,
                        .slope = r->scratch.slope,
                        .d_count = r->scratch.d_count};
}

static void state_weigh(stage_row *r)
{
    (r->stage->message == HGA_SCORE ? score_edges : score_states)(r);
    r->scratch.weight[r->n] = 0;
    if (merges(r)) r->scratch.score[r->n] = r->was->read_lse(r->was, r->stage->out, r->v, r->head);
    r->scratch.count[r->n] = 1;
    soften_row all = softened(r);
    r->lse = r->m->soften->weigh(&all);
}

static void state_row(stage_row *r)
{
    write_meant(r);
    r->values->write_lse(r->values, r->stage->out, r->v, r->head, r->lse);
}

/* Passes the gradient of edge i's score to its operands, or to the log-sum-exp that it is. */
static void score_adjoint(const stage_row *r, const row_gradients *g, int64_t i)
{
    const hga_stage *s = r->stage;
    hga_id u = r->edge[i].src;
    if (s->message != HGA_SCORE) {
        *double_lse(g->d, s->value, u, r->head) += r->scratch.slope[i];
        return;
    }
    const double *q = r->values->read(r->values, s->query, r->v, r->head, r->scratch.own);
    scored_edge x = edge_between(r->m, r->s, r->v, r->head, &r->edge[i], i, q, source_row(r, s->key, i));
    edge_score_adjoint(r->m, &x, r->scratch.slope[i], r->scratch.d_count[i], d_row(r, g, s->query, r->v),
                       d_row(r, g, s->key, u), g->sums);
}

/* Adds the state's gradient to sources and scores; the old state's gradient replaces it. */
static void state_adjoint(stage_row *r, const row_gradients *g)
{
    double *d_lse = double_lse(g->d, r->stage->out, r->v, r->head), *slope = r->scratch.slope;
    state_weigh(r);
    for (int64_t i = 0; i < r->n; i++) {
        slope[i] = 0;
        if (r->scratch.weight[i] == 0) continue;
        slope[i] = undropped(r, i) * (weight_slope(r, g, sent_row(r, source_field(r), i)) + features_adjoint(r, g, i));
        give_to_source(r, g, i);
    }
    slope[r->n] = r->scratch.weight[r->n] != 0 ? weight_slope(r, g, own_row(r)) : 0;
    soften_row all = softened(r);
    r->m->soften->adjoint(&all, program_normaliser_is(r->m->program) & NORMALISER_HAS_LSE ? *d_lse : 0);
    for (int64_t i = 0; i < r->n; i++)
        if (r->scratch.weight[i] != 0) score_adjoint(r, g, i);
    scale_row(r, g, r->scratch.weight[r->n]);
    *d_lse = merges(r) ? slope[r->n] : 0;
}

/* ---- energies up ---- */

static double family_mass(const stage_row *r)
{
    double mass = 0;
    for (int64_t i = 0; i < r->n; i++) mass += (double)r->m->nodes.mass[r->edge[i].src];
    return mass;
}

/* The energy is the row's `rest`; edges have no weights. */
static void energy_weigh(stage_row *r)
{
    double mass = family_mass(r), sum = 0;
    for (int64_t i = 0; i <= r->n; i++) r->scratch.score[i] = r->scratch.weight[i] = 0;
    for (int64_t i = 0; i < r->n; i++) {
        hga_id u = r->edge[i].src;
        double m = (double)r->m->nodes.mass[u];
        if (m > 0) sum += m * log_add(number_at(r, r->stage->out, u), source_lse(r, r->stage->value, i));
    }
    r->rest = mass > 0 ? sum / mass : -INFINITY;
}

static void energy_row(stage_row *r)
{
    energy_weigh(r);
    r->values->write(r->values, r->stage->out, r->v, r->head, &r->rest);
}

/* Adds the energy's gradient to the sources' energies and log-sum-exps. */
static void energy_adjoint(stage_row *r, const row_gradients *g)
{
    double mass = family_mass(r), *d = d_row(r, g, r->stage->out, r->v);
    energy_weigh(r);
    for (int64_t i = 0; i < r->n && r->rest != -INFINITY; i++) {
        hga_id u = r->edge[i].src;
        double part = (double)r->m->nodes.mass[u] / mass * *d, below = number_at(r, r->stage->out, u),
               lse = source_lse(r, r->stage->value, i);
        *d_row(r, g, r->stage->out, u) += part * share(below, lse);
        *double_lse(g->d, r->stage->value, u, r->head) += part * share(lse, below);
    }
    *d = 0;
}

/* ---- attention with the energies inside ---- */

typedef struct children {
    const hga_id *list;
    hga_id n, first;
    double mass;
} children;

static children find_children(const stage_row *r)
{
    children c = {0};
    c.n = children_of(&r->m->nodes, r->v, &c.list, &c.first);
    for (hga_id i = 0; i < c.n; i++) c.mass += (double)r->m->nodes.mass[child_number(c.list, c.first, i)];
    return c;
}

/* psi and the log-sum-exp of child i. */
static hga_id look_inside(const stage_row *r, const children *c, hga_id i, double *psi, double *lse)
{
    hga_id u = child_number(c->list, c->first, i);
    *psi = number_at(r, r->stage->gate, u), *lse = r->values->read_lse(r->values, r->stage->out, u, r->head);
    return u;
}

static double energy_inside(const stage_row *r)
{
    const children c = find_children(r);
    double sum = 0, psi, lse;
    for (hga_id i = 0; i < c.n; i++) {
        const double m = (double)r->m->nodes.mass[look_inside(r, &c, i, &psi, &lse)];
        if (m > 0) sum += m * log_add(psi, lse);
    }
    return c.mass > 0 ? sum / c.mass : -INFINITY;
}

/* Weighs all scores, the last one that of the energy inside. Scores include counts. Returns g. */
static double weigh_all(stage_row *r)
{
    score_edges(r);
    r->scratch.score[r->n] = energy_inside(r);
    for (int64_t i = 0; i <= r->n; i++) r->scratch.count[i] = 1;
    const soften_row all = softened(r);
    const double lse = r->m->soften->weigh(&all);
    return r->m->soften->conjugate ? r->m->soften->conjugate(&all) : lse;
}

static double sum_of(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

/* The inside has no value here: descend passes its share down. */
static void inside_weigh(stage_row *r)
{
    const double g = weigh_all(r), outside = sum_of(r->scratch.weight, r->n), inside = r->scratch.weight[r->n];
    for (int64_t i = 0; i < r->n && outside != 0; i++) r->scratch.weight[i] /= outside;
    r->scratch.weight[r->n] = 0;
    r->lse = outside != 0 ? g + log(outside) : -INFINITY, r->rest = inside != 0 ? g + log(inside) : -INFINITY;
}

static void inside_row(stage_row *r)
{
    state_row(r);
    r->values->write(r->values, r->stage->gate, r->v, r->head, &r->rest);
}

/* Adds the energy's gradient to the children. */
static void give_inside(const stage_row *r, const row_gradients *g, double d)
{
    const children c = find_children(r);
    double psi, lse;
    for (hga_id i = 0; i < c.n && c.mass > 0; i++) {
        const hga_id u = look_inside(r, &c, i, &psi, &lse);
        const double part = (double)r->m->nodes.mass[u] / c.mass * d;
        *d_row(r, g, r->stage->gate, u) += part * share(psi, lse);
        *double_lse(g->d, r->stage->out, u, r->head) += part * share(lse, psi);
    }
}

/* Slopes of the weights of edges, which are divided by their sum `outside` where they multiply values. */
static void slopes_outside(stage_row *r, const row_gradients *g, double outside, double d_lse)
{
    double *slope = r->scratch.slope, *weight = r->scratch.weight, mean = 0;
    for (int64_t i = 0; i < r->n; i++) {
        slope[i] = 0;
        if (weight[i] == 0) continue;
        slope[i] = weight_slope(r, g, source_row(r, r->stage->value, i));
        mean += weight[i] / outside * slope[i];
        weight[i] /= outside;
        give_to_source(r, g, i);
        weight[i] *= outside;
    }
    for (int64_t i = 0; i < r->n; i++)
        if (weight[i] != 0) slope[i] = (slope[i] - mean + d_lse) / outside;
}

/* Adds the gradients of the state and of its energy to sources, scores and children. */
static void inside_adjoint(stage_row *r, const row_gradients *g)
{
    double *d_lse = double_lse(g->d, r->stage->out, r->v, r->head), *d_psi = d_row(r, g, r->stage->gate, r->v),
           *slope = r->scratch.slope, *weight = r->scratch.weight;
    weigh_all(r);
    slopes_outside(r, g, sum_of(weight, r->n), *d_lse);
    slope[r->n] = weight[r->n] != 0 ? *d_psi / weight[r->n] : 0;
    const soften_row all = softened(r);
    r->m->soften->adjoint(&all, *d_lse + *d_psi);
    for (int64_t i = 0; i < r->n; i++) r->scratch.d_count[i] = slope[i];
    for (int64_t i = 0; i < r->n; i++)
        if (weight[i] != 0) score_adjoint(r, g, i);
    give_inside(r, g, weight[r->n] != 0 ? slope[r->n] : 0);
    scale_row(r, g, 0), *d_lse = *d_psi = 0;
}

/* ---- shares down ---- */

/* The share left above, and the shares of it that the row takes and passes on. */
typedef struct gate {
    double left, takes, hands;
} gate;

static gate gate_of(const stage_row *r)
{
    double lse = r->values->read_lse(r->values, r->stage->value, r->v, r->head),
           psi = number_at(r, r->stage->gate, r->v);
    return (gate){.left = r->n ? number_at(r, r->stage->keep, r->edge[0].src) : 1,
                  .takes = share(lse, psi),
                  .hands = lse == -INFINITY ? 1 : share(psi, lse)};
}

static void descend_weigh(stage_row *r)
{
    gate x = gate_of(r);
    for (int64_t i = 0; i < r->n; i++) r->scratch.score[i] = 0, r->scratch.weight[i] = 1;
    r->scratch.weight[r->n] = x.left * x.takes, r->rest = x.left * x.hands;
}

static void descend_row(stage_row *r)
{
    write_meant(r);
    r->values->write(r->values, r->stage->keep, r->v, r->head, &r->rest);
}

/* Adds the gradients of the row and of its `keep` to its state, its energy, and the row above. */
static void descend_adjoint(stage_row *r, const row_gradients *g)
{
    const hga_stage *s = r->stage;
    gate x = gate_of(r);
    double *d_keep = d_row(r, g, s->keep, r->v), slope = weight_slope(r, g, own_row(r)),
           ds = x.left * (slope - *d_keep);
    descend_weigh(r);
    axpy(r->scratch.weight[r->n], d_row(r, g, s->out, r->v), columns_of(r, s->out), d_row(r, g, s->value, r->v));
    *double_lse(g->d, s->value, r->v, r->head) += x.takes * x.hands * ds;
    *d_row(r, g, s->gate, r->v) -= x.takes * x.hands * ds;
    for (int64_t i = 0; i < r->n; i++) {
        *d_row(r, g, s->keep, r->edge[i].src) += x.takes * slope + x.hands * *d_keep;
        give_to_source(r, g, i);
    }
    scale_row(r, g, 0), *d_keep = 0;
}

/* ---- kinds ---- */

const stage_semantics all_stage_semantics[N_KINDS] = {
    [KIND_MEAN] = {ROLE_VALUE, ROLE_OUT, sum_weigh, write_meant, sum_adjoint},
    [KIND_SUM] = {ROLE_VALUE, ROLE_OUT, sum_weigh, write_meant, sum_adjoint},
    [KIND_WEIGHTED_SUM] = {ROLE_VALUE, ROLE_OUT, sum_weigh, write_meant, sum_adjoint},
    [KIND_ATTEND] = {ROLE_VALUE, ROLE_OUT, state_weigh, state_row, state_adjoint},
    [KIND_ATTEND_MORE] = {ROLE_VALUE, ROLE_OUT, state_weigh, state_row, state_adjoint},
    [KIND_SPREAD] = {ROLE_VALUE, ROLE_OUT, state_weigh, state_row, state_adjoint},
    [KIND_ENERGY] = {ROLE_VALUE, ROLE_OUT, energy_weigh, energy_row, energy_adjoint},
    [KIND_DESCEND] = {ROLE_OUT, ROLE_VALUE, descend_weigh, descend_row, descend_adjoint},
    [KIND_ATTEND_INSIDE] = {ROLE_VALUE, ROLE_OUT, inside_weigh, inside_row, inside_adjoint},
};
