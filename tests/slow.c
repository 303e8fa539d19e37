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
    const hga_io *io;
    hga_nodes nodes;
    hga_shape shape;
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

/* Where node v's values of head h begin. */
static double *at(const values *f, hga_id v, hga_id h) { return f->x + ((int64_t)v * f->heads + h) * f->columns; }

static double *lse_at(const values *f, hga_id v, hga_id h) { return f->lse + (int64_t)v * f->heads + h; }

/* The head of `f` that head h of n_heads reads. */
static hga_id head_for(const values *f, hga_id h, hga_id n_heads) { return h / (n_heads / f->heads); }

/* The caller's tensor into the field, on the rows it has. */
static void load(machine *m, const hga_field *field, values *f, const hga_tensor *tensor)
{
    hga_id n, *rows = row_nodes(m->graph, field->io, &n);
    ptrdiff_t row_stride = tensor->row_stride ? tensor->row_stride : f->heads * f->columns;
    ptrdiff_t head_stride = tensor->head_stride ? tensor->head_stride : f->columns;
    for (hga_id i = 0; i < n; i++)
        for (hga_id h = 0; h < f->heads; h++)
            for (hga_id c = 0; c < f->columns; c++)
                at(f, rows[i], h)[c] = (double)((const float *)tensor->data)[i * row_stride + h * head_stride + c];
    free(rows);
}

static void create_field(machine *m, hga_id i)
{
    const hga_field *field = m->program->field + i;
    values *f = m->field + i;
    f->heads = heads_of(&m->shape, field->width), f->columns = columns_of(&m->shape, field->width);
    f->x = unset((int64_t)m->nodes.n * f->heads * f->columns);
    f->lse = field->width == HGA_WIDTH_STATE ? unset((int64_t)m->nodes.n * f->heads) : NULL;
    if (field->binding == HGA_IO_QUERY) load(m, field, f, &m->io->query);
    if (field->binding == HGA_IO_KEY) load(m, field, f, &m->io->key);
    if (field->binding == HGA_IO_VALUE) load(m, field, f, &m->io->value);
    hga_id user = 0;
    for (hga_id before = 1; before < i; before++) user += m->program->field[before].binding == HGA_IO_USER;
    if (field->binding == HGA_IO_USER) load(m, field, f, &m->io->user[user]);
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

/* s(u, v, e); `position` counts in canonical order. Edge biases belong to the first stage that attends. */
static double score(const machine *m, const hga_stage *s, const edge *e, int64_t position, hga_id h)
{
    const hga_io *io = m->io;
    const values *q = m->field + s->query, *k = m->field + s->key;
    const double *a = at(q, e->dst, head_for(q, h, m->shape.n_heads)),
                 *b = at(k, e->src, head_for(k, h, m->shape.n_heads));
    double dot = 0, sum = log((double)e->weight);
    for (hga_id c = 0; c < m->shape.dim; c++)
        dot += a[c] * (b[c] + (io->rel_key ? (double)io->rel_key[(int64_t)e->type * m->shape.dim + c] : 0));
    double scale = io->scale != 0                   ? (double)io->scale
                   : m->program->default_scale != 0 ? (double)m->program->default_scale
                                                    : 1 / sqrt(m->shape.dim);
    sum += scale * dot;
    if (io->rel_bias) sum += (double)io->rel_bias[(int64_t)e->type * m->shape.n_heads + h];
    int64_t column = io->edge_bias_heads == 1 ? 0 : h;
    if (io->edge_bias && s == find_stage(m->program, HGA_SCORE))
        sum += (double)io->edge_bias[position * io->edge_bias_heads + column];
    if (s->by_mass) sum += log((double)m->nodes.mass[e->src]);
    for (hga_id c = 0; io->node_pos && c < m->shape.pos_dim; c++)
        sum += (double)io->node_pos[(int64_t)e->pos_of * m->shape.pos_dim + c] *
               (double)io->node_pos[(int64_t)e->src * m->shape.pos_dim + c];
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
        if (s->message == HGA_SCALED) w *= (double)m->io->type_scale[e->type];
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

/* ---- stages ---- */

static void do_row(machine *m, const hga_stage *s, const values *from, const in_edges *in, hga_id v, hga_id h)
{
    switch (s->message) {
    case HGA_SCORE: attend_row(m, s, in, v, h); return;
    case HGA_STATE: spread_row(m, s, from, in, v, h); return;
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

/* Rows of the out field, upwards or downwards; coarsening in place leaves the tokens alone. */
static void do_stage(machine *m, const hga_stage *s)
{
    in_edges in = edges_of(m, s->relation);
    hga_id n, *rows = row_nodes(m->graph, m->program->field[s->out].rows, &n);
    values before = s->order == HGA_FLAT && s->value == s->out ? snapshot(m, m->field + s->value) : (values){0};
    const values *from = before.x ? &before : s->value >= 0 ? m->field + s->value : NULL;
    int in_place = s->message == HGA_COPY && s->value == s->out;
    for (hga_id i = 0; i < n; i++) {
        hga_id v = s->order == HGA_LEVELS_DOWN ? rows[n - 1 - i] : rows[i];
        if (in_place && v < m->nodes.level_ptr[1]) continue;
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

void slow_execute(const hga_graph *g, const hga_program *p, const hga_shape *shape, const hga_io *io, double **out,
                  double **lse)
{
    machine m = {.graph = g, .program = p, .io = io, .nodes = hga_graph_nodes(g), .shape = *shape};
    if (!m.shape.n_kv_heads) m.shape.n_kv_heads = m.shape.n_heads;
    if (!m.shape.dim_v) m.shape.dim_v = m.shape.dim;
    for (hga_id f = 1; f <= p->n_fields; f++) create_field(&m, f);
    for (hga_id s = 0; s < p->n_stages; s++) do_stage(&m, p->stage + s);
    for (hga_id f = 1; f <= p->n_fields; f++) {
        if (p->field[f].binding != HGA_IO_OUT) continue;
        *out = gather(&m, f, 0);
        if (lse) *lse = m.field[f].lse ? gather(&m, f, 1) : NULL;
    }
    for (hga_id f = 1; f <= p->n_fields; f++) free(m.field[f].x), free(m.field[f].lse);
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
