/* run_wide.c: rectangles of a relation, all of whose columns many rows have. Panel by panel they would cost as much to
   lay and to copy as a good part of their products; so the panels that a thread has one after the other are run head by
   head: a head's keys and values are brought side by side once, and stay in a near cache while panels pass. What is
   computed are the tiles that choose_tiles.c would lay, so bits are the same, whoever has which panels. */
#include "stages.h"
#include "tiles.h"

/* Columns whose keys and values pass all groups of a panel from the second cache. */
enum { NEAR_COLUMNS = 8 * KERNEL_CHUNK };

static int is_full(const hga_segment *s)
{
    return !s->has_hole && s->band_first <= 1 - s->n_rows && s->band_last >= s->n_src - 1 && s->src_inside == 0;
}

/* The loaded rows' one segment, when all of them have all its columns and no other edges; else NULL. */
static const hga_segment *find_rectangle(const worker *w)
{
    const row_reader *r = &w->reader;
    const hga_segment *s = &r->segment[0];
    hga_id last = r->n % KERNEL_TILE;
    if (r->n_segments != 1 || r->r.ptr || !is_full(s) || s->row != r->first || s->n_rows != r->n) return NULL;
    if (last && !tiles_pay(last)) return NULL;
    return s->n_src >= 2 * KERNEL_CHUNK && s->n_src <= w->wide.room ? s : NULL;
}

static int same_columns(const hga_segment *a, const hga_segment *b)
{
    return a->src == b->src && a->n_src == b->n_src && a->weight == b->weight;
}

/* Do scores depend on nothing but queries, keys, and the column? */
static int scores_are_plain(const worker *w)
{
    return !w->io->edge_bias && !w->io->rel_key && !w->io->rel_bias && !w->io->node_pos;
}

/* The chunk of columns from `at` on, as edges. */
static void list_columns(const worker *w, const hga_segment *s, hga_id at, edge_chunk *c)
{
    const hga_id *order = w->reader.r.src_order;
    c->n = s->n_src - at < KERNEL_CHUNK ? s->n_src - at : KERNEL_CHUNK;
    for (hga_id e = 0; e < c->n; e++) {
        hga_id position = s->src + at + e;
        c->src[e] = order ? order[position] : position;
        c->weight[e] = s->weight, c->pos_of[e] = s->pos_of, c->type[e] = 0;
    }
}

/* Scores' parts that all heads share. */
static void load_bases(worker *w, const hga_segment *s)
{
    for (hga_id at = 0; at < s->n_src; at += KERNEL_CHUNK) {
        list_columns(w, s, at, &w->chunk);
        score_bases(w, w->chooser.batch->stage, -1, &w->chunk, w->wide.base + at);
    }
}

/* The listed columns, of one head, to columns at .. */
static void copy_columns(worker *w, hga_id kv, hga_id at)
{
    const hga_shape *shape = &w->plan->shape;
    const kernel_table *k = w->plan->kernels;
    const hga_stage *stage = stage_of(w, w->chooser.batch->stage);
    const view *key = field(w, stage->key), *value = field(w, stage->value);
    for (hga_id e = 0; e < w->chunk.n; e++) {
        hga_id u = w->chunk.src[e];
        w->at.k_head[e] = view_row(key, u) + kv * view_head(key, u);
        w->at.v_head[e] = view_row(value, u) + kv * view_head(value, u);
    }
    ptrdiff_t room = padded(shape->dim), room_v = padded(shape->dim_v);
    k->copy_rows(w->chunk.n, w->at.k_head, shape->dim, w->wide.key + at * room, room);
    k->copy_rows(w->chunk.n, w->at.v_head, shape->dim_v, w->wide.value + at * room_v, room_v);
}

/* .. from 16 bits */
static void widen_columns(worker *w, hga_id kv, hga_id at)
{
    const hga_shape *shape = &w->plan->shape;
    const kernel_table *k = w->plan->kernels;
    const hga_stage *stage = stage_of(w, w->chooser.batch->stage);
    const view *key = field(w, stage->key), *value = field(w, stage->value);
    for (hga_id e = 0; e < w->chunk.n; e++) {
        w->at.k16_head[e] = view_halves(key, w->chunk.src[e]) + kv * shape->dim;
        w->at.v16_head[e] = view_halves(value, w->chunk.src[e]) + kv * shape->dim_v;
    }
    ptrdiff_t room = padded(shape->dim), room_v = padded(shape->dim_v);
    if (!has_pairs(w)) k->widen(w->chunk.n, w->at.k16_head, shape->dim, w->wide.key + at * room, room);
    k->widen(w->chunk.n, w->at.v16_head, shape->dim_v, w->wide.value + at * room_v, room_v);
}

/* One head's keys and values, side by side. */
static void pack_head(worker *w, const hga_segment *s, hga_id kv)
{
    for (hga_id at = 0; at < s->n_src; at += KERNEL_CHUNK) {
        list_columns(w, s, at, &w->chunk);
        w->plan->halves ? widen_columns(w, kv, at) : copy_columns(w, kv, at);
    }
}

/* Where the keys and values of columns [at, at + n) of a head are: side by side, but keys that are multiplied in pairs
   are where they were. */
static void point_at_columns(worker *w, const hga_segment *s, hga_id kv, hga_id at, hga_id n)
{
    const hga_shape *shape = &w->plan->shape;
    for (hga_id e = 0; e < n; e++) {
        w->at.k_head[e] = w->wide.key + (ptrdiff_t)(at + e) * padded(shape->dim);
        w->at.v_head[e] = w->wide.value + (ptrdiff_t)(at + e) * padded(shape->dim_v);
    }
    if (!has_pairs(w)) return;
    const view *key = field(w, stage_of(w, w->chooser.batch->stage)->key);
    list_columns(w, s, at, &w->chunk);
    for (hga_id e = 0; e < n; e++) w->at.k16_head[e] = view_halves(key, w->chunk.src[e]) + kv * shape->dim;
}

/* The groups of a panel that are computed together, of one head. */
typedef struct group_pair {
    const row_group *group;
    hga_id n, head;
} group_pair;

/* The pair's rows end. */
static void end_groups(worker *w, const group_pair *g, kernel_tile *t)
{
    float *ends[2][KERNEL_TILE];
    for (hga_id x = 0; x < g->n; x++) {
        find_ends(w, &g->group[x], g->head, &t->group[x].state, ends[x]);
        t->group[x].out = ends[x];
    }
    run_tile(w, t);
    for (hga_id x = 0; x < g->n; x++) store_lse(w, &g->group[x], g->head, t->group[x].state.greatest);
}

/* A pair against columns [at, end) of the rectangle; its states wait at the places of the groups' numbers. */
static void run_columns(worker *w, const hga_segment *s, const group_pair *g, hga_id at, hga_id end)
{
    const hga_shape *shape = &w->plan->shape;
    kernel_tile t = {.n_groups = g->n,
                     .dim = shape->dim,
                     .dim_v = shape->dim_v,
                     .k = w->at.k_head,
                     .k16 = w->at.k16_head,
                     .v = w->at.v_head,
                     .scale = w->state->scale_2};
    for (hga_id x = 0; x < g->n; x++) t.group[x] = open_group(w, &g->group[x], g->head, g->group[x].number, at == 0);
    for (; at < end; at += t.n) {
        t.n = end - at < KERNEL_CHUNK ? end - at : KERNEL_CHUNK, t.bias = w->wide.base + at;
        point_at_columns(w, s, kv_head(shape, g->head), at, t.n);
        at + t.n == s->n_src ? end_groups(w, g, &t) : run_tile(w, &t);
        for (hga_id x = 0; x < g->n; x++) t.group[x].fresh = 0;
    }
}

static void run_rows(worker *w, const hga_segment *s, const panel_rows *rows, hga_id stage, hga_id head)
{
    row_panel p;
    find_groups(stage, rows->first, rows->n, rows->node, &p);
    for (hga_id at = 0, end; at < s->n_src; at = end) {
        end = s->n_src - at < NEAR_COLUMNS ? s->n_src : at + NEAR_COLUMNS;
        for (hga_id i = 0; i < p.n_groups; i += 2) {
            group_pair g = {.group = &p.group[i], .n = p.n_groups - i < 2 ? 1 : 2, .head = head};
            run_columns(w, s, &g, at, end);
        }
    }
}

/* So many items from the first on are panels of its phase with one rectangle. */
static int64_t count_panels(worker *w, const wave_item *item, int64_t n, hga_segment *rectangle)
{
    int64_t i = 0;
    for (; i < n && item[i].phase == item[0].phase; i++) {
        load_panel(w, item[i]);
        const hga_segment *s = find_rectangle(w);
        if (!s || (i && !same_columns(s, rectangle))) break;
        *rectangle = *s;
    }
    return i;
}

/* Does the phase attend in tiles, by position, and read nothing that it writes? */
static int may_be_wide(const worker *w, const phase *ph)
{
    if (ph->job != JOB_ROWS || plan_kernel(w->plan, ph->stage)->panel != attend_panel) return 0;
    const hga_stage *s = stage_of(w, ph->stage);
    return (ph->by_position || !w->plan->stage[ph->stage].relation.dst_order) && s->key != s->out && s->value != s->out;
}

int64_t run_wide(worker *w, const wave_item *item, int64_t n)
{
    const phase *ph = &w->plan->phase[item->phase];
    const hga_shape *shape = &w->plan->shape;
    panel_rows rows;
    hga_segment s;
    if (!w->wide.room || !scores_are_plain(w) || !may_be_wide(w, ph)) return 0;
    n = count_panels(w, item, n, &s);
    if (!n) return 0;
    w->chooser.batch->stage = ph->stage;
    load_bases(w, &s);
    for (hga_id head = 0; head < shape->n_heads; head++) {
        if (head % (shape->n_heads / shape->n_kv_heads) == 0) pack_head(w, &s, kv_head(shape, head));
        for (int64_t i = 0; i < n; i++) {
            list_panel(w, item[i], &rows);
            run_rows(w, &s, &rows, ph->stage, head);
        }
    }
    return n;
}
