/* A message function of your own: attention whose weights fade with distance, p(i, j) ~ exp(s(i, j) - |i - j| /
   REACH), written as an aggregate over a row's in-edges, and its backward pass. The engine hands over each edge
   with its score s; nothing is stored per edge. */
#include <hga.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 200, HEADS = 2, DIM = 8 };
static const double REACH = 6;
static float q[N][HEADS][DIM], k[N][HEADS][DIM], v[N][HEADS][DIM], out[N][HEADS][DIM];

/* Which fields of the program the functions below read and write. */
typedef struct places {
    hga_id query, key, value, out;
} places;

/* A softmax under way: sum e^(s - top) and sum e^(s - top) v, for the largest s so far. */
typedef struct running {
    double top, total, sum[DIM];
} running;

static void begin(void *state, const hga_end *row, hga_id head, void *ctx)
{
    (void)row, (void)head, (void)ctx;
    memset(state, 0, sizeof(running));
    ((running *)state)->top = -INFINITY;
}

/* Bring a state to a new, larger top. */
static void raise_top(running *r, double top)
{
    if (top <= r->top) return;
    double shrink = exp(r->top - top); /* 0 for the first edge */
    r->total *= shrink;
    for (int c = 0; c < DIM; c++) r->sum[c] *= shrink;
    r->top = top;
}

static void edge(void *state, const hga_edge *e, hga_id head, void *ctx)
{
    (void)head;
    running *r = state;
    const float *value = e->source.field[((const places *)ctx)->value];
    double s = e->score - abs(e->source.node - e->destination.node) / REACH;
    raise_top(r, s);
    double p = exp(s - r->top);
    r->total += p;
    for (int c = 0; c < DIM; c++) r->sum[c] += p * (double)value[c];
}

/* Two pieces of one row: a long row may be cut. */
static void merge(void *state, const void *later, void *ctx)
{
    (void)ctx;
    running *a = state;
    const running *b = later;
    if (b->total <= 0) return;
    raise_top(a, b->top);
    double p = exp(b->top - a->top);
    a->total += p * b->total;
    for (int c = 0; c < DIM; c++) a->sum[c] += p * b->sum[c];
}

static void finish(const void *state, const hga_end *row, hga_id head, void *ctx)
{
    (void)head;
    const running *r = state;
    float *o = row->field[((const places *)ctx)->out];
    for (int c = 0; c < DIM; c++) o[c] = r->total > 0 ? (float)(r->sum[c] / r->total) : 0;
}

/* What backward needs of a row: the log of its total, d_out, and d_out . out. */
typedef struct asked {
    double log_total, delta, d_out[DIM];
} asked;

static void finish_adjoint(const void *state, void *d_state, const hga_end *row, const hga_end *d_row, hga_id head,
                           void *ctx)
{
    (void)head;
    hga_id at = ((const places *)ctx)->out;
    const running *r = state;
    asked *d = d_state;
    d->log_total = r->top + log(r->total);
    for (int c = 0; c < DIM; c++) {
        d->d_out[c] = (double)d_row->field[at][c];
        d->delta += d->d_out[c] * (double)row->field[at][c];
    }
}

/* ds = p (d_out . v - delta), dv = p d_out. */
static void edge_adjoint(const void *state, const void *d_state, const hga_edge *e, double *d_score,
                         const hga_end *d_source, const hga_end *d_destination, hga_id head, void *ctx)
{
    (void)state, (void)d_destination, (void)head;
    hga_id value = ((const places *)ctx)->value;
    const asked *d = d_state;
    double s = e->score - abs(e->source.node - e->destination.node) / REACH, p = exp(s - d->log_total);
    *d_score = -p * d->delta;
    for (int c = 0; c < DIM; c++) {
        *d_score += p * d->d_out[c] * (double)e->source.field[value][c];
        d_source->field[value][c] = (float)(p * d->d_out[c]);
    }
}

/* Query, key and value on the tokens and one stage that is ours. */
static hga_status fading_attention(hga_program *p, hga_id relation, places *at)
{
    hga_status st;
    hga_program_init(p);
    HGA_TRY(
        hga_program_add_field(p, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES, &at->query));
    HGA_TRY(hga_program_add_field(p, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_KEYS, &at->key));
    HGA_TRY(hga_program_add_field(p, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_KEYS, &at->value));
    HGA_TRY(hga_program_add_field(p, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES, &at->out));
    hga_stage stage = {.name = "fade",
                       .relation = relation,
                       .order = HGA_FLAT,
                       .message = HGA_MESSAGE_USER,
                       .reduce = HGA_REDUCE_USER,
                       .update = HGA_UPDATE_USER,
                       .query = at->query,
                       .key = at->key,
                       .value = at->value,
                       .out = at->out,
                       .reads = 1u << at->query | 1u << at->key | 1u << at->value,
                       .writes = 1u << at->out,
                       .udf = {sizeof(running), begin, edge, merge, finish, at, finish_adjoint, edge_adjoint}};
    HGA_TRY(hga_program_add_stage(p, &stage));
done:
    return st;
}

/* Row i of head h by the formula, with nothing of the above. */
static double error_of(int i, int h, int left, int right)
{
    double total = 0, sum[DIM] = {0}, worst = 0;
    for (int j = i - left < 0 ? 0 : i - left; j < N && j <= i + right; j++) {
        double s = 0;
        for (int c = 0; c < DIM; c++) s += (double)q[i][h][c] * (double)k[j][h][c];
        double p = exp(s / sqrt(DIM) - abs(i - j) / REACH);
        total += p;
        for (int c = 0; c < DIM; c++) sum[c] += p * (double)v[j][h][c];
    }
    for (int c = 0; c < DIM; c++) worst = fmax(worst, fabs(sum[c] / total - (double)out[i][h][c]));
    return worst;
}

static void randomise(float x[N][HEADS][DIM])
{
    for (int i = 0; i < N * HEADS * DIM; i++) (&x[0][0][0])[i] = (float)rand() / (float)RAND_MAX * 2 - 1;
}

/* The largest difference of a query's gradient from a slope of the loss, of some entries. */
static hga_status gradient_error(const hga_plan *plan, const hga_io *io, const hga_grad_io *grad, double *worst)
{
    hga_status st = HGA_OK;
    const float *d_query = grad->d_query.data;
    for (int64_t i = 0; i < N * HEADS * DIM; i += 97) {
        double up, down, step = 0.01;
        HGA_TRY(hga_plan_loss(plan, io, grad, HGA_GRADIENT_QUERY, i, step, &up));
        HGA_TRY(hga_plan_loss(plan, io, grad, HGA_GRADIENT_QUERY, i, -step, &down));
        *worst = fmax(*worst, fabs((up - down) / (2 * step) - (double)d_query[i]));
    }
done:
    return st;
}

/* Forward with a tape and back. */
static hga_status go_back(const hga_graph *g, const hga_program *p, const hga_shape *shape, hga_io io, double *worst)
{
    static float d_out[N][HEADS][DIM], d_query[N][HEADS][DIM];
    hga_status st;
    hga_plan *plan = NULL;
    hga_workspace *workspace = NULL;
    hga_options options = {.gradient = 1};
    hga_grad_io grad = {.d_out = {.data = d_out, .rows = N}, .d_query = {.data = d_query, .rows = N}};
    randomise(d_out);
    HGA_TRY(hga_plan_create(g, p, shape, &options, &plan));
    HGA_TRY(hga_workspace_create(plan, &workspace));
    io.tape = malloc((size_t)hga_plan_tape_bytes(plan));
    HGA_TRY(hga_plan_execute(plan, workspace, &io));
    HGA_TRY(hga_plan_gradient(plan, workspace, &io, &grad));
    HGA_TRY(gradient_error(plan, &io, &grad, worst));
done:
    free(io.tape);
    hga_workspace_destroy(workspace);
    hga_plan_destroy(plan);
    return st;
}

int main(void)
{
    enum { LEFT = 100, RIGHT = 60 };
    hga_graph *g = NULL;
    hga_program program;
    places at;
    hga_status st;
    randomise(q), randomise(k), randomise(v);

    HGA_TRY(hga_build_window(&(hga_window){.n_tokens = N, .left = LEFT, .right = RIGHT, .stride = 1}, &g, &program));
    HGA_TRY(fading_attention(&program, hga_graph_find_relation(g, "near"), &at));
    hga_shape shape = {.n_heads = HEADS, .dim = DIM};
    hga_io io = {.query = {.data = q, .rows = N},
                 .key = {.data = k, .rows = N},
                 .value = {.data = v, .rows = N},
                 .out = {.data = out, .rows = N}};
    hga_options options = {.cut_edges = 64}; /* short pieces, so that merge is used */
    HGA_TRY(hga_attention(g, &program, &shape, &options, &io));

    double worst = 0;
    for (int i = 0; i < N; i++)
        for (int h = 0; h < HEADS; h++) worst = fmax(worst, error_of(i, h, LEFT, RIGHT));
    printf("%lld edges, largest difference from the formula %.1e\n", (long long)hga_graph_relation(g, 0).n_edges,
           worst);
    double slope = 0;
    HGA_TRY(go_back(g, &program, &shape, io, &slope));
    printf("largest difference of a gradient from a slope %.1e\n", slope);
    hga_graph_destroy(g);
    return worst < 1e-5 && slope < 1e-3 ? 0 : 1;
done:
    fprintf(stderr, "%s: %s\n", hga_status_name(st), hga_error_detail());
    hga_graph_destroy(g);
    return 1;
}
