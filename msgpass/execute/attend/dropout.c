/* dropout.c: which weights of this call are dropped. A draw depends on an edge and a head only (philox.h), so every
   tile or row that computes a pair drops the same. Eight heads share a draw: a chunk's bits are drawn for eight heads
   and cached while these are computed. */
#include "dropout.h"
#include "stage_plan.h"
#include "run_tiles.h"
#include "stages.h"
#include "tiles.h"

static kernel_draw draw_of(const worker *w) { return draw_of_call(w->plan, w->io); }

int drops_weights(const worker *w) { return w->plan->options.dropout > 0; }

float weight_of_undropped(const worker *w) { return 1 / (1 - w->plan->options.dropout); }

/* ---- tiles ---- */

uint16_t *drop_mask_bits(const worker *w, const tile_chunk *c, hga_id part, hga_id head)
{
    ptrdiff_t chunk = c - w->tiles.chooser.batch->chunk;
    return w->tiles.tile.drop_mask + ((chunk * PANEL_GROUPS + part) * 8 + head % 8) * KERNEL_CHUNK;
}

/* Draws the bits of part i of the chunk, for the eight heads that share the draw: 1 where the weight stays. */
static void drop_part(const worker *w, const tile_chunk *c, hga_id i, hga_id head)
{
    const tile_part *part = &c->part[i];
    hga_id destination[KERNEL_TILE];
    int32_t type[KERNEL_CHUNK * KERNEL_TILE];
    for (hga_id r = 0; r < KERNEL_TILE; r++) destination[r] = r < part->group->n_rows ? part->group->node[r] : -1;
    if (c->types_vary) pair_types(w, c, i, type);
    w->plan->machine.kernels->drop_bits(&(kernel_drop){.draw = draw_of(w),
                                                       .n = part->last - part->first,
                                                       .destination = destination,
                                                       .source = c->columns.src + part->first,
                                                       .type = c->types_vary ? type : c->columns.type + part->first,
                                                       .types_vary = c->types_vary != 0,
                                                       .heads = 0xff,
                                                       .stride = KERNEL_CHUNK},
                                        head / 8, drop_mask_bits(w, c, i, head / 8 * 8) + part->first);
}

void drop_parts(const worker *w, const tile_chunk *c, hga_id head)
{
    if (!drops_weights(w) || (head % 8 && head != w->heads.first)) return;
    for (hga_id i = 0; i < c->n_parts; i++) drop_part(w, c, i, head);
}

/* ---- rows ---- */

void drop_edges(const worker *w, hga_id n, const hga_id *destination, const hga_id *source, const int32_t *type)
{
    w->plan->machine.kernels->drop_pairs(&(kernel_drop_pairs){.draw = draw_of(w),
                                                              .n = n,
                                                              .heads = w->plan->shape.n_heads,
                                                              .destination = destination,
                                                              .source = source,
                                                              .type = type},
                                         w->rows.row.drop_mask);
}

void drop_chunk(const worker *w, hga_id v)
{
    const edge_chunk *c = &w->chunk;
    hga_id destination[KERNEL_CHUNK];
    if (!drops_weights(w)) return;
    for (hga_id e = 0; e < c->n; e++) destination[e] = v;
    drop_edges(w, c->n, destination, c->src, c->type);
}

/* Multiplies the n weights of a head of a whole row by their factors of dropout: 0 or 1 / (1 - p). */
void drop_support(const worker *w, hga_id v, hga_id head, hga_id n, float *weight)
{
    const whole_row *row = &w->rows.whole;
    const hga_id *index = row->slot;
    for (hga_id at = 0, many; at < n; at += many) {
        hga_id destination[KERNEL_CHUNK], source[KERNEL_CHUNK];
        int32_t type[KERNEL_CHUNK];
        many = n - at < KERNEL_CHUNK ? n - at : KERNEL_CHUNK;
        for (hga_id i = 0; i < many; i++)
            destination[i] = v, source[i] = row->src[index[at + i]], type[i] = row->type[index[at + i]];
        w->plan->machine.kernels->drop_pairs(&(kernel_drop_pairs){.draw = draw_of(w),
                                                                  .n = many,
                                                                  .first_head = head,
                                                                  .heads = 1,
                                                                  .destination = destination,
                                                                  .source = source,
                                                                  .type = type},
                                             w->rows.row.drop_mask);
        for (hga_id i = 0; i < many; i++) weight[at + i] *= w->rows.row.drop_mask[i];
    }
}

/* Draws the factors of the families' pairs, all heads; drop_mask[r] points to row r's first. */
void drop_families(const worker *w, const row_group *g, const family_chunk *c, const float **drop_mask)
{
    hga_id destination[DROPPED_PAIRS], source[DROPPED_PAIRS], pairs = 0;
    int32_t type[DROPPED_PAIRS];
    for (hga_id r = 0; r < g->n_rows; r++) {
        drop_mask[r] = w->rows.row.drop_mask + (ptrdiff_t)pairs * w->plan->shape.n_heads;
        for (hga_id e = 0; e < c->columns->n; e++) {
            if (!(c->rows[e] >> r & 1u)) continue;
            destination[pairs] = g->node[r], source[pairs] = c->columns->src[e];
            type[pairs++] = c->columns->type[e] + r * c->type_step[e];
        }
    }
    drop_edges(w, pairs, destination, source, type);
}
