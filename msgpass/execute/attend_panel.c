/* attend_panel.c: the rows of a panel attend: what is chosen goes through tiles, what is left of a row through the row
   kernel, into the same states. */
#include "stages.h"
#include "tiles.h"

/* The rows of a group end: all at once, or each with the rest of its edges. */
static void finish_group(worker *w, const row_group *g)
{
    if (g->stored) return;
    if (g->tiled && !g->rest) {
        store_group(w, g);
        return;
    }
    for (hga_id r = 0; r < g->n_rows; r++) {
        if (g->node[r] < 0) continue;
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

/* Edge biases belong to single edges, which only rows know. */
void attend_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node)
{
    row_panel p;
    find_groups(stage, first, n, node, &p);
    if (!w->io->edge_bias) {
        tile_chooser *t = &w->chooser;
        t->reader = &w->reader, t->run = run_tiles, t->context = w, t->batch->stage = stage;
        t->types = w->io->rel_key || w->io->rel_bias, t->positions = w->io->node_pos != NULL;
        choose_tiles(t, &p);
    }
    for (hga_id g = 0; g < p.n_groups; g++) finish_group(w, &p.group[g]);
}
