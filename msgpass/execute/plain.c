/* plain.c: the plain executor, which defines what every stage means. A stage is an aggregate {begin, edge, merge,
   finish} over the in-edges of a row, one (row, head) at a time, in double; a user's stage is run by the same loop. The
   fused functions must agree with it. */
#include "execute.h"
#include "philox.h"

#include <math.h>
#include <string.h>

/* What a built-in aggregate finds in its state: the stage it belongs to, then its numbers. */
typedef struct plain {
    const worker *w;
    const hga_stage *stage;
    double a, b; /* attend: greatest score, sum of exponentials; sums: total weight */
    double x[];  /* a vector */
} plain;

static hga_id columns_of(const plain *p, hga_id f) { return p->w->plan->storage[f].columns; }

static void begin_vector(void *state, const hga_end *v, hga_id head, void *ctx)
{
    plain *p = state;
    (void)v, (void)head, (void)ctx;
    memset(p->x, 0, (size_t)columns_of(p, p->stage->out) * sizeof *p->x);
    p->a = p->b = 0;
}

/* ---- mean, sum, weighted sum ---- */

static void sum_edge(void *state, const hga_edge *e, hga_id head, void *ctx)
{
    plain *p = state;
    (void)head, (void)ctx;
    double weight = (double)e->weight;
    if (p->stage->reduce == HGA_MEAN && p->stage->by_mass) weight *= (double)e->source.mass;
    p->a += weight;
    if (p->stage->message == HGA_SCALED) weight *= (double)p->w->io->type_scale[e->type];
    const float *x = e->source.field[p->stage->value];
    for (hga_id j = 0; j < columns_of(p, p->stage->out); j++) p->x[j] += weight * (double)x[j];
}

static void sum_merge(void *state, const void *later, void *ctx)
{
    plain *p = state;
    const plain *q = later;
    (void)ctx;
    p->a += q->a;
    for (hga_id j = 0; j < columns_of(p, p->stage->out); j++) p->x[j] += q->x[j];
}

static void sum_finish(const void *state, const hga_end *v, hga_id head, void *ctx)
{
    const plain *p = state;
    (void)head, (void)ctx;
    double total = p->stage->reduce == HGA_MEAN ? p->a : 1;
    float *out = v->field[p->stage->out];
    for (hga_id j = 0; j < columns_of(p, p->stage->out); j++) out[j] = total > 0 ? (float)(p->x[j] / total) : 0;
}

/* ---- softmax states ---- */

/* (a, b, x) <- merged with a state of log-sum-exp `lse` and vector kept * y, y normalised */
static void add_state(plain *p, double lse, double kept, const float *y)
{
    if (lse == -INFINITY) return;
    double greatest = lse > p->a ? lse : p->a, down = p->b == 0 ? 0 : exp(p->a - greatest), up = exp(lse - greatest);
    for (hga_id j = 0; j < columns_of(p, p->stage->out); j++) p->x[j] = p->x[j] * down + up * kept * (double)y[j];
    p->b = p->b * down + up, p->a = greatest;
}

static void state_begin(void *state, const hga_end *v, hga_id head, void *ctx)
{
    plain *p = state;
    begin_vector(state, v, head, ctx);
    p->a = -INFINITY;
}

/* A stage that merges starts from what is there. */
static void merging_begin(void *state, const hga_end *v, hga_id head, void *ctx)
{
    plain *p = state;
    state_begin(state, v, head, ctx);
    add_state(p, (double)*v->lse[p->stage->out], 1, v->field[p->stage->out]);
}

static void attend_edge(void *state, const hga_edge *e, hga_id head, void *ctx)
{
    plain *p = state;
    (void)ctx;
    float dropout = p->w->plan->options.dropout, kept = 1;
    if (dropout > 0)
        kept = philox_dropout(dropout, p->w->io->seed, p->w->io->layer, e->destination.node, e->source.node, e->type,
                              head);
    add_state(p, e->score, (double)kept, e->source.field[p->stage->value]);
}

static void spread_edge(void *state, const hga_edge *e, hga_id head, void *ctx)
{
    plain *p = state;
    (void)head, (void)ctx;
    add_state(p, (double)*e->source.lse[p->stage->value] + log((double)e->weight), 1, e->source.field[p->stage->value]);
}

static void state_merge(void *state, const void *later, void *ctx)
{
    plain *p = state;
    const plain *q = later;
    (void)ctx;
    if (q->b == 0) return;
    double greatest = q->a > p->a ? q->a : p->a, down = p->b == 0 ? 0 : exp(p->a - greatest), up = exp(q->a - greatest);
    for (hga_id j = 0; j < columns_of(p, p->stage->out); j++) p->x[j] = p->x[j] * down + q->x[j] * up;
    p->b = p->b * down + q->b * up, p->a = greatest;
}

static void state_finish(const void *state, const hga_end *v, hga_id head, void *ctx)
{
    const plain *p = state;
    (void)head, (void)ctx;
    float *out = v->field[p->stage->out];
    for (hga_id j = 0; j < columns_of(p, p->stage->out); j++) out[j] = p->b == 0 ? 0 : (float)(p->x[j] / p->b);
    *v->lse[p->stage->out] = p->b == 0 ? -INFINITY : (float)(p->a + log(p->b)); /* NaN stays NaN */
}

/* ---- energies up, shares down ---- */

static void energy_edge(void *state, const hga_edge *e, hga_id head, void *ctx)
{
    plain *p = state;
    (void)head, (void)ctx;
    double psi = (double)*e->source.field[p->stage->out], lse = (double)*e->source.lse[p->stage->value],
           mass = (double)e->source.mass;
    if (mass == 0) return;
    double greatest = psi > lse ? psi : lse;
    p->a += mass;
    p->x[0] += mass * (greatest == -INFINITY ? greatest : greatest + log(exp(psi - greatest) + exp(lse - greatest)));
}

static void energy_finish(const void *state, const hga_end *v, hga_id head, void *ctx)
{
    const plain *p = state;
    (void)head, (void)ctx;
    *v->field[p->stage->out] = p->a > 0 ? (float)(p->x[0] / p->a) : -INFINITY;
}

/* x: what comes from above; a: the mass that is left there */
static void descend_begin(void *state, const hga_end *v, hga_id head, void *ctx)
{
    begin_vector(state, v, head, ctx);
    ((plain *)state)->a = 1;
}

static void descend_edge(void *state, const hga_edge *e, hga_id head, void *ctx)
{
    plain *p = state;
    (void)head, (void)ctx;
    p->a = (double)*e->source.field[p->stage->keep];
    for (hga_id j = 0; j < columns_of(p, p->stage->out); j++) p->x[j] = (double)e->source.field[p->stage->out][j];
}

static void descend_finish(const void *state, const hga_end *v, hga_id head, void *ctx)
{
    const plain *p = state;
    (void)head, (void)ctx;
    double lse = (double)*v->lse[p->stage->value], psi = (double)*v->field[p->stage->gate];
    double share = lse == -INFINITY ? 0 : psi == -INFINITY ? 1 : 1 / (1 + exp(psi - lse));
    double rest = lse == -INFINITY ? 1 : psi == -INFINITY ? 0 : 1 / (1 + exp(lse - psi));
    const float *mine = v->field[p->stage->value];
    for (hga_id j = 0; j < columns_of(p, p->stage->out); j++)
        v->field[p->stage->out][j] = (float)(p->x[j] + p->a * share * (double)mine[j]);
    *v->field[p->stage->keep] = (float)(p->a * rest);
}

static const hga_udf aggregates[N_KINDS] = {
    [KIND_MEAN] = {.begin = begin_vector, .edge = sum_edge, .merge = sum_merge, .finish = sum_finish},
    [KIND_SUM] = {.begin = begin_vector, .edge = sum_edge, .merge = sum_merge, .finish = sum_finish},
    [KIND_WEIGHTED_SUM] = {.begin = begin_vector, .edge = sum_edge, .merge = sum_merge, .finish = sum_finish},
    [KIND_ATTEND] = {.begin = state_begin, .edge = attend_edge, .merge = state_merge, .finish = state_finish},
    [KIND_ATTEND_MORE] = {.begin = merging_begin, .edge = attend_edge, .finish = state_finish},
    [KIND_SPREAD] = {.begin = merging_begin, .edge = spread_edge, .finish = state_finish},
    [KIND_ENERGY] = {.begin = begin_vector, .edge = energy_edge, .merge = sum_merge, .finish = energy_finish},
    [KIND_DESCEND] = {.begin = descend_begin, .edge = descend_edge, .finish = descend_finish},
};

/* ---- both ends of an edge ---- */

typedef struct end_fields {
    float *field[HGA_FIELD_SLOTS], *lse[HGA_FIELD_SLOTS];
} end_fields;

static hga_id head_of_field(const worker *w, hga_id f, hga_id head)
{
    return w->plan->storage[f].heads == w->plan->shape.n_heads ? head : kv_head(&w->plan->shape, head);
}

/* Node v with the fields that are shown there. */
static hga_end look_at(const worker *w, const row_set *shown, hga_id v, hga_id head, end_fields *values)
{
    const hga_program *p = &w->plan->program;
    int region = program_region(&w->plan->nodes, v);
    for (hga_id f = 1; f <= p->n_fields; f++) {
        const bound_field *x = &w->state->field[f];
        hga_id h = head_of_field(w, f, head);
        int is_there = shown[f] >> region & 1;
        values->field[f] = is_there ? bound_row(x, v) + h * bound_head(x, v) : NULL;
        values->lse[f] = is_there && p->field[f].width == HGA_WIDTH_STATE ? bound_lse(x, v) + h : NULL;
    }
    return (hga_end){
        v, hga_graph_level(w->plan->graph, v), w->plan->nodes.mass[v], values->field, values->lse, w->plan->columns};
}

/* The score of hga_program.h, term by term; pos_of of its row and its column. */
static double score(const worker *w, const row_job *job, const hga_edge *edge, const hga_id pos_of[2], hga_id head)
{
    const hga_stage *s = &w->plan->program.stage[job->stage];
    const hga_shape *shape = &w->plan->shape;
    const hga_io *io = w->io;
    if (!s->query || !s->key || s->relation < 0) return 0;
    const float *q = edge->destination.field[s->query], *k = edge->source.field[s->key];
    double sum = 0;
    for (hga_id j = 0; j < shape->dim; j++) {
        double key = (double)k[j];
        if (io->rel_key) key += (double)io->rel_key[(ptrdiff_t)edge->type * shape->dim + j];
        sum += (double)q[j] * key;
    }
    sum *= (double)w->state->scale;
    if (io->rel_bias) sum += (double)io->rel_bias[(ptrdiff_t)edge->type * shape->n_heads + head];
    if (io->edge_bias && job->stage == w->plan->bias_stage)
        sum += (double)io->edge_bias[edge->position * io->edge_bias_heads + (io->edge_bias_heads == 1 ? 0 : head)];
    if (io->node_pos) {
        hga_id v = pos_of[0] ? pos_of[0] - 1 : edge->destination.node,
               u = pos_of[1] ? pos_of[1] - 1 : edge->source.node;
        const float *own = io->node_pos + (ptrdiff_t)v * shape->pos_dim,
                    *other = io->node_pos + (ptrdiff_t)u * shape->pos_dim;
        for (hga_id j = 0; j < shape->pos_dim; j++) sum += (double)own[j] * (double)other[j];
    }
    if (s->by_mass) sum += log((double)edge->source.mass);
    return sum + log((double)edge->weight);
}

static void begin_aggregate(worker *w, const row_job *job, const hga_udf *udf, const hga_end *v, hga_id head,
                            void *state)
{
    if (w->plan->stage[job->stage].kind != KIND_USER) {
        plain *p = state;
        p->w = w, p->stage = &w->plan->program.stage[job->stage];
    }
    udf->begin(state, v, head, udf->ctx);
}

static void feed_chunk(worker *w, const row_job *job, const hga_udf *udf, const hga_end *v, hga_id head, void *state)
{
    const stage_plan *sp = &w->plan->stage[job->stage];
    end_fields values;
    if (sp->row_ptr) reader_ranks(&w->reader, job->v, &w->chunk, w->row.rank);
    for (hga_id i = 0; i < w->chunk.n; i++) {
        hga_edge e = {.position = sp->row_ptr ? sp->row_ptr[job->v] + w->row.rank[i] : -1,
                      .type = w->chunk.type[i],
                      .weight = w->chunk.weight[i]};
        e.source = look_at(w, sp->shown.source, w->chunk.src[i], head, &values);
        e.destination = *v;
        e.score = score(w, job, &e, (hga_id[]){w->chunk.pos_of[i], w->chunk.src_pos_of[i]}, head);
        udf->edge(state, &e, head, udf->ctx);
    }
}

static void run_head(worker *w, const row_job *job, const hga_udf *udf, hga_id head)
{
    end_fields values;
    const program_shown *shown = &w->plan->stage[job->stage].shown;
    hga_end v = look_at(w, shown->row, job->v, head, &values);
    void *whole = w->plain, *piece = (char *)w->plain + w->plain_bytes;
    hga_pos cut = w->plan->options.cut_edges, in_piece = 0;
    edge_cursor c = cursor_start(&w->reader, job->v);
    begin_aggregate(w, job, udf, &v, head, whole);
    void *now = whole;
    for (cursor_next(&c, KERNEL_CHUNK, &w->chunk); w->chunk.n; cursor_next(&c, cut - in_piece, &w->chunk)) {
        if (udf->merge && in_piece == 0 && now == piece) begin_aggregate(w, job, udf, &v, head, piece);
        feed_chunk(w, job, udf, &v, head, now);
        in_piece += w->chunk.n;
        if (!udf->merge) {
            in_piece = 0;
        } else if (in_piece >= cut) {
            if (now == piece) udf->merge(whole, piece, udf->ctx);
            now = piece, in_piece = 0;
        }
    }
    if (now == piece && in_piece) udf->merge(whole, piece, udf->ctx);
    v = look_at(w, shown->result, job->v, head, &values);
    udf->finish(whole, &v, head, udf->ctx);
}

/* Sums over key/value heads run once for each of those; everything else once for each query head. */
void plain_row(worker *w, const row_job *job)
{
    const hga_stage *s = &w->plan->program.stage[job->stage];
    stage_kind kind = w->plan->stage[job->stage].kind;
    const hga_udf *udf = kind == KIND_USER ? &s->udf : &aggregates[kind];
    hga_id heads = w->plan->shape.n_heads,
           step = s->out && kind != KIND_USER ? heads / w->plan->storage[s->out].heads : 1;
    for (hga_id h = 0; h < heads; h += step) run_head(w, job, udf, h);
}
