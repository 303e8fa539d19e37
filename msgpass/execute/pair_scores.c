/* pair_scores.c: what is added to the scores of a tile's single pairs: positions, and types that differ from row to
   row. */
#include "execute.h"

#include <string.h>

/* Types of column e, lane by lane, of part i of the batch's last chunk. */
static int32_t *pair_types(const worker *w, hga_id i, hga_id e)
{
    return w->chooser.batch->pair_type + ((ptrdiff_t)i * KERNEL_CHUNK + e) * KERNEL_TILE;
}

/* Scores' parts that all heads share and that differ from pair to pair: positions. */
void pair_positions(worker *w, const tile_chunk *c, hga_id i)
{
    const tile_part *part = &c->part[i];
    const row_group *g = part->group;
    hga_id dim = w->plan->shape.pos_dim;
    for (hga_id e = part->first; e < part->last; e++) {
        hga_id other = c->columns.src_pos_of[e] ? c->columns.src_pos_of[e] - 1 : c->columns.src[e];
        const float *theirs = w->io->node_pos + (ptrdiff_t)other * dim;
        for (hga_id r = 0; r < KERNEL_TILE; r++) {
            hga_id own = c->columns.pos_of[e] ? c->columns.pos_of[e] - 1 : r < g->n_rows ? g->node[r] : -1;
            float sum = 0;
            for (hga_id j = 0; own >= 0 && j < dim; j++) sum += w->io->node_pos[(ptrdiff_t)own * dim + j] * theirs[j];
            w->tile.pair_base[(i * KERNEL_CHUNK + e) * KERNEL_TILE + r] = sum * KERNEL_LOG2E;
        }
    }
}

/* Part i's types as a range: types of a band's pairs are a step of 1 or 2 apart, as many as it has columns and rows. 0,
   and nothing is changed, where they lie further apart. */
static int list_range(worker *w, const tile_chunk *c, hga_id i)
{
    int32_t *list = w->tile.part_type + (ptrdiff_t)i * KERNEL_CHUNK * KERNEL_TILE;
    int32_t *pair = pair_types(w, i, c->part[i].first), *end = pair_types(w, i, c->part[i].last);
    int32_t least = INT32_MAX, greatest = -1, odd = 0, even = 0;
    for (int32_t *t = pair; t < end; t++) {
        least = *t >= 0 && *t < least ? *t : least, greatest = *t > greatest ? *t : greatest;
        odd |= *t >= 0 ? *t & 1 : 0, even |= *t >= 0 ? ~*t & 1 : 0;
    }
    int step = odd && even ? 0 : 1; /* as a power of two */
    int32_t n = ((greatest - least) >> step) + 1;
    if (greatest < 0 || n > c->part[i].last - c->part[i].first + KERNEL_TILE) return 0;
    for (int32_t *t = pair; t < end; t++) *t = *t < 0 ? 0 : (*t - least) >> step;
    for (int32_t t = 0; t < n; t++) list[t] = least + t * (1 << step);
    w->tile.n_part_types[i] = n;
    return 1;
}

/* The same one by one. */
static void list_each(worker *w, const tile_chunk *c, hga_id i)
{
    int32_t *list = w->tile.part_type + (ptrdiff_t)i * KERNEL_CHUNK * KERNEL_TILE, n = 0;
    int32_t *pair = pair_types(w, i, c->part[i].first), *end = pair_types(w, i, c->part[i].last);
    for (; pair < end; pair++) {
        if (*pair < 0) {
            *pair = 0;
            continue;
        }
        int32_t *place = &w->tile.type_place[*pair];
        if (*place < 0) *place = n, list[n++] = *pair;
        *pair = *place;
    }
    w->tile.n_part_types[i] = n;
    for (int32_t t = 0; t < n; t++) w->tile.type_place[list[t]] = -1;
}

/* Where types differ from row to row, q . rel_key[type] + rel_bias[type] is found once for each type of the part, and
   looked up for each pair. List the different types of part i; its pairs then say where in the list theirs is. */
void pair_list_types(worker *w, const tile_chunk *c, hga_id i)
{
    if (!list_range(w, c, i)) list_each(w, c, i);
}

/* What part i's types add to the scores of one head, for each lane. */
static void score_types(worker *w, hga_id i, hga_id head, const float *queries)
{
    const hga_shape *shape = &w->plan->shape;
    const hga_io *io = w->io;
    const int32_t *list = w->tile.part_type + (ptrdiff_t)i * KERNEL_CHUNK * KERNEL_TILE;
    float bias[KERNEL_CHUNK] = {0};
    const float *row[KERNEL_CHUNK];
    for (hga_id at = 0, n; at < w->tile.n_part_types[i]; at += n) {
        n = w->tile.n_part_types[i] - at < KERNEL_CHUNK ? w->tile.n_part_types[i] - at : KERNEL_CHUNK;
        float *out = w->tile.type_score + (ptrdiff_t)at * KERNEL_TILE;
        for (hga_id t = 0; t < n; t++) {
            if (io->rel_bias) bias[t] = in_base_2(io->rel_bias[(ptrdiff_t)list[at + t] * shape->n_heads + head]);
            if (io->rel_key) row[t] = io->rel_key + (ptrdiff_t)list[at + t] * shape->dim;
            for (hga_id r = 0; r < KERNEL_TILE && !io->rel_key; r++) out[t * KERNEL_TILE + r] = bias[t];
        }
        if (!io->rel_key) continue;
        kernel_tile tile = {
            .n_groups = 1, .n = n, .dim = shape->dim, .k = row, .bias = bias, .group = {{.q = queries}}};
        w->plan->kernels->score_tile(&tile, out);
    }
}

/* The pair biases of one head; NULL when there are none. */
const float *pair_biases(worker *w, const tile_chunk *c, hga_id i, hga_id head, const float *queries)
{
    const tile_part *part = &c->part[i];
    int types = c->types_vary && (w->io->rel_key || w->io->rel_bias); /* dropout asks for types, too */
    if (!w->io->node_pos && !types) return NULL;
    float *bias = w->tile.pair_bias + i % 2 * KERNEL_CHUNK * KERNEL_TILE;
    hga_id first = part->first * KERNEL_TILE, last = part->last * KERNEL_TILE;
    if (w->io->node_pos)
        memcpy(bias + first, w->tile.pair_base + (ptrdiff_t)i * KERNEL_CHUNK * KERNEL_TILE + first,
               (size_t)(last - first) * sizeof *bias);
    else
        memset(bias + first, 0, (size_t)(last - first) * sizeof *bias);
    if (!types) return bias;
    score_types(w, i, head, queries);
    w->plan->kernels->look_up(part->last - part->first, pair_types(w, i, part->first), w->tile.type_score,
                              bias + first);
    return bias;
}
