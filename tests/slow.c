/* slow.c: the oracle. Interprets a program in double, one edge after the other, by the formulas at the head of
   hga_program.h. Slow and obvious. */
#include "testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A field on every node; NaN where nothing was written. */
typedef struct values {
    hga_id heads, columns;
    double *x, *lse; /* [node][head](columns); lse NULL unless a state */
} values;

typedef struct machine {
    const hga_graph *graph;
    const hga_program *program;
    const slow_inputs *in;
    hga_nodes nodes;
    hga_shape shape;
    double *where; /* [nodes]: a token's index, a mean of tokens' above; where slopes are given */
    values field[HGA_FIELD_SLOTS];
} machine;

/* In-edges by destination: those of v are e[ptr[v] .. ptr[v + 1]). */
typedef struct in_edges {
    edge *e;
    int64_t *ptr;
} in_edges;

/* ---- fields ---- */

static hga_id heads_of(const hga_shape *s, hga_width width)
{
    return width == HGA_WIDTH_KV_KEY || width == HGA_WIDTH_VALUE ? s->n_kv_heads : s->n_heads;
}

static hga_id columns_of(const hga_shape *s, hga_width width)
{
    return width == HGA_WIDTH_SCALAR ? 1 : width == HGA_WIDTH_KEY || width == HGA_WIDTH_KV_KEY ? s->dim : s->dim_v;
}

static double *unset(int64_t n)
{
    double *x = memory(n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = NAN;
    return x;
}

/* The shape with what it leaves out. */
static hga_shape slow_shape(const hga_shape *given)
{
    hga_shape s = *given;
    if (!s.n_kv_heads) s.n_kv_heads = s.n_heads;
    if (!s.dim_v) s.dim_v = s.dim;
    return s;
}

/* Where node v's values of head h begin. */
static double *at(const values *f, hga_id v, hga_id h) { return f->x + ((int64_t)v * f->heads + h) * f->columns; }

static double *lse_at(const values *f, hga_id v, hga_id h) { return f->lse + (int64_t)v * f->heads + h; }

/* The head of `f` that head h of n_heads reads. */
static hga_id head_for(const values *f, hga_id h, hga_id n_heads) { return h / (n_heads / f->heads); }

/* The caller's rows into the field. */
static void load(machine *m, const hga_field *field, values *f, const double *x)
{
    hga_id n, *rows = row_nodes(m->graph, field->io, &n);
    int64_t width = (int64_t)f->heads * f->columns;
    for (hga_id i = 0; i < n; i++) memcpy(at(f, rows[i], 0), x + i * width, (size_t)width * sizeof *x);
    free(rows);
}

static void create_field(machine *m, hga_id i)
{
    const hga_field *field = m->program->field + i;
    values *f = m->field + i;
    f->heads = heads_of(&m->shape, field->width), f->columns = columns_of(&m->shape, field->width);
    f->x = unset((int64_t)m->nodes.n * f->heads * f->columns);
    f->lse = field->width == HGA_WIDTH_STATE ? unset((int64_t)m->nodes.n * f->heads) : NULL;
    if (field->binding == HGA_IO_QUERY) load(m, field, f, m->in->of[SLOW_QUERY]);
    if (field->binding == HGA_IO_KEY) load(m, field, f, m->in->of[SLOW_KEY]);
    if (field->binding == HGA_IO_VALUE) load(m, field, f, m->in->of[SLOW_VALUE]);
    hga_id user = 0;
    for (hga_id before = 1; before < i; before++) user += m->program->field[before].binding == HGA_IO_USER;
    if (field->binding == HGA_IO_USER) load(m, field, f, m->in->of[SLOW_USER + user]);
}

/* ---- edges ---- */

/* The edges of the tree, up or down. */
static edge *tree_edges(const machine *m, hga_id relation, int64_t *n)
{
    edge *e = memory(m->nodes.n, sizeof *e);
    *n = 0;
    for (hga_id v = 0; m->nodes.parent && v < m->nodes.n; v++) {
        hga_id parent = m->nodes.parent[v];
        if (parent < 0) continue;
        e[(*n)++] = (edge){
            .dst = relation == HGA_TREE_UP ? parent : v, .src = relation == HGA_TREE_UP ? v : parent, .weight = 1};
    }
    sort_edges(e, *n);
    return e;
}

static in_edges edges_of(const machine *m, hga_id relation)
{
    int64_t n;
    edge *e = relation < 0 ? tree_edges(m, relation, &n) : all_edges(m->graph, relation, &n);
    in_edges in = {.e = e, .ptr = memory(m->nodes.n + 1, sizeof(int64_t))};
    for (int64_t i = 0; i < n; i++) in.ptr[in.e[i].dst + 1]++;
    for (hga_id v = 0; v < m->nodes.n; v++) in.ptr[v + 1] += in.ptr[v];
    return in;
}

/* ---- one row of one head ---- */

/* log(e^a + e^b) without inf - inf. */
static double log_add(double a, double b)
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
static void merge(double *o, double *lse, const double *x, double weight, hga_id columns)
{
    if (weight == -INFINITY) return;
    double sum = log_add(*lse, weight), keep = *lse == -INFINITY ? 0 : exp(*lse - sum), add = exp(weight - sum);
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
    merge(at(out, v, h), lse_at(out, v, h), o, lse, out->columns);
    free(o);
}

static void spread_row(machine *m, const hga_stage *s, const values *from, const in_edges *in, hga_id v, hga_id h)
{
    values *out = m->field + s->out;
    for (int64_t i = in->ptr[v]; i < in->ptr[v + 1]; i++) {
        hga_id u = in->e[i].src;
        merge(at(out, v, h), lse_at(out, v, h), at(from, u, h), log((double)in->e[i].weight) + *lse_at(from, u, h),
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
        sum += (double)m->nodes.mass[u] * log_add(*at(psi, u, h), *lse_at(state, u, h));
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
        sum += (double)m->nodes.mass[u] * log_add(*at(m->field + s->gate, u, h), *lse_at(m->field + s->out, u, h));
        total += (double)m->nodes.mass[u];
    }
    return total > 0 ? sum / total : -INFINITY;
}

/* Weights of all scores, and what stands in the place of the log-sum-exp: the sum of p s + H(p). */
static double share_out(const hga_stage *s, int64_t n, const double *scores, double *weight)
{
    double *ones = memory(n, sizeof *ones), alpha = s->alpha == 0 ? 1 : s->alpha, all = 0, value = 0;
    for (int64_t i = 0; i < n; i++) ones[i] = 1, all = i ? log_add(all, scores[i]) : scores[0];
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

/* ---- where nodes are ---- */

/* Is token t below node v? */
static int is_below(const hga_nodes *nodes, hga_id t, hga_id v)
{
    while (t >= 0 && t != v) t = nodes->parent ? nodes->parent[t] : -1;
    return t == v;
}

/* All tokens are asked, for every node. */
static void find_places(machine *m)
{
    if (!m->in->of[SLOW_SLOPES]) return;
    double *given = memory(m->nodes.n, sizeof *given); /* what is told of tokens */
    assert_ok(hga_graph_positions(m->graph, given));
    m->where = memory(m->nodes.n, sizeof *m->where);
    for (hga_id v = 0; v < m->nodes.n; v++) {
        double sum = 0, n = 0;
        for (hga_id t = 0; t < m->nodes.level_ptr[1]; t++)
            if (is_below(&m->nodes, t, v)) sum += given[t], n++;
        for (hga_id t = m->nodes.span_first[v]; n == 0 && t <= m->nodes.span_last[v]; t++)
            sum += given[t] / (m->nodes.span_last[v] - m->nodes.span_first[v] + 1.0);
        m->where[v] = n > 0 ? sum / n : sum;
    }
    free(given);
}

/* Each row of the output has one score more, of a value of zeros. */
static void pay_sinks(machine *m, hga_id f)
{
    values *out = m->field + f;
    hga_id n, *rows = row_nodes(m->graph, m->program->field[f].io, &n);
    for (hga_id i = 0; m->in->of[SLOW_SINK] && i < n; i++)
        for (hga_id h = 0; h < out->heads; h++) {
            double b = m->in->of[SLOW_SINK][h], *lse = lse_at(out, rows[i], h), all = log_add(*lse, b);
            for (hga_id c = 0; c < out->columns; c++) at(out, rows[i], h)[c] *= *lse == -INFINITY ? 0 : exp(*lse - all);
            *lse = all;
        }
    free(rows);
}

/* ---- stages ---- */

static void do_row(machine *m, const hga_stage *s, const values *from, const in_edges *in, hga_id v, hga_id h)
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

/* The values before the stage, for rows that read what other rows overwrite. */
static values snapshot(const machine *m, const values *f)
{
    values copy = *f;
    int64_t n = (int64_t)m->nodes.n * f->heads;
    copy.x = memory(n * f->columns, sizeof(double));
    memcpy(copy.x, f->x, (size_t)(n * f->columns) * sizeof(double));
    copy.lse = f->lse ? memcpy(memory(n, sizeof(double)), f->lse, (size_t)n * sizeof(double)) : NULL;
    return copy;
}

/* Rows of the out field, upwards or downwards; what goes up in place leaves the tokens alone. */
static void do_stage(machine *m, const hga_stage *s)
{
    in_edges in = edges_of(m, s->relation);
    hga_id n, *rows = row_nodes(m->graph, m->program->field[s->out].rows, &n);
    values before = s->order == HGA_FLAT && s->value == s->out ? snapshot(m, m->field + s->value) : (values){0};
    const values *from = before.x ? &before : s->value >= 0 ? m->field + s->value : NULL;
    int keeps_tokens = s->order == HGA_LEVELS_UP && s->value == s->out && s->message != HGA_MESSAGE_USER;
    for (hga_id i = 0; i < n; i++) {
        hga_id v = s->order == HGA_LEVELS_DOWN ? rows[n - 1 - i] : rows[i];
        if (keeps_tokens && v < m->nodes.level_ptr[1]) continue;
        for (hga_id h = 0; h < m->field[s->out].heads; h++) do_row(m, s, from, &in, v, h);
    }
    free(before.x), free(before.lse), free(rows), free(in.e), free(in.ptr);
}

static double *gather(const machine *m, hga_id field, int lse)
{
    const values *f = m->field + field;
    hga_id n, *rows = row_nodes(m->graph, m->program->field[field].io, &n);
    int64_t width = (int64_t)f->heads * (lse ? 1 : f->columns);
    double *x = memory(n * width, sizeof *x);
    for (hga_id i = 0; i < n; i++)
        memcpy(x + i * width, (lse ? f->lse : f->x) + rows[i] * width, (size_t)width * sizeof *x);
    free(rows);
    return x;
}

static double *doubles(const float *x, int64_t n)
{
    double *y = x && n ? memory(n, sizeof *y) : NULL;
    for (int64_t i = 0; y && i < n; i++) y[i] = (double)x[i];
    return y;
}

/* The caller's rows, side by side. */
static double *rows_of(const hga_graph *g, const hga_field *field, const hga_tensor *t, hga_id heads, hga_id columns,
                       int64_t *n)
{
    hga_id rows;
    free(row_nodes(g, field->io, &rows));
    ptrdiff_t row = t->row_stride ? t->row_stride : heads * columns, head = t->head_stride ? t->head_stride : columns;
    double *x = memory((int64_t)rows * heads * columns, sizeof *x);
    *n = 0;
    for (hga_id i = 0; i < rows; i++)
        for (hga_id h = 0; h < heads; h++)
            for (hga_id c = 0; c < columns; c++) x[(*n)++] = (double)((const float *)t->data)[i * row + h * head + c];
    return x;
}

slow_inputs slow_inputs_of(const hga_graph *g, const hga_program *p, const hga_shape *given, const hga_io *io)
{
    slow_inputs in = {.edge_bias_heads = io->edge_bias.columns};
    hga_shape shape = slow_shape(given);
    in.softcap = (double)(io->softcap.data ? *io->softcap.data : p->softcap);
    in.bias = io->normaliser_bias.data ? (double)*io->normaliser_bias.data : 0;
    in.n[SLOW_SINK] = in.n[SLOW_SLOPES] = shape.n_heads;
    in.of[SLOW_SINK] = doubles(io->sink.data, shape.n_heads);
    in.of[SLOW_SLOPES] = doubles(io->slopes.data, shape.n_heads);
    in.n[SLOW_ADDITIVE] = (int64_t)shape.n_heads * shape.dim;
    in.of[SLOW_ADDITIVE] = doubles(io->additive.data, in.n[SLOW_ADDITIVE]);
    hga_id user = SLOW_USER;
    const int64_t n_nodes = hga_graph_nodes(g).n;
    for (hga_id f = 1; f <= p->n_fields; f++) {
        const hga_field *field = &p->field[f];
        int which = field->binding == HGA_IO_QUERY   ? SLOW_QUERY
                    : field->binding == HGA_IO_KEY   ? SLOW_KEY
                    : field->binding == HGA_IO_VALUE ? SLOW_VALUE
                    : field->binding == HGA_IO_USER  ? user++
                                                     : -1;
        if (which < 0) continue;
        const hga_tensor *t = which == SLOW_QUERY   ? &io->query
                              : which == SLOW_KEY   ? &io->key
                              : which == SLOW_VALUE ? &io->value
                                                    : &io->user[which - SLOW_USER];
        in.of[which] =
            rows_of(g, field, t, heads_of(&shape, field->width), columns_of(&shape, field->width), &in.n[which]);
    }
    in.n[SLOW_REL_KEY] = (int64_t)io->rel_key.rows * shape.dim,
    in.n[SLOW_REL_BIAS] = (int64_t)io->rel_bias.rows * shape.n_heads;
    in.n[SLOW_EDGE_BIAS] = io->edge_bias.rows * io->edge_bias.columns, in.n[SLOW_NODE_POS] = n_nodes * shape.pos_dim;
    in.n[SLOW_TYPE_SCALE] = io->type_scale.rows, in.n[SLOW_SCALE] = 1, in.n[SLOW_LOG_MASS] = n_nodes;
    in.of[SLOW_REL_KEY] = doubles(io->rel_key.data, in.n[SLOW_REL_KEY]);
    in.of[SLOW_REL_BIAS] = doubles(io->rel_bias.data, in.n[SLOW_REL_BIAS]);
    in.of[SLOW_EDGE_BIAS] = doubles(io->edge_bias.data, in.n[SLOW_EDGE_BIAS]);
    in.n[SLOW_EDGE_KEY] = io->edge_key.rows * shape.n_kv_heads * shape.dim;
    in.of[SLOW_EDGE_KEY] = doubles(io->edge_key.data, in.n[SLOW_EDGE_KEY]);
    in.of[SLOW_NODE_POS] = doubles(io->node_pos.data, in.n[SLOW_NODE_POS]);
    in.of[SLOW_TYPE_SCALE] = doubles(io->type_scale.data, in.n[SLOW_TYPE_SCALE]);
    in.of[SLOW_LOG_MASS] = memory(n_nodes, sizeof(double));
    in.of[SLOW_SCALE] = memory(1, sizeof(double));
    in.of[SLOW_SCALE][0] = io->scale.data          ? (double)*io->scale.data
                           : p->default_scale != 0 ? (double)p->default_scale
                           : p->scores             ? 1
                                                   : 1 / sqrt(shape.dim);
    return in;
}

void slow_inputs_clear(slow_inputs *in)
{
    for (int i = 0; i < N_SLOW_INPUTS; i++) free(in->of[i]);
    *in = (slow_inputs){0};
}

void slow_run(const hga_graph *g, const hga_program *p, const hga_shape *shape, const slow_inputs *in, double **out,
              double **lse)
{
    machine m = {.graph = g, .program = p, .in = in, .nodes = hga_graph_nodes(g), .shape = slow_shape(shape)};
    find_places(&m);
    for (hga_id f = 1; f <= p->n_fields; f++) create_field(&m, f);
    for (hga_id s = 0; s < p->n_stages; s++) do_stage(&m, p->stage + s);
    for (hga_id f = 1; f <= p->n_fields; f++) {
        if (p->field[f].binding != HGA_IO_OUT) continue;
        pay_sinks(&m, f);
        *out = gather(&m, f, 0);
        if (lse) *lse = m.field[f].lse ? gather(&m, f, 1) : NULL;
    }
    for (hga_id f = 1; f <= p->n_fields; f++) free(m.field[f].x), free(m.field[f].lse);
    free(m.where);
}

void slow_execute(const hga_graph *g, const hga_program *p, const hga_shape *shape, const hga_io *io, double **out,
                  double **lse)
{
    slow_inputs in = slow_inputs_of(g, p, shape, io);
    slow_run(g, p, shape, &in, out, lse);
    slow_inputs_clear(&in);
}

void assert_equals_slow(problem *p, double tolerance)
{
    double *out = NULL, *lse = NULL;
    slow_execute(p->graph, &p->program, &p->shape, &p->io, &out, &lse);
    problem_run(p);
    assert_near(p->name, p->io.out.data, out, out_count(p), tolerance);
    if (p->io.lse.data && lse) assert_near(p->name, p->io.lse.data, lse, lse_count(p), 2 * tolerance);
    free(out), free(lse);
}

/* ---- plain attention, for facts that need no graph ---- */

void slow_dense(const float *q, const float *k, const float *v, const float *bias, int64_t n, int64_t m, int64_t heads,
                int64_t dim, int64_t dim_v, double *out)
{
    memset(out, 0, (size_t)(n * heads * dim_v) * sizeof *out);
    double *x = memory(dim_v, sizeof *x);
    for (int64_t row = 0; row < n * heads; row++) {
        int64_t i = row / heads, h = row % heads;
        double lse = -INFINITY;
        for (int64_t j = 0; j < m; j++) {
            double s = bias ? (double)bias[(i * m + j) * heads + h] : 0, dot = 0;
            for (int64_t c = 0; c < dim; c++) dot += (double)q[row * dim + c] * (double)k[(j * heads + h) * dim + c];
            for (int64_t c = 0; c < dim_v; c++) x[c] = v[(j * heads + h) * dim_v + c];
            merge(out + row * dim_v, &lse, x, s + dot / sqrt((double)dim), (hga_id)dim_v);
        }
    }
    free(x);
}
