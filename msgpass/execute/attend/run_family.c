/* run_family.c: solves rows whose edges are few columns only: all rows and all heads in one kernel call. */
#include "attend.h"
#include "carve.h"
#include "dropout.h"
#include "plan.h"
#include "scores.h"
#include "stages.h"

/* Which of a row's query and output are the caller's: such rows may have other head strides than the workspace's, so a
   call takes rows with the same strides. */
enum { QUERY_IS_IO = 1, OUT_IS_IO = 2, ANYWHERE = 4 };
static int slot_of(const bound_field *query, const bound_field *out, hga_id v)
{
    return (bound_is_io(query, v) ? QUERY_IS_IO : 0) + (bound_is_io(out, v) ? OUT_IS_IO : 0);
}

/* Rows of families, by lane of the group; other lanes, and rows that are not requested, have no output. */
typedef struct family_rows {
    hga_id n; /* rows that have an output */
    const float *q[KERNEL_TILE];
    float *out[KERNEL_TILE], *lse[KERNEL_TILE];
    ptrdiff_t q_head, out_head;
    int alike;   /* heads have one stride */
    int streams; /* all outputs are the caller's, and bypass the caches */
} family_rows;

/* Finds the lanes `of` whose rows are in `slot`, or all of them. */
static family_rows find_family_rows(const worker *w, const row_group *g, unsigned of, int slot)
{
    const hga_stage *s = stage_of(w, g->stage);
    const bound_field *query = read_field(w, s, s->query), *out = field(w, s->out);
    family_rows rows = {.alike = 1, .streams = out->io.streams};
    for (; of; of &= of - 1) {
        int r = __builtin_ctz(of);
        hga_id v = g->node[r];
        if (v < 0 || (slot != ANYWHERE && slot != slot_of(query, out, v))) continue;
        if (rows.n++ && (rows.q_head != bound_head(query, v) || rows.out_head != bound_head(out, v))) rows.alike = 0;
        rows.streams &= bound_is_io(out, v);
        rows.q_head = bound_head(query, v), rows.out_head = bound_head(out, v);
        rows.q[r] = bound_row(query, v), rows.out[r] = bound_row(out, v), rows.lse[r] = bound_lse(out, v);
    }
    return rows;
}

/* Finds the chunk's keys or values, and the stride of their heads; packs the rows contiguously where strides differ. */
static ptrdiff_t find_columns(const worker *w, const bound_field *x, const float **row, float *mixed)
{
    int same;
    ptrdiff_t head;
    find_sources(&w->chunk, x, row, &same, &head);
    if (same) return head;
    pack_sources(w, x, 0, w->chunk.n, row, mixed);
    return x->columns;
}

/* A row's bits do not depend on the rows computed with it. */
static void run_rows(const worker *w, kernel_family all, const family_rows *rows)
{
    all.q = rows->q, all.q_head = rows->q_head;
    all.results.streams = rows->streams && rows->out_head % LINE_FLOATS == 0;
    all.results.out = rows->out, all.results.lse = rows->lse, all.results.head = rows->out_head;
    w->plan->machine.kernels->attend_family(&all);
}

/* Sets the terms of the columns' types: of keys, and biases of each head. */
static void add_types(const worker *w, const edge_chunk *c, const float **key, float *bias, kernel_family *all)
{
    const hga_io *io = w->io;
    for (hga_id e = 0; e < c->n && io->rel_key.data; e++) key[e] = io->rel_key.data + (ptrdiff_t)c->type[e] * all->dim;
    for (hga_id e = 0; e < c->n && io->rel_bias.data; e++)
        for (hga_id h = 0; h < all->heads; h++)
            bias[e * KERNEL_HEADS + h] = in_base_2(io->rel_bias.data[(ptrdiff_t)c->type[e] * all->heads + h]);
    all->terms.r = io->rel_key.data ? key : NULL, all->head_bias = io->rel_bias.data ? bias : NULL;
}

/* Runs all rows of the families at once, or one after another those whose queries and outputs have the same strides. */
static void run_columns(worker *w, const row_group *g, const family_chunk *c, kernel_family all)
{
    const float *drop_mask[KERNEL_TILE], *key[KERNEL_CHUNK];
    float head_bias[KERNEL_CHUNK * KERNEL_HEADS];
    family_rows rows = find_family_rows(w, g, c->all, ANYWHERE);
    score_bases(w, g->stage, -1, c->columns, w->rows.row.base);
    all.sigmoid = sigmoids_of_chunk(w, g->stage, c->columns, w->rows.row.inverse_count);
    add_types(w, c->columns, key, head_bias, &all);
    if (drops_weights(w)) drop_families(w, g, c, drop_mask), all.drop_mask = drop_mask;
    all.n_rows = 32 - __builtin_clz(c->all), all.terms.bias = w->rows.row.base;
    all.ahead = &w->coming;
    all.rows = c->rows;
    if (rows.alike) {
        run_rows(w, all, &rows);
        return;
    }
    for (int slot = 0; slot < ANYWHERE; slot++) {
        rows = find_family_rows(w, g, c->all, slot);
        if (rows.n) run_rows(w, all, &rows);
    }
}

void run_families(void *worker_of, row_group *g, const family_chunk *c)
{
    worker *w = worker_of;
    const hga_stage *s = stage_of(w, g->stage);
    const hga_shape *shape = &w->plan->shape;
    kernel_family all = {.n = c->columns->n,
                         .heads = shape->n_heads,
                         .dim = shape->dim,
                         .dim_v = shape->dim_v,
                         .share = shape->n_heads / shape->n_kv_heads,
                         .columns.k = w->rows.at.k,
                         .columns.v = w->rows.at.v,
                         .terms.scale = w->workspace->scores.scale_2,
                         .terms.cap = w->workspace->scores.cap_2};
    all.columns.k_head = find_columns(w, read_field(w, s, s->key), w->rows.at.k, w->rows.mixed_key);
    all.columns.v_head = find_columns(w, read_field(w, s, s->value), w->rows.at.v, w->rows.mixed_value);
    run_columns(w, g, c, all);
}
