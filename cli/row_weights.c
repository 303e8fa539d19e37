/* row_weights.c: the weights of one token's edges, in double, from the queries and keys that the engine made of the
   caller's on every level. Where states are merged, an edge weighs e^score over the sum of all; where they are gated on
   the way down, each node shares out what its ancestors left. */
#include "row_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "npy.h"
#include "rows.h"

typedef struct weighing {
    const graph_file *f;
    const row_wish *wish;
    hga_nodes nodes;
    npy query, key;
    hga_shape shape;
    float *value, *out; /* of zeros: the values do not matter */
    hga_plan *plan;
    hga_workspace *state;
    double scale;
    const hga_seen *seen;
    int64_t n;
    double *score;   /* [n][heads]: score, then its logarithm in the token's sum, then the weight */
    double *log_way; /* [nodes]: the logarithm of the weight with which a node's state reaches the token */
    hga_id heads;
} weighing;

/* ---- tensors ---- */

/* [rows][dim] or [rows][heads][dim] */
static int read_tensor(const char *option, const char *path, hga_id rows, npy *out, hga_id *heads, hga_id *dim)
{
    char shape[200];
    int status = npy_read_real(path, out);
    if (status) return status;
    int64_t n_heads = out->n_dims == 3 ? out->dim[1] : 1, n_dim = out->n_dims > 1 ? out->dim[out->n_dims - 1] : 0;
    if ((out->n_dims != 2 && out->n_dims != 3) || out->dim[0] != rows || n_heads < 1 || n_heads > INT32_MAX ||
        n_dim < 1 || n_dim > INT32_MAX)
        return complain(CLI_DATA, "%s: %s has shape %s, not (%d, dim) or (%d, heads, dim)", option, path,
                        npy_shape(out->n_dims, out->dim, shape), rows, rows);
    *heads = (hga_id)n_heads, *dim = (hga_id)n_dim;
    return CLI_GOOD;
}

static int read_tensors(weighing *w)
{
    const graph_file *f = w->f;
    hga_id key_dim;
    int status = CLI_GOOD;
    TRY(read_tensor("--query", w->wish->query, bound_rows(f->graph, &f->program, HGA_IO_QUERY, HGA_ROWS_QUERIES),
                    &w->query, &w->shape.n_heads, &w->shape.dim));
    TRY(read_tensor("--key", w->wish->key, bound_rows(f->graph, &f->program, HGA_IO_KEY, HGA_ROWS_KEYS), &w->key,
                    &w->shape.n_kv_heads, &key_dim));
    if (key_dim != w->shape.dim)
        return complain(CLI_DATA, "--key: %d columns, but --query has %d", key_dim, w->shape.dim);
    if (w->shape.n_heads % w->shape.n_kv_heads)
        return complain(CLI_DATA, "--key: %d heads do not divide the %d of --query", w->shape.n_kv_heads,
                        w->shape.n_heads);
    w->shape.dim_v = 1;
    w->heads = w->shape.n_heads;
done:
    return status;
}

/* ---- the engine's part: coarse queries and keys, energies ---- */

static int run(weighing *w)
{
    const hga_graph *g = w->f->graph;
    const hga_program *p = &w->f->program;
    hga_options options = w->wish->options;
    int status = CLI_GOOD;
    options.keep_fields = 1;
    int64_t values = (int64_t)bound_rows(g, p, HGA_IO_VALUE, HGA_ROWS_KEYS) * w->shape.n_kv_heads;
    int64_t outs = (int64_t)bound_rows(g, p, HGA_IO_OUT, HGA_ROWS_QUERIES) * w->heads;
    TRY(take(values, sizeof *w->value, &w->value));
    TRY(take(outs, sizeof *w->out, &w->out));
    hga_io io = {.query = {.data = w->query.real, .rows = w->query.dim[0]},
                 .key = {.data = w->key.real, .rows = w->key.dim[0]},
                 .value = {.data = w->value, .rows = bound_rows(g, p, HGA_IO_VALUE, HGA_ROWS_KEYS)},
                 .out = {.data = w->out, .rows = bound_rows(g, p, HGA_IO_OUT, HGA_ROWS_QUERIES)},
                 .scale = (float)w->wish->scale};
    TRY(complain_of(hga_plan_create(g, p, &w->shape, &options, &w->plan), CLI_DATA, w->wish->path));
    TRY(complain_of(hga_workspace_create(w->plan, &w->state), CLI_DATA, w->wish->path));
    TRY(complain_of(hga_plan_execute(w->plan, w->state, &io), CLI_DATA, w->wish->path));
    w->scale = w->wish->scale != 0     ? w->wish->scale
               : p->default_scale != 0 ? (double)p->default_scale
                                       : 1 / sqrt((double)w->shape.dim);
done:
    return status;
}

static int field_of(const weighing *w, hga_id field, hga_id v, float *out)
{
    return complain_of(hga_workspace_field(w->plan, w->state, field, v, 1, out), CLI_DATA, w->wish->path);
}

/* ---- scores ---- */

static void score_edge(const weighing *w, const hga_stage *s, const hga_seen *e, float weight, const float *q,
                       const float *k, double *score)
{
    hga_id dim = w->shape.dim, share = w->heads / w->shape.n_kv_heads;
    for (hga_id h = 0; h < w->heads; h++) {
        double sum = 0;
        for (hga_id j = 0; j < dim; j++)
            sum += (double)q[(int64_t)h * dim + j] * (double)k[(int64_t)(h / share) * dim + j];
        score[h] = w->scale * sum + (s->by_mass ? log((double)w->nodes.mass[e->source]) : 0) + log((double)weight);
    }
}

/* Edges [from, to) have one stage and destination; they are the destination's row of the relation. */
static int score_row(weighing *w, int64_t from, int64_t to, float *q, float *k)
{
    const hga_seen *e = w->seen + from;
    const hga_stage *s = &w->f->program.stage[e->stage];
    hga_csr row = {0};
    int status = CLI_GOOD;
    TRY(complain_of(hga_graph_rows(w->f->graph, s->relation, e->destination, 1, &row), CLI_DATA, w->wish->path));
    TRY(field_of(w, s->query, e->destination, q));
    for (int64_t i = from; i < to; i++) {
        TRY(field_of(w, s->key, w->seen[i].source, k));
        score_edge(w, s, &w->seen[i], row.weight[i - from], q, k, w->score + i * w->heads);
    }
done:
    hga_csr_clear(&row);
    return status;
}

/* The end of the edges that share stage and destination with the first. */
static int64_t row_end(const weighing *w, int64_t from)
{
    int64_t to = from + 1;
    while (to < w->n && w->seen[to].stage == w->seen[from].stage &&
           w->seen[to].destination == w->seen[from].destination)
        to++;
    return to;
}

static int score_all(weighing *w)
{
    float *q = NULL, *k = NULL;
    int status = CLI_GOOD;
    TRY(take((int64_t)w->heads * w->shape.dim, sizeof *q, &q));
    TRY(take((int64_t)w->shape.n_kv_heads * w->shape.dim, sizeof *k, &k));
    for (int64_t i = 0, end; i < w->n; i = end) {
        end = row_end(w, i);
        TRY(score_row(w, i, end, q, k));
    }
done:
    free(q), free(k);
    return status;
}

/* ---- merged states ---- */

static double log_add(double a, double b)
{
    double greatest = a > b ? a : b;
    return greatest == -INFINITY ? greatest : greatest + log(exp(a - greatest) + exp(b - greatest));
}

/* A node passes its way on to those it had its state from; ids grow with levels, and states come down. */
static int spread_ways(weighing *w, hga_id relation)
{
    int status = CLI_GOOD;
    for (hga_id v = 0; v < w->nodes.n; v++) {
        hga_csr row = {0};
        if (w->log_way[v] == -INFINITY) continue;
        if (relation == HGA_TREE_DOWN) {
            hga_id u = w->nodes.parent ? w->nodes.parent[v] : -1;
            if (u >= 0) w->log_way[u] = log_add(w->log_way[u], w->log_way[v]);
            continue;
        }
        TRY(complain_of(hga_graph_rows(w->f->graph, relation, v, 1, &row), CLI_DATA, w->wish->path));
        for (hga_pos e = 0; e < row.ptr[1]; e++)
            w->log_way[row.src[e]] = log_add(w->log_way[row.src[e]], w->log_way[v] + log((double)row.weight[e]));
        hga_csr_clear(&row);
    }
done:
    return status;
}

/* Backwards through the stages: attention adds the way of its row to its scores. */
static int add_ways(weighing *w)
{
    int status = CLI_GOOD;
    w->log_way[w->nodes.query_first + w->wish->token] = 0;
    for (hga_id i = w->f->program.n_stages - 1; i >= 0; i--) {
        const hga_stage *s = &w->f->program.stage[i];
        if (s->message == HGA_STATE) TRY(spread_ways(w, s->relation));
        for (int64_t k = 0; k < w->n; k++)
            for (hga_id h = 0; h < w->heads && w->seen[k].stage == i; h++)
                w->score[k * w->heads + h] += w->log_way[w->seen[k].destination];
    }
done:
    return status;
}

/* e^score over the sum of the edges [from, to), times `share` */
static void normalise(weighing *w, int64_t from, int64_t to, hga_id h, double share)
{
    double greatest = -INFINITY, sum = 0;
    for (int64_t i = from; i < to; i++) greatest = fmax(greatest, w->score[i * w->heads + h]);
    for (int64_t i = from; i < to && greatest > -INFINITY; i++) sum += exp(w->score[i * w->heads + h] - greatest);
    for (int64_t i = from; i < to; i++) {
        double *x = &w->score[i * w->heads + h];
        *x = sum > 0 ? share * exp(*x - greatest) / sum : 0;
    }
}

/* ---- gated states ---- */

static const hga_stage *gate_of(const hga_program *p)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == HGA_GATE) return &p->stage[i];
    return NULL;
}

/* The log-sum-exp of the scores of edges [from, to). */
static double log_sum(const weighing *w, int64_t from, int64_t to, hga_id h)
{
    double sum = -INFINITY;
    for (int64_t i = from; i < to; i++) sum = log_add(sum, w->score[i * w->heads + h]);
    return sum;
}

/* Edges by destination: the token's first, then its ancestors', so that walking backwards is walking down from the
   root. What the gate gives a node is its share; the rest goes on. */
static int share_out(weighing *w, const hga_stage *gate)
{
    float *psi = NULL;
    double *left = NULL;
    int status = CLI_GOOD;
    TRY(take(w->heads, sizeof *psi, &psi));
    TRY(take(w->heads, sizeof *left, &left));
    for (hga_id h = 0; h < w->heads; h++) left[h] = 1;
    for (int64_t to = w->n, from; to > 0; to = from) {
        for (from = to - 1; from > 0 && w->seen[from - 1].destination == w->seen[from].destination;) from--;
        TRY(field_of(w, gate->gate, w->seen[from].destination, psi));
        for (hga_id h = 0; h < w->heads; h++) {
            double lse = log_sum(w, from, to, h), share = lse == -INFINITY ? 0 : 1 / (1 + exp((double)psi[h] - lse));
            normalise(w, from, to, h, left[h] * share);
            left[h] *= lse == -INFINITY ? 1 : 1 / (1 + exp(lse - (double)psi[h]));
        }
    }
done:
    free(psi), free(left);
    return status;
}

/* ---- the whole ---- */

static int has_scores(const hga_program *p)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == HGA_SCORE) return 1;
    return 0;
}

static int weigh(weighing *w)
{
    const hga_stage *gate = gate_of(&w->f->program);
    int status = CLI_GOOD;
    TRY(read_tensors(w));
    TRY(run(w));
    TRY(take(w->n * w->heads, sizeof *w->score, &w->score));
    TRY(take(w->nodes.n, sizeof *w->log_way, &w->log_way));
    for (hga_id v = 0; v < w->nodes.n; v++) w->log_way[v] = -INFINITY;
    TRY(score_all(w));
    if (gate) {
        TRY(share_out(w, gate));
    } else {
        TRY(add_ways(w));
        for (hga_id h = 0; h < w->heads; h++) normalise(w, 0, w->n, h, 1);
    }
done:
    return status;
}

int row_weights(const graph_file *f, const row_wish *wish, const hga_seen *seen, int64_t n, hga_id *heads,
                double **weight)
{
    weighing w = {.f = f, .wish = wish, .nodes = hga_graph_nodes(f->graph), .seen = seen, .n = n};
    *weight = NULL;
    if (!has_scores(&f->program)) return complain(CLI_USAGE, "--query: nothing in %s depends on queries", wish->path);
    int status = weigh(&w);
    if (status == CLI_GOOD) *weight = w.score, *heads = w.heads, w.score = NULL;
    hga_workspace_destroy(w.state);
    hga_plan_destroy(w.plan);
    npy_clear(&w.query);
    npy_clear(&w.key);
    free(w.value), free(w.out), free(w.score), free(w.log_way);
    return status;
}
