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
static int meet_columns(window_visits *x, hga_id place, int64_t src, hga_id c0, hga_id c1)
{
    for (int64_t at = src + c0, end = src + c1; at < end; at = (at / KERNEL_CHUNK + 1) * KERNEL_CHUNK) {
        const hga_id window = (hga_id)(at / KERNEL_CHUNK);
        const uint64_t columns = window_bits(at, end);
        window_visit *last = visits_last(x, window);
        if (!last || last->place != place)
            visits_add(x, window, (window_visit){.columns = columns, .place = place});
        else if (last->columns & columns)
            return 0;
        else
            last->columns |= columns;
    }
    return 1;
}

static int meet_segments(const row_reader *r, window_visits *x, hga_id place, hga_id position)
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
static void meet_row(const row_reader *r, column_rows *x, hga_id node, hga_id position)
{
    const hga_id before = x->visits.n, place = x->n_rows++;
    x->node[place] = node, x->position[place] = position;
    x->apart[place] = !meet_segments(r, &x->visits, place, position);
    for (hga_id i = before; x->apart[place] && i < x->visits.n; i++) x->visits.visit[i].columns = 0;
}

static void forget(column_rows *x)
{
    visits_forget(&x->visits);
    x->n_rows = 0;
}

/* ---- a window ---- */

static void lay_window(const worker *w, hga_id window, edge_chunk *c)
{
    const int64_t first = (int64_t)window * KERNEL_CHUNK, left = w->plan->nodes.n - first;
    c->n = left < KERNEL_CHUNK ? (hga_id)left : KERNEL_CHUNK, c->more = 0;
    for (hga_id e = 0; e < c->n; e++) c->src[e] = (hga_id)first + e, c->weight[e] = 1, c->type[e] = 0;
}

/* Rows of a window from visit i on, sixteen by sixteen, as many as a chunk has room for; the visit that comes next. */
static hga_id lay_rows(const column_rows *x, hga_id stage, hga_id i, column_groups *g, tile_chunk *c)
{
    for (c->n_parts = 0; i >= 0 && c->n_parts < PANEL_GROUPS;) {
        const hga_id number = c->n_parts;
        uint64_t columns[KERNEL_TILE];
        row_group *group = &g->group[number];
        *group = (row_group){.stage = stage, .number = number, .node = g->node[number], .complete = 1};
        group->carried = g->place[number];
        for (; i >= 0 && group->n_rows < KERNEL_TILE; i = x->visits.visit[i].next) {
            if (!x->visits.visit[i].columns) continue;
            g->place[number][group->n_rows] = x->visits.visit[i].place;
            g->node[number][group->n_rows] = x->node[x->visits.visit[i].place];
            columns[group->n_rows++] = x->visits.visit[i].columns;
        }
        if (group->n_rows == 0) continue;
        const window_part part = visits_trim(columns, group->n_rows, c->rows[number]);
        c->part[number].group = group;
        c->part[number].first = part.first, c->part[number].last = part.last, c->part[number].full = part.full;
        c->n_parts++;
    }
    return i;
}

static void run_window(worker *w, hga_id stage, hga_id window)
{
    const column_rows *x = &w->columns;
    column_groups groups;
    tile_batch *b = w->chooser.batch;
    tile_chunk *c = &b->chunk[0];
    b->stage = stage, b->n_typed = 0, b->pair_type = w->chooser.pair_type;
    c->odd = 0, c->typed = 0, c->pairs = 0, c->types_vary = 0;
    lay_window(w, window, &c->columns);
    for (hga_id i = x->visits.first[window]; i >= 0;) {
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
    const column_rows *x = &w->columns;
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
    const column_rows *x = &w->columns;
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
    const column_rows *x = &w->columns;
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
        for (hga_id window = visits_next(&w->columns.visits, 0); window >= 0;
             window = visits_next(&w->columns.visits, window + 1))
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
    const column_rows *x = &w->columns;
    column_groups groups;
    tile_chunk *c = &w->chooser.batch->chunk[0];
    for (int64_t i = 0; i < n; i++) meet_panel(w, item[i]);
    for (hga_id window = visits_next(&x->visits, 0); window >= 0; window = visits_next(&x->visits, window + 1))
        for (hga_id i = x->visits.first[window]; i >= 0;) {
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
