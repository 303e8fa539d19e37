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
           (2 * WINDOW + 3 * KERNEL_TILE) * (int64_t)pos_dim + 3 * PAIRS + dim + most_columns(plan) + LINE_FLOATS;
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
    return tensors / 8 / plan->team.n;
}

/* One allocation holds the floats of all groups and of the pairs of a tile; lists of tiles and edges grow later. */
hga_status panel_create(const hga_plan *plan, panel **out)
{
    hga_status st = HGA_OK;
    panel *x = NULL;
    hga_id dim = padded(plan->shape.dim), dim_v = padded(plan->shape.dim_v), pos_dim = padded(plan->shape.pos_dim);
    HGA_TRY(hga_new_zero(&plan->memory.user, 1, sizeof *x, &x));
    x->memory.floats = panel_floats(plan);
    HGA_TRY(hga_new_zero(&plan->memory.user, x->memory.floats, sizeof *x->memory.at, &x->memory.at));
    float *at = first_line(x->memory.at);
    for (int i = 0; i < GROUPS; i++, at += group_floats(dim, dim_v)) {
        group *g = &x->group[i];
        g->q = at, g->q_rows = g->q + dim * KERNEL_TILE, g->dq = g->q_rows + dim * KERNEL_TILE;
        g->g = g->dq + dim * KERNEL_TILE, g->g_rows = g->g + dim_v * KERNEL_TILE;
    }
    x->operands.typed = at, x->operands.d_typed = x->operands.typed + dim * WINDOW,
    at = x->operands.d_typed + dim * WINDOW;
    x->operands.position = at, x->operands.d_position = at + pos_dim * WINDOW,
    x->operands.own = x->operands.d_position + pos_dim * WINDOW;
    x->operands.own_transposed = x->operands.own + pos_dim * KERNEL_TILE,
    x->operands.d_own = x->operands.own_transposed + pos_dim * KERNEL_TILE;
    x->operands.pair_bias = x->operands.d_own + pos_dim * KERNEL_TILE,
    x->operands.slopes = x->operands.pair_bias + PAIRS;
    x->operands.pair_type = (int32_t *)(x->operands.slopes + PAIRS),
    x->operands.d_additive = (float *)(x->operands.pair_type + PAIRS), x->operands.row = x->operands.d_additive + dim;
    x->finding.seen.n_types = most_types(plan);
    HGA_TRY(
        hga_new(&plan->memory.user, x->finding.seen.n_types, sizeof *x->finding.seen.index, &x->finding.seen.index));
    for (int64_t i = 0; i < x->finding.seen.n_types; i++) x->finding.seen.index[i] = -1;
    x->memo.capacity = bytes_left(plan), x->dropout.draws_most = most_draws(plan),
    x->memo.n_found = plan->program.n_stages * groups_of(plan);
    HGA_TRY(hga_new_zero(&plan->memory.user, x->memo.n_found, sizeof *x->memo.found, &x->memo.found));
    HGA_TRY(column_batch_create(plan, &x->columns));
done:
    if (st) panel_destroy(&plan->memory.user, x), x = NULL;
    *out = x;
    return st;
}

void panel_destroy(const hga_allocator *a, panel *x)
{
    if (!x) return;
    hga_delete(a, x->finding.segment, x->finding.segment_capacity, sizeof *x->finding.segment);
    hga_delete(a, x->finding.window, x->finding.window_capacity, sizeof *x->finding.window);
    hga_delete(a, x->lists.tile, x->lists.tile_capacity, sizeof *x->lists.tile);
    hga_delete(a, x->lists.number, x->lists.number_capacity, sizeof *x->lists.number);
    hga_delete(a, x->lists.bits, x->lists.bits_capacity, sizeof *x->lists.bits);
    hga_delete(a, x->lists.index, x->lists.index_capacity, sizeof *x->lists.index);
    hga_delete(a, x->finding.seen.index, x->finding.seen.n_types, sizeof *x->finding.seen.index);
    hga_delete(a, x->finding.left, x->finding.left_capacity, sizeof *x->finding.left);
    hga_delete(a, x->lists.edge, x->lists.edge_capacity, sizeof *x->lists.edge);
    hga_delete(a, x->memo.found, x->memo.n_found, sizeof *x->memo.found);
    hga_delete(a, x->dropout.drawn, x->dropout.drawn_capacity, sizeof *x->dropout.drawn);
    hga_delete(a, x->memory.at, x->memory.floats, sizeof *x->memory.at);
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
    score_parts *known = &x->memo.found_with,
                parts = {io->rel_key.data || io->rel_bias.data, io->node_pos.data != NULL, io->edge_bias.data != NULL};
    if (parts.types == known->types && parts.positions == known->positions && parts.ranks == known->ranks) return;
    if (x->memo.n_found) memset(x->memo.found, 0, (size_t)x->memo.n_found * sizeof *x->memo.found);
    x->memo.remembered = (lengths){0}, x->memo.capacity = bytes_left(c->plan), *known = parts;
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
    int64_t bytes = x->lists.n.tiles * (int64_t)sizeof *x->lists.tile +
                    x->lists.n.numbers * (int64_t)sizeof *x->lists.number +
                    x->lists.n.bits * (int64_t)sizeof *x->lists.bits + x->lists.n.n_indices +
                    x->lists.n.edges * (int64_t)sizeof *x->lists.edge;
    if (!x->memo.capacity || !x->memo.noted) return;
    if (bytes <= x->memo.capacity)
        x->memo.remembered = x->lists.n;
    else
        for (hga_id i = 0; i < n; i++) groups[i].known = 0;
    if (bytes > x->memo.capacity) x->memo.capacity = 0;
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
    if (!f || f->known || !x->memo.capacity) return;
    x->memo.noted = 1;
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
    lengths *most = &x->memo.most;
    const lengths *from = &x->memo.remembered, *to = &x->lists.n;
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
    const lengths *n = &x->memo.remembered, *more = &x->memo.most;
    HGA_TRY(make_capacity(p, &x->lists.tile, &x->lists.tile_capacity, n->tiles, more->tiles, sizeof *x->lists.tile));
    HGA_TRY(make_capacity(p, &x->lists.number, &x->lists.number_capacity, n->numbers, more->numbers,
                          sizeof *x->lists.number));
    HGA_TRY(make_capacity(p, &x->lists.bits, &x->lists.bits_capacity, n->bits, more->bits, sizeof *x->lists.bits));
    HGA_TRY(make_capacity(p, &x->lists.index, &x->lists.index_capacity, n->n_indices, more->n_indices,
                          sizeof *x->lists.index));
    HGA_TRY(make_capacity(p, &x->lists.edge, &x->lists.edge_capacity, n->edges, more->edges, sizeof *x->lists.edge));
done:
    return st;
}

/* Sorts the edges of a group into windows and left edges; if some turn out not to count in order, all are left. */
static hga_status sort_edges(fast_pass *p, hga_id s, group *g, hga_id first, hga_id n)
{
    panel *x = p->panel;
    int ordered = counts_alone(p);
    hga_status st = HGA_OK;
    g->tiles = x->lists.n.tiles, g->n_tiles = 0, g->windows = x->finding.n_windows, g->n_windows = 0;
    x->finding.unranked = 0;
    if (g->there && ordered && p->rows.r.n_blocks) HGA_TRY(find_windows(p, s, g, first, n));
    if (ordered && !(x->parts.ranks && x->finding.unranked)) {
        HGA_TRY(leave_explicit(p, g));
    } else {
        x->lists.n.tiles = g->tiles, g->n_tiles = 0, x->finding.n_windows = g->windows, g->n_windows = 0,
        x->finding.n_left = 0;
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
    p->panel->finding.n_windows = 0;
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
    for (hga_id t = 0; p->own.d_rel_key && t < p->call->io->rel_key.rows; t++) {
        float *from = p->own.d_rel_key + (ptrdiff_t)t * width;
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
    found *f = x->memo.found ? x->memo.found + s * groups_of(p->plan) + first / KERNEL_TILE : NULL;
    hga_id left = (end - first + 2 * KERNEL_TILE - 1) / (2 * KERNEL_TILE) * 2, n = left < GROUPS ? left : GROUPS;
    x->lists.n = x->memo.remembered, x->memo.noted = 0;
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
    for (hga_id last = p->heads.head, head = last - p->heads.at_once + 1; !st && head <= last; head++)
        p->heads.head = head, st = attend_panel(p, s, first, end);
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
        if (++x->memo.panels * POUR_TYPES >= p->call->io->rel_key.rows) attend_ends(p);
    }
    HGA_TRY(reserve_lists(p));
done:
    return st;
}

void attend_ends(fast_pass *p) { pour_rel_key(p), p->panel->memo.panels = 0; }

/* The rows at positions [begin, end), panel by panel. */
static hga_status attend_row_range(fast_pass *p, hga_id s, hga_id begin, hga_id end)
{
    hga_status st = attend_range(p, s, begin, end);
    attend_ends(p);
    return st;
}

hga_status fast_attend(fast_pass *p, hga_id s) { return each_row_range(p, s, attend_row_range); }

hga_status attend_subtree(fast_pass *p, hga_id i)
{
    const subtrees *t = p->call->subtrees;
    hga_status st = HGA_OK;
    for (hga_id s = p->program->n_stages; s-- > 0;)
        for (hga_id at = t->ptr[i]; at < t->ptr[i + 1] && kind_attends(p->plan->stage[s].kind); at++)
            HGA_TRY(attend_range(p, s, t->rows[at].first, t->rows[at].end));
done:
    return st;
}
