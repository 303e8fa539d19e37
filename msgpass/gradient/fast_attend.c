/* fast_attend.c: the adjoint of attention, one head, a panel of rows at a time. Columns that enough of sixteen rows
   have an edge to are computed in tiles, all other edges row by row. Which are in tiles depends on the graph and on
   the call's tables, never on threads. */
#include "fast_attend.h"
#include "carve.h"
#include "fast_by_columns.h"
#include "fast_columns.h"
#include "fast_draws.h"
#include "fast_edges.h"
#include "fast_rows.h"
#include "fast_tiles.h"
#include "fast_threads.h"
#include "panel.h"
#include "plan.h"

#include <math.h>
#include <string.h>

/* Of a group: both operands, transposed and as rows, and the gradient. */
static int64_t group_floats(hga_id dim, hga_id dim_v) { return (3 * (int64_t)dim + 2 * (int64_t)dim_v) * KERNEL_TILE; }

enum { PAIRS = WINDOW * KERNEL_TILE };

static hga_id most_columns(const hga_plan *plan)
{
    hga_id dim = plan->shape.dim, dim_v = plan->shape.dim_v;
    return padded(dim > dim_v ? dim : dim_v);
}

static int64_t panel_floats(const hga_plan *plan)
{
    hga_id dim = padded(plan->shape.dim), dim_v = padded(plan->shape.dim_v);
    hga_id pos_dim = padded(plan->shape.pos_dim);
    return GROUPS * group_floats(dim, dim_v) + 2 * (int64_t)dim * WINDOW +
           (2 * WINDOW + 3 * KERNEL_TILE) * (int64_t)pos_dim + 3 * PAIRS + most_columns(plan) + LINE_FLOATS;
}

int64_t panel_bytes(const hga_plan *plan)
{
    return (int64_t)sizeof(panel) + panel_floats(plan) * (int64_t)sizeof(float) + column_batch_bytes(plan);
}

/* Types that a stage may see. */
static int64_t most_types(const hga_plan *plan)
{
    int64_t most = 1;
    for (hga_id i = 0; i < plan->nodes.n_relations; i++) {
        int64_t n = hga_graph_relation(plan->graph, i).n_types;
        most = n > most ? n : most;
    }
    return most;
}

/* Groups of all rows, rounded up to an even number. */
static int64_t groups_of(const hga_plan *plan) { return (plan->nodes.n + 2 * KERNEL_TILE - 1) / (2 * KERNEL_TILE) * 2; }

/* Bytes that heads may cache for each other: for all threads an eighth of the tensors and their gradients. */
static int64_t bytes_left(const hga_plan *plan)
{
    const hga_shape *s = &plan->shape;
    int64_t tensors = 4 * (int64_t)plan->nodes.n * s->n_heads * (s->dim + s->dim_v) * (int64_t)sizeof(float);
    return tensors / 8 / plan->threads;
}

/* One allocation holds the floats of all groups and of the pairs of a tile; lists of tiles and edges grow later. */
hga_status panel_create(const hga_plan *plan, panel **out)
{
    hga_status st = HGA_OK;
    panel *x = NULL;
    hga_id dim = padded(plan->shape.dim), dim_v = padded(plan->shape.dim_v), pos_dim = padded(plan->shape.pos_dim);
    HGA_TRY(hga_new_zero(&plan->user_allocator, 1, sizeof *x, &x));
    x->floats = panel_floats(plan);
    HGA_TRY(hga_new_zero(&plan->user_allocator, x->floats, sizeof *x->memory, &x->memory));
    float *at = first_line(x->memory);
    for (int i = 0; i < GROUPS; i++, at += group_floats(dim, dim_v)) {
        group *g = &x->group[i];
        g->q = at, g->q_rows = g->q + dim * KERNEL_TILE, g->dq = g->q_rows + dim * KERNEL_TILE;
        g->g = g->dq + dim * KERNEL_TILE, g->g_rows = g->g + dim_v * KERNEL_TILE;
    }
    x->typed = at, x->d_typed = x->typed + dim * WINDOW, at = x->d_typed + dim * WINDOW;
    x->position = at, x->d_position = at + pos_dim * WINDOW, x->own = x->d_position + pos_dim * WINDOW;
    x->own_transposed = x->own + pos_dim * KERNEL_TILE, x->d_own = x->own_transposed + pos_dim * KERNEL_TILE;
    x->pair_bias = x->d_own + pos_dim * KERNEL_TILE, x->slopes = x->pair_bias + PAIRS;
    x->pair_type = (int32_t *)(x->slopes + PAIRS), x->row = (float *)(x->pair_type + PAIRS);
    x->seen.n_types = most_types(plan);
    HGA_TRY(hga_new(&plan->user_allocator, x->seen.n_types, sizeof *x->seen.index, &x->seen.index));
    for (int64_t i = 0; i < x->seen.n_types; i++) x->seen.index[i] = -1;
    x->capacity = bytes_left(plan), x->draws_most = most_draws(plan),
    x->n_found = plan->program.n_stages * groups_of(plan);
    HGA_TRY(hga_new_zero(&plan->user_allocator, x->n_found, sizeof *x->found, &x->found));
    HGA_TRY(column_batch_create(plan, &x->columns));
done:
    if (st) panel_destroy(&plan->user_allocator, x), x = NULL;
    *out = x;
    return st;
}

void panel_destroy(const hga_allocator *a, panel *x)
{
    if (!x) return;
    hga_delete(a, x->segment, x->segment_capacity, sizeof *x->segment);
    hga_delete(a, x->window, x->window_capacity, sizeof *x->window);
    hga_delete(a, x->tile, x->tile_capacity, sizeof *x->tile);
    hga_delete(a, x->number, x->number_capacity, sizeof *x->number);
    hga_delete(a, x->bits, x->bits_capacity, sizeof *x->bits);
    hga_delete(a, x->index, x->index_capacity, sizeof *x->index);
    hga_delete(a, x->seen.index, x->seen.n_types, sizeof *x->seen.index);
    hga_delete(a, x->left, x->left_capacity, sizeof *x->left);
    hga_delete(a, x->edge, x->edge_capacity, sizeof *x->edge);
    hga_delete(a, x->found, x->n_found, sizeof *x->found);
    hga_delete(a, x->drawn, x->drawn_capacity, sizeof *x->drawn);
    hga_delete(a, x->memory, x->floats, sizeof *x->memory);
    column_batch_destroy(a, x->columns);
    hga_delete(a, x, 1, sizeof *x);
}

/* ---- a stage ---- */

static score_parts parts_of(const gradient_call *c, hga_id s)
{
    const hga_io *io = c->io;
    int drawn = c->plan->options.dropout > 0 && c->plan->stage[s].relation.n_types > 1;
    return (score_parts){.types = io->rel_key.data || io->rel_bias.data || drawn,
                         .positions = io->node_pos.data != NULL,
                         .ranks = io->edge_bias.data && s == c->plan->bias_stage};
}

void panel_open(const gradient_call *c, panel *x)
{
    const hga_io *io = c->io;
    score_parts *known = &x->found_with,
                parts = {io->rel_key.data || io->rel_bias.data, io->node_pos.data != NULL, io->edge_bias.data != NULL};
    if (parts.types == known->types && parts.positions == known->positions && parts.ranks == known->ranks) return;
    memset(x->found, 0, (size_t)x->n_found * sizeof *x->found);
    x->remembered = (lengths){0}, x->capacity = bytes_left(c->plan), *known = parts;
}

/* Where edges count in canonical order, do blocks and explicit edges keep it without reading whole rows? */
static int counts_alone(const fast_pass *p)
{
    const hga_relation *r = &p->rows.r;
    return !p->panel->parts.ranks || !r->n_blocks || (!r->ptr && !r->src_order);
}

/* Caches the panel that was found while there is capacity; the first that does not fit is the last that is tried.
   Rows that two ranges share are found again for one of them, and not cached. */
static void remember_panel(panel *x, found *groups, hga_id n)
{
    int64_t bytes = x->n.tiles * (int64_t)sizeof *x->tile + x->n.numbers * (int64_t)sizeof *x->number +
                    x->n.bits * (int64_t)sizeof *x->bits + x->n.n_indices + x->n.edges * (int64_t)sizeof *x->edge;
    if (!x->capacity || !x->noted) return;
    if (bytes <= x->capacity)
        x->remembered = x->n;
    else
        for (hga_id i = 0; i < n; i++) groups[i].known = 0;
    if (bytes > x->capacity) x->capacity = 0;
}

/* Restores two cached groups, if both are known and have the same rows. */
static int recall(const found *f, group *pair)
{
    for (int i = 0; i < 2; i++)
        if (!f || !f[i].known || f[i].there != pair[i].there) return 0;
    for (int i = 0; i < 2; i++) {
        pair[i].tiles = f[i].tiles, pair[i].n_tiles = f[i].n_tiles, pair[i].edges = f[i].edges;
        memcpy(pair[i].row_end, f[i].row_end, sizeof f[i].row_end);
    }
    return 1;
}

/* Caches what was found of two groups of rows for the next heads, while there is capacity. */
static void note_found(panel *x, const group *pair, found *f)
{
    if (!f || f->known || !x->capacity) return;
    x->noted = 1;
    for (int i = 0; i < 2; i++) {
        f[i] = (found){.known = 1,
                       .there = pair[i].there,
                       .tiles = pair[i].tiles,
                       .n_tiles = pair[i].n_tiles,
                       .edges = pair[i].edges};
        memcpy(f[i].row_end, pair[i].row_end, sizeof f[i].row_end);
    }
}

/* Records the list lengths that the longest panel needs beyond what is cached. A later call, which starts with all
   that is cached, then has capacity. */
static void measure_panel(panel *x)
{
    lengths *most = &x->most;
    const lengths *from = &x->remembered, *to = &x->n;
    if (to->tiles - from->tiles > most->tiles) most->tiles = to->tiles - from->tiles;
    if (to->numbers - from->numbers > most->numbers) most->numbers = to->numbers - from->numbers;
    if (to->bits - from->bits > most->bits) most->bits = to->bits - from->bits;
    if (to->n_indices - from->n_indices > most->n_indices) most->n_indices = to->n_indices - from->n_indices;
    if (to->edges - from->edges > most->edges) most->edges = to->edges - from->edges;
}

/* Grows lists to what is cached and the longest panel besides, so that later calls allocate nothing. */
static hga_status reserve_lists(const fast_pass *p)
{
    hga_status st = HGA_OK;
    panel *x = p->panel;
    const lengths *n = &x->remembered, *more = &x->most;
    HGA_TRY(make_capacity(p, &x->tile, &x->tile_capacity, n->tiles, more->tiles, sizeof *x->tile));
    HGA_TRY(make_capacity(p, &x->number, &x->number_capacity, n->numbers, more->numbers, sizeof *x->number));
    HGA_TRY(make_capacity(p, &x->bits, &x->bits_capacity, n->bits, more->bits, sizeof *x->bits));
    HGA_TRY(make_capacity(p, &x->index, &x->index_capacity, n->n_indices, more->n_indices, sizeof *x->index));
    HGA_TRY(make_capacity(p, &x->edge, &x->edge_capacity, n->edges, more->edges, sizeof *x->edge));
done:
    return st;
}

/* Sorts the edges of a group into windows and left edges; if some turn out not to count in order, all are left. */
static hga_status sort_edges(fast_pass *p, hga_id s, group *g, hga_id first, hga_id n)
{
    panel *x = p->panel;
    int ordered = counts_alone(p);
    hga_status st = HGA_OK;
    g->tiles = x->n.tiles, g->n_tiles = 0, g->windows = x->n_windows, g->n_windows = 0;
    x->unranked = 0;
    if (g->there && ordered && p->rows.r.n_blocks) HGA_TRY(find_windows(p, s, g, first, n));
    if (ordered && !(x->parts.ranks && x->unranked)) {
        HGA_TRY(leave_explicit(p, g));
    } else {
        x->n.tiles = g->tiles, g->n_tiles = 0, x->n_windows = g->windows, g->n_windows = 0, x->n_left = 0;
        HGA_TRY(leave_rows(p, g));
    }
    HGA_TRY(sort_left(p, g));
done:
    return st;
}

/* Finds the tiles of two neighbouring groups, and their edges that are in no tile. */
static hga_status sort_pair(fast_pass *p, hga_id s, group *pair, hga_id first)
{
    hga_status st = HGA_OK;
    p->panel->n_windows = 0;
    for (hga_id i = 0; i < 2; i++, first += KERNEL_TILE)
        HGA_TRY(sort_edges(p, s, &pair[i], first, rows_from(p, first)));
    if (!has_parts(p->panel)) HGA_TRY(lay_windows(p, pair));
done:
    return st;
}

/* Loads two groups' rows, finds their tiles and computes their edges that are in no tile. */
static hga_status run_pair(fast_pass *p, hga_id s, group *pair, hga_id first, found *f)
{
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < 2; i++) (p->finds ? expect_sixteen : load_sixteen)(p, s, &pair[i], first + i * KERNEL_TILE);
    if (!recall(f, pair)) {
        HGA_TRY(sort_pair(p, s, pair, first));
        note_found(p->panel, pair, f);
    }
    for (hga_id i = 0; i < 2 && !p->finds; i++) {
        const uint8_t *bits;
        HGA_TRY(left_draws(p, &pair[i], f ? f + i : NULL, &bits));
        run_left(p, s, &pair[i], bits);
    }
done:
    return st;
}

/* Sums of relative keys' gradients are added into doubles, less often the more types there are. */
enum { POUR_TYPES = 128 };

static void pour_rel_key(fast_pass *p)
{
    hga_id dim = p->plan->shape.dim, width = padded(dim);
    for (hga_id t = 0; p->d_rel_key && t < p->call->io->rel_key.rows; t++) {
        float *from = p->d_rel_key + (ptrdiff_t)t * width;
        double *to = p->sums.of[HGA_TABLE_REL_KEY] + (ptrdiff_t)t * dim;
        for (hga_id c = 0; c < dim; c++) to[c] += (double)from[c], from[c] = 0;
    }
}

/* Computes a panel of groups at positions from `first` on, a multiple of two groups, up to `end`. */
static hga_status attend_panel(fast_pass *p, hga_id s, hga_id first, hga_id end)
{
    hga_status st = HGA_OK;
    panel *x = p->panel;
    if (rows_are_whole(p->plan)) return attend_whole(p, s, first, end);
    found *f = x->found ? x->found + s * groups_of(p->plan) + first / KERNEL_TILE : NULL;
    hga_id left = (end - first + 2 * KERNEL_TILE - 1) / (2 * KERNEL_TILE) * 2, n = left < GROUPS ? left : GROUPS;
    x->n = x->remembered, x->noted = 0;
    if (!p->finds) draws_open(p);
    for (hga_id i = n; i < GROUPS; i++) x->group[i].n_tiles = 0;
    for (hga_id i = 0; i < n; i += 2) HGA_TRY(run_pair(p, s, &x->group[i], first + i * KERNEL_TILE, f ? f + i : NULL));
    measure_panel(x);
    if (f) remember_panel(x, f, n);
    if (p->finds) return HGA_OK;
    HGA_TRY(run_panel_tiles(p, s));
    for (hga_id i = 0, row = first; row < end && i < n; i++, row += KERNEL_TILE) store_sixteen(p, s, &x->group[i], row);
    columns_leave(p, s, first / ROW_RANGE_PANEL, first / ROW_RANGE_PANEL + 1);
done:
    return st;
}

/* Computes the panel for every head of this pass. */
static hga_status attend_heads(fast_pass *p, hga_id s, hga_id first, hga_id end)
{
    hga_status st = HGA_OK;
    if (is_passed_over(p, first, first + ROW_RANGE_PANEL < end ? first + ROW_RANGE_PANEL : end)) {
        if (!p->finds) columns_leave(p, s, first / ROW_RANGE_PANEL, first / ROW_RANGE_PANEL + 1);
        return HGA_OK;
    }
    for (hga_id last = p->head, head = last - p->heads + 1; !st && head <= last; head++)
        p->head = head, st = attend_panel(p, s, first, end);
    return st;
}

/* Computes the stage's rows from `begin` to `end`, panel by panel, or by columns if the stage runs so. */
hga_status attend_range(fast_pass *p, hga_id s, hga_id begin, hga_id end)
{
    hga_status st = HGA_OK;
    panel *x = p->panel;
    x->parts = parts_of(p->call, s);
    rows_open(&p->rows, p->plan, s);
    x->begin = begin, x->end = end;
    if (!rows_are_whole(p->plan) && runs_by_columns(p, s)) return attend_by_columns(p, s);
    for (hga_id first = begin / (2 * KERNEL_TILE) * 2 * KERNEL_TILE; first < end; first += ROW_RANGE_PANEL) {
        HGA_TRY(attend_heads(p, s, first, end));
        if (++x->panels * POUR_TYPES >= p->call->io->rel_key.rows) attend_ends(p);
    }
    HGA_TRY(reserve_lists(p));
done:
    return st;
}

void attend_ends(fast_pass *p) { pour_rel_key(p), p->panel->panels = 0; }

/* The rows at positions [begin, end), panel by panel. */
static hga_status attend_row_range(fast_pass *p, hga_id s, hga_id begin, hga_id end)
{
    hga_status st = attend_range(p, s, begin, end);
    attend_ends(p);
    return st;
}

hga_status fast_attend(fast_pass *p, hga_id s) { return each_row_range(p, s, attend_row_range); }
