/* attend_panel.c: attention of a panel's rows: chosen tiles first, then the row kernel on each row's remaining edges,
   accumulating into the same states. */
#include "attend.h"
#include "panel_solvers.h"
#include "attend_rest.h"
#include "attend_solvers.h"
#include "dropout.h"
#include "edge_biases.h"
#include "layouts.h"
#include "panel_rows.h"
#include "stage_plan.h"
#include "run_tiles.h"
#include "stages.h"
#include "tiles.h"

/* Rows that are not run, and rows that families computed. */
static int is_done(const row_group *g, hga_id r) { return g->node[r] < 0 || g->in_families >> r & 1u; }

/* Stores the rows of a group: all at once, or each after the rest of its edges. */
static void finish_group(worker *w, const row_group *g)
{
    if (g->stored) return;
    if (g->tiled && !g->rest) {
        store_group(w, g);
        return;
    }
    for (hga_id r = 0; r < g->n_rows; r++) {
        if (is_done(g, r)) continue;
        row_job job = {.stage = g->stage, .v = g->node[r], .count = INT64_MAX, .split = -1};
        if (g->tiled)
            take_states(w, g, r);
        else
            attend_start(w, &job);
        attend_rest(w, &job, g->tiled ? w->tiles.chooser.seen.tiled : NULL, 1u << g->number);
    }
}

void find_groups(hga_id stage, hga_id first, hga_id n, const hga_id *node, row_panel *p)
{
    p->n_groups = (n + KERNEL_TILE - 1) / KERNEL_TILE;
    for (hga_id g = 0, at = 0; g < p->n_groups; g++, at += KERNEL_TILE)
        p->group[g] = (row_group){.stage = stage,
                                  .number = g,
                                  .first = first + at,
                                  .n_rows = n - at < KERNEL_TILE ? n - at : KERNEL_TILE,
                                  .node = node + at};
}

/* Sets the chooser's callbacks, and what distinguishes edges of this stage and call. */
void open_chooser(worker *w, hga_id stage, tile_runner run, family_runner families, void *context)
{
    tile_chooser *t = &w->tiles.chooser;
    const unsigned call_has = w->workspace->call_has;
    t->reader = &w->reader, t->batch->stage = stage, t->context = context;
    t->families.columns = &w->chunk;
    t->query_numbers = (int64_t)w->plan->shape.n_heads * w->plan->shape.dim;
    t->run = run, t->run_families = applies(w, stage, SOLVER_FAMILIES) ? families : NULL;
    t->strict = applies(w, stage, SOLVER_STRICT);
    t->leaves_out = w->workspace->sliced.on || w->reader.ahead;
    t->families_have_types = (call_has & CALL_HAS_TYPES) != 0, t->positions = (call_has & CALL_HAS_POSITIONS) != 0;
    t->types = t->families_have_types || drops_weights(w), t->ranks = has_edge_biases(w, stage);
}

/* A group's tiles depend on its own rows alone: a group without requested rows needs none. */
static void drop_idle_groups(row_panel *p)
{
    for (hga_id g = 0; g < p->n_groups; g++) {
        row_group *x = &p->group[g];
        hga_id r = 0;
        while (r < x->n_rows && x->node[r] < 0) r++;
        if (r == x->n_rows) x->n_rows = 0;
    }
}

static void attend_groups(worker *w, hga_id stage, row_panel *p)
{
    open_chooser(w, stage, run_tiles, run_families, w);
    if (w->workspace->sliced.on) drop_idle_groups(p);
    choose_tiles(&w->tiles.chooser, p);
    for (hga_id g = 0; g < p->n_groups; g++) finish_group(w, &p->group[g]);
}

int64_t cached_fits(worker *w, const wave_item *item, int64_t n)
{
    const uint32_t *cached = layout_of(w, *item);
    (void)n;
    return cached &&
           (!(*cached & HAS_FAMILIES) || applies(w, w->plan->phases.list[item->phase].stage, SOLVER_FAMILIES));
}

/* Replays the tiles that the plan caches for the panel, then finishes each group's rows. */
void cached_take(worker *w, const wave_item *item, int64_t n)
{
    const phase *ph = &w->plan->phases.list[item->phase];
    panel_rows rows;
    row_panel p;
    (void)n;
    find_panel(w, ph, ph->stage, item->panel, &rows);
    find_groups(ph->stage, rows.first, rows.n, rows.node, &p);
    replay_panel(w, ph->stage, &p, layout_of(w, *item));
    for (hga_id g = 0; g < p.n_groups; g++) finish_group(w, &p.group[g]);
}

/* ---- some heads of a panel ---- */

static void leave_batch(void *context, tile_batch *b) { (void)context, (void)b; }
static void leave_families(void *context, row_group *g, const family_chunk *c) { (void)context, (void)g, (void)c; }

/* Mask of the groups whose edges are all in tiles, where each head is independent. Row by row all heads run together,
   and a head's bits depend on the others. */
static unsigned find_tiled(worker *w, hga_id stage, row_panel p)
{
    unsigned tiled = 0;
    open_chooser(w, stage, leave_batch, leave_families, NULL);
    choose_tiles(&w->tiles.chooser, &p);
    for (hga_id g = 0; g < p.n_groups; g++) {
        const row_group *x = &p.group[g];
        tiled |= (unsigned)(x->tiled && !x->rest) << g;
    }
    return tiled;
}

/* Attends to the groups of the panel in the mask `some`. */
static void attend_some_groups(worker *w, hga_id stage, row_panel p, unsigned some)
{
    for (hga_id g = 0; g < p.n_groups; g++)
        if (!(some >> g & 1u)) p.group[g].n_rows = 0;
    attend_groups(w, stage, &p);
}

/* An item of some heads: computes these heads of fully tiled groups; the item with head 0 computes all heads of the
   other groups. */
static void attend_some_heads(worker *w, hga_id stage, const row_panel *p)
{
    hga_id first = w->heads.kv_first, end = w->heads.kv_end;
    unsigned tiled = find_tiled(w, stage, *p);
    attend_some_groups(w, stage, *p, tiled);
    if (first > 0) return;
    worker_take_heads(w, 0, w->plan->shape.n_kv_heads);
    attend_some_groups(w, stage, *p, ~tiled);
    worker_take_heads(w, first, end);
}

/* ---- lone rows ---- */

/* Loads the row's edges for it alone. The item with head 0 computes all heads. */
static void attend_lone_row(worker *w, hga_id stage, hga_id position, hga_id v)
{
    const row_job job = {.stage = stage, .v = v, .count = INT64_MAX, .split = -1};
    const hga_id first = w->heads.kv_first, end = w->heads.kv_end;
    if (first > 0) return;
    worker_take_heads(w, 0, w->plan->shape.n_kv_heads);
    reader_load(&w->reader, position, 1);
    attend_start(w, &job);
    attend_rest(w, &job, NULL, 0);
    worker_take_heads(w, first, end);
}

/* A lone requested row of sixteen fills a sixteenth of a tile: it runs row by row, where it may have other bits. Not
   strict rows: their orders' edges are found as columns only. Returns whether other rows remain. */
static int take_lone_rows(worker *w, hga_id stage, panel_rows *p)
{
    const int alone = w->plan->fields.lone_rows && !w->plan->stage[stage].strict;
    int others = !alone;
    for (hga_id at = 0; alone && at < p->n; at += KERNEL_TILE) {
        const hga_id n = p->n - at < KERNEL_TILE ? p->n - at : KERNEL_TILE;
        const unsigned rows = requested_mask(&(row_group){.n_rows = n, .node = p->node + at});
        others |= (rows & (rows - 1)) != 0;
        if (!rows || rows & (rows - 1)) continue;
        const hga_id r = at + (hga_id)__builtin_ctz(rows), v = p->node[r];
        attend_lone_row(w, stage, p->first + r, v);
        p->node[r] = left_out(v);
    }
    return others;
}

/* Chooses and runs a panel's tiles, for all heads or for those of the item. */
void tiles_run(worker *w, const wave_item *item, int64_t n)
{
    const phase *ph = &w->plan->phases.list[item->phase];
    const hga_id stage = ph->stage;
    panel_rows rows;
    row_panel p;
    (void)n;
    if (!find_panel(w, ph, stage, item->panel, &rows) || !take_lone_rows(w, stage, &rows)) return;
    load_ahead(w, &rows);
    find_groups(stage, rows.first, rows.n, rows.node, &p);
    if (w->heads.kv_end - w->heads.kv_first < w->plan->shape.n_kv_heads)
        attend_some_heads(w, stage, &p);
    else
        attend_groups(w, stage, &p);
}
