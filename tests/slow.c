/* slow.c: the oracle. Interprets a program in double, one edge after the other: fields, edges, stages; rows are in
   slow_rows.c, what calls bring in slow_inputs.c. Slow and obvious. */
#include "slow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- fields ---- */

static double *unset(int64_t n)
{
    double *x = memory(n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = NAN;
    return x;
}

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
    double *input = memory(m->nodes.n, sizeof *input); /* what is told of tokens */
    assert_ok(hga_graph_positions(m->graph, input));
    m->where = memory(m->nodes.n, sizeof *m->where);
    for (hga_id v = 0; v < m->nodes.n; v++) {
        double sum = 0, n = 0;
        for (hga_id t = 0; t < m->nodes.level_ptr[1]; t++)
            if (is_below(&m->nodes, t, v)) sum += input[t], n++;
        for (hga_id t = m->nodes.span_first[v]; n == 0 && t <= m->nodes.span_last[v]; t++)
            sum += input[t] / (m->nodes.span_last[v] - m->nodes.span_first[v] + 1.0);
        m->where[v] = n > 0 ? sum / n : sum;
    }
    free(input);
}

/* Each row of the output has one score more, of a value of zeros. */
static void pay_sinks(machine *m, hga_id f)
{
    values *out = m->field + f;
    hga_id n, *rows = row_nodes(m->graph, m->program->field[f].io, &n);
    for (hga_id i = 0; m->in->of[SLOW_SINK] && i < n; i++)
        for (hga_id h = 0; h < out->heads; h++) {
            double b = m->in->of[SLOW_SINK][h], *lse = lse_at(out, rows[i], h), all = slow_log_add(*lse, b);
            for (hga_id c = 0; c < out->columns; c++) at(out, rows[i], h)[c] *= *lse == -INFINITY ? 0 : exp(*lse - all);
            *lse = all;
        }
    free(rows);
}

/* ---- stages ---- */

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
        for (hga_id h = 0; h < m->field[s->out].heads; h++) slow_row(m, s, from, &in, v, h);
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
            slow_merge(out + row * dim_v, &lse, x, s + dot / sqrt((double)dim), (hga_id)dim_v);
        }
    }
    free(x);
}
