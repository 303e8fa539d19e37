/* replay.c: panels whose tiles are known (layouts.h) are computed without being looked at. */
#include "layouts.h"

const uint32_t *layout_of(const worker *w, const phase *ph, hga_id stage, hga_id panel)
{
    const layouts *x = w->workspace->layouts;
    const hga_io *io = w->io;
    if (!x || !x->n_panels || w->workspace->sliced || stages_end(ph) != stage + 1) return NULL;
    if (io->rel_key || io->rel_bias || io->edge_bias || io->node_pos || drops_weights(w)) return NULL;
    int64_t first = x->first[ph - w->plan->phase];
    return first < 0 || w->kv_end - w->kv_first < w->plan->shape.n_kv_heads ? NULL : x->panel[first + panel];
}

static void read_columns(const uint32_t **at, uint32_t head, edge_chunk *c)
{
    const int step = head & ALIKE ? 0 : 1;
    c->n = (hga_id)(head & 0xff);
    for (hga_id e = 0; e < c->n; e++) c->weight[e] = float_of((*at)[e * step]);
    *at += step ? c->n : 1;
    memcpy(c->src, *at, (size_t)c->n * sizeof *c->src);
    *at += c->n;
}

static void read_part(const uint32_t **at, row_panel *p, tile_part *part, hga_id n, lanes *rows)
{
    const uint32_t head = *(*at)++;
    row_group *g = &p->group[head & 0xff];
    *part = (tile_part){.group = g,
                        .first = (hga_id)(head >> 8 & 0xff),
                        .last = (hga_id)(head >> 16 & 0xff),
                        .full = (int)(head >> 24)};
    if (part_is_all(part, n)) {
        for (hga_id c = 0; c < n; c++) rows[c] = (lanes)((1u << g->n_rows) - 1);
        return;
    }
    for (hga_id c = 0; c < n; c += 2) {
        const uint32_t two = *(*at)++;
        rows[c] = (lanes)(two & 0xffff);
        if (c + 1 < n) rows[c + 1] = (lanes)(two >> 16);
    }
}

static void replay_batch(worker *w, const uint32_t **at, row_panel *p)
{
    const uint32_t head = *(*at)++;
    tile_batch *b = w->chooser.batch;
    b->n = (hga_id)(head & 0xff);
    for (hga_id g = 0; g < p->n_groups; g++) p->group[g].complete = (int)(head >> (16 + g) & 1);
    for (hga_id i = 0; i < b->n; i++) {
        tile_chunk *c = &b->chunk[i];
        const uint32_t chunk = *(*at)++;
        c->n_parts = (hga_id)(chunk >> 8 & 0xff), c->odd = (hga_id)(chunk >> 16 & 1), c->pairs = c->types_vary = 0;
        read_columns(at, chunk, &c->columns);
        for (hga_id k = 0; k < c->n_parts; k++) read_part(at, p, &c->part[k], c->columns.n, c->rows[k]);
    }
    run_tiles(w, b);
}

void replay_panel(worker *w, hga_id stage, row_panel *p, const uint32_t *at)
{
    w->chooser.batch->stage = stage;
    for (hga_id g = 0; g < p->n_groups; g++) p->group[g].tiled = 1;
    for (uint32_t left = *at++; left; left--) replay_batch(w, &at, p);
}
