/* tiles.c: attention over a panel. Sixteen rows are a group; the columns that enough of them share, of whatever segments, are laid side by side into tiles. A wide
   segment is passed through once for all groups of the panel, a chunk at a time, so that its keys and values come from memory once a panel. What is left of a row
   (narrow bands, explicit edges) goes through the row kernel, into the same states. What goes where depends on the graph and on what the call brings, never on the
   threads. */
#include "engine.h"

#include <math.h>
#include <string.h>

/* A column in a tile costs about as much as this many of its sixteen pairs in the row kernel (measured); a segment with fewer edges stays with the rows. */
static const double TILE_SHARE = 0.3;

/* ---- which columns ---- */

/* The part of a segment that meets a group's rows. Lane r has the columns c in [0, n) with band_first <= c - r <= band_last but c - r != hole. */
typedef struct strip {
    const hga_segment *segment;
    hga_id row_first, row_last, n;
    hga_id src; /* position of column 0 */
    int64_t band_first, band_last, hole;
    int64_t type; /* of lane 0 and column 0 */
} strip;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* 0 when nothing of the segment is left. */
static int trim(const hga_segment *s, const tile_group *g, strip *out)
{
    int64_t shift = (int64_t)g->first - s->row; /* the segment's own row of lane 0 */
    int64_t r0 = most(0, -shift), r1 = least(g->n_rows, s->n_rows - shift);
    int64_t lo = shift + s->band_first, hi = shift + s->band_last;
    int64_t c0 = most(0, r0 + lo), c1 = least(s->n_src, r1 + hi);
    if (r0 >= r1 || c0 >= c1) return 0;
    out->segment = s;
    out->row_first = (hga_id)r0, out->row_last = (hga_id)r1;
    out->n = (hga_id)(c1 - c0), out->src = (hga_id)(s->src + c0);
    out->band_first = lo - c0, out->band_last = hi - c0, out->hole = shift + s->hole - c0;
    out->type = s->type + shift * s->type_dst + c0 * s->type_src;
    return 1;
}

/* The lanes that have column c, as bits. */
static unsigned rows_of_column(const strip *x, hga_id c)
{
    int64_t r0 = most(x->row_first, c - x->band_last), r1 = least(x->row_last, c - x->band_first + 1), hole = c - x->hole;
    if (r0 >= r1) return 0;
    unsigned rows = ((1u << (r1 - r0)) - 1) << r0;
    return x->segment->has_hole && hole >= r0 && hole < r1 ? rows & ~(1u << hole) : rows;
}

static int64_t strip_edges(const strip *x)
{
    int64_t edges = 0;
    for (hga_id r = x->row_first; r < x->row_last; r++) {
        int64_t c0 = most(0, r + x->band_first), c1 = least(x->n, r + x->band_last + 1), hole = r + x->hole;
        if (c1 > c0) edges += c1 - c0 - (x->segment->has_hole && hole >= c0 && hole < c1);
    }
    return edges;
}

static int pays(const worker *w, const strip *x)
{
    if (w->io->rel_key && x->segment->type_dst) return 0; /* a key's relative part would differ from row to row */
    return (double)strip_edges(x) >= TILE_SHARE * KERNEL_TILE * x->n;
}

/* ---- one tile: the columns in w->chunk ---- */

/* Scores' parts that all heads share and that differ from pair to pair: positions. */
static int load_pair_base(worker *w, const tile_group *g)
{
    const edge_chunk *c = &w->chunk;
    hga_id dim = w->plan->shape.pos_dim;
    if (!w->io->node_pos) return 0;
    for (hga_id i = 0; i < c->n; i++) {
        const float *theirs = w->io->node_pos + (ptrdiff_t)c->src[i] * dim;
        for (hga_id r = 0; r < KERNEL_TILE; r++) {
            hga_id own = c->pos_of[i] ? c->pos_of[i] - 1 : r < g->n_rows ? g->node[r] : -1;
            float sum = 0;
            for (hga_id j = 0; own >= 0 && j < dim; j++) sum += w->io->node_pos[(ptrdiff_t)own * dim + j] * theirs[j];
            w->pair_base[i * KERNEL_TILE + r] = sum;
        }
    }
    return 1;
}

/* The pair biases of one head: pair_base and, where a type depends on the row too, rel_bias. */
static void load_pair_bias(worker *w, int has_base, hga_id head)
{
    const edge_chunk *c = &w->chunk;
    hga_id heads = w->plan->shape.n_heads, n_types = w->reader.r.n_types;
    if (has_base)
        memcpy(w->pair_bias, w->pair_base, (size_t)c->n * KERNEL_TILE * sizeof *w->pair_bias);
    else
        memset(w->pair_bias, 0, (size_t)c->n * KERNEL_TILE * sizeof *w->pair_bias);
    for (hga_id i = 0; w->io->rel_bias && i < c->n; i++)
        for (hga_id r = 0; r < KERNEL_TILE; r++) {
            int64_t type = w->tile_type[i] + (int64_t)r * w->tile_type_row[i];
            if (type >= 0 && type < n_types) w->pair_bias[i * KERNEL_TILE + r] += w->io->rel_bias[type * heads + head]; /* outside: no edge */
        }
}

/* k + rel_key[type], packed. */
static void load_relative_keys(worker *w)
{
    hga_id dim = w->plan->shape.dim;
    for (hga_id i = 0; i < w->chunk.n; i++) {
        const float *r = w->io->rel_key + (ptrdiff_t)w->chunk.type[i] * dim;
        float *to = w->tile_key + (ptrdiff_t)i * dim;
        w->plan->kernels->blend(dim, 1, w->k_head[i], 1, r, to);
        w->k_head[i] = to;
    }
}

static void run_head(worker *w, const tile_group *g, kernel_tile *t, hga_id head)
{
    const hga_shape *shape = &w->plan->shape;
    const hga_stage *s = &w->plan->program.stage[g->stage];
    const view *key = &w->state->view[s->key], *value = &w->state->view[s->value];
    hga_id room = padded(shape->dim_v), kv = kv_head(shape, head);
    ptrdiff_t slot = (ptrdiff_t)g->number * shape->n_heads + head;
    t->q = w->group_query + slot * padded(shape->dim) * KERNEL_TILE;
    for (hga_id i = 0; i < t->n; i++) {
        w->k_head[i] = w->k[i] + kv * view_head(key, w->chunk.src[i]);
        w->v_head[i] = w->v[i] + kv * view_head(value, w->chunk.src[i]);
    }
    if (w->io->rel_key) load_relative_keys(w);
    kernel_tile_state state = {
        .greatest = w->group_greatest + slot * KERNEL_TILE,
        .sum = w->group_sum + slot * KERNEL_TILE,
        .acc = w->group_acc + slot * KERNEL_TILE * room,
        .stride = room,
    };
    w->plan->kernels->attend_tile(t, &state);
}

/* Is every pair an edge? */
static int is_full(const worker *w, const tile_group *g)
{
    unsigned all = (1u << g->n_rows) - 1;
    for (hga_id i = 0; i < w->chunk.n; i++)
        if (w->tile_rows[i] != all) return 0;
    return 1;
}

static void flush_tile(worker *w, const tile_group *g)
{
    const hga_shape *shape = &w->plan->shape;
    edge_chunk *c = &w->chunk;
    if (c->n == 0) return;
    const hga_stage *s = &w->plan->program.stage[g->stage];
    for (hga_id i = 0; i < c->n; i++) {
        w->k[i] = view_row(&w->state->view[s->key], c->src[i]);
        w->v[i] = view_row(&w->state->view[s->value], c->src[i]);
    }
    score_bases(w, g->stage, -1);
    int has_base = load_pair_base(w, g), has_pairs = has_base || w->io->rel_bias;
    kernel_tile t = {.n_rows = g->n_rows, .n = c->n, .dim = shape->dim, .dim_v = shape->dim_v, .k = w->k_head, .v = w->v_head, .bias = w->edge_base};
    t.rows = is_full(w, g) ? NULL : w->tile_rows;
    for (hga_id h = 0; h < shape->n_heads; h++) {
        if (has_pairs) load_pair_bias(w, has_base, h);
        t.pair_bias = has_pairs ? w->pair_bias : NULL;
        run_head(w, g, &t, h);
    }
    c->n = 0;
}

/* Lay a strip's columns into tiles. */
static void add_strip(worker *w, const tile_group *g, const strip *x)
{
    const hga_segment *s = x->segment;
    const hga_id *order = w->reader.r.src_order;
    edge_chunk *c = &w->chunk;
    for (hga_id i = 0; i < x->n; i++) {
        unsigned rows = rows_of_column(x, i);
        if (!rows) continue;
        hga_id e = c->n++;
        c->src[e] = order ? order[x->src + i] : x->src + i;
        w->tile_type[e] = x->type + (int64_t)i * s->type_src;
        c->type[e] = (int32_t)w->tile_type[e]; /* of every row where type_dst is 0; relative keys ask no others */
        c->weight[e] = s->weight;
        c->pos_of[e] = s->pos_of;
        w->tile_rows[e] = (uint16_t)rows;
        w->tile_type_row[e] = s->type_dst;
        if (c->n == KERNEL_CHUNK) flush_tile(w, g);
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
    ptrdiff_t each = (ptrdiff_t)padded(shape->dim) * KERNEL_TILE;
    float *to = w->group_query + g->number * shape->n_heads * each;
    memset(to, 0, (size_t)(shape->n_heads * each) * sizeof *to);
    for (hga_id r = 0; r < g->n_rows; r++) {
        if (g->node[r] < 0) continue;
        const float *row = view_row(q, g->node[r]);
        ptrdiff_t stride = view_head(q, g->node[r]);
        for (hga_id h = 0; h < shape->n_heads; h++)
            for (hga_id j = 0; j < shape->dim; j++) to[h * each + j * KERNEL_TILE + r] = row[h * stride + j] * w->state->scale;
    }
}

/* Between a row's own states and its lanes of the group's. */
static void move_states(worker *w, const tile_group *g, hga_id r, int to_group)
{
    const hga_shape *shape = &w->plan->shape;
    hga_id room = padded(shape->dim_v);
    for (hga_id h = 0; h < shape->n_heads; h++) {
        ptrdiff_t lane = ((ptrdiff_t)g->number * shape->n_heads + h) * KERNEL_TILE + r;
        float *acc = w->group_acc + lane * room, *own = w->acc + (ptrdiff_t)h * room;
        float *greatest = w->group_greatest + lane, *sum = w->group_sum + lane;
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
        move_states(w, g, r, 1);
    }
}

/* ---- runs: narrow strips side by side, or one over the other ---- */

enum { RUN_COLUMNS = 256 };

/* Segments first .. last - 1 of the panel as one group sees them: source positions [src, src + n), and which rows have each. Windows that move on by a column every row or
   two overlap almost wholly: each alone is a thin strip, all together are a full tile. */
typedef struct run {
    hga_pos first, last;
    hga_id n_strips, n;
    int64_t src, edges;
    strip strip; /* the first one; the only one where columns have types that matter */
    uint16_t rows[RUN_COLUMNS];
} run;

/* Rows with many columns: such segments are not laid into runs but passed through by themselves. */
static int is_wide(const worker *w, hga_pos i)
{
    const hga_segment *s = &w->reader.segment[i];
    return least(s->n_src, (int64_t)s->band_last - s->band_first + 1) >= 2 * KERNEL_CHUNK;
}

/* Could x stand in one tile column with the run's strips? Not if a pair would be there twice, or if what makes its score differs from theirs. */
static int joins(const worker *w, const run *r, const strip *x)
{
    const hga_segment *s = x->segment, *t = r->strip.segment;
    if (w->io->rel_key || w->io->rel_bias || s->weight != t->weight || s->pos_of != t->pos_of) return 0;
    if (x->src < r->src || x->src >= r->src + r->n || x->src + x->n > r->src + RUN_COLUMNS) return 0;
    for (hga_id c = 0; c < x->n && x->src + c < r->src + r->n; c++)
        if (r->rows[x->src + c - r->src] & rows_of_column(x, c)) return 0;
    return 1;
}

static void join(run *r, const strip *x)
{
    for (; r->n < x->src + x->n - r->src; r->n++) r->rows[r->n] = 0;
    for (hga_id c = 0; c < x->n; c++) r->rows[x->src + c - r->src] = (uint16_t)(r->rows[x->src + c - r->src] | rows_of_column(x, c));
    r->edges += strip_edges(x);
    r->n_strips++;
}

/* The run that begins at segment `from` or later; 0 when there is none. */
static int next_run(const worker *w, const tile_group *g, hga_pos from, run *r)
{
    strip x = {0};
    r->n_strips = 0;
    for (hga_pos i = from; i < w->reader.n_segments; i++) {
        if (is_wide(w, i) || !trim(&w->reader.segment[i], g, &x)) continue;
        if (r->n_strips && !joins(w, r, &x)) break;
        if (!r->n_strips) {
            r->first = i, r->strip = x;
            r->src = x.src, r->n = 0, r->edges = 0;
        }
        join(r, &x);
        r->last = i + 1;
    }
    return r->n_strips > 0;
}

static int run_pays(const worker *w, const run *r)
{
    return r->n_strips == 1 ? pays(w, &r->strip) : (double)r->edges >= TILE_SHARE * KERNEL_TILE * r->n;
}

/* Mark what the group has of segments first .. last - 1. */
static void mark_run(worker *w, const tile_group *g, const run *r)
{
    strip x;
    for (hga_pos i = r->first; i < r->last; i++)
        if (!is_wide(w, i) && trim(&w->reader.segment[i], g, &x)) w->tiled[i] = (uint8_t)(w->tiled[i] | 1u << g->number);
}

static void add_run(worker *w, const tile_group *g, const run *r)
{
    const hga_segment *s = r->strip.segment;
    const hga_id *order = w->reader.r.src_order;
    edge_chunk *c = &w->chunk;
    if (r->n_strips == 1) {
        add_strip(w, g, &r->strip);
        return;
    }
    for (hga_id i = 0; i < r->n; i++) {
        if (!r->rows[i]) continue;
        hga_id e = c->n++;
        c->src[e] = order ? order[r->src + i] : (hga_id)(r->src + i);
        c->type[e] = 0, w->tile_type[e] = 0, w->tile_type_row[e] = 0; /* nobody asks */
        c->weight[e] = s->weight, c->pos_of[e] = s->pos_of;
        w->tile_rows[e] = r->rows[i];
        if (c->n == KERNEL_CHUNK) flush_tile(w, g);
    }
}

/* ---- a panel of groups ---- */

typedef struct tile_panel {
    tile_group group[PANEL_GROUPS];
    hga_id n_groups;
    unsigned started; /* bit g: group g has tiles, and its states live in the group's lanes */
} tile_panel;

/* Decide which segments which groups have in tiles. */
static void choose_tiles(worker *w, tile_panel *p)
{
    strip x;
    run r;
    for (hga_pos i = 0; i < w->reader.n_segments; i++) w->tiled[i] = 0;
    for (hga_id g = 0; g < p->n_groups; g++) {
        for (hga_pos i = 0; i < w->reader.n_segments; i++)
            if (is_wide(w, i) && trim(&w->reader.segment[i], &p->group[g], &x) && pays(w, &x)) w->tiled[i] = (uint8_t)(w->tiled[i] | 1u << g);
        for (hga_pos at = 0; next_run(w, &p->group[g], at, &r); at = r.last)
            if (run_pays(w, &r)) mark_run(w, &p->group[g], &r);
    }
    for (hga_pos i = 0; i < w->reader.n_segments; i++) p->started |= w->tiled[i];
    for (hga_id g = 0; g < p->n_groups; g++)
        if (p->started >> g & 1u) start_group(w, &p->group[g]);
}

/* The part of a strip at source positions [src, src + n). */
static int cut_strip(const strip *x, int64_t src, hga_id n, strip *out)
{
    int64_t c0 = most(0, src - x->src), c1 = least(x->n, src + n - x->src);
    if (c0 >= c1) return 0;
    *out = *x;
    out->src = (hga_id)(x->src + c0), out->n = (hga_id)(c1 - c0);
    out->band_first -= c0, out->band_last -= c0, out->hole -= c0;
    out->type += c0 * x->segment->type_src;
    return 1;
}

static void run_wide(worker *w, const tile_panel *p, hga_pos i)
{
    const hga_segment *s = &w->reader.segment[i];
    strip whole[PANEL_GROUPS] = {{0}}, part;
    for (hga_id g = 0; g < p->n_groups; g++)
        if (w->tiled[i] >> g & 1u) trim(s, &p->group[g], &whole[g]);
    for (int64_t at = s->src; at < (int64_t)s->src + s->n_src; at += KERNEL_CHUNK)
        for (hga_id g = 0; g < p->n_groups; g++) {
            if (!(w->tiled[i] >> g & 1u) || !cut_strip(&whole[g], at, KERNEL_CHUNK, &part)) continue;
            w->chunk.n = 0;
            add_strip(w, &p->group[g], &part);
            flush_tile(w, &p->group[g]);
        }
}

/* A group's runs, side by side. */
static void run_narrow(worker *w, const tile_group *g)
{
    run r;
    w->chunk.n = 0;
    for (hga_pos at = 0; next_run(w, g, at, &r); at = r.last)
        if (w->tiled[r.first] >> g->number & 1u) add_run(w, g, &r);
    flush_tile(w, g);
}

static void finish_group(worker *w, const tile_panel *p, const tile_group *g)
{
    unsigned bit = 1u << g->number;
    for (hga_id r = 0; r < g->n_rows; r++) {
        if (g->node[r] < 0) continue;
        row_job job = job_of(g, r);
        if (p->started & bit)
            move_states(w, g, r, 0);
        else
            attend_start(w, &job);
        attend_rest(w, &job, p->started & bit ? w->tiled : NULL, bit);
    }
}

void attend_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node)
{
    tile_panel p = {.n_groups = (n + KERNEL_TILE - 1) / KERNEL_TILE};
    for (hga_id g = 0, at = 0; g < p.n_groups; g++, at += KERNEL_TILE)
        p.group[g] =
            (tile_group){.stage = stage, .number = g, .first = first + at, .n_rows = n - at < KERNEL_TILE ? n - at : KERNEL_TILE, .node = node + at};
    if (!w->io->edge_bias) choose_tiles(w, &p);
    for (hga_pos i = 0; p.started && i < w->reader.n_segments; i++)
        if (is_wide(w, i) && w->tiled[i]) run_wide(w, &p, i);
    for (hga_id g = 0; g < p.n_groups; g++) {
        if (p.started >> g & 1u) run_narrow(w, &p.group[g]);
        finish_group(w, &p, &p.group[g]);
    }
}
