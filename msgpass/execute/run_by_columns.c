/* run_by_columns.c: panels by their columns: in each window of KERNEL_CHUNK columns, the rows that have some of them
   are rows of tiles, sixteen at a time, wherever in the panels they stand. A row's state is carried from tile to tile:
   what it adds up, and in which order, depends on its own columns alone. For rows that share columns with few of their
   neighbours, and with many of their panel, as where each token chooses blocks for itself (plan/by_columns.c). */
#include "attend_ways.h"
#include "columns.h"
#include "stages.h"

#include <math.h>
#include <string.h>

/* ---- who has which columns ---- */

/* Columns [c0, c1) of a row, that begin at source position `src`. False where a pair has two edges. */
static int meet_columns(column_visits *x, hga_id place, int64_t src, hga_id c0, hga_id c1)
{
    for (int64_t at = src + c0, end = src + c1, next; at < end; at = next) {
        const hga_id window = (hga_id)(at / KERNEL_CHUNK);
        next = (int64_t)(window + 1) * KERNEL_CHUNK < end ? (int64_t)(window + 1) * KERNEL_CHUNK : end;
        const uint64_t columns = UINT64_MAX >> (KERNEL_CHUNK - (next - at)) << at % KERNEL_CHUNK;
        const int seen = (int)(x->touched[window / 64] >> window % 64 & 1);
        column_visit *last = seen ? &x->visit[x->last[window]] : NULL;
        if (last && last->place == place) {
            if (last->columns & columns) return 0;
            last->columns |= columns;
            continue;
        }
        if (seen)
            last->next = x->n;
        else
            x->first[window] = x->n, x->touched[window / 64] |= UINT64_C(1) << window % 64;
        x->visit[x->n] = (column_visit){columns, place, -1};
        x->last[window] = x->n++;
    }
    return 1;
}

static int meet_segments(const row_reader *r, column_visits *x, hga_id place, hga_id position)
{
    for (hga_id i = r->list_ptr[position - r->first]; i < r->list_ptr[position - r->first + 1]; i++) {
        const hga_segment *s = &r->segment[r->list[i]];
        hga_id c0, c1, hole;
        hga_segment_columns(s, position, &c0, &c1, &hole);
        if (hole >= 0) {
            if (!meet_columns(x, place, s->src, c0, hole)) return 0;
            c0 = hole + 1;
        }
        if (!meet_columns(x, place, s->src, c0, c1)) return 0;
    }
    return 1;
}

/* A row in which some pair has two edges goes by itself. */
static void meet_row(const row_reader *r, column_visits *x, hga_id node, hga_id position)
{
    const hga_id before = x->n, place = x->n_rows++;
    x->node[place] = node, x->position[place] = position;
    x->apart[place] = !meet_segments(r, x, place, position);
    for (hga_id i = before; x->apart[place] && i < x->n; i++) x->visit[i].columns = 0;
}

/* The next window that some row has, from `window` on; -1: none. */
static hga_id next_window(const column_visits *x, hga_id window)
{
    for (hga_id word = window / 64; word < x->words; word++) {
        uint64_t bits = x->touched[word];
        if (word == window / 64) bits = bits >> window % 64 << window % 64;
        if (bits) return word * 64 + __builtin_ctzll(bits);
    }
    return -1;
}

static void forget(column_visits *x)
{
    memset(x->touched, 0, (size_t)x->words * sizeof *x->touched);
    x->n = x->n_rows = 0;
}

/* ---- a window ---- */

static void lay_window(const worker *w, hga_id window, edge_chunk *c)
{
    const int64_t first = (int64_t)window * KERNEL_CHUNK, left = w->plan->nodes.n - first;
    c->n = left < KERNEL_CHUNK ? (hga_id)left : KERNEL_CHUNK, c->more = 0;
    for (hga_id e = 0; e < c->n; e++) c->src[e] = (hga_id)first + e, c->weight[e] = 1, c->type[e] = 0;
}

/* Columns that some row has are computed, from the first to the last; how many come before a row's own is no part of
   its bits, as long as these are whole turns of the kernel's sums. */
static void trim_part(tile_part *part, const uint64_t *columns, hga_id n, lanes *rows)
{
    const lanes whole = (lanes)(UINT32_MAX >> (32 - n));
    uint64_t some = 0, all = UINT64_MAX;
    for (hga_id r = 0; r < n; r++) some |= columns[r], all &= columns[r];
    part->first = __builtin_ctzll(some) / SUM_TURNS * SUM_TURNS, part->last = KERNEL_CHUNK - __builtin_clzll(some);
    part->full = some == all && __builtin_popcountll(some) == part->last - part->first;
    for (hga_id e = 0; e < KERNEL_CHUNK; e++) rows[e] = all >> e & 1 ? whole : 0;
    for (uint64_t left = some & ~all; left; left &= left - 1) {
        const int e = __builtin_ctzll(left);
        for (hga_id r = 0; r < n; r++) rows[e] = (lanes)(rows[e] | (columns[r] >> e & 1) << r);
    }
}

/* Rows of a window from visit i on, sixteen by sixteen, as many as a chunk has room for; the visit that comes next. */
static hga_id lay_rows(const column_visits *x, hga_id stage, hga_id i, column_groups *g, tile_chunk *c)
{
    for (c->n_parts = 0; i >= 0 && c->n_parts < PANEL_GROUPS;) {
        const hga_id number = c->n_parts;
        uint64_t columns[KERNEL_TILE];
        row_group *group = &g->group[number];
        *group = (row_group){.stage = stage, .number = number, .node = g->node[number], .complete = 1};
        group->carried = g->place[number];
        for (; i >= 0 && group->n_rows < KERNEL_TILE; i = x->visit[i].next) {
            if (!x->visit[i].columns) continue;
            g->place[number][group->n_rows] = x->visit[i].place;
            g->node[number][group->n_rows] = x->node[x->visit[i].place];
            columns[group->n_rows++] = x->visit[i].columns;
        }
        if (group->n_rows == 0) continue;
        c->part[number].group = group;
        trim_part(&c->part[number], columns, group->n_rows, c->rows[number]);
        c->n_parts++;
    }
    return i;
}

static void run_window(worker *w, hga_id stage, hga_id window)
{
    const column_visits *x = &w->columns;
    column_groups groups;
    tile_batch *b = w->chooser.batch;
    tile_chunk *c = &b->chunk[0];
    b->stage = stage, b->n_typed = 0, b->pair_type = w->chooser.pair_type;
    c->odd = 0, c->typed = 0, c->pairs = 0, c->types_vary = 0;
    lay_window(w, window, &c->columns);
    for (hga_id i = x->first[window]; i >= 0;) {
        i = lay_rows(x, stage, i, &groups, c);
        b->n = c->n_parts > 0;
        run_tiles(w, b);
    }
    b->n = 0;
}

/* ---- panels ---- */

static void meet_panel(worker *w, wave_item item)
{
    panel_rows p;
    if (!open_panel(w, item, &p)) return;
    for (hga_id i = 0; i < p.n; i++)
        if (p.node[i] >= 0) meet_row(&w->reader, &w->columns, p.node[i], p.first + i);
}

/* The state that rows have so far. */
static void open_rows(worker *w, hga_id stage)
{
    const column_visits *x = &w->columns;
    const bound_field *out = field(w, stage_of(w, stage)->out);
    const hga_id dim_v = w->plan->shape.dim_v;
    const int goes_on = kind_starts_from_out(w->plan->stage[stage].kind);
    for (hga_id i = 0; i < x->n_rows; i++)
        for (hga_id h = w->head_first; h < w->head_end; h++) {
            float *state = carried_state(w, i, h);
            const hga_id v = x->node[i];
            state[padded(dim_v)] = goes_on ? bound_lse(out, v)[h] : -INFINITY;
            if (goes_on) memcpy(state, bound_row(out, v) + h * bound_head(out, v), (size_t)dim_v * sizeof *state);
        }
}

static void end_rows(const worker *w, hga_id stage)
{
    const column_visits *x = &w->columns;
    const bound_field *out = field(w, stage_of(w, stage)->out);
    const hga_id dim_v = w->plan->shape.dim_v;
    for (hga_id i = 0; i < x->n_rows; i++)
        for (hga_id h = w->head_first; !x->apart[i] && h < w->head_end; h++) {
            const float *state = carried_state(w, i, h), lse = state[padded(dim_v)];
            float *row = bound_row(out, x->node[i]) + h * bound_head(out, x->node[i]);
            bound_lse(out, x->node[i])[h] = lse;
            if (lse > -INFINITY || isnan(lse))
                memcpy(row, state, (size_t)dim_v * sizeof *row);
            else
                memset(row, 0, (size_t)dim_v * sizeof *row);
        }
}

/* All heads go together, with the first of the item's. */
static void run_apart(worker *w, hga_id stage)
{
    const column_visits *x = &w->columns;
    if (w->kv_first > 0) return;
    worker_take_heads(w, 0, w->plan->shape.n_kv_heads);
    for (hga_id i = 0; i < x->n_rows; i++) {
        row_job job = {.stage = stage, .v = x->node[i], .position = x->position[i], .count = INT64_MAX, .piece = -1};
        if (!x->apart[i]) continue;
        reader_load(&w->reader, job.position, 1);
        plan_kernel(w->plan, stage)->row(w, &job);
    }
}

static void run_windows(worker *w, hga_id stage)
{
    const hga_id first = w->kv_first, end = w->kv_end;
    for (hga_id kv = first; kv < end; kv++) {
        worker_take_heads(w, kv, kv + 1);
        open_rows(w, stage);
        for (hga_id window = next_window(&w->columns, 0); window >= 0; window = next_window(&w->columns, window + 1))
            run_window(w, stage, window);
        end_rows(w, stage);
    }
    worker_take_heads(w, first, end);
}

int64_t columns_fit(worker *w, const wave_item *item, int64_t n)
{
    int64_t some = 0;
    if (!w->plan->stage[w->plan->phase[item->phase].stage].by_columns) return 0;
    while (some < n && some < PANELS_TOGETHER && item[some].phase == item->phase &&
           item[some].head_part == item->head_part)
        some++;
    return some;
}

void columns_look(worker *w, const wave_item *item, int64_t n, double *pairs, double *places)
{
    const column_visits *x = &w->columns;
    column_groups groups;
    tile_chunk *c = &w->chooser.batch->chunk[0];
    for (int64_t i = 0; i < n; i++) meet_panel(w, item[i]);
    for (hga_id window = next_window(x, 0); window >= 0; window = next_window(x, window + 1))
        for (hga_id i = x->first[window]; i >= 0;) {
            i = lay_rows(x, 0, i, &groups, c);
            for (hga_id k = 0; k < c->n_parts; k++) {
                const tile_part *part = &c->part[k];
                *places += (double)(part->last - part->first) * KERNEL_TILE;
                for (hga_id e = part->first; e < part->last; e++) *pairs += __builtin_popcount(c->rows[k][e]);
            }
        }
    forget(&w->columns);
}

void columns_take(worker *w, const wave_item *item, int64_t n)
{
    const hga_id stage = w->plan->phase[item->phase].stage, first = w->kv_first, end = w->kv_end;
    for (int64_t i = 0; i < n; i++) meet_panel(w, item[i]);
    run_windows(w, stage);
    run_apart(w, stage);
    worker_take_heads(w, first, end);
    forget(&w->columns);
}
