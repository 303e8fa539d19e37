/* explain_ways.c: tiles are chosen as an execution chooses them, with somebody who counts in place of who computes. */
#include "explain_ways.h"
#include "pieces.h"
#include "stages.h"
#include "strips.h"

/* Panels of a stage that are looked at, so that explaining is a matter of a second at any length. */
enum { MOST_PANELS = 2048 };

/* A tile_runner. */
static void count_batch(void *context, tile_batch *b)
{
    pair_ways *ways = context;
    for (hga_id i = 0; i < b->n; i++)
        for (hga_id k = 0; k < b->chunk[i].n_parts; k++) {
            const tile_part *part = &b->chunk[i].part[k];
            unsigned wanted = wanted_rows(part->group);
            for (hga_id e = part->first; e < part->last; e++)
                ways->tiles += __builtin_popcount(b->chunk[i].rows[k][e] & wanted);
            ways->places += (double)(part->last - part->first) * KERNEL_TILE;
        }
}

/* A family_runner. */
static void count_families(void *context, const row_group *g, const strip *x, hga_id n)
{
    pair_ways *ways = context;
    unsigned wanted = wanted_rows(g);
    for (hga_id i = 0; i < n; i++)
        for (hga_id c = 0; c < x[i].n; c++) ways->families += __builtin_popcount(rows_of_column(&x[i], c) & wanted);
}

/* What a row is left with after tiles; g NULL: all. */
static void count_row(const worker *w, const row_group *g, hga_id v, pair_ways *ways)
{
    edge_chunk c;
    edge_cursor at = g && g->tiled ? cursor_start_beyond(&w->reader, v, w->chooser.tiled, 1u << g->number)
                                   : cursor_start(&w->reader, v);
    for (cursor_next(&at, KERNEL_CHUNK, &c); c.n; cursor_next(&at, KERNEL_CHUNK, &c)) ways->rows += c.n;
}

static void count_group(const worker *w, const row_group *g, pair_ways *ways)
{
    if (g->tiled && !g->rest) return;
    for (hga_id r = 0; r < g->n_rows; r++)
        if (g->node[r] >= 0 && !(g->in_families >> r & 1u)) count_row(w, g, g->node[r], ways);
}

static void count_company(const company *x, pair_ways *ways)
{
    for (hga_id r = 0; r < x->n; r++) ways->tiles += x->of[r].n;
    ways->places += (double)x->columns.n * KERNEL_TILE;
}

/* Rows that are cut into pieces and merged: what goes together in a share of a wave. */
static void count_pieces(const worker *w, hga_id stage, int64_t first, int64_t end, pair_ways *ways)
{
    company x;
    for (int64_t i = first, done; i < end; i += done) {
        const wave_item *item = &w->plan->waves.item[i];
        const phase *ph = &w->plan->phase[item->phase];
        done = 1;
        if (ph->job != JOB_PIECES || ph->stage != stage) continue;
        find_company(w, item, end - i, &x);
        if (x.n)
            count_company(&x, ways), done = x.n;
        else
            ways->rows += columns_of_piece(&w->plan->stage[stage], item->panel).n;
    }
}

/* The panel goes by position, and is loaded. */
static void count_tiles(worker *w, hga_id stage, const panel_rows *rows, pair_ways *ways)
{
    tile_chooser *t = &w->chooser;
    row_panel p;
    find_groups(stage, rows->first, rows->n, rows->node, &p);
    t->reader = &w->reader, t->batch->stage = stage, t->context = ways;
    t->run = count_batch, t->run_families = families_are_fit(w, stage) ? count_families : NULL;
    t->strict = w->plan->options.strict_rows != 0;
    t->types = t->families_have_types = t->positions = 0, t->leaves_out = w->reader.ahead;
    if (!w->plan->stage[stage].strays) choose_tiles(t, &p);
    for (hga_id g = 0; g < p.n_groups; g++) count_group(w, &p.group[g], ways);
}

static void count_panel(worker *w, wave_item item, pair_ways *ways)
{
    const phase *ph = &w->plan->phase[item.phase];
    panel_rows rows;
    load_panel(w, item);
    list_panel(w, item, &rows);
    if (ph->by_position || !w->plan->stage[ph->stage].relation.dst_order) {
        count_tiles(w, ph->stage, &rows, ways);
        return;
    }
    for (hga_id i = 0; i < rows.n; i++) {
        if (rows.node[i] < 0) continue;
        reader_load(&w->reader, w->plan->stage[ph->stage].relation.dst_rank[rows.node[i]], 1);
        count_row(w, NULL, rows.node[i], ways);
    }
}

static int has_ways(const hga_plan *plan, hga_id stage)
{
    return kind_attends(plan->stage[stage].kind) && stage_is_fused(plan, stage) && !attends_by_rows(plan);
}

/* As many of a long stage's as if it had the panels that are looked at. */
static void count_all_pieces(const worker *w, hga_id stage, pair_ways *ways)
{
    const wave_order *o = &w->plan->waves;
    double share = ways->panels ? (double)ways->looked_at / (double)ways->panels : 1;
    pair_ways all = {0};
    for (int64_t i = 0; i < (int64_t)o->n * w->plan->threads; i++)
        count_pieces(w, stage, o->ptr[i], o->ptr[i + 1], &all);
    ways->tiles += share * all.tiles, ways->places += share * all.places, ways->rows += share * all.rows;
}

static void count_stage(worker *w, hga_id stage, pair_ways *ways)
{
    int64_t step = w->plan->stage[stage].panels / MOST_PANELS + 1;
    for (hga_id i = 0; i < w->plan->n_phases; i++) {
        const phase *ph = &w->plan->phase[i];
        if (ph->job != JOB_ROWS || ph->stage != stage) continue;
        for (hga_id panel = 0; panel < ph->n_panels; panel++)
            if (ways->panels++ % step == 0) ways->looked_at++, count_panel(w, (wave_item){i, panel, 0}, ways);
    }
    count_all_pieces(w, stage, ways);
}

static hga_status count_stages(worker *w, void *context)
{
    pair_ways *ways = context;
    for (hga_id s = 0; s < w->plan->program.n_stages; s++) {
        ways[s] = (pair_ways){0};
        if (has_ways(w->plan, s)) count_stage(w, s, &ways[s]);
    }
    return HGA_OK;
}

hga_status ways_find(const hga_plan *plan, pair_ways ways[HGA_MAX_STAGES])
{
    return worker_look(plan, count_stages, ways);
}

void ways_say(FILE *f, const hga_plan *plan, const pair_ways *x)
{
    double all = x->tiles + x->families + x->rows;
    const char *comma = "";
    if (!(all > 0)) return;
    fprintf(f, "      pairs: ");
    if (x->tiles > 0)
        fprintf(f, "%.1f %% in tiles that are %.0f %% full", 100 * x->tiles / all, 100 * x->tiles / x->places),
            comma = ", ";
    if (x->families > 0) fprintf(f, "%s%.1f %% in families", comma, 100 * x->families / all), comma = ", ";
    if (x->rows > 0)
        fprintf(f, "%s%.1f %% row by row, %s", comma, 100 * x->rows / all,
                heads_go_together(plan) ? "all heads at once" : "head by head");
    if (x->looked_at < x->panels)
        fprintf(f, " (%lld of %lld panels looked at)", (long long)x->looked_at, (long long)x->panels);
    fputc('\n', f);
}

void ways_say_why(FILE *f, const hga_plan *plan)
{
    fprintf(
        f,
        "  tiles      columns that at least %.0f %% of sixteen rows share, and pieces of long rows that share "
        "columns; not\n             where a call has biases of edges\n"
        "  families   up to %d columns that a few rows have alone, where a tile would be under %.0f %% full; not with "
        "positions, slopes or\n             biases of edges, nor in bfloat16\n"
        "  row by row the rest, and edges listed one by one; with biases or slopes each head by itself\n",
        100 * TILE_SHARE, KERNEL_FAMILY, 100 * FAMILY_SHARE);
    if (plan->bf16_rows && !plan->kernels->attend_tile_bf16)
        fprintf(f,
                "  bfloat16   %s does not multiply it: tiles widen keys and values each time, and float32 is faster\n",
                plan->kernels->isa);
}

json_t *ways_json(const pair_ways *x)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:I, s:I}", "tiles", x->tiles, "places", x->places, "families", x->families,
                     "rows", x->rows, "panels", (json_int_t)x->panels, "looked_at", (json_int_t)x->looked_at);
}
