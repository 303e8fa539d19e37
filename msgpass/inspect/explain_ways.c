/* explain_ways.c: tiles are chosen as an execution chooses them, with somebody who counts in place of who computes. */
#include "explain_ways.h"
#include "attend.h"
#include "attend_ways.h"
#include "interrupt.h"
#include "layouts.h"
#include "panel_rows.h"
#include "pieces.h"
#include "plan.h"
#include "stages.h"
#include "strips.h"

/* Panels of a stage that are looked at, so that explaining is a matter of a second at any length. */
enum { MOST_PANELS = 2048 };

/* Who counts, and where the counts go. */
typedef struct tile_count {
    worker *w;
    pair_ways *ways;
} tile_count;

/* A tile_runner. */
static void count_batch(void *context, tile_batch *b)
{
    const tile_count *of = context;
    pair_ways *ways = of->ways;
    for (hga_id i = 0; i < b->n; i++)
        for (hga_id k = 0; k < b->chunk[i].n_parts; k++) {
            const tile_part *part = &b->chunk[i].part[k];
            unsigned wanted = wanted_rows(part->group);
            for (hga_id e = part->first; e < part->last; e++)
                ways->tiles += __builtin_popcount(b->chunk[i].rows[k][e] & wanted);
            ways->places += (double)(part->last - part->first) * KERNEL_TILE;
        }
    of->w->chooser.enough = interrupted() != HGA_OK; /* who has counted the panel asks again */
}

/* A family_runner. */
static void count_families(void *context, row_group *g, const family_chunk *c)
{
    pair_ways *ways = ((const tile_count *)context)->ways;
    const unsigned wanted = wanted_rows(g);
    for (hga_id e = 0; e < c->columns->n; e++) ways->families += __builtin_popcount(c->rows[e] & wanted);
}

/* What a row is left with after tiles; g NULL: all. */
static void count_left(const worker *w, const row_group *g, hga_id v, pair_ways *ways)
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
        if (g->node[r] >= 0 && !(g->in_families >> r & 1u)) count_left(w, g, g->node[r], ways);
}

/* The panel is loaded. */
static void count_tiles(worker *w, hga_id stage, const panel_rows *rows, pair_ways *ways)
{
    row_panel p;
    find_groups(stage, rows->first, rows->n, rows->node, &p);
    tile_count of = {w, ways};
    open_chooser(w, stage, count_batch, count_families, &of);
    choose_tiles(&w->chooser, &p);
    for (hga_id g = 0; g < p.n_groups; g++) count_group(w, &p.group[g], ways);
}

static void count_rows_left(worker *w, const phase *ph, const panel_rows *rows, pair_ways *ways)
{
    const stage_plan *s = &w->plan->stage[ph->stage];
    for (hga_id i = 0; i < rows->n; i++) {
        const hga_id v = rows->node[i];
        if (v < 0) continue;
        reader_load(&w->reader, goes_by_position(w, ph) ? rows->first + i : s->relation.dst_rank[v], 1);
        count_left(w, NULL, v, ways);
    }
}

static void count_piece_group(const piece_group *x, pair_ways *ways)
{
    for (hga_id r = 0; r < x->n; r++) ways->tiles += x->of[r].n;
    ways->places += (double)x->columns.n * KERNEL_TILE;
}

/* The first of n pieces, and those that go with it, by `share` of them; returns how many. */
static int64_t count_pieces(worker *w, const wave_item *item, int64_t n, double share, pair_ways *ways)
{
    const hga_id stage = w->plan->phase[item->phase].stage;
    pair_ways some = {0};
    piece_group x;
    int64_t together = way_fits(w, WAY_PIECES, item, n);
    if (together) {
        find_piece_group(w, item, n, &x), count_piece_group(&x, &some);
        ways->goes |= 1u << WAY_PIECES;
    } else {
        some.rows = columns_of_piece(&w->plan->stage[stage], item->panel).n;
    }
    ways->tiles += share * some.tiles, ways->places += share * some.places, ways->rows += share * some.rows;
    return together ? together : 1;
}

/* Do some of n panels go a way that computes the same tiles, or families, as the ways that look at groups? */
static void ask_ways(worker *w, const wave_item *item, int64_t n, pair_ways *ways)
{
    static const attend_way_number of_panels[] = {WAY_WIDE, WAY_KEPT, WAY_EQUAL};
    for (int i = 0; i < 3; i++)
        if (!(ways->goes >> of_panels[i] & 1) && way_fits(w, of_panels[i], item, n)) ways->goes |= 1u << of_panels[i];
}

/* By the share that a panel has of those that go together. */
static void count_columns(worker *w, const wave_item *item, int64_t together, pair_ways *ways)
{
    double pairs = 0, places = 0;
    columns_look(w, item, together, &pairs, &places);
    ways->tiles += pairs / (double)together, ways->places += places / (double)together;
    ways->goes |= 1u << WAY_COLUMNS;
}

/* Counts the pairs of a panel as the way that would take it computes them. */
static void count_panel(worker *w, const wave_item *item, int64_t n, pair_ways *ways)
{
    int64_t together;
    const phase *ph = &w->plan->phase[item->phase];
    panel_rows rows;
    worker_take_heads(w, 0, w->plan->shape.n_kv_heads);
    open_stage(w, ph->stage);
    ask_ways(w, item, n, ways);
    if ((together = way_fits(w, WAY_COLUMNS, item, n))) {
        count_columns(w, item, together, ways);
        return;
    }
    if (!open_panel(w, *item, &rows)) return;
    if (goes(w, ph->stage, WAY_TILES) || goes(w, ph->stage, WAY_STRICT))
        count_tiles(w, ph->stage, &rows, ways);
    else
        count_rows_left(w, ph, &rows, ways);
}

/* A thread's share of a wave: panels as many as are looked at, all pieces. */
static hga_status count_share(worker *w, hga_id stage, int64_t first, int64_t end, pair_ways *ways)
{
    hga_status st = HGA_OK;
    const int64_t step = w->plan->stage[stage].panels / MOST_PANELS + 1;
    const wave_item *item = w->plan->waves.item;
    for (int64_t i = first, done; i < end && !st; i += done) {
        const phase *ph = &w->plan->phase[item[i].phase];
        done = 1;
        if (ph->stage != stage || item[i].head_part > 0 || ph->job > JOB_PIECES) continue;
        if (ph->job == JOB_PIECES)
            done = count_pieces(w, &item[i], end - i, 1.0 / (double)step, ways);
        else if (ways->panels++ % step == 0)
            ways->looked_at++, count_panel(w, &item[i], end - i, ways);
        st = interrupted();
    }
    return st;
}

/* Those that tiles, families and rows have of the pairs. */
static void find_goers(const worker *w, hga_id stage, pair_ways *ways)
{
    if (ways->tiles > 0 && !(ways->goes >> WAY_COLUMNS & 1))
        ways->goes |= (1u << WAY_TILES | 1u << WAY_STRICT) & w->workspace->ways[stage];
    if (ways->families > 0) ways->goes |= 1u << WAY_FAMILIES;
    ways->last = WAY_HEADS;
    while (!goes(w, stage, ways->last)) ways->last++;
    if (ways->rows > 0) ways->goes |= 1u << ways->last;
}

static hga_status count_stage(worker *w, hga_id stage, pair_ways *ways)
{
    const wave_order *o = &w->plan->waves;
    hga_status st = HGA_OK;
    *ways = (pair_ways){.attends = kind_attends(w->plan->stage[stage].kind), .brings = w->workspace->brings};
    if (!ways->attends) return HGA_OK;
    for (int64_t i = 0; i < (int64_t)o->n * w->plan->threads && !st; i++)
        st = count_share(w, stage, o->ptr[i], o->ptr[i + 1], ways);
    if (!st) find_goers(w, stage, ways);
    return st;
}

/* What is counted, and of which call. */
typedef struct count {
    pair_ways *ways;
    unsigned brings;
} count;

static hga_status count_stages(worker *w, void *context)
{
    count *c = context;
    hga_status st = layouts_open(w->plan, w->workspace);
    ways_open(w->plan, c->brings, 0, w->workspace);
    if (!st) st = layouts_learn_types(w->plan, w->workspace);
    for (hga_id s = 0; !st && s < w->plan->program.n_stages; s++) st = count_stage(w, s, &c->ways[s]);
    return st;
}

hga_status ways_find(const hga_plan *plan, const hga_io *io, pair_ways ways[HGA_MAX_STAGES])
{
    static const hga_io none;
    count c = {ways, call_features(&plan->program, io ? io : &none)};
    return worker_look(plan, count_stages, &c);
}

/* ---- in words ---- */

/* How many of the stage's pairs tiles, families and rows have. */
static void say_pairs(FILE *f, const pair_ways *x)
{
    double all = x->tiles + x->families + x->rows;
    const char *comma = "";
    if (!(all > 0)) return;
    fprintf(f, "      pairs: ");
    if (x->tiles > 0)
        fprintf(f, "%.1f %% in tiles that are %.0f %% full", 100 * x->tiles / all, 100 * x->tiles / x->places),
            comma = ", ";
    if (x->families > 0) fprintf(f, "%s%.1f %% in families", comma, 100 * x->families / all), comma = ", ";
    if (x->rows > 0) fprintf(f, "%s%.1f %% %s", comma, 100 * x->rows / all, way_name(x->last));
    if (x->looked_at < x->panels)
        fprintf(f, " (%lld of %lld panels looked at)", (long long)x->looked_at, (long long)x->panels);
    fputc('\n', f);
}

static void say_goers(FILE *f, const pair_ways *x)
{
    const char *before = "      ways: ";
    for (attend_way_number i = 0; i <= x->last; i++)
        if (x->goes >> i & 1) fprintf(f, "%s%s", before, way_name(i)), before = "; ";
    if (x->goes) fputc('\n', f);
}

/* Why nothing of the stage goes that way; NULL: something does, or it was not asked. */
static const char *why_not(const hga_plan *plan, hga_id stage, const pair_ways *x, attend_way_number way)
{
    if (x->goes >> way & 1 || way > x->last) return NULL;
    const char *why = way_refusal(plan, stage, x->brings, way);
    return why ? why : way_lacks(way);
}

/* Ways that have one reason are told of together. */
void ways_say(FILE *f, const hga_plan *plan, hga_id stage, const pair_ways *x)
{
    if (!x->attends) return;
    say_pairs(f, x), say_goers(f, x);
    for (attend_way_number i = 0; i <= x->last; i++) {
        const char *why = why_not(plan, stage, x, i), *before = "      not ";
        for (attend_way_number k = 0; why && k < i; k++)
            if (why_not(plan, stage, x, k) == why) why = NULL;
        if (!why) continue;
        for (attend_way_number k = i; k <= x->last; k++)
            if (why_not(plan, stage, x, k) == why) fprintf(f, "%s%s", before, way_name(k)), before = "; ";
        fprintf(f, ": %s\n", why);
    }
}

/* ---- as JSON ---- */

static json_t *goes_json(const pair_ways *x)
{
    json_t *all = json_array();
    for (attend_way_number i = 0; x->attends && i <= x->last; i++)
        if (x->goes >> i & 1) json_array_append_new(all, json_string(way_name(i)));
    return all;
}

static json_t *refused_json(const hga_plan *plan, hga_id stage, const pair_ways *x)
{
    json_t *all = json_array();
    for (attend_way_number i = 0; x->attends && i <= x->last; i++) {
        const char *why = why_not(plan, stage, x, i);
        if (why) json_array_append_new(all, json_pack("{s:s, s:s}", "way", way_name(i), "why", why));
    }
    return all;
}

json_t *ways_json(const hga_plan *plan, hga_id stage, const pair_ways *x)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:I, s:I, s:o, s:o}", "tiles", x->tiles, "places", x->places, "families",
                     x->families, "rows", x->rows, "panels", (json_int_t)x->panels, "looked_at",
                     (json_int_t)x->looked_at, "ways", goes_json(x), "refused", refused_json(plan, stage, x));
}
