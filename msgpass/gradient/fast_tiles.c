/* fast_tiles.c: windows into tiles. A window whose scores have terms of their own is a tile by itself; the columns
   of all other windows of two neighbouring groups are collected, those that both groups have in tiles of both. */
#include "fast_tiles.h"
#include "panel.h"

#include <string.h>

/* One of the panel's lists. */
typedef struct growing {
    void *items; /* where the pointer to them is */
    int64_t *capacity, *n;
    size_t size;
} growing;

/* Appends `more` items; *at gets where they begin. */
static hga_status append(const fast_pass *p, growing list, const void *from, int64_t more, int64_t *at)
{
    char *items;
    hga_status st = make_capacity(p, list.items, list.capacity, *list.n, more, list.size);
    if (st) return st;
    memcpy(&items, list.items, sizeof items);
    memcpy(items + (size_t)*list.n * list.size, from, (size_t)more * list.size);
    *at = *list.n, *list.n += more;
    return HGA_OK;
}

static hga_status list_numbers(fast_pass *p, const hga_id *from, hga_id n, int64_t *at)
{
    panel_lists *l = &p->panel->lists;
    return append(p, (growing){&l->number, &l->number_capacity, &l->n.numbers, sizeof *from}, from, n, at);
}

static hga_status list_bits(fast_pass *p, const lane_mask *from, hga_id n, int64_t *at)
{
    panel_lists *l = &p->panel->lists;
    return append(p, (growing){&l->bits, &l->bits_capacity, &l->n.bits, sizeof *from}, from, n, at);
}

static hga_status list_tile(fast_pass *p, const tile *t)
{
    panel_lists *l = &p->panel->lists;
    int64_t at;
    return append(p, (growing){&l->tile, &l->tile_capacity, &l->n.tiles, sizeof *t}, t, 1, &at);
}

/* A window as one tile, with the lists that its scores need: bits of rows, positions, ranks. */
hga_status lay_window(fast_pass *p, group *g, const window *w, tile *t)
{
    panel *x = p->panel;
    hga_status st = HGA_OK;
    t->n = w->n, t->first = w->first, t->group = (hga_id)(g - x->group), t->n_groups = 1;
    t->columns = t->rows[0] = t->rows[1] = t->own = t->rank = -1;
    if (!w->full) HGA_TRY(list_bits(p, w->rows, w->n, &t->rows[0]));
    if (x->parts.positions) HGA_TRY(list_numbers(p, w->own, KERNEL_TILE, &t->own));
    if (x->parts.ranks) HGA_TRY(list_numbers(p, w->rank, KERNEL_TILE, &t->rank));
    HGA_TRY(list_tile(p, t));
    g->n_tiles++;
done:
    return st;
}

/* ---- columns of several windows ---- */

/* Columns being collected into a tile, of one group or of two. */
typedef struct staging {
    hga_id group, n_groups, n, column[WINDOW];
    lane_mask rows[2][WINDOW];
} staging;

static int is_full(const lane_mask *rows, hga_id n, uint32_t there)
{
    uint32_t all = there;
    for (hga_id c = 0; c < n; c++) all &= rows[c];
    return all == there;
}

/* Makes a tile of the staged columns, if there are any; it counts for the pair's first group. */
static hga_status flush_staging(fast_pass *p, group *pair, staging *t)
{
    panel *x = p->panel;
    hga_status st = HGA_OK;
    tile new = {.n = t->n, .first = t->column[0], .group = t->group, .n_groups = t->n_groups};
    if (t->n == 0) return HGA_OK;
    new.columns = new.rows[0] = new.rows[1] = new.own = new.rank = new.types = new.n_indices = -1;
    if (t->column[t->n - 1] != t->column[0] + t->n - 1) HGA_TRY(list_numbers(p, t->column, t->n, &new.columns));
    for (hga_id i = 0; i < t->n_groups; i++)
        if (!is_full(t->rows[i], t->n, x->group[t->group + i].there))
            HGA_TRY(list_bits(p, t->rows[i], t->n, &new.rows[i]));
    HGA_TRY(list_tile(p, &new));
    pair->n_tiles++, t->n = 0;
done:
    return st;
}

static hga_status put_column(fast_pass *p, group *pair, staging *t, hga_id column, lane_mask first, lane_mask second)
{
    t->column[t->n] = column, t->rows[0][t->n] = first, t->rows[1][t->n] = second;
    return ++t->n == WINDOW ? flush_staging(p, pair, t) : HGA_OK;
}

/* Walks the columns of a group's windows. */
typedef struct column_walk {
    const window *at, *end;
    hga_id c;
} column_walk;

static column_walk walk_of(const panel *x, const group *g)
{
    if (!g->there || g->n_windows == 0) return (column_walk){0}; /* without windows the list has no memory */
    const window *first = x->finding.window + g->windows;
    return (column_walk){first, first + g->n_windows, 0};
}

/* The current column; greater than all others at the end. */
static hga_id column_of(const column_walk *w) { return w->at == w->end ? INT32_MAX : w->at->first + w->c; }

static lane_mask take_column(column_walk *w)
{
    lane_mask rows = w->at->rows[w->c++];
    if (w->c == w->at->n) w->at++, w->c = 0;
    return rows;
}

/* Takes the windows' columns in ascending order: those that both groups have into tiles of both, the others into
   tiles of one. */
hga_status lay_windows(fast_pass *p, group *pair)
{
    hga_status st = HGA_OK;
    hga_id first = (hga_id)(pair - p->panel->group);
    staging one = {.group = first, .n_groups = 1}, other = {.group = first + 1, .n_groups = 1},
            both = {.group = first, .n_groups = 2};
    column_walk a = walk_of(p->panel, &pair[0]), b = walk_of(p->panel, &pair[1]);
    while (a.at < a.end || b.at < b.end) {
        hga_id here = column_of(&a), there = column_of(&b), column = here < there ? here : there;
        lane_mask rows = here == column ? take_column(&a) : 0, others = there == column ? take_column(&b) : 0;
        if (rows && others)
            HGA_TRY(put_column(p, pair, &both, column, rows, others));
        else if (rows)
            HGA_TRY(put_column(p, pair, &one, column, rows, 0));
        else if (others)
            HGA_TRY(put_column(p, pair, &other, column, others, 0));
    }
    HGA_TRY(flush_staging(p, pair, &one));
    HGA_TRY(flush_staging(p, pair, &other));
    HGA_TRY(flush_staging(p, pair, &both));
done:
    return st;
}
