/* scores.c: the terms of scores besides the products: masses, weights, positions, biases; and the addresses of a
   chunk's source rows. */
#include "scores.h"
#include "edge_biases.h"
#include "stages.h"
#include "run_tiles.h"

#include <float.h>
#include <math.h>
#include <string.h>

static float dot(const float *a, const float *b, hga_id n)
{
    float sum = 0;
    for (hga_id i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

float in_base_2(float x)
{
    float y = x * KERNEL_LOG2E;
    return y < -FLT_MAX && x >= -FLT_MAX ? -FLT_MAX : y;
}

/* Terms that all heads share, in base 2: the sigmoids' bias, counts, and with v >= 0 products of positions. */
void score_bases(const worker *w, hga_id stage, hga_id v, const edge_chunk *c, float *bases)
{
    const hga_stage *s = stage_of(w, stage);
    hga_id dim = w->plan->shape.pos_dim;
    float mass = 1, log_mass = 0, weight = 1, log_weight = 0;
    for (hga_id e = 0; e < c->n; e++) {
        float base = w->workspace->scores.sigmoid_bias_2;
        if (s->by_mass) {
            float m = w->plan->nodes.mass[c->src[e]];
            if (m != mass) mass = m, log_mass = log2f(m); /* masses come in long runs */
            base += log_mass;
        }
        if (c->weight[e] != weight) weight = c->weight[e], log_weight = log2f(weight);
        base += log_weight;
        if (w->io->node_pos.data && v >= 0) {
            hga_id own = c->pos_of[e] ? c->pos_of[e] - 1 : v;
            hga_id other = c->src_pos_of[e] ? c->src_pos_of[e] - 1 : c->src[e];
            base += KERNEL_LOG2E * dot(w->io->node_pos.data + (ptrdiff_t)own * dim,
                                       w->io->node_pos.data + (ptrdiff_t)other * dim, dim);
        }
        bases[e] = base;
    }
}

kernel_sigmoids sigmoids_of_chunk(const worker *w, hga_id stage, const edge_chunk *c, float *inverse)
{
    if (!weights_are_sigmoids(w->plan)) return (kernel_sigmoids){0};
    const int counts = edges_have_counts(w->plan, stage), by_mass = stage_of(w, stage)->by_mass;
    for (hga_id e = 0; counts && e < c->n; e++)
        inverse[e] = 1 / (c->weight[e] * (by_mass ? w->plan->nodes.mass[c->src[e]] : 1));
    return (kernel_sigmoids){.on = 1, .inverse_count = counts ? inverse : NULL};
}

static float distance(const worker *w, hga_id v, hga_id u)
{
    const double *at = w->plan->cache->lists.position;
    return fabsf((float)at[v] - (float)at[u]);
}

/* Clamped to FLT_MAX, so that the greatest slopes times a distance of 0 are not NaN. */
float slope_in_base_2(const worker *w, hga_id head)
{
    return fminf(w->workspace->scores.slopes[head] * KERNEL_LOG2E, FLT_MAX);
}

/* Sets row.bias[e]: the base of edge e plus the head's terms: types, slopes and biases of edges. */
void score_biases(worker *w, const row_job *job, hga_id head)
{
    const edge_chunk *c = &w->chunk;
    const hga_io *io = w->io;
    hga_id heads = w->plan->shape.n_heads;
    memcpy(w->rows.row.bias, w->rows.row.base, (size_t)c->n * sizeof *w->rows.row.bias);
    if (io->rel_bias.data)
        for (hga_id e = 0; e < c->n; e++)
            w->rows.row.bias[e] += in_base_2(io->rel_bias.data[(ptrdiff_t)c->type[e] * heads + head]);
    if (w->workspace->scores.slopes)
        for (hga_id e = 0; e < c->n; e++)
            w->rows.row.bias[e] -= slope_in_base_2(w, head) * distance(w, job->v, c->src[e]);
    if (io->edge_bias.data && job->stage == w->plan->bias_stage) {
        hga_pos first = w->plan->cache->lists.first_edge[job->v];
        hga_id columns = io->edge_bias.columns, column = columns == 1 ? 0 : head;
        for (hga_id e = 0; e < c->n; e++)
            w->rows.row.bias[e] += in_base_2(io->edge_bias.data[(first + w->rows.row.rank[e]) * columns + column]);
    }
}

/* Finds the rows of the chunk's sources; *same: all of them have one head stride, *stride. */
void find_sources(const edge_chunk *c, const bound_field *x, const float **row, int *same, ptrdiff_t *stride)
{
    int from_io = 0, from_ws = 0;
    *same = 1, *stride = x->ws.head;
    if (!x->io.n) { /* a decoder's rows are all in its workspace */
        for (hga_id e = 0; e < c->n; e++) row[e] = bound_ws_row(x, c->src[e]);
        return;
    }
    for (hga_id e = 0; e < c->n; e++) {
        int io = bound_is_io(x, c->src[e]);
        from_io |= io, from_ws |= !io;
        row[e] = bound_row(x, c->src[e]);
    }
    *same = x->heads == 1 || !(from_io && from_ws) || x->io.head == x->ws.head;
    if (from_io) *stride = x->io.head;
}

void pack_sources(const worker *w, const bound_field *x, hga_id first, hga_id n, const float **row, float *to)
{
    for (hga_id e = 0; e < n; e++) {
        const float *from = row[e];
        row[e] = to;
        for (hga_id h = 0; h < x->heads; h++, to += x->columns)
            memcpy(to, from + h * bound_head(x, w->chunk.src[first + e]), (size_t)x->columns * sizeof *to);
    }
}

void move_to_head(const edge_chunk *c, const bound_field *x, const float *const *row, hga_id head, const float **out)
{
    for (hga_id e = 0; e < c->n; e++) out[e] = row[e] + head * bound_head(x, c->src[e]);
}

/* ---- terms of single pairs, for tiles ---- */

/* Computes the terms of positions, which differ from pair to pair and which all heads share. */
void pair_positions(worker *w, const tile_chunk *c, hga_id i)
{
    const tile_part *part = &c->part[i];
    const row_group *g = part->group;
    hga_id dim = w->plan->shape.pos_dim;
    for (hga_id e = part->first; e < part->last; e++) {
        hga_id other = c->columns.src_pos_of[e] ? c->columns.src_pos_of[e] - 1 : c->columns.src[e];
        const float *theirs = w->io->node_pos.data + (ptrdiff_t)other * dim;
        for (hga_id r = 0; r < KERNEL_TILE; r++) {
            hga_id own = c->columns.pos_of[e] ? c->columns.pos_of[e] - 1 : r < g->n_rows ? g->node[r] : -1;
            float sum = 0;
            for (hga_id j = 0; own >= 0 && j < dim; j++)
                sum += w->io->node_pos.data[(ptrdiff_t)own * dim + j] * theirs[j];
            w->tiles.tile.pair_base[(i * KERNEL_CHUNK + e) * KERNEL_TILE + r] = sum * KERNEL_LOG2E;
        }
    }
}

/* ---- types that differ from row to row ----

   q . rel_key[type] + rel_bias[type] is computed once for each type of the part, and looked up for each pair. */

/* The part's types so far. */
typedef struct lister {
    hga_id n, n_picks;
    int32_t *list, *index;
    uint32_t *pick;
} lister;

/* Adds a column's picks: consecutive lanes of one type are one pick. Returns how many. */
static uint8_t list_column(lister *x, const int32_t *type)
{
    const hga_id before = x->n_picks;
    int32_t last = -1;
    for (hga_id r = 0; r < KERNEL_TILE; last = type[r++]) {
        if (type[r] < 0) continue;
        if (type[r] != last) {
            int32_t *index = &x->index[type[r]];
            if (*index < 0) *index = x->n, x->list[x->n++] = type[r];
            x->pick[x->n_picks++] = (uint32_t)*index;
        }
        x->pick[x->n_picks - 1] |= UINT32_C(1) << (16 + r);
    }
    return (uint8_t)(x->n_picks - before);
}

/* Lists the types of part i's pairs, and by column which lanes have which. */
static void list_part(worker *w, const tile_chunk *c, hga_id i)
{
    const tile_part *part = &c->part[i];
    const ptrdiff_t at = (ptrdiff_t)(c->typed + i) * KERNEL_CHUNK;
    const int32_t *type = w->tiles.chooser.batch->pair_type + at * KERNEL_TILE;
    uint8_t *many = w->tiles.tile.type_many + at;
    lister x = {.list = type_list_at(w, c->typed + i),
                .index = w->tiles.tile.type_index,
                .pick = type_picks_at(w, c->typed + i)};
    for (hga_id e = part->first; e < part->last; e++)
        many[e - part->first] = c->types_vary >> e & 1 ? list_column(&x, type + (ptrdiff_t)e * KERNEL_TILE) : 0;
    for (hga_id t = 0; t < x.n; t++) x.index[x.list[t]] = -1;
    w->tiles.tile.types[c->typed + i] = (part_types){.n = x.n, .list = x.list, .many = many, .pick = x.pick};
}

void pair_list_types(worker *w, const tile_batch *b)
{
    for (const tile_chunk *c = b->chunk; c < b->chunk + b->n; c++)
        for (hga_id i = 0; c->types_vary && i < c->n_parts; i++) list_part(w, c, i);
}

/* Expands the part's list of types into one type for each pair. */
void pair_types(const worker *w, const tile_chunk *c, hga_id i, int32_t *type)
{
    const tile_part *part = &c->part[i];
    const part_types *of = &w->tiles.tile.types[c->typed + i];
    const uint32_t *pick = of->pick;
    for (hga_id e = part->first; e < part->last; e++, type += KERNEL_TILE) {
        for (hga_id r = 0; r < KERNEL_TILE; r++) type[r] = c->types_vary >> e & 1 ? 0 : c->columns.type[e];
        for (const uint32_t *end = pick + of->many[e - part->first]; pick < end; pick++)
            for (unsigned rows = *pick >> 16; rows; rows &= rows - 1)
                type[__builtin_ctz(rows)] = of->list[*pick & 0xffff];
    }
}

/* Scores of a part's types for one head, [type][lane]. */
static void score_types(worker *w, const part_types *of, hga_id head, const float *queries)
{
    const hga_shape *shape = &w->plan->shape;
    const hga_io *io = w->io;
    float bias[KERNEL_CHUNK] = {0};
    const float *row[KERNEL_CHUNK];
    for (hga_id at = 0, n; at < of->n; at += n) {
        n = of->n - at < KERNEL_CHUNK ? of->n - at : KERNEL_CHUNK;
        float *out = w->tiles.tile.type_score + (ptrdiff_t)at * KERNEL_TILE;
        const int32_t *type = of->list + at;
        for (hga_id t = 0; t < n && io->rel_bias.data; t++)
            bias[t] = in_base_2(io->rel_bias.data[(ptrdiff_t)type[t] * shape->n_heads + head]);
        if (!io->rel_key.data) {
            for (hga_id i = 0; i < n * KERNEL_TILE; i++) out[i] = bias[i / KERNEL_TILE];
            continue;
        }
        for (hga_id t = 0; t < n; t++) row[t] = io->rel_key.data + (ptrdiff_t)type[t] * shape->dim;
        kernel_tile tile = {
            .n_groups = 1, .n = n, .dim = shape->dim, .k = row, .terms.bias = bias, .group = {{.q = queries}}};
        w->plan->machine.kernels->score_tile(&tile, out);
    }
}

/* The pair biases of one head; NULL when there are none. */
const float *pair_biases(worker *w, const tile_chunk *c, hga_id i, hga_id head, const float *queries)
{
    const tile_part *part = &c->part[i];
    const part_types *of = &w->tiles.tile.types[c->typed + i];
    const float *base =
        w->io->node_pos.data ? w->tiles.tile.pair_base + (ptrdiff_t)i * KERNEL_CHUNK * KERNEL_TILE : NULL;
    float *bias = w->tiles.tile.pair_bias + i % 2 * KERNEL_CHUNK * KERNEL_TILE;
    const ptrdiff_t first = (ptrdiff_t)part->first * KERNEL_TILE;
    const int by_edge = has_edge_biases(w, part->group->stage);
    if (!c->types_vary || !(w->io->rel_key.data || w->io->rel_bias.data)) { /* dropout needs types, too */
        if (!by_edge) return base;
        const float *own = edge_biases_of(w, c, i, head);
        if (!base) return own;
        w->plan->machine.kernels->blend((part->last - part->first) * KERNEL_TILE, 1, base + first, 1, own + first,
                                        bias + first);
        return bias;
    }
    score_types(w, of, head, queries);
    w->plan->machine.kernels->look_up(part->last - part->first, of->many, of->pick, w->tiles.tile.type_score,
                                      base ? base + first : NULL, bias + first);
    if (by_edge)
        w->plan->machine.kernels->blend((part->last - part->first) * KERNEL_TILE, 1, bias + first, 1,
                                        edge_biases_of(w, c, i, head) + first, bias + first);
    return bias;
}
