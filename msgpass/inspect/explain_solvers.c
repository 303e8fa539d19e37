/* explain_solvers.c: chooses tiles as an execution does, with a runner that counts instead of computing. */
#include "explain_solvers.h"
#include "counted.h"
#include "row_solvers.h"
#include "attend.h"
#include "attend_solvers.h"
#include "interrupt.h"
#include "layouts.h"
#include "panel_rows.h"
#include "split_groups.h"
#include "plan.h"
#include "stages.h"
#include "tiles.h"

/* Panels of a stage that are sampled, so that explaining takes about a second at any length. */
enum { MOST_PANELS = 2048 };

/* The runner's context: the worker, and the counts. */
typedef struct tile_count {
    worker *w;
    pair_solvers *solvers;
} tile_count;

/* A tile_runner. */
static void count_batch(void *context, tile_batch *b)
{
    const tile_count *of = context;
    pair_solvers *solvers = of->solvers;
    for (hga_id i = 0; i < b->n; i++)
        for (hga_id k = 0; k < b->chunk[i].n_parts; k++) {
            const tile_part *part = &b->chunk[i].part[k];
            unsigned requested = requested_mask(part->group);
            for (hga_id e = part->first; e < part->last; e++)
                solvers->tiles += __builtin_popcount(b->chunk[i].rows[k][e] & requested);
            solvers->tile_slots += (double)(part->last - part->first) * KERNEL_TILE;
        }
    of->w->tiles.chooser.enough = interrupted() != HGA_OK; /* the caller checks again after the panel */
}

/* A family_runner. */
static void count_families(void *context, row_group *g, const family_chunk *c)
{
    pair_solvers *solvers = ((const tile_count *)context)->solvers;
    const unsigned requested = requested_mask(g);
    for (hga_id e = 0; e < c->columns->n; e++) solvers->families += __builtin_popcount(c->rows[e] & requested);
}

/* Counts a row's edges that are not in tiles; g NULL: all. */
static void count_left(const worker *w, const row_group *g, hga_id v, pair_solvers *solvers)
{
    edge_chunk c;
    edge_cursor at = g && g->tiled ? cursor_start_beyond(&w->reader, v, w->tiles.chooser.seen.tiled, 1u << g->number)
                                   : cursor_start(&w->reader, v);
    for (cursor_next(&at, KERNEL_CHUNK, &c); c.n; cursor_next(&at, KERNEL_CHUNK, &c)) solvers->rows += c.n;
}

static void count_group(const worker *w, const row_group *g, pair_solvers *solvers)
{
    if (g->tiled && !g->rest) return;
    for (hga_id r = 0; r < g->n_rows; r++)
        if (g->node[r] >= 0 && !(g->in_families >> r & 1u)) count_left(w, g, g->node[r], solvers);
}

/* The panel must be loaded. */
static void count_tiles(worker *w, hga_id stage, const panel_rows *rows, pair_solvers *solvers)
{
    row_panel p;
    find_groups(stage, rows->first, rows->n, rows->node, &p);
    tile_count of = {w, solvers};
    open_chooser(w, stage, count_batch, count_families, &of);
    choose_tiles(&w->tiles.chooser, &p);
    for (hga_id g = 0; g < p.n_groups; g++) count_group(w, &p.group[g], solvers);
}

static void count_rows_left(worker *w, const phase *ph, const panel_rows *rows, pair_solvers *solvers)
{
    const stage_plan *s = &w->plan->stage[ph->stage];
    for (hga_id i = 0; i < rows->n; i++) {
        const hga_id v = rows->node[i];
        if (v < 0) continue;
        reader_load(&w->reader, runs_by_position(w, ph) ? rows->first + i : s->relation.dst_rank[v], 1);
        count_left(w, NULL, v, solvers);
    }
}

static void count_split_group(const split_group *x, pair_solvers *solvers)
{
    for (hga_id r = 0; r < x->n; r++) solvers->tiles += x->of[r].n;
    solvers->tile_slots += (double)x->columns.n * KERNEL_TILE;
}

/* Counts the first of n splits, and those computed together with it, weighted by `share`; returns how many. */
static int64_t count_splits(worker *w, const wave_item *item, int64_t n, double share, pair_solvers *solvers)
{
    const hga_id stage = w->plan->phases.list[item->phase].stage;
    pair_solvers some = {0};
    split_group x;
    int64_t together = solver_fits(w, SOLVER_SPLITS, item, n);
    if (together) {
        find_split_group(w, item, n, &x), count_split_group(&x, &some);
        solvers->applies |= 1u << SOLVER_SPLITS;
    } else {
        some.rows = columns_of_split(&w->plan->stage[stage], item->panel).n;
    }
    solvers->tiles += share * some.tiles, solvers->tile_slots += share * some.tile_slots,
        solvers->rows += share * some.rows;
    return together ? together : 1;
}

/* Marks the solvers that some of n panels fit and that compute the same tiles, or families, as those that choose group
   by group. */
static void count_solvers(worker *w, const wave_item *item, int64_t n, pair_solvers *solvers)
{
    static const attend_solver_id of_panels[] = {SOLVER_WIDE, SOLVER_CACHED, SOLVER_EQUAL};
    for (int i = 0; i < 3; i++)
        if (!(solvers->applies >> of_panels[i] & 1) && solver_fits(w, of_panels[i], item, n))
            solvers->applies |= 1u << of_panels[i];
}

/* Counts the panel's share of the pairs of all panels that are computed together. */
static void count_columns(worker *w, const wave_item *item, int64_t together, pair_solvers *solvers)
{
    double pairs = 0, tile_slots = 0;
    columns_look(w, item, together, &pairs, &tile_slots);
    solvers->tiles += pairs / (double)together, solvers->tile_slots += tile_slots / (double)together;
    solvers->applies |= 1u << SOLVER_COLUMNS;
}

/* Counts a panel's listed edges, by rows of few and of many. */
static void count_few_edges(worker *w, const phase *ph, const wave_item *item, pair_solvers *solvers)
{
    const hga_pos *ptr = w->plan->stage[ph->stage].relation.ptr;
    panel_rows rows;
    solvers->applies |= 1u << SOLVER_FEW_EDGES;
    if (!find_panel(w, ph, ph->stage, item->panel, &rows)) return;
    for (hga_id i = 0; i < rows.n; i++) {
        if (rows.node[i] < 0) continue;
        const hga_pos edges = ptr[rows.node[i] + 1] - ptr[rows.node[i]];
        *(edges <= KERNEL_CHUNK ? &solvers->few_edges : &solvers->rows) += (double)edges;
    }
}

/* Counts the pairs of a panel as the solver that would run it computes them. */
static void count_panel(worker *w, const wave_item *item, int64_t n, pair_solvers *solvers)
{
    int64_t together;
    const phase *ph = &w->plan->phases.list[item->phase];
    panel_rows rows;
    worker_take_heads(w, 0, w->plan->shape.n_kv_heads);
    open_stage(w, ph->stage);
    count_solvers(w, item, n, solvers);
    if ((together = solver_fits(w, SOLVER_COLUMNS, item, n))) {
        count_columns(w, item, together, solvers);
        return;
    }
    if (solver_fits(w, SOLVER_FEW_EDGES, item, n)) {
        count_few_edges(w, ph, item, solvers);
        return;
    }
    if (!open_panel(w, *item, &rows)) return;
    if (applies(w, ph->stage, SOLVER_TILES) || applies(w, ph->stage, SOLVER_STRICT))
        count_tiles(w, ph->stage, &rows, solvers);
    else
        count_rows_left(w, ph, &rows, solvers);
}

/* A thread's share of a wave: samples panels, counts all splits. */
static hga_status count_share(worker *w, hga_id stage, int64_t first, int64_t end, pair_solvers *solvers)
{
    hga_status st = HGA_OK;
    const int64_t step = w->plan->stage[stage].panels / MOST_PANELS + 1;
    const wave_item *item = w->plan->waves.item;
    for (int64_t i = first, done; i < end && !st; i += done) {
        const phase *ph = &w->plan->phases.list[item[i].phase];
        done = 1;
        if (ph->stage != stage || item[i].head_range > 0 || ph->job > JOB_SPLITS) continue;
        if (ph->job == JOB_SPLITS)
            done = count_splits(w, &item[i], end - i, 1.0 / (double)step, solvers);
        else if (solvers->panels++ % step == 0)
            solvers->looked_at++, count_panel(w, &item[i], end - i, solvers);
        st = interrupted();
    }
    return st;
}

/* Marks the solvers of tiles, families and rows that have pairs. */
static void find_goers(const worker *w, hga_id stage, pair_solvers *solvers)
{
    if (solvers->tiles > 0 && !(solvers->applies >> SOLVER_COLUMNS & 1))
        solvers->applies |= (1u << SOLVER_TILES | 1u << SOLVER_STRICT) & w->workspace->solvers[stage];
    if (solvers->families > 0) solvers->applies |= 1u << SOLVER_FAMILIES;
    solvers->last = SOLVER_HEADS;
    while (!applies(w, stage, (int)solvers->last)) solvers->last++;
    if (solvers->rows > 0) solvers->applies |= 1u << solvers->last;
}

static hga_status count_stage(worker *w, hga_id stage, pair_solvers *solvers)
{
    const wave_order *o = &w->plan->waves;
    hga_status st = HGA_OK;
    *solvers = (pair_solvers){.attends = kind_attends(w->plan->stage[stage].kind), .call_has = w->workspace->call_has};
    if (!solvers->attends) return HGA_OK;
    for (int64_t i = 0; i < (int64_t)o->n * w->plan->team.n && !st; i++)
        st = count_share(w, stage, o->ptr[i], o->ptr[i + 1], solvers);
    if (!st) find_goers(w, stage, solvers);
    return st;
}

/* The counts, and the features of the call. */
typedef struct count {
    pair_solvers *solvers;
    unsigned call_has;
} count;

static hga_status count_stages(worker *w, void *context)
{
    count *c = context;
    hga_status st = layouts_open(w->plan, w->workspace);
    solvers_open(w->plan, c->call_has, 0, w->workspace);
    if (!st) st = layouts_learn_types(w->plan, w->workspace);
    for (hga_id s = 0; !st && s < w->plan->program.n_stages; s++) st = count_stage(w, s, &c->solvers[s]);
    return st;
}

hga_status solvers_find(const hga_plan *plan, const hga_io *io, pair_solvers solvers[HGA_MAX_STAGES])
{
    static const hga_io none;
    count c = {solvers, call_features(&plan->program, io ? io : &none)};
    return worker_look(plan, count_stages, &c);
}

/* ---- in words ---- */

/* Prints the shares of the stage's pairs in tiles, families and rows. */
static void say_pairs(FILE *f, const pair_solvers *x)
{
    double all = x->tiles + x->families + x->few_edges + x->rows;
    const char *comma = "";
    if (!(all > 0)) return;
    fprintf(f, "      pairs: ");
    if (x->tiles > 0)
        fprintf(f, "%.1f %% in tiles that are %.0f %% full", 100 * x->tiles / all, 100 * x->tiles / x->tile_slots),
            comma = ", ";
    if (x->families > 0) fprintf(f, "%s%.1f %% in families", comma, 100 * x->families / all), comma = ", ";
    if (x->few_edges > 0) fprintf(f, "%s%.1f %% of rows of few edges", comma, 100 * x->few_edges / all), comma = ", ";
    if (x->rows > 0) fprintf(f, "%s%.1f %% %s", comma, 100 * x->rows / all, solver_name(x->last));
    if (x->looked_at < x->panels)
        fprintf(f, " (%lld of %s looked at)", (long long)x->looked_at, counted(x->panels, "panel").text);
    fputc('\n', f);
}

static void say_goers(FILE *f, const pair_solvers *x)
{
    const char *before = "      solvers: ";
    for (attend_solver_id i = 0; i <= x->last; i++)
        if (x->applies >> i & 1) fprintf(f, "%s%s", before, solver_name(i)), before = "; ";
    if (x->applies) fputc('\n', f);
}

/* Why no pair of the stage uses the solver; NULL: some do, or it was not tried. */
static const char *why_not(const hga_plan *plan, hga_id stage, const pair_solvers *x, attend_solver_id solver)
{
    if (x->applies >> solver & 1 || solver > x->last) return NULL;
    const char *why = solver_refusal(plan, stage, x->call_has, solver);
    return why ? why : solver_lacks(solver);
}

/* Solvers with the same reason are printed together. */
void solvers_say(FILE *f, const hga_plan *plan, hga_id stage, const pair_solvers *x)
{
    if (!x->attends) return;
    say_pairs(f, x), say_goers(f, x);
    for (attend_solver_id i = 0; i <= x->last; i++) {
        const char *why = why_not(plan, stage, x, i), *before = "      not ";
        for (attend_solver_id k = 0; why && k < i; k++)
            if (why_not(plan, stage, x, k) == why) why = NULL;
        if (!why) continue;
        for (attend_solver_id k = i; k <= x->last; k++)
            if (why_not(plan, stage, x, k) == why) fprintf(f, "%s%s", before, solver_name(k)), before = "; ";
        fprintf(f, ": %s\n", why);
    }
}

/* ---- as JSON ---- */

static json_t *applies_json(const pair_solvers *x)
{
    json_t *all = json_array();
    for (attend_solver_id i = 0; x->attends && i <= x->last; i++)
        if (x->applies >> i & 1) json_array_append_new(all, json_string(solver_name(i)));
    return all;
}

static json_t *refused_json(const hga_plan *plan, hga_id stage, const pair_solvers *x)
{
    json_t *all = json_array();
    for (attend_solver_id i = 0; x->attends && i <= x->last; i++) {
        const char *why = why_not(plan, stage, x, i);
        if (why) json_array_append_new(all, json_pack("{s:s, s:s}", "way", solver_name(i), "why", why));
    }
    return all;
}

json_t *solvers_json(const hga_plan *plan, hga_id stage, const pair_solvers *x)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:o, s:o}", "tiles", x->tiles, "places", x->tile_slots,
                     "families", x->families, "few_edges", x->few_edges, "rows", x->rows, "panels",
                     (json_int_t)x->panels, "looked_at", (json_int_t)x->looked_at, "ways", applies_json(x), "refused",
                     refused_json(plan, stage, x));
}
