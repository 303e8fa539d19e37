/* attend_panel.c: the rows of a panel attend: what is chosen goes through tiles, what is left of a row through the row
   kernel, into the same states. */
#include "stages.h"
#include "strips.h"

/* Rows without edges, beside families. */
static int is_done(const row_group *g, hga_id r) { return g->node[r] < 0 || g->in_families >> r & 1u; }

/* The rows of a group end: all at once, or each with the rest of its edges. */
static void finish_group(worker *w, const row_group *g)
{
    if (g->stored) return;
    if (g->tiled && !g->rest) {
        store_group(w, g);
        return;
    }
    for (hga_id r = 0; r < g->n_rows; r++) {
        if (is_done(g, r)) continue;
        row_job job = {.stage = g->stage, .v = g->node[r], .position = g->first + r, .count = INT64_MAX, .piece = -1};
        if (g->tiled)
            take_states(w, g, r);
        else
            attend_start(w, &job);
        attend_rest(w, &job, g->tiled ? w->chooser.tiled : NULL, 1u << g->number);
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

static void open_chooser(worker *w, hga_id stage, tile_runner run, family_runner families)
{
    tile_chooser *t = &w->chooser;
    t->run_families = families_are_fit(w, stage) ? families : NULL;
    t->strict = w->plan->options.strict_rows != 0;
    t->reader = &w->reader, t->run = run, t->context = w, t->batch->stage = stage;
    t->leaves_out = w->workspace->sliced || w->reader.ahead;
    t->families_have_types = w->io->rel_key.data || w->io->rel_bias.data;
    t->types = t->families_have_types || drops_weights(w), t->positions = w->io->node_pos.data != NULL;
}

/* Edge biases belong to single edges, which only rows know. Relative keys are capped with the product they are part of,
   to which tiles add them later where they differ from pair to pair. */
int goes_in_tiles(const worker *w, hga_id stage)
{
    int apart = w->workspace->cap_2 > 0 && w->io->rel_key.data;
    return !w->io->edge_bias.data && !apart && !w->plan->stage[stage].strays;
}

/* A group's tiles hang on its own rows alone: where none of these is computed, nothing is chosen for it. */
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
    open_chooser(w, stage, run_tiles, run_families);
    if (w->workspace->sliced) drop_idle_groups(p);
    if (goes_in_tiles(w, stage)) choose_tiles(&w->chooser, p);
    for (hga_id g = 0; g < p->n_groups; g++) finish_group(w, &p->group[g]);
}

void attend_kept_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node, const uint32_t *kept)
{
    row_panel p;
    find_groups(stage, first, n, node, &p);
    replay_panel(w, stage, &p, kept);
    for (hga_id g = 0; g < p.n_groups; g++) finish_group(w, &p.group[g]);
}

/* ---- some heads of a panel ---- */

static void leave_batch(void *context, tile_batch *b) { (void)context, (void)b; }
static void leave_families(void *context, const row_group *g, const strip *x, hga_id n)
{
    (void)context, (void)g, (void)x, (void)n;
}

/* The groups, as bits, that have all of their edges in tiles, where each head is by itself. Row by row all heads go
   together, and what a head is then has to do with the others. */
static unsigned find_tiled(worker *w, hga_id stage, row_panel p)
{
    unsigned tiled = 0;
    open_chooser(w, stage, leave_batch, leave_families);
    if (goes_in_tiles(w, stage)) choose_tiles(&w->chooser, &p);
    for (hga_id g = 0; g < p.n_groups; g++) tiled |= (unsigned)(p.group[g].tiled && !p.group[g].rest) << g;
    return tiled;
}

/* Those groups of the panel. */
static void attend_some_groups(worker *w, hga_id stage, row_panel p, unsigned some)
{
    for (hga_id g = 0; g < p.n_groups; g++)
        if (!(some >> g & 1u)) p.group[g].n_rows = 0;
    attend_groups(w, stage, &p);
}

/* Of an item with some of the heads: its heads of groups that are tiled; all heads of the others with the first. */
static void attend_some_heads(worker *w, hga_id stage, const row_panel *p)
{
    hga_id first = w->kv_first, end = w->kv_end;
    unsigned tiled = find_tiled(w, stage, *p);
    attend_some_groups(w, stage, *p, tiled);
    if (first > 0) return;
    worker_take_heads(w, 0, w->plan->shape.n_kv_heads);
    attend_some_groups(w, stage, *p, ~tiled);
    worker_take_heads(w, first, end);
}

void attend_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node)
{
    row_panel p;
    find_groups(stage, first, n, node, &p);
    if (w->kv_end - w->kv_first < w->plan->shape.n_kv_heads)
        attend_some_heads(w, stage, &p);
    else
        attend_groups(w, stage, &p);
}
