/* replay.c: computes panels from their cached tiles (layouts.h), without choosing. */
#include "attend.h"
#include "layouts.h"
#include "stage_plan.h"
#include "run_tiles.h"

const uint32_t *layout_of(const worker *w, wave_item item)
{
    const layouts *x = w->workspace->layouts;
    if (!x) return NULL;
    const layout_set *set = w->workspace->call_has & CALL_HAS_TYPES ? &x->typed : &x->plain;
    int64_t first = set->n_panels ? set->first[item.phase] : -1;
    return first < 0 || set->panel[first + item.panel] < 0 ? NULL : set->word + set->panel[first + item.panel];
}

static void read_columns(const uint32_t **at, uint32_t head, edge_chunk *c)
{
    const int step = head & ALIKE ? 0 : 1;
    c->n = (hga_id)(head & 0xff);
    for (hga_id e = 0; e < c->n; e++) c->weight[e] = float_of((*at)[e * step]);
    *at += step ? c->n : 1;
    const int ordered = (head & IN_ORDER) != 0;
    for (hga_id e = 0; e < c->n; e++) c->src[e] = ordered ? (hga_id) * *at + e : (hga_id)(*at)[e];
    *at += ordered ? 1 : c->n;
}

static uint64_t read_types(const uint32_t **at, edge_chunk *c)
{
    const uint64_t vary = (*at)[0] | (uint64_t)(*at)[1] << 32;
    *at += 2;
    for (hga_id e = 0; e < c->n; e++)
        if (!(vary >> e & 1)) c->type[e] = (int32_t) * (*at)++;
    return vary;
}

/* Reads a list of types, stored in full, or as the first and the step to the next. */
static void read_list(const uint32_t **at, int32_t *capacity, part_types *x)
{
    const uint32_t head = *(*at)++;
    x->n = (hga_id)(head & ~(uint32_t)STEPS), x->list = (const int32_t *)*at;
    if (!(head & STEPS)) {
        *at += x->n;
        return;
    }
    for (hga_id t = 0; t < x->n; t++) capacity[t] = (int32_t)((*at)[0] + (uint32_t)t * (*at)[1]);
    x->list = capacity, *at += 2;
}

/* Reads picks; those from short lists are stored two to a word. */
static void read_picks(const uint32_t **at, uint32_t *buffer, part_types *x)
{
    const hga_id picks = (hga_id) * (*at)++;
    x->pick = *at;
    if (x->n > SHORT_LIST) {
        *at += picks;
        return;
    }
    for (hga_id i = 0; i < picks; i++) buffer[i] = long_pick((*at)[i / 2] >> (i % 2 ? 16 : 0) & 0xffff);
    x->pick = buffer, *at += (picks + 1) / 2;
}

/* Reads a part's types, into the worker's scratch where they are packed, else by pointer. */
static void read_part_types(const uint32_t **at, const tile_part *part, worker *w, hga_id typed)
{
    part_types *x = &w->tiles.tile.types[typed];
    read_list(at, type_list_at(w, typed), x);
    read_picks(at, type_picks_at(w, typed), x);
    x->many = (const uint8_t *)*at, *at += words_of_bytes(part->last - part->first);
}

static void read_rows(const uint32_t **at, hga_id n, lane_mask *rows)
{
    for (hga_id c = 0; c < n; c += 2) {
        const uint32_t two = *(*at)++;
        rows[c] = (lane_mask)(two & 0xffff);
        if (c + 1 < n) rows[c + 1] = (lane_mask)(two >> 16);
    }
}

/* Reads a group's part of a chunk: its columns, and which of the group's rows have which. */
static void read_part(const uint32_t **at, row_panel *p, tile_part *part, hga_id n, lane_mask *rows)
{
    const uint32_t head = *(*at)++;
    row_group *g = &p->group[head & 0xff];
    *part = (tile_part){.group = g,
                        .first = (hga_id)(head >> 8 & 0xff),
                        .last = (hga_id)(head >> 16 & 0xff),
                        .full = (int)(head >> 24)};
    if (part_is_all(part, n)) {
        for (hga_id c = 0; c < n; c++) rows[c] = (lane_mask)((1u << g->n_rows) - 1);
        return;
    }
    read_rows(at, n, rows);
}

/* Reads a chunk with its parts, as put_chunk has written it. */
static void read_chunk(worker *w, const uint32_t **at, int typed, row_panel *p, tile_chunk *c)
{
    tile_batch *b = w->tiles.chooser.batch;
    const uint32_t head = *(*at)++;
    c->n_parts = (hga_id)(head >> 8 & 0xff), c->odd = (hga_id)(head >> 16 & 1);
    read_columns(at, head, &c->columns);
    c->types_vary = typed ? read_types(at, &c->columns) : 0;
    c->pairs = c->types_vary != 0, c->typed = b->n_typed;
    for (hga_id k = 0; k < c->n_parts; k++) {
        read_part(at, p, &c->part[k], c->columns.n, c->rows[k]);
        if (c->types_vary) read_part_types(at, &c->part[k], w, b->n_typed++);
    }
}

/* Runs families, which store their rows themselves. */
static void replay_families(worker *w, const uint32_t **at, int typed, row_group *g, unsigned rows)
{
    family_chunk *c = &w->tiles.chooser.families;
    const uint32_t head = *(*at)++;
    c->all = rows, c->columns = &w->chunk;
    read_columns(at, head, c->columns);
    if (typed) read_types(at, c->columns);
    read_rows(at, c->columns->n, c->rows);
    memset(c->type_step, 0, sizeof c->type_step);
    run_families(w, g, c);
    g->tiled = 0, g->stored = 1;
}

/* Replays one cached batch: families, or tiles. */
static void replay_batch(worker *w, const uint32_t **at, int typed, row_panel *p)
{
    const uint32_t head = *(*at)++;
    if (head & FAMILIES) {
        replay_families(w, at, typed, &p->group[head & 0xff], head >> 16);
        return;
    }
    tile_batch *b = w->tiles.chooser.batch;
    b->n = (hga_id)(head & 0xff), b->n_typed = 0;
    for (hga_id g = 0; g < p->n_groups; g++) p->group[g].complete = (int)(head >> (16 + g) & 1);
    for (hga_id i = 0; i < b->n; i++) read_chunk(w, at, typed, p, &b->chunk[i]);
    run_listed_tiles(w, b);
}

void replay_panel(worker *w, hga_id stage, row_panel *p, const uint32_t *at)
{
    w->tiles.chooser.batch->stage = stage;
    for (hga_id g = 0; g < p->n_groups; g++) p->group[g].tiled = 1;
    const int typed = (*at & TYPED) != 0;
    for (uint32_t left = *at++ & ~(TYPED | HAS_FAMILIES); left; left--) replay_batch(w, &at, typed, p);
}
