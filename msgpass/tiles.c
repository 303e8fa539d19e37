/* tiles.c: attention over a panel. Sixteen rows are a group; the columns that enough of them share, of whatever segments, are laid side by side into tiles. A wide
   segment is passed through once for all groups of the panel, a chunk at a time, so that its keys and values come from memory once a panel. What is left of a row
   (narrow bands, explicit edges) goes through the row kernel, into the same states. What goes where depends on the graph and on what the call brings, never on the
   threads. */
#include "engine.h"

#include <math.h>
#include <string.h>

/* A column in a tile costs about as much as this many of its sixteen pairs in the row kernel (measured); a segment with fewer edges stays with the rows. */
static const double TILE_SHARE = 0.45;

/* A row that has all of its edges in tiles is spared what the row kernel takes for a row, about as much as for so many edges (measured). */
enum { ROW_EDGES = 12 };

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

static int pays(const strip *x) { return (double)strip_edges(x) >= TILE_SHARE * KERNEL_TILE * x->n; }

/* ---- one tile: the columns in w->chunk ---- */

/* A group that has the columns [first, last) of the chunk; w->tile_rows[i] tells which rows have which, for the i-th part. */
typedef struct tile_part {
    const tile_group *group;
    hga_id first, last;
    int full; /* every row has every column of these */
} tile_part;

typedef struct tile_parts {
    tile_part part[PANEL_GROUPS];
    hga_id n;
} tile_parts;

/* A chunk's keys and values are copied side by side when as many groups read them: rows of one head lie far apart, and fight for the same lines of the first cache. */
enum { PACK_GROUPS = 3 };

/* Scores' parts that all heads share and that differ from pair to pair: positions. */
static void load_pair_base(worker *w, const tile_parts *parts, hga_id i)
{
    const edge_chunk *c = &w->chunk;
    const tile_part *part = &parts->part[i];
    const tile_group *g = part->group;
    hga_id dim = w->plan->shape.pos_dim;
    for (hga_id e = part->first; e < part->last; e++) {
        const float *theirs = w->io->node_pos + (ptrdiff_t)c->src[e] * dim;
        for (hga_id r = 0; r < KERNEL_TILE; r++) {
            hga_id own = c->pos_of[e] ? c->pos_of[e] - 1 : r < g->n_rows ? g->node[r] : -1;
            float sum = 0;
            for (hga_id j = 0; own >= 0 && j < dim; j++) sum += w->io->node_pos[(ptrdiff_t)own * dim + j] * theirs[j];
            w->pair_base[(i * KERNEL_CHUNK + e) * KERNEL_TILE + r] = sum;
        }
    }
}

/* ---- types: where they differ from row to row, q . rel_key[type] + rel_bias[type] is found once for each type of the tile, and looked up for each pair ---- */

static int has_types(const worker *w) { return w->io->rel_key || w->io->rel_bias; }

static int32_t *pair_types(const worker *w, hga_id i, hga_id e) { return w->pair_type + ((ptrdiff_t)i * KERNEL_CHUNK + e) * KERNEL_TILE; }

/* Types of a strip's column c, lane by lane. */
static void types_of_column(const strip *x, hga_id c, int32_t *type)
{
    unsigned rows = rows_of_column(x, c);
    for (hga_id r = 0; r < KERNEL_TILE; r++)
        if (rows >> r & 1u) type[r] = (int32_t)(x->type + (int64_t)c * x->segment->type_src + (int64_t)r * x->segment->type_dst);
}

/* List the different types of part i; its pairs then say where in the list theirs is. */
static void list_types(worker *w, const tile_parts *parts, hga_id i)
{
    int32_t *list = w->part_type + (ptrdiff_t)i * KERNEL_CHUNK * KERNEL_TILE, n = 0;
    int32_t *pair = pair_types(w, i, parts->part[i].first), *end = pair_types(w, i, parts->part[i].last);
    for (; pair < end; pair++) {
        if (*pair < 0) {
            *pair = 0;
            continue;
        }
        int32_t *place = &w->type_place[*pair];
        if (*place < 0) *place = n, list[n++] = *pair;
        *pair = *place;
    }
    w->n_part_types[i] = n;
    for (int32_t t = 0; t < n; t++) w->type_place[list[t]] = -1;
}

/* What part i's types add to the scores of one head, for each lane. */
static void score_types(worker *w, const tile_parts *parts, hga_id i, hga_id head)
{
    const hga_shape *shape = &w->plan->shape;
    const hga_io *io = w->io;
    const tile_group *g = parts->part[i].group;
    const int32_t *list = w->part_type + (ptrdiff_t)i * KERNEL_CHUNK * KERNEL_TILE;
    float bias[KERNEL_CHUNK] = {0};
    const float *row[KERNEL_CHUNK];
    for (hga_id at = 0, n; at < w->n_part_types[i]; at += n) {
        n = w->n_part_types[i] - at < KERNEL_CHUNK ? w->n_part_types[i] - at : KERNEL_CHUNK;
        float *out = w->type_score + (ptrdiff_t)at * KERNEL_TILE;
        for (hga_id t = 0; t < n; t++) {
            if (io->rel_bias) bias[t] = io->rel_bias[(ptrdiff_t)list[at + t] * shape->n_heads + head];
            if (io->rel_key) row[t] = io->rel_key + (ptrdiff_t)list[at + t] * shape->dim;
            for (hga_id r = 0; r < KERNEL_TILE && !io->rel_key; r++) out[t * KERNEL_TILE + r] = bias[t];
        }
        if (!io->rel_key) continue;
        kernel_tile tile = {.n_groups = 1, .n = n, .dim = shape->dim, .k = row, .bias = bias};
        tile.group[0].q = w->group_query + ((ptrdiff_t)g->number * shape->n_heads + head) * padded(shape->dim) * KERNEL_TILE;
        w->plan->kernels->score_tile(&tile, out);
    }
}

/* The pair biases of one head: positions, and types that differ from row to row. NULL when there are none. */
static const float *load_pair_bias(worker *w, const tile_parts *parts, hga_id i, hga_id head)
{
    const tile_part *part = &parts->part[i];
    if (!w->io->node_pos && !w->types_vary) return NULL;
    float *bias = w->pair_bias + i % 2 * KERNEL_CHUNK * KERNEL_TILE;
    hga_id first = part->first * KERNEL_TILE, last = part->last * KERNEL_TILE;
    if (w->io->node_pos)
        memcpy(bias + first, w->pair_base + (ptrdiff_t)i * KERNEL_CHUNK * KERNEL_TILE + first, (size_t)(last - first) * sizeof *bias);
    else
        memset(bias + first, 0, (size_t)(last - first) * sizeof *bias);
    if (!w->types_vary) return bias;
    const int32_t *place = pair_types(w, i, 0);
    score_types(w, parts, i, head);
    for (hga_id at = first; at < last; at += KERNEL_TILE)
        for (hga_id r = 0; r < KERNEL_TILE; r++) bias[at + r] += w->type_score[place[at + r] * KERNEL_TILE + r];
    return bias;
}

/* What one head adds to the scores of whole columns. */
static const float *load_bias(worker *w, hga_id head)
{
    if (!w->io->rel_bias || w->types_vary) return w->edge_base;
    for (hga_id e = 0; e < w->chunk.n; e++)
        w->bias[e] = w->edge_base[e] + w->io->rel_bias[(ptrdiff_t)w->chunk.type[e] * w->plan->shape.n_heads + head];
    return w->bias;
}

/* ---- keys and values of a head ---- */

/* k + rel_key[type], side by side. */
static void load_relative_keys(worker *w)
{
    hga_id dim = w->plan->shape.dim;
    for (hga_id e = 0; e < w->chunk.n; e++)
        w->plan->kernels->blend(dim, 1, w->k_head[e], 1, w->io->rel_key + (ptrdiff_t)w->chunk.type[e] * dim, w->tile_key + e * padded(dim));
}

static void point_at(const float *packed, hga_id n, ptrdiff_t stride, const float **row)
{
    for (hga_id e = 0; e < n; e++) row[e] = packed + e * stride;
}

/* The chunk's keys and values of one head, where the kernel will find them. */
static void load_head(worker *w, hga_id stage, hga_id kv, int pack)
{
    const hga_shape *shape = &w->plan->shape;
    const hga_stage *s = &w->plan->program.stage[stage];
    const view *key = &w->state->view[s->key], *value = &w->state->view[s->value];
    hga_id n = w->chunk.n;
    for (hga_id e = 0; e < n; e++) {
        w->k_head[e] = w->k[e] + kv * view_head(key, w->chunk.src[e]);
        w->v_head[e] = w->v[e] + kv * view_head(value, w->chunk.src[e]);
    }
    int relative = w->io->rel_key && !w->types_vary;
    if (relative)
        load_relative_keys(w);
    else if (pack)
        w->plan->kernels->copy_rows(n, w->k_head, shape->dim, w->tile_key, padded(shape->dim));
    if (relative || pack) point_at(w->tile_key, n, padded(shape->dim), w->k_head);
    if (!pack) return;
    w->plan->kernels->copy_rows(n, w->v_head, shape->dim_v, w->tile_value, padded(shape->dim_v));
    point_at(w->tile_value, n, padded(shape->dim_v), w->v_head);
}

/* Parts i .. i + many - 1 at once. */
static void run_parts(worker *w, const tile_parts *parts, hga_id i, hga_id many, hga_id head, const float *column_bias)
{
    const hga_shape *shape = &w->plan->shape;
    const tile_part *part = &parts->part[i], *other = part + many - 1;
    hga_id first = (hga_id)least(part->first, other->first), last = (hga_id)most(part->last, other->last);
    kernel_tile t = {.n_groups = many,
                     .n = last - first,
                     .dim = shape->dim,
                     .dim_v = shape->dim_v,
                     .k = w->k_head + first,
                     .v = w->v_head + first,
                     .bias = column_bias + first};
    for (hga_id x = 0; x < many; x++) {
        const tile_group *g = part[x].group;
        ptrdiff_t slot = (ptrdiff_t)g->number * shape->n_heads + head, room = padded(shape->dim_v);
        const float *bias = load_pair_bias(w, parts, i + x, head);
        t.group[x] = (kernel_tile_group){
            .n_rows = g->n_rows,
            .q = w->group_query + slot * padded(shape->dim) * KERNEL_TILE,
            .rows = part[x].full && part[x].first == first && part[x].last == last ? NULL : w->tile_rows[i + x] + first,
            .pair_bias = bias ? bias + first * KERNEL_TILE : NULL,
            .state = {.greatest = w->group_greatest + slot * KERNEL_TILE,
                      .sum = w->group_sum + slot * KERNEL_TILE,
                      .acc = w->group_acc + slot * KERNEL_TILE * room,
                      .stride = room},
        };
    }
    w->plan->kernels->attend_tile(&t);
}

/* Do parts i and i + 1 share most of their columns? */
static int make_pair(const tile_parts *parts, hga_id i)
{
    if (i + 1 == parts->n) return 0;
    const tile_part *a = &parts->part[i], *b = a + 1;
    int64_t both = most(a->last, b->last) - least(a->first, b->first);
    return 4 * least(a->last - a->first, b->last - b->first) >= 3 * both;
}

static void flush_tile(worker *w, hga_id stage, const tile_parts *parts)
{
    const hga_shape *shape = &w->plan->shape;
    edge_chunk *c = &w->chunk;
    const hga_stage *s = &w->plan->program.stage[stage];
    if (c->n == 0) return;
    for (hga_id e = 0; e < c->n; e++) {
        w->k[e] = view_row(&w->state->view[s->key], c->src[e]);
        w->v[e] = view_row(&w->state->view[s->value], c->src[e]);
    }
    score_bases(w, stage, -1);
    for (hga_id i = 0; w->io->node_pos && i < parts->n; i++) load_pair_base(w, parts, i);
    for (hga_id i = 0; w->types_vary && i < parts->n; i++) list_types(w, parts, i);
    hga_id loaded = -1;
    for (hga_id h = 0; h < shape->n_heads; h++) {
        if (kv_head(shape, h) != loaded) load_head(w, stage, loaded = kv_head(shape, h), parts->n >= PACK_GROUPS);
        const float *bias = load_bias(w, h);
        for (hga_id i = 0, many; i < parts->n; i += many) run_parts(w, parts, i, many = 1 + make_pair(parts, i), h, bias);
    }
    c->n = 0, w->types_vary = 0;
}

/* What column e of the chunk is, whoever has it. */
static void put_column(worker *w, const hga_segment *s, hga_id e, int64_t position, int64_t type)
{
    const hga_id *order = w->reader.r.src_order;
    edge_chunk *c = &w->chunk;
    c->src[e] = order ? order[position] : (hga_id)position;
    c->weight[e] = s->weight;
    c->pos_of[e] = s->pos_of;
    c->type[e] = (int32_t)type; /* of every row, unless types vary */
}

/* ---- narrow tiles: one group, columns of any segments side by side ---- */

static int all_full(const uint16_t *rows, hga_id n, const tile_group *g)
{
    unsigned all = (1u << g->n_rows) - 1;
    for (hga_id c = 0; c < n; c++)
        if (rows[c] != all) return 0;
    return 1;
}

static void flush_group(worker *w, const tile_group *g)
{
    tile_part part = {.group = g, .last = w->chunk.n, .full = all_full(w->tile_rows[0], w->chunk.n, g)};
    flush_tile(w, g->stage, &(tile_parts){.n = 1, .part = {part}});
}

/* The place for the types of the column to come; NULL where nobody asks. */
static int32_t *next_types(worker *w)
{
    if (!has_types(w)) return NULL;
    int32_t *type = pair_types(w, 0, w->chunk.n);
    for (hga_id r = 0; r < KERNEL_TILE; r++) type[r] = -1;
    return type;
}

static void add_column(worker *w, const tile_group *g, const hga_segment *s, int64_t position, int64_t type, unsigned rows)
{
    hga_id e = w->chunk.n++;
    put_column(w, s, e, position, type);
    w->tile_rows[0][e] = (uint16_t)rows;
    if (w->chunk.n == KERNEL_CHUNK) flush_group(w, g);
}

/* Lay a strip's columns into tiles. */
static void add_strip(worker *w, const tile_group *g, const strip *x)
{
    for (hga_id i = 0; i < x->n; i++) {
        unsigned rows = rows_of_column(x, i);
        if (!rows) continue;
        if (has_types(w)) types_of_column(x, i, next_types(w)), w->types_vary |= x->segment->type_dst != 0;
        add_column(w, g, x->segment, x->src + i, x->type + (int64_t)i * x->segment->type_src, rows);
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
    const float *row[KERNEL_TILE];
    for (hga_id h = 0; h < shape->n_heads; h++) {
        for (hga_id r = 0; r < g->n_rows; r++) row[r] = g->node[r] < 0 ? NULL : view_row(q, g->node[r]) + h * view_head(q, g->node[r]);
        w->plan->kernels->turn_rows(g->n_rows, row, w->state->scale, shape->dim, w->group_query + (g->number * shape->n_heads + h) * each);
    }
}

/* The place of row r's state in the group's, for one head. */
static ptrdiff_t lane_of(const worker *w, const tile_group *g, hga_id head, hga_id r)
{
    return ((ptrdiff_t)g->number * w->plan->shape.n_heads + head) * KERNEL_TILE + r;
}

/* What row r's states are before any edge: empty, or what is there already. */
static void load_states(worker *w, const tile_group *g, hga_id r)
{
    const hga_shape *shape = &w->plan->shape;
    const view *out = &w->state->view[w->plan->program.stage[g->stage].out];
    const float *lse = view_lse(out, g->node[r]), *row = view_row(out, g->node[r]);
    for (hga_id h = 0; h < shape->n_heads; h++) {
        ptrdiff_t lane = lane_of(w, g, h, r);
        if (lse[h] == -INFINITY) continue;
        w->group_greatest[lane] = lse[h], w->group_sum[lane] = 1;
        memcpy(w->group_acc + lane * padded(shape->dim_v), row + h * view_head(out, g->node[r]), (size_t)shape->dim_v * sizeof *row);
    }
}

static void start_group(worker *w, const tile_group *g)
{
    const hga_shape *shape = &w->plan->shape;
    ptrdiff_t lane = lane_of(w, g, 0, 0), lanes = (ptrdiff_t)shape->n_heads * KERNEL_TILE, room = padded(shape->dim_v);
    load_group_queries(w, g);
    memset(w->group_acc + lane * room, 0, (size_t)(lanes * room) * sizeof *w->group_acc);
    for (ptrdiff_t i = lane; i < lane + lanes; i++) w->group_greatest[i] = -INFINITY, w->group_sum[i] = 0;
    for (hga_id r = 0; r < g->n_rows && w->plan->stage[g->stage].kind == KIND_ATTEND_MORE; r++)
        if (g->node[r] >= 0) load_states(w, g, r);
}

/* Row r's states become the row's own again, for the edges that are not in tiles. */
static void take_states(worker *w, const tile_group *g, hga_id r)
{
    const hga_shape *shape = &w->plan->shape;
    hga_id room = padded(shape->dim_v);
    for (hga_id h = 0; h < shape->n_heads; h++) {
        ptrdiff_t lane = lane_of(w, g, h, r);
        memcpy(w->acc + (ptrdiff_t)h * room, w->group_acc + lane * room, (size_t)room * sizeof *w->acc);
        w->greatest[h] = w->group_greatest[lane], w->sum[h] = w->group_sum[lane];
    }
}

/* The group's states are done: normalise and store them. */
static void store_group(worker *w, const tile_group *g)
{
    const hga_shape *shape = &w->plan->shape;
    const view *out = &w->state->view[w->plan->program.stage[g->stage].out];
    float *lse = w->group_greatest + lane_of(w, g, 0, 0), *inverse = w->group_sum + lane_of(w, g, 0, 0);
    w->plan->kernels->finish(shape->n_heads * KERNEL_TILE, lse, inverse, inverse, lse);
    for (hga_id r = 0; r < g->n_rows; r++) {
        if (g->node[r] < 0) continue;
        float *row = view_row(out, g->node[r]), *row_lse = view_lse(out, g->node[r]);
        for (hga_id h = 0; h < shape->n_heads; h++) {
            ptrdiff_t lane = lane_of(w, g, h, r);
            row_lse[h] = w->group_greatest[lane];
            w->plan->kernels->scale(shape->dim_v, w->group_sum[lane], w->group_acc + lane * padded(shape->dim_v),
                                    row + h * view_head(out, g->node[r]));
        }
    }
}

/* ---- runs: narrow strips side by side, or one over the other ---- */

/* Segments first .. last - 1 of the panel as one group sees them: source positions [src, src + n), and which rows have each. Windows that move on by a column every row or
   two overlap almost wholly: each alone is a thin strip, all together are a full tile. */
typedef struct run {
    hga_pos first, last;
    hga_id n_strips, n;
    int64_t src, edges;
    unsigned any; /* rows that have some column */
    strip strip;  /* the first one */
    uint16_t rows[RUN_COLUMNS];
} run;

/* Rows with many columns: such segments are not laid into runs but passed through by themselves. */
static int is_wide(const worker *w, hga_pos i)
{
    const hga_segment *s = &w->reader.segment[i];
    return least(s->n_src, (int64_t)s->band_last - s->band_first + 1) >= 2 * KERNEL_CHUNK;
}

/* Could x stand in one tile column with the run's strips? Not if a pair would be there twice, or if what makes its score differs from theirs. */
static int joins(const run *r, const strip *x)
{
    const hga_segment *s = x->segment, *t = r->strip.segment;
    if (s->weight != t->weight || s->pos_of != t->pos_of) return 0;
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
    for (hga_id c = 0; c < x->n; c++) r->any |= rows_of_column(x, c);
    r->n_strips++;
}

/* The run that begins at segment `from` or later; 0 when there is none. */
static int next_run(const worker *w, const tile_group *g, hga_pos from, run *r)
{
    strip x = {0};
    r->n_strips = 0;
    for (hga_pos i = from; i < w->reader.n_segments; i++) {
        if (is_wide(w, i) || !trim(&w->reader.segment[i], g, &x)) continue;
        if (r->n_strips && !joins(r, &x)) break;
        if (!r->n_strips) {
            r->first = i, r->strip = x;
            r->src = x.src, r->n = 0, r->edges = 0, r->any = 0;
        }
        join(r, &x);
        r->last = i + 1;
    }
    return r->n_strips > 0;
}

static int run_pays(const worker *w, const run *r)
{
    hga_id saved = w->reader.r.ptr ? 0 : ROW_EDGES * __builtin_popcount(r->any);
    return (double)(r->edges + saved) >= TILE_SHARE * KERNEL_TILE * r->n;
}

/* Mark what the group has of segments first .. last - 1. */
static void mark_run(worker *w, const tile_group *g, const run *r)
{
    strip x;
    for (hga_pos i = r->first; i < r->last; i++)
        if (!is_wide(w, i) && trim(&w->reader.segment[i], g, &x)) w->tiled[i] = (uint8_t)(w->tiled[i] | 1u << g->number);
}

/* Types of all pairs of a run, from the strips that have them. */
static void load_run_types(worker *w, const tile_group *g, const run *r)
{
    strip x;
    for (hga_pos i = r->first; i < r->last; i++) {
        if (is_wide(w, i) || !trim(&w->reader.segment[i], g, &x)) continue;
        for (hga_id c = 0; c < x.n; c++) types_of_column(&x, c, w->run_type + (x.src + c - r->src) * KERNEL_TILE);
    }
}

/* Strips over one another: pairs of one column have the types of different strips. */
static void add_joined(worker *w, const tile_group *g, const run *r)
{
    if (has_types(w)) load_run_types(w, g, r);
    for (hga_id i = 0; i < r->n; i++) {
        if (!r->rows[i]) continue;
        int32_t *type = next_types(w);
        for (hga_id lane = 0; type && lane < KERNEL_TILE; lane++)
            if (r->rows[i] >> lane & 1) type[lane] = w->run_type[i * KERNEL_TILE + lane];
        w->types_vary |= type != NULL;
        add_column(w, g, r->strip.segment, r->src + i, 0, r->rows[i]);
    }
}

static void add_run(worker *w, const tile_group *g, const run *r)
{
    if (r->n_strips == 1)
        add_strip(w, g, &r->strip);
    else
        add_joined(w, g, r);
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
            if (is_wide(w, i) && trim(&w->reader.segment[i], &p->group[g], &x) && pays(&x)) w->tiled[i] = (uint8_t)(w->tiled[i] | 1u << g);
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

/* A part for each group that has the strip's columns [at, at + n). */
static void find_parts(worker *w, const tile_panel *p, const strip *whole, int64_t at, hga_id n, tile_parts *out)
{
    strip x;
    out->n = 0;
    for (hga_id g = 0; g < p->n_groups; g++) {
        if (!whole[g].segment || !cut_strip(&whole[g], at, n, &x)) continue;
        uint16_t *rows = w->tile_rows[out->n];
        hga_id first = (hga_id)(x.src - at);
        memset(rows, 0, sizeof w->tile_rows[0]);
        for (hga_id c = 0; c < x.n; c++) rows[first + c] = (uint16_t)rows_of_column(&x, c);
        if (w->types_vary) {
            memset(pair_types(w, out->n, first), -1, (size_t)x.n * KERNEL_TILE * sizeof *w->pair_type);
            for (hga_id c = 0; c < x.n; c++) types_of_column(&x, c, pair_types(w, out->n, first + c));
        }
        out->part[out->n++] =
            (tile_part){.group = &p->group[g], .first = first, .last = first + x.n, .full = all_full(rows + first, x.n, &p->group[g])};
    }
}

/* A wide segment's columns pass by once, for all groups that have it in tiles. */
static void run_wide(worker *w, hga_id stage, const tile_panel *p, hga_pos i)
{
    const hga_segment *s = &w->reader.segment[i];
    strip whole[PANEL_GROUPS] = {{0}};
    tile_parts parts;
    for (hga_id g = 0; g < p->n_groups; g++)
        if ((unsigned)w->tiled[i] >> g & 1u) trim(s, &p->group[g], &whole[g]);
    for (hga_id at = 0, n; at < s->n_src; at += n) {
        n = s->n_src - at < KERNEL_CHUNK ? s->n_src - at : KERNEL_CHUNK;
        w->types_vary = has_types(w) && s->type_dst != 0;
        find_parts(w, p, whole, (int64_t)s->src + at, n, &parts);
        if (!parts.n) continue;
        for (hga_id e = 0; e < n; e++) put_column(w, s, e, (int64_t)s->src + at + e, s->type + (int64_t)(at + e) * s->type_src);
        w->chunk.n = n;
        flush_tile(w, stage, &parts);
    }
}

/* A group's runs, side by side. */
static void run_narrow(worker *w, const tile_group *g)
{
    run r;
    w->chunk.n = 0, w->types_vary = 0;
    for (hga_pos at = 0; next_run(w, g, at, &r); at = r.last)
        if ((unsigned)w->tiled[r.first] >> g->number & 1u) add_run(w, g, &r);
    flush_group(w, g);
}

/* Are there edges of the group that are not in tiles? */
static int has_rest(const worker *w, const tile_group *g)
{
    const hga_relation *r = &w->reader.r;
    strip x;
    if (w->reader.relation < 0) return 1; /* along the tree */
    for (hga_pos i = 0; i < w->reader.n_segments; i++)
        if (!((unsigned)w->tiled[i] >> g->number & 1u) && trim(&w->reader.segment[i], g, &x)) return 1;
    for (hga_id i = 0; i < g->n_rows && r->ptr; i++)
        if (g->node[i] >= 0 && r->ptr[g->node[i] + 1] > r->ptr[g->node[i]]) return 1;
    return 0;
}

static void finish_group(worker *w, const tile_panel *p, const tile_group *g)
{
    unsigned bit = 1u << g->number;
    int started = p->started >> g->number & 1u;
    if (started && !has_rest(w, g)) {
        store_group(w, g);
        return;
    }
    for (hga_id r = 0; r < g->n_rows; r++) {
        if (g->node[r] < 0) continue;
        row_job job = job_of(g, r);
        if (started)
            take_states(w, g, r);
        else
            attend_start(w, &job);
        attend_rest(w, &job, started ? w->tiled : NULL, bit);
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
        if (is_wide(w, i) && w->tiled[i]) run_wide(w, stage, &p, i);
    for (hga_id g = 0; g < p.n_groups; g++) {
        if (p.started >> g & 1u) run_narrow(w, &p.group[g]);
        finish_group(w, &p, &p.group[g]);
    }
}
