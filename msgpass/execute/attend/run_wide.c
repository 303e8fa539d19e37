/* run_wide.c: solves panels whose rows have many columns of one block each, and nothing else: dense attention, causal
   or not, wide windows. Panel by panel, choosing and copying would cost a good part of the products' time; so a thread
   runs its consecutive panels head by head: a head's keys and values are packed contiguously once, and stay in a near
   cache for all panels. It computes the tiles that choose_tiles.c would choose, so bits are the same, whichever thread
   has which panels. */
#include "attend.h"
#include "panel_solvers.h"
#include "attend_solvers.h"
#include "carve.h"
#include "panel_rows.h"
#include "plan.h"
#include "run_tiles.h"
#include "scores.h"
#include "stages.h"
#include "tiles.h"

#include <string.h>

/* Columns whose keys and values all groups of a panel read from the second cache. */
enum { NEAR_COLUMNS = 8 * KERNEL_CHUNK };

/* ---- selection of panels ---- */

typedef struct wide_panel {
    panel_rows rows;
    row_panel p;
    row_band row_band[PANEL_GROUPS]; /* of each group */
    wide_span span;
} wide_panel;

/* Finds each group's row band of the panel's one segment; returns whether all are wide and worth tiles. */
static int find_row_bands(const worker *w, row_panel *p, row_band *x)
{
    const row_reader *r = &w->reader;
    for (hga_id g = 0; g < p->n_groups; g++)
        if (!row_band_trim(&r->segments.at[0], &p->group[g], &x[g]) || !row_band_is_wide(&x[g]) ||
            !row_band_pays(&x[g]))
            return 0;
    return 1;
}

/* Opens a panel with one segment and wide row bands; 0 when the item is none. */
static int open_wide(worker *w, wave_item item, wide_panel *out)
{
    load_panel(w, item);
    if (w->reader.segments.n != 1 || w->reader.r.ptr || w->reader.ahead) return 0;
    list_panel(w, item, &out->rows);
    find_groups(w->plan->phases.list[item.phase].stage, out->rows.first, out->rows.n, out->rows.node, &out->p);
    if (!find_row_bands(w, &out->p, out->row_band)) return 0;
    const hga_segment *s = &w->reader.segments.at[0];
    out->span = (wide_span){.origin = s->src - s->src_inside,
                            .first = s->src,
                            .end = s->src + s->n_src,
                            .weight = s->weight,
                            .shared = s->band_first <= 1 - s->n_rows && s->band_last >= s->n_src - 1};
    return 1;
}

/* Extends the span by another panel's columns; 0 when they are of another instance or too many. */
static int widen_span(const worker *w, wide_span *s, const wide_span *more)
{
    hga_id first = s->first < more->first ? s->first : more->first, end = s->end > more->end ? s->end : more->end;
    if (s->origin != more->origin || s->weight != more->weight || end - first > w->wide.columns.capacity) return 0;
    s->first = first, s->end = end;
    return 1;
}

/* Whether a copy of log-sum-exps may run after later panels: no other node reuses the rows' slots. */
static int may_wait(const worker *w, wave_item item)
{
    const phase *ph = &w->plan->phases.list[item.phase];
    return ph->job == JOB_LSE && !w->plan->fields.storage[ph->stage].lse.slot;
}

/* Counts the items from the first on that are such panels of its phase, with columns of one instance (few in a window,
   whose panels move on), or copies of log-sum-exps, which can wait: nothing reads the copies. */
static int64_t count_panels(worker *w, const wave_item *item, int64_t n, wide_span *span)
{
    wide_panel x;
    int64_t i = 0, end = 0;
    for (; i < n; i++) {
        if (may_wait(w, item[i])) continue;
        if (item[i].phase != item[0].phase || item[i].head_range != item[0].head_range) break;
        if (!open_wide(w, item[i], &x)) break;
        if (i == 0) *span = x.span;
        if (!widen_span(w, span, &x.span)) break;
        end = i + 1;
    }
    return end;
}

/* ---- keys and values ---- */

/* Number of columns from source position `at` on, before `end`, in one chunk: chunks begin at multiples of KERNEL_CHUNK
   inside the instance. */
static hga_id chunk_columns(const wide_span *s, hga_id at, hga_id end)
{
    hga_id n = KERNEL_CHUNK - (at - s->origin) % KERNEL_CHUNK;
    return n < end - at ? n : end - at;
}

/* Lists a chunk's columns, from `at` of the span on, as edges. */
static void list_columns(const worker *w, const wide_span *s, hga_id at, edge_chunk *c)
{
    const hga_id *order = w->reader.r.src_order;
    c->n = chunk_columns(s, s->first + at, s->end);
    for (hga_id e = 0; e < c->n; e++) {
        hga_id position = s->first + at + e;
        c->src[e] = order ? order[position] : position;
        c->weight[e] = s->weight, c->pos_of[e] = c->src_pos_of[e] = HGA_POS_OWN, c->type[e] = 0;
    }
}

/* Sets what all heads share: score bases, and the addresses of packed columns. */
static void load_columns(worker *w, const wide_span *s)
{
    ptrdiff_t padded_dim = padded(w->plan->shape.dim), padded_dim_v = padded(w->plan->shape.dim_v);
    for (hga_id e = 0; e < s->end - s->first; e++)
        w->wide.columns.key_at[e] = w->wide.columns.key + e * padded_dim,
        w->wide.columns.value_at[e] = w->wide.columns.value + e * padded_dim_v;
    for (hga_id e = 0; has_pairs(w) && e < s->end - s->first; e++)
        w->wide.columns.key16_at[e] = (const uint16_t *)(void *)w->wide.columns.key + e * padded_dim;
    for (hga_id at = 0; at < s->end - s->first; at += w->chunk.n) {
        list_columns(w, s, at, &w->chunk);
        score_bases(w, w->tiles.chooser.batch->stage, -1, &w->chunk, w->wide.columns.base + at);
        w->wide.columns.sigmoid =
            sigmoids_of_chunk(w, w->tiles.chooser.batch->stage, &w->chunk, w->wide.columns.inverse_count + at);
        for (hga_id e = 0; e < w->chunk.n && w->workspace->scores.slopes; e++)
            w->wide.columns.at[at + e] = (float)w->plan->cache->lists.position[w->chunk.src[e]];
    }
}

/* Finds the listed columns' keys and values of one head. */
static void find_listed(worker *w, hga_id kv)
{
    const hga_stage *stage = stage_of(w, w->tiles.chooser.batch->stage);
    const bound_field *key = read_field(w, stage, stage->key), *value = read_field(w, stage, stage->value);
    for (hga_id e = 0; e < w->chunk.n; e++) {
        hga_id u = w->chunk.src[e];
        if (w->plan->fields.bf16_rows) {
            w->rows.at.k16_head[e] = bound_bf16(key, u) + kv * key->bf16.head;
            w->rows.at.v16_head[e] = bound_bf16(value, u) + kv * value->bf16.head;
        } else {
            w->rows.at.k_head[e] = bound_row(key, u) + kv * bound_head(key, u);
            w->rows.at.v_head[e] = bound_row(value, u) + kv * bound_head(value, u);
        }
    }
}

/* Whether the span's first column has an odd index in its block: then it is the second of a pair. */
static hga_id odd_first(const wide_span *s) { return (s->first - s->origin) % 2; }

static uint32_t *value_pairs(const worker *w) { return (uint32_t *)(void *)w->wide.columns.value; }

/* Copies keys, and packs values in pairs. */
static void copy_pairs(worker *w, const wide_span *s, hga_id at)
{
    const hga_shape *shape = &w->plan->shape;
    const uint16_t *row[KERNEL_CHUNK + 1] = {NULL};
    hga_id n = w->chunk.n, alone = at ? 0 : odd_first(s);
    ptrdiff_t padded_dim = padded(shape->dim), padded_dim_v = padded(shape->dim_v);
    for (hga_id e = 0; e < n; e++)
        memcpy((uint16_t *)(void *)w->wide.columns.key + (at + e) * padded_dim, w->rows.at.k16_head[e],
               (size_t)shape->dim * sizeof(uint16_t));
    memcpy(row + alone, w->rows.at.v16_head, (size_t)n * sizeof *row);
    w->plan->machine.kernels->pair_rows(alone + n, row, shape->dim_v,
                                        value_pairs(w) + (at + odd_first(s)) / 2 * padded_dim_v, padded_dim_v);
}

/* Copies the listed keys and values to columns at .. of the span, widened where they are of 16 bits and not multiplied
   in pairs. */
static void copy_columns(worker *w, const wide_span *s, hga_id at)
{
    const hga_shape *shape = &w->plan->shape;
    const kernel_table *k = w->plan->machine.kernels;
    ptrdiff_t padded_dim = padded(shape->dim), padded_dim_v = padded(shape->dim_v);
    float *key = w->wide.columns.key + at * padded_dim, *value = w->wide.columns.value + at * padded_dim_v;
    hga_id n = w->chunk.n;
    if (!w->plan->fields.bf16_rows) {
        k->copy_rows(n, w->rows.at.k_head, shape->dim, key, padded_dim);
        k->copy_rows(n, w->rows.at.v_head, shape->dim_v, value, padded_dim_v);
        return;
    }
    if (has_pairs(w)) {
        copy_pairs(w, s, at);
        return;
    }
    k->widen(n, w->rows.at.k16_head, shape->dim, key, padded_dim);
    k->widen(n, w->rows.at.v16_head, shape->dim_v, value, padded_dim_v);
}

/* Packs one head's keys and values contiguously. */
static void pack_head(worker *w, const wide_span *s, hga_id kv)
{
    for (hga_id at = 0; at < s->end - s->first; at += w->chunk.n) {
        list_columns(w, s, at, &w->chunk);
        find_listed(w, kv);
        copy_columns(w, s, at);
    }
}

/* ---- rows ---- */

/* A group being computed, for one head, and its part of the current chunk. */
typedef struct wide_group {
    const row_group *group;
    const row_band *row_band;
    kernel_tile_group tile;
    hga_id first, last;
    int full, ends;
    lane_mask rows[KERNEL_CHUNK];
    float *end[KERNEL_TILE], row_at[KERNEL_TILE];
} wide_group;

/* Whether all rows of the group have all columns of the row band. */
static int part_is_full(const row_band *x, const row_group *g)
{
    return !x->segment->has_hole && x->row_first == 0 && x->row_last == g->n_rows &&
           x->band_first <= 1 - (int64_t)g->n_rows && x->band_last >= x->n - 1;
}

/* Cuts the group's row band to source positions [at, at + n); 0: empty. */
static int cut_part(wide_group *g, hga_id at, hga_id n)
{
    row_band x;
    if (!row_band_cut(g->row_band, at, n, &x)) return 0;
    g->first = x.src - at, g->last = g->first + x.n;
    g->ends = x.src + x.n == g->row_band->src + g->row_band->n;
    g->full = part_is_full(&x, g->group);
    for (hga_id c = 0; c < x.n && !g->full; c++) g->rows[g->first + c] = (lane_mask)rows_of_column(&x, c);
    return 1;
}

/* How columns from `at` on are weighed. */
static kernel_sigmoids sigmoids_of_columns(const worker *w, hga_id at)
{
    const wide_scratch *x = &w->wide.columns;
    return (kernel_sigmoids){.on = x->sigmoid.on,
                             .inverse_count = x->sigmoid.inverse_count ? x->inverse_count + at : NULL};
}

/* Runs groups with the same range of a chunk, whose columns begin at `at` of the span. */
static void run_parts(worker *w, const wide_span *s, wide_group *g, hga_id many, hga_id head, hga_id at)
{
    const hga_shape *shape = &w->plan->shape;
    hga_id first = g->first;
    kernel_tile t = {.n_groups = many,
                     .n = g->last - first,
                     .dim = shape->dim,
                     .dim_v = shape->dim_v,
                     .k = w->wide.columns.key_at + at + first,
                     .v = w->wide.columns.value_at + at + first,
                     .v_row = padded(shape->dim_v),
                     .terms.bias = w->wide.columns.base + at + first,
                     .terms.scale = w->workspace->scores.scale_2,
                     .sigmoid = sigmoids_of_columns(w, at + first)};
    if (has_pairs(w)) {
        t.k16 = w->wide.columns.key16_at + at + first;
        point_at_pairs(value_pairs(w), t.v_row, odd_first(s) + at + first, &t);
    }
    modify_tile(w, head, w->wide.columns.at + at + first, &t);
    for (hga_id x = 0; x < many; x++) {
        t.group[x] = g[x].tile, t.group[x].row_at = g[x].row_at;
        if (!g[x].full) t.group[x].rows = g[x].rows + first;
        if (g[x].ends) end_group(w, g[x].group, head, g[x].end, &t.group[x]);
    }
    run_tile(w, &t);
    for (hga_id x = 0; x < many; x++) {
        g[x].tile.fresh = 0;
        if (g[x].ends) store_lse(w, g[x].group, head, g[x].tile.state.greatest);
    }
}

/* Runs one group or two against a chunk, source positions [at, at + n). */
static void run_chunk(worker *w, const wide_span *s, wide_group *g, hga_id many, hga_id head, hga_id at, hga_id n)
{
    int one = cut_part(&g[0], at, n), two = many == 2 && cut_part(&g[1], at, n);
    hga_id inside = at - s->first;
    if (!one && !two) return;
    if (one && two && g[0].first == g[1].first && g[0].last == g[1].last) {
        run_parts(w, s, g, 2, head, inside);
        return;
    }
    if (one) run_parts(w, s, &g[0], 1, head, inside);
    if (two) run_parts(w, s, &g[1], 1, head, inside);
}

/* Runs groups i and, if there is one, i + 1 against source positions [at, end); their states stay in the groups'
   slots. */
static void run_wide_columns(worker *w, const wide_span *s, const wide_panel *p, hga_id i, hga_id head, hga_id at,
                             hga_id end)
{
    wide_group g[2];
    hga_id many = p->p.n_groups - i < 2 ? 1 : 2;
    for (hga_id x = 0; x < many; x++) {
        const row_band *mine = &p->row_band[i + x];
        int begins = mine->src >= at && mine->src < end;
        g[x].group = &p->p.group[i + x], g[x].row_band = mine;
        g[x].tile = open_group(w, g[x].group, head, i + x, begins);
        find_rows_at(w, g[x].group, g[x].row_at);
    }
    for (hga_id n; at < end; at += n) {
        n = chunk_columns(s, at, end);
        run_chunk(w, s, g, many, head, at, n);
    }
}

static void run_wide_panel(worker *w, const wide_span *s, const wide_panel *p, hga_id head)
{
    for (hga_id at = p->span.first, end; at < p->span.end; at = end) {
        end = at - (at - s->origin) % KERNEL_CHUNK + NEAR_COLUMNS;
        if (end > p->span.end) end = p->span.end;
        for (hga_id i = 0; i < p->p.n_groups; i += 2) run_wide_columns(w, s, p, i, head, at, end);
    }
}

int64_t wide_fits(worker *w, const wave_item *item, int64_t n)
{
    wide_span *s = &w->wide.span;
    if (w->plan->windows.declared) return 0;
    n = count_panels(w, item, n, s);
    return n < (s->shared ? 1 : 2) ? 0 : n;
}

/* Head by head: packs its keys and values contiguously once, for all n panels. */
void wide_run(worker *w, const wave_item *item, int64_t n)
{
    const hga_shape *shape = &w->plan->shape;
    const wide_span *s = &w->wide.span;
    wide_panel p;
    w->tiles.chooser.batch->stage = w->plan->phases.list[item->phase].stage;
    load_columns(w, s);
    for (hga_id head = w->heads.first; head < w->heads.end; head++) {
        if (head % (shape->n_heads / shape->n_kv_heads) == 0) pack_head(w, s, kv_head(shape, head));
        for (int64_t i = 0; i < n; i++)
            if (item[i].phase == item->phase && open_wide(w, item[i], &p)) run_wide_panel(w, s, &p, head);
    }
}
