/* run_few_edges.c: panels whose edges are listed one by one and whose heads are narrow, as graph networks have them.
   Rows of few edges are computed together, up to a chunk of edges. Rows of more edges run one by one. Which of the two
   it is depends on the row's own edges and on the shape alone. */
#include "attend.h"
#include "dropout.h"
#include "panel_rows.h"
#include "plan.h"
#include "row_solvers.h"
#include "scores.h"
#include "stages.h"

#include <string.h>

enum { BATCH_ROWS = KERNEL_TILE, BATCH_COLUMNS = 128 };

/* Rows that are computed together. Rows of tensors whose heads lie apart are copied. */
typedef struct few_edges_batch {
    hga_id n, edges, node[BATCH_ROWS], first[BATCH_ROWS + 1];
    const float *q[BATCH_ROWS], *k[KERNEL_CHUNK], *v[KERNEL_CHUNK], *r[KERNEL_CHUNK], *r_v[KERNEL_CHUNK];
    float *out[BATCH_ROWS], *lse[BATCH_ROWS];
    hga_id source[KERNEL_CHUNK], destination[KERNEL_CHUNK];
    int32_t type[KERNEL_CHUNK];
    float bias[KERNEL_CHUNK + KERNEL_PAD], a[BATCH_COLUMNS];
    float q_copy[BATCH_ROWS][BATCH_COLUMNS], out_copy[BATCH_ROWS][BATCH_COLUMNS];
    float k_copy[KERNEL_CHUNK][BATCH_COLUMNS], v_copy[KERNEL_CHUNK][BATCH_COLUMNS];
} few_edges_batch;

int64_t few_edges_fit_stage(worker *w, const wave_item *item, int64_t n)
{
    const hga_id stage = w->plan->phases.list[item->phase].stage;
    const hga_relation *r = &w->plan->stage[stage].relation;
    const hga_shape *s = &w->plan->shape;
    (void)n;
    return r->ptr && !r->n_blocks && !r->dst_order && !r->src_order && s->n_heads == s->n_kv_heads &&
           s->n_heads * s->dim <= BATCH_COLUMNS && s->n_heads * s->dim_v <= BATCH_COLUMNS &&
           (s->dim == s->dim_v || scores_are_sums(w->plan)) && !weights_are_sigmoids(w->plan) &&
           w->plan->machine.kernels->few_edges_fit(s->n_heads, s->dim, s->dim_v);
}

/* Node v's row with its heads together: the row, or a copy. */
static const float *row_together(const bound_field *f, hga_id v, float *copy)
{
    const float *row = bound_row(f, v);
    const ptrdiff_t head = bound_head(f, v);
    if (head == f->columns) return row;
    for (hga_id h = 0; h < f->heads; h++)
        memcpy(copy + h * f->columns, row + h * head, (size_t)f->columns * sizeof *copy);
    return copy;
}

/* The factors of additive scores, scaled, heads contiguous. */
static void load_factors(const worker *w, few_edges_batch *b)
{
    const float *input = w->io->additive.data;
    const hga_id n = w->plan->shape.n_heads * w->plan->shape.dim;
    for (hga_id i = 0; i < n; i++) b->a[i] = (input ? input[i] : 1) * w->workspace->scores.scale_2;
}

static void point_to_rows(const worker *w, hga_id stage, few_edges_batch *b)
{
    const hga_stage *s = stage_of(w, stage);
    const bound_field *q = read_field(w, s, s->query), *k = read_field(w, s, s->key), *v = read_field(w, s, s->value),
                      *out = field(w, s->out);
    for (hga_id i = 0; i < b->n; i++) {
        b->q[i] = row_together(q, b->node[i], b->q_copy[i]);
        b->out[i] = bound_head(out, b->node[i]) == out->columns ? bound_row(out, b->node[i]) : b->out_copy[i];
        b->lse[i] = bound_lse(out, b->node[i]);
    }
    for (hga_id e = 0; e < b->edges; e++) {
        b->k[e] = row_together(k, b->source[e], b->k_copy[e]);
        b->v[e] = row_together(v, b->source[e], b->v_copy[e]);
    }
}

/* Where the kernel wrote copies. */
static void store_copies(const worker *w, hga_id stage, const few_edges_batch *b)
{
    const bound_field *out = field(w, stage_of(w, stage)->out);
    for (hga_id i = 0; i < b->n; i++) {
        if (b->out[i] != b->out_copy[i]) continue;
        float *row = bound_row(out, b->node[i]);
        for (hga_id h = 0; h < out->heads; h++)
            memcpy(row + h * bound_head(out, b->node[i]), b->out_copy[i] + h * out->columns,
                   (size_t)out->columns * sizeof *row);
    }
}

static int has_biases(const few_edges_batch *b)
{
    hga_id e = 0;
    while (e < b->edges && b->bias[e] == 0) e++;
    return e < b->edges;
}

/* Computes the rows of the batch, which is empty afterwards. */
static void attend_batch(worker *w, hga_id stage, few_edges_batch *b)
{
    const hga_shape *s = &w->plan->shape;
    if (!b->n) return;
    point_to_rows(w, stage, b);
    if (drops_weights(w)) drop_edges(w, b->edges, b->destination, b->source, b->type);
    w->plan->machine.kernels->attend_few_edges(&(kernel_few_edges){
        .n = b->n,
        .heads = s->n_heads,
        .dim = s->dim,
        .dim_v = s->dim_v,
        .first = b->first,
        .q = b->q,
        .k = b->k,
        .v = b->v,
        .r = adds_edge_keys(w, stage) ? b->r : NULL,
        .r_v = adds_edge_values(w, stage) ? b->r_v : NULL,
        .bias = has_biases(b) ? b->bias : NULL,
        .drop_mask = drops_weights(w) ? w->rows.row.drop_mask : NULL,
        .a = scores_are_sums(w->plan) ? b->a : NULL,
        .negative_slope = w->plan->program.negative_slope,
        .scale = scores_are_sums(w->plan) ? 1 : w->workspace->scores.scale_2,
        .cap = w->workspace->scores.cap_2,
        .far = w->reader.far,
        .out = b->out,
        .lse = b->lse,
    });
    store_copies(w, stage, b);
    b->n = b->edges = 0;
}

/* Biases of the row's edges, which are the last n of the batch. */
static void add_biases(worker *w, hga_id stage, hga_id v, const hga_relation *r, few_edges_batch *b, hga_id n)
{
    edge_chunk *c = &w->chunk;
    c->n = n;
    memcpy(c->src, b->source + b->edges, (size_t)n * sizeof *c->src);
    for (hga_id e = 0; e < n; e++) {
        c->weight[e] = r->weight ? r->weight[r->ptr[v] + e] : 1;
        c->pos_of[e] = c->src_pos_of[e] = 0;
    }
    score_bases(w, stage, v, c, b->bias + b->edges);
}

static void add_row(worker *w, hga_id stage, hga_id v, const hga_relation *r, few_edges_batch *b)
{
    const hga_pos from = r->ptr[v];
    const hga_id n = (hga_id)(r->ptr[v + 1] - from);
    memcpy(b->source + b->edges, r->src + from, (size_t)n * sizeof *b->source);
    for (hga_id e = b->edges; e < b->edges + n; e++) {
        b->destination[e] = v, b->type[e] = r->type ? r->type[from + e - b->edges] : 0;
        w->rows.row.rank[0] = e - b->edges;
        if (adds_edge_keys(w, stage)) b->r[e] = edge_row(w, v, HGA_TABLE_EDGE_KEY, 0);
        if (adds_edge_values(w, stage)) b->r_v[e] = edge_row(w, v, HGA_TABLE_EDGE_VALUE, 0);
    }
    add_biases(w, stage, v, r, b, n);
    b->node[b->n] = v, b->first[b->n] = b->edges, b->edges += n, b->first[++b->n] = b->edges;
}

void few_edges_run(worker *w, const wave_item *item, int64_t n)
{
    const phase *ph = &w->plan->phases.list[item->phase];
    const hga_relation *r = &w->plan->stage[ph->stage].relation;
    panel_rows p;
    few_edges_batch batch;
    (void)n;
    if (item->head_range || !find_panel(w, ph, ph->stage, item->panel, &p)) return;
    reader_load(&w->reader, p.first, p.n);
    batch.n = batch.edges = 0;
    if (scores_are_sums(w->plan)) load_factors(w, &batch);
    for (hga_id i = 0; i < p.n; i++) {
        const hga_id v = p.node[i];
        if (v < 0) continue;
        const hga_pos edges = r->ptr[v + 1] - r->ptr[v];
        if (batch.n == BATCH_ROWS || batch.edges + edges > KERNEL_CHUNK) attend_batch(w, ph->stage, &batch);
        if (edges <= KERNEL_CHUNK)
            add_row(w, ph->stage, v, r, &batch);
        else
            attend_row(w, &(row_job){.stage = ph->stage, .v = v, .count = INT64_MAX, .split = -1});
    }
    attend_batch(w, ph->stage, &batch);
}
