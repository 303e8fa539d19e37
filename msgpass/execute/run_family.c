/* run_family.c: rows that have a few columns of one segment and no others: all of them, and all heads, in one call. */
#include "stages.h"
#include "strips.h"

/* A strip's columns join the chunk; of those that no row here has one that some row has, for they may be none. */
static void read_columns(worker *w, const row_group *g, const strip *x)
{
    unsigned wanted = w->reader.ahead ? wanted_rows(g) : ~0u;
    hga_id some = 0, at = w->chunk.n;
    while (some < x->n - 1 && !(rows_of_column(x, some) & wanted)) some++;
    w->chunk.n += x->n;
    for (hga_id e = 0; e < x->n; e++) {
        if (rows_of_column(x, e) & wanted) some = e;
        w->chunk.src[at + e] = reader_source(&w->reader, x->src + some);
        w->chunk.weight[at + e] = x->segment->weight;
        w->chunk.type[at + e] = (int32_t)(x->type + (int64_t)some * x->segment->type_src), w->chunk.pos_of[at + e] = 0;
    }
}

/* Where a row's query and its output are: the caller's rows beside rows of the workspace may have their heads at other
   strides, so that a call takes rows that are alike. */
enum { QUERY_IS_IO = 1, OUT_IS_IO = 2, ANYWHERE = 4 };
static int place_of(const bound_field *query, const bound_field *out, hga_id v)
{
    return (bound_is_io(query, v) ? QUERY_IS_IO : 0) + (bound_is_io(out, v) ? OUT_IS_IO : 0);
}

/* Families' rows, by lane of the group; those of others, and rows that nobody wants, have no place to go to. */
typedef struct family_rows {
    hga_id n; /* rows that have */
    const float *q[KERNEL_TILE];
    float *out[KERNEL_TILE], *lse[KERNEL_TILE];
    ptrdiff_t q_head, out_head;
    int alike; /* heads lie at one stride */
} family_rows;

/* Of the lanes those at the place, or all. */
static family_rows find_rows(const worker *w, const row_group *g, unsigned of, int place)
{
    const hga_stage *s = stage_of(w, g->stage);
    const bound_field *query = read_field(w, s, s->query), *out = field(w, s->out);
    family_rows rows = {.alike = 1};
    for (; of; of &= of - 1) {
        int r = __builtin_ctz(of);
        hga_id v = g->node[r];
        if (v < 0 || (place != ANYWHERE && place != place_of(query, out, v))) continue;
        if (rows.n++ && (rows.q_head != bound_head(query, v) || rows.out_head != bound_head(out, v))) rows.alike = 0;
        rows.q_head = bound_head(query, v), rows.out_head = bound_head(out, v);
        rows.q[r] = bound_row(query, v), rows.out[r] = bound_row(out, v), rows.lse[r] = bound_lse(out, v);
    }
    return rows;
}

/* The chunk's keys or values; do their heads lie at one stride, *head? Those of one family are brought side by side if
   they do not. */
static int find_columns(const worker *w, const bound_field *x, hga_id families, const float **row, float *mixed,
                        ptrdiff_t *head)
{
    int same;
    find_sources(&w->chunk, x, row, &same, head);
    if (same || families > 1) return same;
    pack_sources(w, x, 0, w->chunk.n, row, mixed);
    *head = x->columns;
    return 1;
}

/* A row's bits depend on none of the rows that come with it. */
static void run_rows(const worker *w, kernel_family all, const family_rows *rows)
{
    all.q = rows->q, all.q_head = rows->q_head;
    all.out = rows->out, all.lse = rows->lse, all.out_head = rows->out_head;
    w->plan->kernels->attend_family(&all);
}

/* Which rows have which of the columns. */
typedef struct family_columns {
    unsigned all; /* rows, as bits */
    lanes rows[KERNEL_CHUNK];
    uint8_t first[KERNEL_TILE], end[KERNEL_TILE];
} family_columns;

/* Marks the rows that have each column of n strips, and where each row's columns begin and end. */
static void find_edges(const strip *x, hga_id n, family_columns *c)
{
    hga_id at = 0;
    c->all = 0;
    for (hga_id i = 0; i < n; at += x[i++].n) {
        c->all |= strip_lanes(&x[i]);
        for (hga_id e = 0; e < x[i].n; e++) c->rows[at + e] = (lanes)rows_of_column(&x[i], e);
        for (hga_id r = x[i].row_first; r < x[i].row_last; r++)
            c->first[r] = (uint8_t)at, c->end[r] = (uint8_t)(at + x[i].n);
    }
}

/* What columns' types add to their keys, and to the scores of each head. */
static void add_types(const worker *w, const edge_chunk *c, const float **key, float *bias, kernel_family *all)
{
    const hga_io *io = w->io;
    for (hga_id e = 0; e < c->n && io->rel_key.data; e++) key[e] = io->rel_key.data + (ptrdiff_t)c->type[e] * all->dim;
    for (hga_id e = 0; e < c->n && io->rel_bias.data; e++)
        for (hga_id h = 0; h < all->heads; h++)
            bias[e * KERNEL_HEADS + h] = in_base_2(io->rel_bias.data[(ptrdiff_t)c->type[e] * all->heads + h]);
    all->r = io->rel_key.data ? key : NULL, all->head_bias = io->rel_bias.data ? bias : NULL;
}

/* All rows of n families at once, or in turn those whose queries and outputs have their heads at the same strides. */
static void run_columns(worker *w, const row_group *g, const strip *x, hga_id n, kernel_family all)
{
    family_columns columns;
    const float *kept[KERNEL_TILE], *key[KERNEL_CHUNK];
    float head_bias[KERNEL_CHUNK * KERNEL_HEADS];
    find_edges(x, n, &columns);
    family_rows rows = find_rows(w, g, columns.all, ANYWHERE);
    score_bases(w, g->stage, -1, &w->chunk, w->row.base);
    add_types(w, &w->chunk, key, head_bias, &all);
    if (drops_weights(w)) drop_families(w, g, x, n, kept), all.kept = kept;
    all.n_rows = 32 - __builtin_clz(columns.all), all.bias = w->row.base;
    all.ahead = &w->coming;
    all.rows = columns.rows, all.first = columns.first, all.end = columns.end;
    if (rows.alike) {
        run_rows(w, all, &rows);
        return;
    }
    for (int place = 0; place < ANYWHERE; place++) {
        rows = find_rows(w, g, columns.all, place);
        if (rows.n) run_rows(w, all, &rows);
    }
}

/* The families' columns become one chunk; where their heads lie at several strides each family goes by itself. */
void run_families(void *worker_of, const row_group *g, const strip *x, hga_id n)
{
    _Static_assert((int)KERNEL_FAMILY <= (int)KERNEL_HEAD_EDGES, "a family's columns have room");
    worker *w = worker_of;
    const hga_stage *s = stage_of(w, g->stage);
    const hga_shape *shape = &w->plan->shape;
    kernel_family all = {.heads = shape->n_heads,
                         .dim = shape->dim,
                         .dim_v = shape->dim_v,
                         .share = shape->n_heads / shape->n_kv_heads,
                         .k = w->at.k,
                         .v = w->at.v,
                         .scale = w->workspace->scale_2,
                         .cap = w->workspace->cap_2,
                         .sigmoid = weights_are_sigmoids(w->plan)};
    w->chunk.n = 0;
    for (hga_id i = 0; i < n; i++) read_columns(w, g, &x[i]);
    all.n = w->chunk.n;
    if (find_columns(w, read_field(w, s, s->key), n, w->at.k, w->mixed_key, &all.k_head) &&
        find_columns(w, read_field(w, s, s->value), n, w->at.v, w->mixed_value, &all.v_head))
        run_columns(w, g, x, n, all);
    else
        for (hga_id i = 0; i < n; i++) run_families(w, g, &x[i], 1);
}
