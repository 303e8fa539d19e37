/* run_by_columns.c: solves panels by their columns: in each window of KERNEL_CHUNK columns, the rows that have some of
   them are rows of tiles, sixteen at a time, whichever rows of the panels they are. A row's state is carried from tile
   to tile: what it sums, and in which order, depends on its own columns alone. For rows that share columns with few of
   their neighbours and with many of their panel, as where each token chooses its own blocks (plan/by_columns.c). */
#include "attend.h"
#include "row_solvers.h"
#include "attend_solvers.h"
#include "carve.h"
#include "chosen_rows.h"
#include "columns.h"
#include "panel_rows.h"
#include "plan.h"
#include "run_tiles.h"
#include "sort.h"
#include "stages.h"

#include <math.h>
#include <string.h>

/* ---- which row has which columns ---- */

typedef struct beginnings {
    const hga_id *of;
    int64_t at;
} beginnings;

static int begins_behind(const void *context, int64_t i)
{
    const beginnings *x = context;
    return x->of[i] > x->at;
}

/* The last of n parts that begins at or before `at`. */
static hga_id part_at(const hga_id *begin, hga_id n, int64_t at)
{
    return (hga_id)search_first(1, n, begins_behind, &(beginnings){begin, at}) - 1;
}

static int64_t end_of_part(const column_windows *windows, hga_id part)
{
    return part + 1 < windows->n_parts ? windows->first[part + 1] : INT64_MAX;
}

/* The part of the graph that contains column `at`; `near`: a guess, the part of the previous column. */
static hga_id part_with_column(const column_windows *windows, int64_t at, hga_id near)
{
    const int is_near = windows->first[near] <= at && at < end_of_part(windows, near);
    return is_near ? near : part_at(windows->first, windows->n_parts, at);
}

/* Notes that a row has `columns` of a window. Returns 0 where a pair has two edges. */
static int meet_window(window_visits *x, hga_id slot, hga_id window, uint64_t columns)
{
    window_visit *last = visits_last(x, window);
    if (!last || last->index != slot) {
        visits_add(x, window, (window_visit){.columns = columns, .index = slot});
        return 1;
    }
    if (last->columns & columns) return 0;
    last->columns |= columns;
    return 1;
}

/* Notes that a row has the columns at source positions [at, end). Returns 0 where a pair has two edges. */
static int meet_columns(const column_windows *windows, column_rows *x, hga_id slot, int64_t at, int64_t end)
{
    for (int64_t next; at < end; at = next) {
        const hga_id part = x->part = part_with_column(windows, at, x->part);
        const int64_t begin = windows->first[part], behind = end_of_part(windows, part),
                      to = behind < end ? behind : end;
        const hga_id window = windows->begin[part] + (hga_id)((at - begin) / KERNEL_CHUNK);
        if (!meet_window(&x->visits, slot, window, window_bits(at - begin, to - begin))) return 0;
        next = at - (at - begin) % KERNEL_CHUNK + KERNEL_CHUNK;
        if (to < next) next = to;
    }
    return 1;
}

/* Notes the windows in which a row's segments have columns. Returns 0 where a pair has two edges. */
static int meet_segments(worker *w, hga_id slot, hga_id position)
{
    const row_reader *r = &w->reader;
    const column_windows *windows = &w->plan->windows;
    for (hga_id i = r->list_ptr[position - r->first]; i < r->list_ptr[position - r->first + 1]; i++) {
        const hga_segment *s = &r->segments.at[r->list[i]];
        hga_id c0, c1, hole;
        hga_segment_columns(s, position, &c0, &c1, &hole);
        if (hole >= 0) {
            if (!meet_columns(windows, &w->columns, slot, (int64_t)s->src + c0, (int64_t)s->src + hole)) return 0;
            c0 = hole + 1;
        }
        if (!meet_columns(windows, &w->columns, slot, (int64_t)s->src + c0, (int64_t)s->src + c1)) return 0;
    }
    return 1;
}

/* Notes the blocks that a token has chosen, up to the token itself. */
static int meet_chosen(worker *w, const row_choice *c, hga_id chooser, hga_id slot, hga_id token)
{
    const hga_pos row = (hga_pos)chooser * c->n_query_blocks + token / c->query_block - c->first;
    int once = 1;
    for (hga_pos i = c->at[row]; once && i < c->at[row + 1]; i++) {
        const int64_t first = (int64_t)c->block[i] * c->width, end = first + c->width;
        once = meet_columns(&w->plan->windows, &w->columns, slot, first, end <= token ? end : (int64_t)token + 1);
    }
    return once;
}

/* Notes the blocks that a relation of choices stores for the row; no pair is in it twice. */
static int meet_stored(worker *w, const hga_relation *r, hga_pos *at, hga_id slot, hga_id position)
{
    const chosen_row row = chosen_row_of(r, position, at);
    for (hga_pos i = 0; i < row.n; i++) {
        int64_t begin, end;
        chosen_columns(&row, i, &begin, &end);
        meet_columns(&w->plan->windows, &w->columns, slot, begin, end);
    }
    return 1;
}

/* Rows of n items, for heads that have the same columns; `run` computes or counts the rows noted. */
typedef struct column_item {
    const wave_item *item;
    const hga_relation *relation;
    int64_t n;
    hga_pos choice; /* of the relation: where the last row was found */
    hga_id chooser, kv_first, kv_end, head_first, head_end;
    void (*run)(worker *w, struct column_item *x);
    double pairs, tile_slots;
} column_item;

/* Notes a row's windows. A row in which some pair has two edges is computed alone. */
static void meet_row(worker *w, column_item *item, hga_id node, hga_id position)
{
    column_rows *x = &w->columns;
    const row_choice *choice = w->workspace->request.choice;
    const hga_relation *r = item->relation;
    const hga_id before = x->visits.n, slot = x->n_rows++;
    x->node[slot] = node, x->position[slot] = position;
    x->alone[slot] = !(choice         ? meet_chosen(w, choice, item->chooser, slot, node)
                       : r->n_choices ? meet_stored(w, r, &item->choice, slot, position)
                                      : meet_segments(w, slot, position));
    for (hga_id i = before; x->alone[slot] && i < x->visits.n; i++) x->visits.visit[i].columns = 0;
}

static void forget(column_rows *x)
{
    visits_forget(&x->visits);
    x->n_rows = x->part = 0; /* an update of the plan may leave fewer parts */
}

/* ---- a window ---- */

static void lay_window(const worker *w, hga_id window, edge_chunk *c)
{
    const column_windows *windows = &w->plan->windows;
    const hga_id part = part_at(windows->begin, windows->n_parts, window), end = part + 1;
    const int64_t first = windows->first[part] + (int64_t)(window - windows->begin[part]) * KERNEL_CHUNK,
                  left = (end < windows->n_parts ? windows->first[end] : w->plan->nodes.n) - first;
    c->n = left < KERNEL_CHUNK ? (hga_id)left : KERNEL_CHUNK, c->more = 0;
    for (hga_id e = 0; e < c->n; e++) c->src[e] = (hga_id)first + e, c->weight[e] = 1, c->type[e] = 0;
}

/* Fills groups of sixteen with rows of a window, from visit i on, as many as a chunk holds; returns the next visit. */
static hga_id lay_visits(const column_rows *x, hga_id stage, hga_id i, column_groups *g, tile_chunk *c)
{
    for (c->n_parts = 0; i >= 0 && c->n_parts < PANEL_GROUPS;) {
        const hga_id number = c->n_parts;
        uint64_t columns[KERNEL_TILE];
        row_group *group = &g->group[number];
        *group = (row_group){.stage = stage, .number = number, .node = g->node[number], .complete = 1};
        group->carried = g->slot[number];
        for (; i >= 0 && group->n_rows < KERNEL_TILE; i = x->visits.visit[i].next) {
            if (!x->visits.visit[i].columns) continue;
            g->slot[number][group->n_rows] = x->visits.visit[i].index;
            g->node[number][group->n_rows] = x->node[x->visits.visit[i].index];
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

/* Computes every row that has columns of the window, in tiles of as many groups as a chunk holds. */
static void run_window(worker *w, hga_id stage, hga_id window)
{
    const column_rows *x = &w->columns;
    column_groups groups;
    tile_batch *b = w->tiles.chooser.batch;
    tile_chunk *c = &b->chunk[0];
    b->stage = stage, b->n_typed = 0, b->pair_type = w->tiles.chooser.pair_type;
    c->odd = 0, c->typed = 0, c->pairs = 0, c->types_vary = 0;
    lay_window(w, window, &c->columns);
    for (hga_id i = x->visits.first[window]; i >= 0;) {
        i = lay_visits(x, stage, i, &groups, c);
        b->n = c->n_parts > 0;
        run_tiles(w, b);
    }
    b->n = 0;
}

/* Few rows read a window once, from memory: prefetches the next window while this one is computed. (GCC drops a
   function that is not inlined and does nothing else.) */
#define PREFETCHES static inline __attribute__((always_inline))
PREFETCHES void prefetch_rows(const worker *w, const bound_field *x, const edge_chunk *c)
{
    enum { SECOND_CACHE = 2 };
    for (hga_id e = 0; e < c->n; e++) {
        const float *row = bound_row(x, c->src[e]) + w->heads.kv_first * bound_head(x, c->src[e]);
        for (hga_id j = 0; j < x->columns; j += LINE_FLOATS) __builtin_prefetch(row + j, 0, SECOND_CACHE);
    }
}

PREFETCHES void prefetch_window(worker *w, hga_id stage, hga_id window)
{
    const hga_stage *s = stage_of(w, stage);
    edge_chunk c;
    if (window < 0 || w->columns.n_rows > KERNEL_TILE || w->plan->fields.bf16_rows) return;
    lay_window(w, window, &c);
    prefetch_rows(w, read_field(w, s, s->key), &c);
    prefetch_rows(w, read_field(w, s, s->value), &c);
}

/* ---- panels ---- */

/* Initializes the states of the rows. Not of rows computed alone: another thread may be writing those. */
static void open_rows(worker *w, hga_id stage)
{
    const column_rows *x = &w->columns;
    const bound_field *out = field(w, stage_of(w, stage)->out);
    const hga_id dim_v = w->plan->shape.dim_v;
    const int continues = kind_starts_from_out(w->plan->stage[stage].kind);
    for (hga_id i = 0; i < x->n_rows; i++)
        for (hga_id h = w->heads.first; !x->alone[i] && h < w->heads.end; h++) {
            float *state = carried_state(w, i, h);
            const hga_id v = x->node[i];
            state[padded(dim_v)] = continues ? bound_lse(out, v)[h] : -INFINITY;
            if (continues) memcpy(state, bound_row(out, v) + h * bound_head(out, v), (size_t)dim_v * sizeof *state);
        }
}

/* Stores the carried states as rows of the output: zeros where a row has no edge. */
static void end_rows(const worker *w, hga_id stage)
{
    const column_rows *x = &w->columns;
    const bound_field *out = field(w, stage_of(w, stage)->out);
    const hga_id dim_v = w->plan->shape.dim_v;
    for (hga_id i = 0; i < x->n_rows; i++)
        for (hga_id h = w->heads.first; !x->alone[i] && h < w->heads.end; h++) {
            const float *state = carried_state(w, i, h), lse = state[padded(dim_v)];
            float *row = bound_row(out, x->node[i]) + h * bound_head(out, x->node[i]);
            bound_lse(out, x->node[i])[h] = lse;
            if (lse > -INFINITY || isnan(lse))
                memcpy(row, state, (size_t)dim_v * sizeof *row);
            else
                memset(row, 0, (size_t)dim_v * sizeof *row);
        }
}

/* Computes rows alone. The item with head 0 computes all heads. */
static void run_alone(worker *w, hga_id stage)
{
    const column_rows *x = &w->columns;
    if (w->heads.kv_first > 0) return;
    worker_take_heads(w, 0, w->plan->shape.n_kv_heads);
    for (hga_id i = 0; i < x->n_rows; i++) {
        row_job job = {.stage = stage, .v = x->node[i], .count = INT64_MAX, .split = -1};
        if (!x->alone[i]) continue;
        reader_load(&w->reader, x->position[i], 1);
        plan_kernel(w->plan, stage)->row(w, &job);
    }
}

/* Computes heads [first, end) of the item, one key/value head at a time. */
static void run_windows(worker *w, hga_id stage, hga_id first, hga_id end)
{
    const hga_id share = w->plan->shape.n_heads / w->plan->shape.n_kv_heads;
    for (hga_id kv = first / share; kv * share < end; kv++) {
        worker_take_heads(w, kv, kv + 1);
        if (w->heads.first < first) w->heads.first = first;
        if (w->heads.end > end) w->heads.end = end;
        open_rows(w, stage);
        for (hga_id next, window = visits_next(&w->columns.visits, 0); window >= 0; window = next) {
            next = visits_next(&w->columns.visits, window + 1);
            prefetch_window(w, stage, next);
            run_window(w, stage, window);
        }
        end_rows(w, stage);
    }
}

static void run_rows_met(worker *w, column_item *x)
{
    const hga_id stage = w->plan->phases.list[x->item->phase].stage;
    run_windows(w, stage, x->head_first, x->head_end);
    worker_take_heads(w, x->kv_first, x->kv_end);
    run_alone(w, stage);
    worker_take_heads(w, x->kv_first, x->kv_end);
}

/* Counts the pairs of the tiles that these rows would have, and the slots of these tiles. */
static void count_rows_met(worker *w, column_item *x)
{
    column_groups groups;
    tile_chunk *c = &w->tiles.chooser.batch->chunk[0];
    for (hga_id window = visits_next(&w->columns.visits, 0); window >= 0;
         window = visits_next(&w->columns.visits, window + 1))
        for (hga_id i = w->columns.visits.first[window]; i >= 0;) {
            i = lay_visits(&w->columns, 0, i, &groups, c);
            for (hga_id k = 0; k < c->n_parts; k++) {
                const tile_part *part = &c->part[k];
                x->tile_slots += (double)(part->last - part->first) * KERNEL_TILE;
                for (hga_id e = part->first; e < part->last; e++) x->pairs += __builtin_popcount(c->rows[k][e]);
            }
        }
}

/* Opens a panel: rows that choose need no segments; their edges are not the graph's, or are read where they are
   stored. */
static int open_rows_of(worker *w, const column_item *x, wave_item item, panel_rows *p)
{
    const phase *ph = &w->plan->phases.list[item.phase];
    const int chosen = w->workspace->request.choice || x->relation->n_choices;
    return chosen ? find_panel(w, ph, ph->stage, item.panel, p) : open_panel(w, item, p);
}

/* Notes the rows of the items and runs them, as many at a time as the visits' capacity allows. */
static void meet_rows(worker *w, column_item *x)
{
    panel_rows p;
    x->relation = &w->plan->stage[w->plan->phases.list[x->item->phase].stage].relation;
    for (int64_t i = 0; i < x->n; i++) {
        if (!open_rows_of(w, x, x->item[i], &p)) continue;
        for (hga_id r = 0; r < p.n; r++) {
            if (p.node[r] < 0) continue;
            if (w->columns.visits.n + w->plan->windows.n > w->columns.visits.capacity)
                x->run(w, x), forget(&w->columns), open_rows_of(w, x, x->item[i], &p);
            meet_row(w, x, p.node[r], p.first + r);
        }
    }
    x->run(w, x), forget(&w->columns);
}

int64_t columns_fit(worker *w, const wave_item *item, int64_t n)
{
    int64_t some = 0;
    if (!w->plan->stage[w->plan->phases.list[item->phase].stage].by_columns) return 0;
    if (w->plan->fields.lone_rows && !w->plan->windows.declared) return 0;
    while (some < n && some < PANELS_TOGETHER && item[some].phase == item->phase &&
           item[some].head_range == item->head_range)
        some++;
    return some;
}

void columns_look(worker *w, const wave_item *item, int64_t n, double *pairs, double *tile_slots)
{
    column_item x = {.item = item, .n = n, .run = count_rows_met};
    meet_rows(w, &x);
    *pairs += x.pairs, *tile_slots += x.tile_slots;
}

/* Each chooser has heads of its own. */
void columns_run(worker *w, const wave_item *item, int64_t n)
{
    const row_choice *c = w->workspace->request.choice;
    const hga_id choosers = c ? c->n_choosers : 1, each = w->plan->shape.n_heads / choosers;
    const hga_id first = w->heads.first, end = w->heads.end;
    column_item x = {
        .item = item, .n = n, .kv_first = w->heads.kv_first, .kv_end = w->heads.kv_end, .run = run_rows_met};
    for (x.chooser = 0; x.chooser < choosers; x.chooser++) {
        x.head_first = x.chooser * each > first ? x.chooser * each : first;
        x.head_end = (x.chooser + 1) * each < end ? (x.chooser + 1) * each : end;
        if (x.head_first < x.head_end) meet_rows(w, &x);
    }
}
