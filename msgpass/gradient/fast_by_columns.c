/* fast_by_columns.c: the adjoint of attention where rows share columns with few of their neighbours and with many
   other rows, as where each token chooses blocks for itself (plan/by_columns.c). In each window of columns, the rows
   that have some of them form tiles, two groups of sixteen at once, from anywhere in a batch of rows. The batch's
   rows and gradients stay in memory meanwhile; windows are taken in order, so that each sum has one order at any
   thread count. */
#include "fast_by_columns.h"
#include "carve.h"
#include "chosen_rows.h"
#include "fast_columns.h"
#include "fast_draws.h"
#include "fast_rows.h"
#include "fast_tiles.h"
#include "panel.h"
#include "plan.h"

#include <math.h>
#include <string.h>

/* Rows of a batch: the more, the fuller are the tiles. */
enum { BATCH_GROUPS = 128, BATCH_ROWS = BATCH_GROUPS * KERNEL_TILE };

struct column_batch {
    window_visits visits;
    group group[BATCH_GROUPS];
    tile tile, last; /* the current one, and the one before it, whose columns may be the same */
    float *memory;   /* rows of the groups */
    int64_t floats;
};

/* ---- memory ---- */

static int64_t group_floats(const hga_plan *plan)
{
    return KERNEL_TILE * (2 * (int64_t)padded(plan->shape.dim) + padded(plan->shape.dim_v));
}

static int any_by_columns(const hga_plan *plan)
{
    int any = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++) any |= plan->stage[s].by_columns;
    return any;
}

static int64_t batch_floats(const hga_plan *plan) { return BATCH_GROUPS * group_floats(plan) + LINE_FLOATS; }

int64_t column_batch_bytes(const hga_plan *plan)
{
    const int64_t words = visits_words(plan->nodes.n);
    if (!any_by_columns(plan)) return 0;
    return (int64_t)sizeof(column_batch) + batch_floats(plan) * (int64_t)sizeof(float) +
           words * (int64_t)(sizeof(uint64_t) + 128 * sizeof(hga_id));
}

/* Allocates memory of a batch of rows and of their visits to windows; none where no stage runs by columns. */
hga_status column_batch_create(const hga_plan *plan, column_batch **out)
{
    hga_status st = HGA_OK;
    column_batch *x = NULL;
    const hga_allocator *a = &plan->memory.user;
    const hga_id dim = padded(plan->shape.dim);
    if (!any_by_columns(plan)) return HGA_OK;
    HGA_TRY(hga_new_zero(a, 1, sizeof *x, &x));
    *out = x, x->visits.words = visits_words(plan->nodes.n);
    HGA_TRY(hga_new_zero(a, x->visits.words, sizeof *x->visits.touched, &x->visits.touched));
    HGA_TRY(hga_new(a, 64 * (int64_t)x->visits.words, sizeof *x->visits.first, &x->visits.first));
    HGA_TRY(hga_new(a, 64 * (int64_t)x->visits.words, sizeof *x->visits.last, &x->visits.last));
    x->floats = batch_floats(plan);
    HGA_TRY(hga_new(a, x->floats, sizeof *x->memory, &x->memory));
    float *at = first_line(x->memory);
    for (int i = 0; i < BATCH_GROUPS; i++, at += group_floats(plan)) {
        group *g = &x->group[i];
        g->q_rows = at, g->dq = at + KERNEL_TILE * dim, g->g_rows = at + 2 * KERNEL_TILE * dim;
    }
done:
    return st;
}

void column_batch_destroy(const hga_allocator *a, column_batch *x)
{
    if (!x) return;
    hga_delete(a, x->visits.visit, x->visits.capacity, sizeof *x->visits.visit);
    hga_delete(a, x->visits.touched, x->visits.words, sizeof *x->visits.touched);
    hga_delete(a, x->visits.first, 64 * (int64_t)x->visits.words, sizeof *x->visits.first);
    hga_delete(a, x->visits.last, 64 * (int64_t)x->visits.words, sizeof *x->visits.last);
    hga_delete(a, x->memory, x->floats, sizeof *x->memory);
    hga_delete(a, x, 1, sizeof *x);
}

/* ---- visits: which rows have which columns ---- */

/* The last visit of each row of sixteen, and its window; -1: none yet. */
typedef struct last_visits {
    hga_id visit[KERNEL_TILE], window[KERNEL_TILE];
    hga_pos choice; /* of the relation, at which the last row was found */
} last_visits;

/* Notes columns [at, end) of row r of sixteen. Each edge of a pair that has two is of a visit of its own. */
static void meet_columns(window_visits *x, last_visits *known, hga_id first, hga_id r, int64_t at, int64_t end)
{
    for (; at < end; at = (at / WINDOW + 1) * WINDOW) {
        const hga_id here = (hga_id)(at / WINDOW);
        const uint64_t columns = window_bits(at, end);
        window_visit *last = known->window[r] == here ? &x->visit[known->visit[r]] : NULL;
        if (last && !(last->columns & columns)) {
            last->columns |= columns;
            continue;
        }
        known->window[r] = here, known->visit[r] = x->n;
        visits_add(x, here, (window_visit){.columns = columns, .index = first + r});
    }
}

/* Notes the windows that a segment's rows visit; a hole in a row's columns makes two runs of columns. */
static hga_status meet_segment(const fast_pass *p, const hga_segment *s, last_visits *known, hga_id position,
                               hga_id index)
{
    const panel *x = p->panel;
    window_visits *v = &x->columns->visits;
    const int64_t most = (int64_t)s->n_rows * (s->n_src / WINDOW + 3);
    hga_status st = make_capacity(p, &v->visit, &v->capacity, v->n, most, sizeof *v->visit);
    for (hga_id at = s->row; !st && at < s->row + s->n_rows; at++) {
        hga_id c0, c1, hole;
        if (at < x->begin || at >= x->end) continue;
        hga_segment_columns(s, at, &c0, &c1, &hole);
        meet_columns(v, known, index, at - position, s->src + c0, s->src + (hole < 0 ? c1 : hole));
        if (hole >= 0) meet_columns(v, known, index, at - position, s->src + hole + 1, s->src + c1);
    }
    return st;
}

/* Notes the windows of row r of sixteen, which chooses its columns. */
static hga_status meet_chosen(const fast_pass *p, last_visits *known, hga_id position, hga_id r, hga_id index)
{
    window_visits *v = &p->panel->columns->visits;
    hga_pos at = known->choice;
    const chosen_row row = chosen_row_of(&p->rows.r, position + r, &at);
    hga_status st = make_capacity(p, &v->visit, &v->capacity, v->n, row.n * (row.size / WINDOW + 2), sizeof *v->visit);
    known->choice = at;
    for (hga_pos i = 0; !st && i < row.n; i++) {
        int64_t begin, end;
        chosen_columns(&row, i, &begin, &end);
        meet_columns(v, known, index, r, begin, end);
    }
    return st;
}

/* Notes the windows of sixteen rows from `position` on, which have indices from `index` on in the batch. */
static hga_status meet_sixteen(fast_pass *p, hga_id s, hga_id position, hga_id index)
{
    last_visits known = {0};
    const panel *x = p->panel;
    hga_status chosen = HGA_OK;
    for (hga_id r = 0; r < KERNEL_TILE; r++) known.window[r] = -1;
    for (hga_id r = 0; p->rows.r.n_choices && !chosen && r < rows_from(p, position); r++)
        if (position + r >= x->begin && position + r < x->end) chosen = meet_chosen(p, &known, position, r, index);
    if (p->rows.r.n_choices) return chosen;
    hga_status st = read_segments(p, s, position, rows_from(p, position));
    for (int64_t i = 0; !st && i < p->panel->finding.n_segments; i++)
        st = meet_segment(p, &p->panel->finding.segment[i], &known, position, index);
    return st;
}

/* ---- tiles ---- */

/* Copies a row of the batch to row r of a tile. False if its adjoint is zero. */
static int take_visit(const fast_pass *p, const hga_stage *stage, hga_id index, group *to, hga_id r)
{
    const group *from = &p->panel->columns->group[index / KERNEL_TILE];
    const hga_id i = index % KERNEL_TILE, dim = p->field[stage->query].padded, dim_v = p->field[stage->out].padded;
    const int has_adjoint = from->node[i] >= 0;
    float *q = to->q_rows + (ptrdiff_t)r * dim, *g = to->g_rows + (ptrdiff_t)r * dim_v;
    to->node[r] = from->node[i], to->lse[r] = from->lse[i], to->delta[r] = from->delta[i], to->at[r] = from->at[i];
    if (has_adjoint) {
        memcpy(q, from->q_rows + (ptrdiff_t)i * dim, (size_t)dim * sizeof *q);
        memcpy(g, from->g_rows + (ptrdiff_t)i * dim_v, (size_t)dim_v * sizeof *g);
    } else {
        memset(q, 0, (size_t)dim * sizeof *q), memset(g, 0, (size_t)dim_v * sizeof *g);
    }
    return has_adjoint;
}

static void take_no_row(const fast_pass *p, const hga_stage *stage, group *to, hga_id r)
{
    const hga_id dim = p->field[stage->query].padded, dim_v = p->field[stage->out].padded;
    to->node[r] = -1, to->lse[r] = INFINITY, to->delta[r] = 0, to->at[r] = 0;
    memset(to->q_rows + (ptrdiff_t)r * dim, 0, (size_t)dim * sizeof(float));
    memset(to->g_rows + (ptrdiff_t)r * dim_v, 0, (size_t)dim_v * sizeof(float));
}

/* The rows of a tile's group, and what they have of the window. */
typedef struct tile_rows {
    hga_id n, index[KERNEL_TILE];
    uint64_t columns[KERNEL_TILE];
} tile_rows;

/* Copies up to sixteen rows, from visit i on; returns the visit after them. */
static hga_id take_visits(const fast_pass *p, const hga_stage *stage, hga_id i, group *to, tile_rows *rows)
{
    const hga_id dim = p->field[stage->query].padded;
    const window_visit *visit = p->panel->columns->visits.visit;
    rows->n = 0, to->there = 0;
    for (; i >= 0 && rows->n < KERNEL_TILE; i = visit[i].next) {
        const int has_adjoint = take_visit(p, stage, visit[i].index, to, rows->n);
        to->there |= (uint32_t)has_adjoint << rows->n;
        rows->index[rows->n] = visit[i].index, rows->columns[rows->n++] = has_adjoint ? visit[i].columns : 0;
    }
    for (hga_id r = rows->n; r < KERNEL_TILE; r++) take_no_row(p, stage, to, r);
    memset(to->dq, 0, (size_t)(dim * KERNEL_TILE) * sizeof *to->dq);
    transpose_group(p, stage, to);
    return i;
}

/* Adds the query gradients of the tile's rows to the batch's. */
static void give_rows(const fast_pass *p, const hga_stage *stage, const group *from, const tile_rows *rows)
{
    const hga_id dim = p->field[stage->query].padded;
    for (hga_id r = 0; r < rows->n; r++) {
        float *to = p->panel->columns->group[rows->index[r] / KERNEL_TILE].dq + rows->index[r] % KERNEL_TILE * dim;
        p->plan->machine.kernels->blend(dim, 1, to, 1, from->dq + (ptrdiff_t)r * dim, to);
    }
}

/* Sets the window's columns that some row of the tile has; false if no row has any. */
static int lay_window_columns(panel *x, hga_id here, const tile_rows *rows, tile *t)
{
    uint64_t some[2] = {0};
    window_part part[2];
    for (hga_id i = 0; i < t->n_groups; i++)
        for (hga_id r = 0; r < rows[i].n; r++) some[i] |= rows[i].columns[r];
    if (!(some[0] | some[1])) return 0;
    hga_id first = WINDOW, last = 0;
    for (hga_id i = 0; i < t->n_groups; i++) {
        lane_mask *bits = x->lists.bits + x->lists.n.bits + i * WINDOW;
        part[i] = (window_part){WINDOW, 0, 0};
        if (some[i]) part[i] = visits_trim(rows[i].columns, rows[i].n, bits);
        if (!some[i]) memset(bits, 0, WINDOW * sizeof *bits);
        first = part[i].first < first ? part[i].first : first, last = part[i].last > last ? part[i].last : last;
    }
    for (hga_id i = 0; i < t->n_groups; i++) {
        const int full = part[i].full && part[i].first == first && part[i].last == last;
        t->rows[i] = full ? -1 : x->lists.n.bits + i * WINDOW + first;
    }
    t->first = here * WINDOW + first, t->n = last - first;
    return 1;
}

/* Runs one tile of up to two groups on window `here` and adds its gradients to the rows of the batch. */
static hga_status run_window_tile(fast_pass *p, hga_id s, hga_id here, const tile_rows *rows, hga_id n_groups)
{
    panel *x = p->panel;
    column_batch *b = x->columns;
    const hga_stage *stage = &p->program->stage[s];
    b->tile = (tile){.columns = -1, .own = -1, .rank = -1, .types = -1, .n_indices = -1, .n_groups = n_groups};
    if (!lay_window_columns(x, here, rows, &b->tile)) return HGA_OK;
    hga_status st = run_plain_tile(p, s, &b->tile);
    b->last = b->tile, x->near.tile = &b->last;
    for (hga_id i = 0; !st && i < n_groups; i++) give_rows(p, stage, &x->group[i], &rows[i]);
    return st;
}

/* Runs all rows that visit window `here`, up to two groups of sixteen at a time. */
static hga_status run_window(fast_pass *p, hga_id s, hga_id here)
{
    hga_status st = HGA_OK;
    const hga_stage *stage = &p->program->stage[s];
    panel *x = p->panel;
    tile_rows rows[2];
    for (hga_id i = x->columns->visits.first[here]; !st && i >= 0;) {
        hga_id n = 0;
        for (; n < 2 && i >= 0; n++) i = take_visits(p, stage, i, &x->group[n], &rows[n]);
        st = run_window_tile(p, s, here, rows, n);
    }
    return st;
}

/* ---- batches ---- */

/* Runs the n groups from position `first` on for the current head: loads, all windows in order, stores. */
static hga_status run_head(fast_pass *p, hga_id s, hga_id first, hga_id n)
{
    hga_status st = HGA_OK;
    panel *x = p->panel;
    column_batch *b = x->columns;
    draws_open(p);
    for (hga_id i = 0; i < n; i++) {
        b->group[i].q = x->group[0].q, b->group[i].g = x->group[0].g;
        load_sixteen(p, s, &b->group[i], first + i * KERNEL_TILE);
    }
    x->near.tile = NULL;
    for (hga_id w = visits_next(&b->visits, 0); w >= 0; w = visits_next(&b->visits, w + 1))
        HGA_TRY(run_window(p, s, w));
    for (hga_id i = 0; i < n; i++) store_sixteen(p, s, &b->group[i], first + i * KERNEL_TILE);
done:
    return st;
}

/* Runs a batch of groups for every head of this pass. */
static hga_status run_batch(fast_pass *p, hga_id s, hga_id first, hga_id end)
{
    hga_status st = HGA_OK;
    panel *x = p->panel;
    const hga_id n = (end - first + KERNEL_TILE - 1) / KERNEL_TILE;
    x->lists.n = x->memo.remembered;
    HGA_TRY(
        make_capacity(p, &x->lists.bits, &x->lists.bits_capacity, x->lists.n.bits, 2 * WINDOW, sizeof *x->lists.bits));
    for (hga_id i = 0; i < n; i++) HGA_TRY(meet_sixteen(p, s, first + i * KERNEL_TILE, i * KERNEL_TILE));
    for (hga_id last = p->heads.head, head = last - p->heads.at_once + 1; !p->finds && head <= last; head++) {
        p->heads.head = head;
        HGA_TRY(run_head(p, s, first, n));
    }
done:
    visits_forget(&x->columns->visits);
    return st;
}

int runs_by_columns(const fast_pass *p, hga_id s)
{
    return p->plan->stage[s].by_columns && p->panel->columns && !has_parts(p->panel);
}

/* Runs batch after batch; after each, columns that no later row has edges to are written and leave memory. */
hga_status attend_by_columns(fast_pass *p, hga_id s)
{
    hga_status st = HGA_OK;
    const panel *x = p->panel;
    for (hga_id first = x->begin / KERNEL_TILE * KERNEL_TILE; first < x->end; first += BATCH_ROWS) {
        const hga_id end = x->end - first < BATCH_ROWS ? x->end : first + BATCH_ROWS;
        if (!is_passed_over(p, first, end)) HGA_TRY(run_batch(p, s, first, end));
        if (!p->finds) columns_leave(p, s, first / ROW_RANGE_PANEL, (end + ROW_RANGE_PANEL - 1) / ROW_RANGE_PANEL);
    }
done:
    return st;
}
