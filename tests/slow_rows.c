/* slow_rows.c: one row of one head, by the formulas at the head of hga_program.h. */
#include "slow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* log(e^a + e^b) without inf - inf. */
double slow_log_add(double a, double b)
{
    double hi = fmax(a, b), lo = fmin(a, b);
    return lo == -INFINITY ? hi : hi + log1p(exp(lo - hi));
}

/* Column c of what the edge's type, and the edge, whose numbers begin at `own`, add to the key. */
static double beside(const machine *m, const edge *e, const double *own, hga_id c)
{
    const double *r = m->in->of[SLOW_REL_KEY];
    return (r ? r[(int64_t)e->type * m->shape.dim + c] : 0) + (own ? own[c] : 0);
}

/* a . LeakyReLU(q + k + r). */
static double additive(const machine *m, const double *q, const double *k, const edge *e, const double *own, hga_id h)
{
    const double *a = m->in->of[SLOW_ADDITIVE];
    hga_id dim = m->shape.dim;
    double sum = 0;
    for (hga_id c = 0; c < dim; c++) {
        double x = q[c] + k[c] + beside(m, e, own, c);
        if (x < 0) x *= (double)m->program->negative_slope;
        sum += a ? a[h * dim + c] * x : x;
    }
    return sum;
}

/* s(u, v, e); `position` counts in canonical order. Edge biases belong to the first stage that attends. */
static double score(const machine *m, const hga_stage *s, const edge *e, int64_t position, hga_id h)
{
    double *const *in = m->in->of;
    const values *q = m->field + s->query, *k = m->field + s->key;
    const double *a = at(q, e->dst, head_for(q, h, m->shape.n_heads)),
                 *b = at(k, e->src, head_for(k, h, m->shape.n_heads));
    const int first = s == find_stage(m->program, HGA_SCORE);
    const hga_id kv = m->shape.n_kv_heads, of_head = h / (m->shape.n_heads / kv);
    const double *own =
        first && in[SLOW_EDGE_KEY] ? in[SLOW_EDGE_KEY] + (position * kv + of_head) * m->shape.dim : NULL;
    double dot = m->program->scores ? additive(m, a, b, e, own, h) : 0, sum = log((double)e->weight),
           cap = m->in->softcap;
    for (hga_id c = 0; c < m->shape.dim && !m->program->scores; c++) dot += a[c] * (b[c] + beside(m, e, own, c));
    sum += cap > 0 ? cap * tanh(in[SLOW_SCALE][0] * dot / cap) : in[SLOW_SCALE][0] * dot;
    if (in[SLOW_SLOPES]) sum -= in[SLOW_SLOPES][h] * fabs(m->where[e->dst] - m->where[e->src]);
    if (in[SLOW_REL_BIAS]) sum += in[SLOW_REL_BIAS][(int64_t)e->type * m->shape.n_heads + h];
    int64_t column = m->in->edge_bias_heads == 1 ? 0 : h;
    if (in[SLOW_EDGE_BIAS] && first) sum += in[SLOW_EDGE_BIAS][position * m->in->edge_bias_heads + column];
    if (s->by_mass) sum += log((double)m->nodes.mass[e->src]);
    if (in[SLOW_LOG_MASS]) sum += in[SLOW_LOG_MASS][e->src];
    for (hga_id c = 0; in[SLOW_NODE_POS] && c < m->shape.pos_dim; c++)
        sum += in[SLOW_NODE_POS][(int64_t)e->pos_of * m->shape.pos_dim + c] *
               in[SLOW_NODE_POS][(int64_t)e->src_pos_of * m->shape.pos_dim + c];
    return sum;
}

/* Add e^weight x to the state (o, *lse), which stays normalised. */
void slow_merge(double *o, double *lse, const double *x, double weight, hga_id columns)
{
    if (weight == -INFINITY) return;
    double sum = slow_log_add(*lse, weight), keep = *lse == -INFINITY ? 0 : exp(*lse - sum), add = exp(weight - sum);
    for (hga_id c = 0; c < columns; c++) o[c] = (keep == 0 ? 0 : keep * o[c]) + add * x[c];
    *lse = sum;
}

/* O and LSE of row v's scores: all scores first, then their maximum, then the sums. Returns LSE; o comes zeroed. */
static double softmax_row(machine *m, const hga_stage *s, const in_edges *in, hga_id v, hga_id h, double *o)
{
    const values *value = m->field + s->value;
    int64_t first = in->ptr[v], n = in->ptr[v + 1] - first;
    double *p = memory(n, sizeof *p), greatest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) greatest = fmax(greatest, p[i] = score(m, s, in->e + first + i, first + i, h));
    for (int64_t i = 0; i < n && greatest > -INFINITY; i++) {
        const double *x = at(value, in->e[first + i].src, head_for(value, h, m->shape.n_heads));
        double weight = exp(p[i] - greatest);
        for (hga_id c = 0; c < value->columns; c++) o[c] += weight * x[c];
        sum += weight;
    }
    for (hga_id c = 0; c < value->columns && sum > 0; c++) o[c] /= sum;
    free(p);
    return sum > 0 ? greatest + log(sum) : -INFINITY;
}

/* Sums of m w / (1 + e^-(s + B)) x, where s has neither log m nor log w; added to what is there, or instead of it. */
static void sigmoid_row(machine *m, const hga_stage *s, const in_edges *in, hga_id v, hga_id h)
{
    values *out = m->field + s->out;
    const values *value = m->field + s->value;
    double *o = at(out, v, h);
    if (s->update != HGA_UPDATE_MERGE) memset(o, 0, (size_t)out->columns * sizeof *o);
    for (int64_t i = in->ptr[v]; i < in->ptr[v + 1]; i++) {
        const edge *e = in->e + i;
        if (e->weight == 0 || (s->by_mass && m->nodes.mass[e->src] == 0)) continue;
        double log_mass = m->in->of[SLOW_LOG_MASS] ? m->in->of[SLOW_LOG_MASS][e->src] : 0,
               tokens = (double)e->weight * (s->by_mass ? (double)m->nodes.mass[e->src] : 1) * exp(log_mass),
               x = score(m, s, e, i, h) - log(tokens) + m->in->bias;
        const double *from = at(value, e->src, head_for(value, h, m->shape.n_heads));
        for (hga_id c = 0; c < out->columns; c++) o[c] += tokens / (1 + exp(-x)) * from[c];
    }
}

/* How much of a row is above tau, of which m w [(alpha - 1) s - tau]^(1 / (alpha - 1)) are the weights; s has neither
   log m nor log w. */
static double above_threshold(int64_t n, const double *s, const double *tokens, double alpha, double tau,
                              double *weight)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double above = (alpha - 1) * s[i] - tau;
        sum += weight[i] = above > 0 ? tokens[i] * pow(above, 1 / (alpha - 1)) : 0;
    }
    return sum;
}

/* tau by bisection. */
static void entmax_weights(int64_t n, const double *s, const double *tokens, double alpha, double *weight)
{
    double most = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        weight[i] = 0;
        most = fmax(most, (alpha - 1) * s[i]);
    }
    if (most == -INFINITY) return;
    double high = most, low = most - 1;
    while (above_threshold(n, s, tokens, alpha, low, weight) < 1) low = most - 2 * (most - low);
    for (int step = 0; step < 48; step++) {
        double middle = (low + high) / 2;
        if (above_threshold(n, s, tokens, alpha, middle, weight) < 1)
            high = middle;
        else
            low = middle;
    }
    double sum = above_threshold(n, s, tokens, alpha, low, weight);
    for (int64_t i = 0; i < n; i++) weight[i] /= sum;
}

static void entmax_row(machine *m, const hga_stage *s, const in_edges *in, hga_id v, hga_id h)
{
    values *out = m->field + s->out;
    const values *value = m->field + s->value;
    const edge *e = in->e + in->ptr[v];
    int64_t n = in->ptr[v + 1] - in->ptr[v];
    double *scores = memory(3 * n, sizeof *scores), *tokens = scores + n, *weight = tokens + n, *o = at(out, v, h);
    memset(o, 0, (size_t)out->columns * sizeof *o);
    for (int64_t i = 0; i < n; i++) {
        double log_mass = m->in->of[SLOW_LOG_MASS] ? m->in->of[SLOW_LOG_MASS][e[i].src] : 0;
        tokens[i] = (double)e[i].weight * (s->by_mass ? (double)m->nodes.mass[e[i].src] : 1) * exp(log_mass);
        scores[i] = tokens[i] > 0 ? score(m, s, e + i, in->ptr[v] + i, h) - log(tokens[i]) : -INFINITY;
    }
    entmax_weights(n, scores, tokens, s->alpha, weight);
    for (int64_t i = 0; i < n; i++)
        for (hga_id c = 0; c < out->columns && weight[i] > 0; c++)
            o[c] += weight[i] * at(value, e[i].src, head_for(value, h, m->shape.n_heads))[c];
    free(scores);
}

/* States of sigmoids are sums: what is handed on is added. */
static void add_states(const hga_stage *s, machine *m, const values *from, const in_edges *in, hga_id v, hga_id h)
{
    values *out = m->field + s->out;
    for (int64_t i = in->ptr[v]; i < in->ptr[v + 1]; i++)
        for (hga_id c = 0; c < out->columns; c++)
            at(out, v, h)[c] += (double)in->e[i].weight * at(from, in->e[i].src, h)[c];
}

static void attend_row(machine *m, const hga_stage *s, const in_edges *in, hga_id v, hga_id h)
{
    values *out = m->field + s->out;
    double *o = memory(out->columns, sizeof *o), lse = softmax_row(m, s, in, v, h, o);
    if (s->update != HGA_UPDATE_MERGE) {
        memset(at(out, v, h), 0, (size_t)out->columns * sizeof *o);
        *lse_at(out, v, h) = -INFINITY;
    }
    slow_merge(at(out, v, h), lse_at(out, v, h), o, lse, out->columns);
    free(o);
}

static void spread_row(machine *m, const hga_stage *s, const values *from, const in_edges *in, hga_id v, hga_id h)
{
    values *out = m->field + s->out;
    for (int64_t i = in->ptr[v]; i < in->ptr[v + 1]; i++) {
        hga_id u = in->e[i].src;
        slow_merge(at(out, v, h), lse_at(out, v, h), at(from, u, h), log((double)in->e[i].weight) + *lse_at(from, u, h),
                   out->columns);
    }
}

/* Sum, mean and weighted sum. */
static void add_row(machine *m, const hga_stage *s, const values *from, const in_edges *in, hga_id v, hga_id h)
{
    values *out = m->field + s->out;
    double *sum = memory(out->columns, sizeof *sum), total = 0;
    for (int64_t i = in->ptr[v]; i < in->ptr[v + 1]; i++) {
        const edge *e = in->e + i;
        double w = e->weight;
        if (s->message == HGA_SCALED) w *= m->in->of[SLOW_TYPE_SCALE][e->type];
        if (s->reduce == HGA_MEAN && s->by_mass) w *= (double)m->nodes.mass[e->src];
        const double *x = at(from, e->src, head_for(from, h, out->heads));
        for (hga_id c = 0; c < out->columns; c++) sum[c] += w * x[c];
        total += w;
    }
    for (hga_id c = 0; c < out->columns; c++)
        at(out, v, h)[c] = s->reduce == HGA_MEAN && total != 0 ? sum[c] / total : sum[c];
    free(sum);
}

static void energy_row(machine *m, const hga_stage *s, const in_edges *in, hga_id v, hga_id h)
{
    const values *state = m->field + s->value;
    values *psi = m->field + s->out;
    double sum = 0, total = 0;
    for (int64_t i = in->ptr[v]; i < in->ptr[v + 1]; i++) {
        hga_id u = in->e[i].src;
        sum += (double)m->nodes.mass[u] * slow_log_add(*at(psi, u, h), *lse_at(state, u, h));
        total += (double)m->nodes.mass[u];
    }
    *at(psi, v, h) = total > 0 ? sum / total : -INFINITY;
}

static void descend_row(machine *m, const hga_stage *s, const in_edges *in, hga_id v, hga_id h)
{
    const values *state = m->field + s->value;
    values *out = m->field + s->out, *keep = m->field + s->keep;
    double lse = *lse_at(state, v, h), psi = *at(m->field + s->gate, v, h),
           open = lse == -INFINITY ? 0 : 1 / (1 + exp(psi - lse)), left = 1;
    for (hga_id c = 0; c < out->columns; c++) at(out, v, h)[c] = 0;
    if (in->ptr[v] < in->ptr[v + 1]) {
        hga_id u = in->e[in->ptr[v]].src;
        left = *at(keep, u, h);
        memcpy(at(out, v, h), at(out, u, h), (size_t)out->columns * sizeof(double));
    }
    for (hga_id c = 0; c < out->columns && open > 0; c++) at(out, v, h)[c] += left * open * at(state, v, h)[c];
    *at(keep, v, h) = left * (1 - open);
}

/* psi of what is inside node v. */
static double energy_inside(const machine *m, const hga_stage *s, hga_id v, hga_id h)
{
    double sum = 0, total = 0;
    for (hga_id u = 0; m->nodes.parent && u < m->nodes.n; u++) {
        if (m->nodes.parent[u] != v) continue;
        sum += (double)m->nodes.mass[u] * slow_log_add(*at(m->field + s->gate, u, h), *lse_at(m->field + s->out, u, h));
        total += (double)m->nodes.mass[u];
    }
    return total > 0 ? sum / total : -INFINITY;
}

/* Weights of all scores, and what stands in the place of the log-sum-exp: the sum of p s + H(p). */
static double share_out(const hga_stage *s, int64_t n, const double *scores, double *weight)
{
    double *ones = memory(n, sizeof *ones), alpha = s->alpha == 0 ? 1 : s->alpha, all = 0, value = 0;
    for (int64_t i = 0; i < n; i++) ones[i] = 1, all = i ? slow_log_add(all, scores[i]) : scores[0];
    if (alpha > 1)
        entmax_weights(n, scores, ones, alpha, weight);
    else
        for (int64_t i = 0; i < n; i++) weight[i] = all > -INFINITY ? exp(scores[i] - all) : 0;
    for (int64_t i = 0; i < n && alpha > 1; i++)
        if (weight[i] > 0) value += weight[i] * scores[i] + (weight[i] - pow(weight[i], alpha)) / (alpha * (alpha - 1));
    free(ones);
    return all == -INFINITY || alpha <= 1 ? all : value;
}

/* Attention with what is inside among the scores; see hga_program.h. */
static void inside_row(machine *m, const hga_stage *s, const in_edges *in, hga_id v, hga_id h)
{
    values *out = m->field + s->out;
    const values *value = m->field + s->value;
    const edge *e = in->e + in->ptr[v];
    int64_t n = in->ptr[v + 1] - in->ptr[v];
    double *scores = memory(2 * (n + 1), sizeof *scores), *weight = scores + n + 1, *o = at(out, v, h), outside = 0;
    for (int64_t i = 0; i < n; i++) scores[i] = score(m, s, e + i, in->ptr[v] + i, h);
    scores[n] = energy_inside(m, s, v, h);
    double g = share_out(s, n + 1, scores, weight);
    for (int64_t i = 0; i < n; i++) outside += weight[i];
    memset(o, 0, (size_t)out->columns * sizeof *o);
    for (int64_t i = 0; i < n; i++)
        for (hga_id c = 0; c < out->columns && weight[i] > 0; c++)
            o[c] += weight[i] / outside * at(value, e[i].src, head_for(value, h, m->shape.n_heads))[c];
    *lse_at(out, v, h) = outside > 0 ? g + log(outside) : -INFINITY;
    *at(m->field + s->gate, v, h) = weight[n] > 0 ? g + log(weight[n]) : -INFINITY;
    free(scores);
}

/* What the stage's message and the program's normaliser make of the row. */
void slow_row(machine *m, const hga_stage *s, const values *from, const in_edges *in, hga_id v, hga_id h)
{
    const hga_stage *attends = find_stage(m->program, HGA_SCORE);
    int sums = attends && attends->normaliser == HGA_NORMALISER_SIGMOID,
        entmax = attends && attends->normaliser == HGA_NORMALISER_ENTMAX && attends->alpha != 1;
    switch (s->message) {
    case HGA_SCORE:
        (s->update == HGA_UPDATE_INSIDE ? inside_row
         : entmax                       ? entmax_row
         : sums                         ? sigmoid_row
                                        : attend_row)(m, s, in, v, h);
        return;
    case HGA_STATE: sums ? add_states(s, m, from, in, v, h) : spread_row(m, s, from, in, v, h); return;
    case HGA_COPY:
    case HGA_SCALED: add_row(m, s, from, in, v, h); return;
    case HGA_ENERGY: energy_row(m, s, in, v, h); return;
    case HGA_GATE: descend_row(m, s, in, v, h); return;
    case HGA_MESSAGE_USER: fail_msg("stage %s: the oracle knows no user functions", s->name);
    }
}
