/* tiles.c: attention over a panel. Sixteen rows that share most of a segment's columns are a tile; what is left of a row (narrow bands, explicit edges) goes through
   the row kernel, into the same states. Which segment goes where depends on the graph and on what the call brings, never on the threads. */
#include "engine.h"

#include <string.h>

/* A tile costs about as much as this many edges of the row kernel per sixteen pairs, from measurements: below that share of edges it does not pay. */
static const double TILE_SHARE = 0.3;
enum { LEAST_COLUMNS = 8 };

/* ---- which segments ---- */

/* Part of a segment that belongs to the group's rows: columns [column, column + n) of it, counted from the group's first row. */
typedef struct strip {
    const hga_segment *segment;
    hga_id row_first, row_last, band_first, band_last, hole, column, n;
} strip;

/* Trim a segment to rows [first, first + n_rows) and the columns they keep; 0 when nothing is left. */
static int trim(const hga_segment *s, hga_id first, hga_id n_rows, strip *out)
{
    hga_id r0 = s->row > first ? s->row - first : 0, r1 = s->row + s->n_rows - first < n_rows ? s->row + s->n_rows - first : n_rows;
    if (r0 >= r1) return 0;
    int64_t shift = (int64_t)first - s->row; /* the segment's own row of lane 0 */
    int64_t lo = shift + s->band_first, hi = shift + s->band_last;
    int64_t c0 = r0 + lo > 0 ? r0 + lo : 0, c1 = r1 - 1 + hi + 1 < s->n_src ? r1 - 1 + hi + 1 : s->n_src;
    if (c0 >= c1) return 0;
    int64_t far = (int64_t)1 << 30;
    out->segment = s;
    out->row_first = r0, out->row_last = r1;
    out->column = (hga_id)c0, out->n = (hga_id)(c1 - c0);
    lo -= c0, hi -= c0;
    out->band_first = (hga_id)(lo < -far ? -far : lo), out->band_last = (hga_id)(hi > far ? far : hi);
    out->hole = (hga_id)(shift + s->hole - c0);
    return 1;
}

static int64_t strip_edges(const strip *x)
{
    int64_t edges = 0;
    for (hga_id r = x->row_first; r < x->row_last; r++) {
        int64_t c0 = r + (int64_t)x->band_first, c1 = r + (int64_t)x->band_last + 1, hole = r + (int64_t)x->hole;
        if (c0 < 0) c0 = 0;
        if (c1 > x->n) c1 = x->n;
        if (c1 > c0) edges += c1 - c0 - (x->segment->has_hole && hole >= c0 && hole < c1);
    }
    return edges;
}

static int pays(const worker *w, const strip *x)
{
    if (x->n < LEAST_COLUMNS) return 0;
    if (w->io->rel_key && x->segment->type_dst) return 0; /* a key's relative part would differ from row to row */
    return (double)strip_edges(x) >= TILE_SHARE * KERNEL_TILE * x->n;
}

/* ---- one tile ---- */

/* Sources and the scores' common part of columns [at, at + n) of a strip. */
static void load_columns(worker *w, const tile_group *g, const strip *x, hga_id at, hga_id n)
{
    const hga_segment *segment = x->segment;
    const hga_id *order = w->reader.r.src_order;
    const hga_stage *s = &w->plan->program.stage[g->stage];
    edge_chunk *c = &w->chunk;
    c->n = n;
    for (hga_id i = 0; i < n; i++) {
        hga_id column = x->column + at + i, p = segment->src + column;
        c->src[i] = order ? order[p] : p;
        c->type[i] = segment->type + column * segment->type_src; /* of rows in a segment whose type does not depend on the row */
        c->weight[i] = segment->weight;
        w->k[i] = view_row(&w->state->view[s->key], c->src[i]);
        w->v[i] = view_row(&w->state->view[s->value], c->src[i]);
    }
    score_bases(w, g->stage, -1);
}

/* rel_bias of every pair, where a type depends on the row too. */
static void load_pair_bias(worker *w, const tile_group *g, const strip *x, hga_id at, hga_id n, hga_id head)
{
    const hga_segment *s = x->segment;
    hga_id heads = w->plan->shape.n_heads, n_types = w->reader.r.n_types, shift = g->first - s->row;
    for (hga_id i = 0; i < n; i++)
        for (hga_id r = 0; r < KERNEL_TILE; r++) {
            int64_t type = s->type + (int64_t)(r + shift) * s->type_dst + (int64_t)(x->column + at + i) * s->type_src;
            w->pair_bias[i * KERNEL_TILE + r] = type >= 0 && type < n_types ? w->io->rel_bias[type * heads + head] : 0; /* outside: no edge */
        }
}

/* k + rel_key[type], packed. */
static void load_relative_keys(worker *w, hga_id n)
{
    hga_id dim = w->plan->shape.dim;
    for (hga_id i = 0; i < n; i++) {
        const float *r = w->io->rel_key + (ptrdiff_t)w->chunk.type[i] * dim;
        float *to = w->tile_key + (ptrdiff_t)i * dim;
        w->plan->kernels->blend(dim, 1, w->k_head[i], 1, r, to);
        w->k_head[i] = to;
    }
}

static void load_biases(worker *w, const tile_group *g, const strip *x, hga_id at, hga_id head, kernel_tile *t)
{
    memcpy(w->bias, w->edge_base, (size_t)t->n * sizeof *w->bias);
    if (!w->io->rel_bias) return;
    if (x->segment->type_dst) {
        load_pair_bias(w, g, x, at, t->n, head);
        t->pair_bias = w->pair_bias;
        return;
    }
    for (hga_id i = 0; i < t->n; i++) w->bias[i] += w->io->rel_bias[(ptrdiff_t)w->chunk.type[i] * w->plan->shape.n_heads + head];
}

static void load_mask(const tile_group *g, const strip *x, hga_id at, kernel_tile *t)
{
    t->row_first = x->row_first, t->row_last = x->row_last;
    t->band_first = x->band_first - at, t->band_last = x->band_last - at;
    t->has_hole = x->segment->has_hole, t->hole = x->hole - at;
    int full = t->band_first <= 1 - x->row_last && t->band_last >= t->n - 1 - x->row_first && !t->has_hole;
    t->masked = !full || x->row_first > 0 || x->row_last < g->n_rows;
}

static void run_tile(worker *w, const tile_group *g, const strip *x, hga_id at, hga_id n, hga_id head)
{
    const hga_shape *shape = &w->plan->shape;
    const hga_stage *s = &w->plan->program.stage[g->stage];
    hga_id room = padded(shape->dim_v), kv = kv_head(shape, head);
    const view *key = &w->state->view[s->key], *value = &w->state->view[s->value];
    kernel_tile t = {.n_rows = g->n_rows, .n = n, .dim = shape->dim, .dim_v = shape->dim_v, .k = w->k_head, .v = w->v_head, .bias = w->bias};
    t.q = w->group_query + (ptrdiff_t)head * shape->dim * KERNEL_TILE;
    for (hga_id i = 0; i < n; i++) {
        w->k_head[i] = w->k[i] + kv * view_head(key, w->chunk.src[i]);
        w->v_head[i] = w->v[i] + kv * view_head(value, w->chunk.src[i]);
    }
    if (w->io->rel_key) load_relative_keys(w, n);
    load_biases(w, g, x, at, head, &t);
    load_mask(g, x, at, &t);
    kernel_tile_state state = {
        .greatest = w->group_greatest + head * KERNEL_TILE,
        .sum = w->group_sum + head * KERNEL_TILE,
        .acc = w->group_acc + (ptrdiff_t)head * KERNEL_TILE * room,
        .stride = room,
    };
    w->plan->kernels->attend_tile(&t, &state);
}

static void run_strip(worker *w, const tile_group *g, const strip *x)
{
    for (hga_id at = 0; at < x->n; at += KERNEL_CHUNK) {
        hga_id n = x->n - at < KERNEL_CHUNK ? x->n - at : KERNEL_CHUNK;
        load_columns(w, g, x, at, n);
        for (hga_id h = 0; h < w->plan->shape.n_heads; h++) run_tile(w, g, x, at, n, h);
    }
}

/* ---- a group of rows ---- */

static row_job job_of(const tile_group *g, hga_id r)
{
    return (row_job){.stage = g->stage, .v = g->node[r], .position = g->first + r, .count = INT64_MAX, .piece = -1};
}

/* The group's queries, rows across the lanes. */
static void load_group_queries(worker *w, const tile_group *g)
{
    const hga_shape *shape = &w->plan->shape;
    const view *q = &w->state->view[w->plan->program.stage[g->stage].query];
    memset(w->group_query, 0, (size_t)shape->n_heads * (size_t)shape->dim * KERNEL_TILE * sizeof(float));
    for (hga_id r = 0; r < g->n_rows; r++) {
        if (g->node[r] < 0) continue;
        const float *row = view_row(q, g->node[r]);
        ptrdiff_t stride = view_head(q, g->node[r]);
        for (hga_id h = 0; h < shape->n_heads; h++)
            for (hga_id j = 0; j < shape->dim; j++)
                w->group_query[((ptrdiff_t)h * shape->dim + j) * KERNEL_TILE + r] = row[h * stride + j] * w->state->scale;
    }
}

/* Between a row's own states and its lanes of the group's. */
static void move_states(worker *w, hga_id r, int to_group)
{
    const hga_shape *shape = &w->plan->shape;
    hga_id room = padded(shape->dim_v);
    for (hga_id h = 0; h < shape->n_heads; h++) {
        float *acc = w->group_acc + ((ptrdiff_t)h * KERNEL_TILE + r) * room, *own = w->acc + (ptrdiff_t)h * room;
        float *greatest = w->group_greatest + h * KERNEL_TILE + r, *sum = w->group_sum + h * KERNEL_TILE + r;
        if (to_group) {
            memcpy(acc, own, (size_t)room * sizeof *acc);
            *greatest = w->greatest[h], *sum = w->sum[h];
        } else {
            memcpy(own, acc, (size_t)room * sizeof *acc);
            w->greatest[h] = *greatest, w->sum[h] = *sum;
        }
    }
}

static void start_group(worker *w, const tile_group *g)
{
    load_group_queries(w, g);
    for (hga_id r = 0; r < KERNEL_TILE; r++) {
        row_job job = job_of(g, r < g->n_rows ? r : 0);
        if (r < g->n_rows && g->node[r] >= 0)
            attend_start(w, &job);
        else
            attend_nothing(w);
        move_states(w, r, 1);
    }
}

/* Run the strips that pay; w->tiled tells which segments are done. Returns how many. */
static hga_id run_strips(worker *w, const tile_group *g)
{
    hga_id n = 0;
    for (hga_pos i = 0; i < w->reader.n_segments; i++) {
        strip x = {0};
        w->tiled[i] = trim(&w->reader.segment[i], g->first, g->n_rows, &x) && pays(w, &x);
        if (!w->tiled[i]) continue;
        if (n++ == 0) start_group(w, g);
        run_strip(w, g, &x);
    }
    return n;
}

static void run_group(worker *w, const tile_group *g)
{
    hga_id tiles = run_strips(w, g);
    for (hga_id r = 0; r < g->n_rows; r++) {
        if (g->node[r] < 0) continue;
        row_job job = job_of(g, r);
        if (tiles)
            move_states(w, r, 0);
        else
            attend_start(w, &job);
        attend_rest(w, &job, tiles ? w->tiled : NULL);
    }
}

void attend_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node)
{
    int possible = !w->io->edge_bias && !w->io->node_pos;
    for (hga_id at = 0; at < n; at += KERNEL_TILE) {
        tile_group g = {.stage = stage, .first = first + at, .n_rows = n - at < KERNEL_TILE ? n - at : KERNEL_TILE, .node = node + at};
        if (possible && w->reader.n_segments)
            run_group(w, &g);
        else
            for (hga_id r = 0; r < g.n_rows; r++) {
                row_job job = job_of(&g, r);
                if (job.v < 0) continue;
                attend_start(w, &job);
                attend_rest(w, &job, NULL);
            }
    }
}
