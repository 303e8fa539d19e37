/* column_runs.c: runs of columns, row after row, as blocks. Runs of consecutive rows whose ends stay, or move by one,
   grow into a column_run; equal ones at equal distances become one block with a count. Small ones become explicit
   edges. All in positions, that is in the relation's orders. */
#include "column_runs.h"
#include "sort.h"

#include <string.h>

/* A block of fewer edges takes more memory than they do. */
enum { FEWEST_EDGES = 4 };

/* Rows [dst, dst + n_dst); row r has columns [src + r * left, src + n + r * right), both 0 or 1: rectangles, triangles,
   bands. `count` times with the steps; 0: part of another run's repeat. */
struct column_run {
    hga_id n_dst, n;
    int32_t type, type_dst, type_src;
    float weight;
    uint8_t left, right;
    hga_id dst, src, count, dst_step, src_step;
};

/* ---- runs of one row into runs of several ---- */

static int64_t size_of(int64_t x) { return x < 0 ? -x : x; }

/* The first column, and the number of columns, of row r of a run. */
static hga_id row_src(const column_run *p, hga_id r) { return p->src + r * p->left; }

static hga_id row_n(const column_run *p, hga_id r) { return p->n + r * p->right - r * p->left; }

/* Whether every cell of the run's bounding rectangle has a type that fits, so that no sum overflows. */
static int types_fit(const column_run *p)
{
    int64_t width = (int64_t)p->n + p->n_dst;
    return size_of(p->type) + size_of(p->type_dst) * p->n_dst + size_of(p->type_src) * width <= INT32_MAX;
}

/* Extends p by x as its next row, if the forms fit. *rank is 3 where it continues as before, 2 where its ends stay, 1
   where both move, 0 where one does. */
static int extend_run(const column_run *p, const edge_run *x, column_run *longer, int *rank)
{
    hga_id last = p->n_dst - 1, left = x->src - row_src(p, last), right = left + x->n - row_n(p, last);
    if (left < 0 || left > 1 || right < 0 || right > 1 || x->weight != p->weight) return 0;
    if (p->n_dst > 1 && (left != p->left || right != p->right)) return 0;
    int sloped = p->n > 1 || (p->n_dst > 1 && row_n(p, last) > 1);
    if (sloped && x->n > 1 && x->slope != p->type_src) return 0;
    *longer = *p;
    longer->left = (uint8_t)left, longer->right = (uint8_t)right;
    longer->n_dst++;
    if (!sloped) longer->type_src = x->slope;
    int64_t down = p->n_dst > 1 ? p->type_dst : (int64_t)x->type - p->type - (int64_t)left * longer->type_src;
    if (x->type != p->type + p->n_dst * (down + (int64_t)left * longer->type_src)) return 0;
    if (size_of(down) > INT32_MAX) return 0;
    longer->type_dst = (int32_t)down;
    if (!types_fit(longer)) return 0;
    *rank = p->n_dst > 1 ? 3 : left == 0 && right == 0 ? 2 : left == right ? 1 : 0;
    return 1;
}

static hga_status push_number(const column_runs *c, int64_t **list, int64_t *n, int64_t *capacity, int64_t value)
{
    hga_status st = hga_grow(c->allocator, list, capacity, *n, *n + 1, sizeof **list);
    if (!st) (*list)[(*n)++] = value;
    return st;
}

static hga_status start_run(column_runs *c, const edge_run *x)
{
    hga_status st = hga_grow(c->allocator, &c->list, &c->list_capacity, c->n_list, c->n_list + 1, sizeof *c->list);
    if (st) return st;
    column_run *p = &c->list[c->n_list];
    memset(p, 0, sizeof *p);
    p->dst = x->row, p->n_dst = 1, p->src = x->src, p->n = x->n, p->type = x->type, p->type_src = x->slope,
    p->weight = x->weight, p->count = 1;
    return push_number(c, &c->next, &c->n_next, &c->next_capacity, c->n_list++);
}

/* The first column of an open run's last row. */
static hga_id open_src(const column_runs *c, int64_t i)
{
    const column_run *p = &c->list[c->open[i]];
    return row_src(p, p->n_dst - 1);
}

/* Extends the open run that fits best, or starts one. `from` is the first open run that this and later runs of the row
   can extend. */
hga_status column_runs_add_run(column_runs *c, const edge_run *x)
{
    int64_t best = -1;
    int best_rank = -1, rank;
    column_run longer, candidate;
    while (c->from < c->n_open && open_src(c, c->from) < x->src - 1) ++c->from;
    for (int64_t i = c->from; i < c->n_open && open_src(c, i) <= x->src; i++) {
        const column_run *p = &c->list[c->open[i]];
        if (p->dst + p->n_dst > x->row || !extend_run(p, x, &candidate, &rank) || rank <= best_rank) continue;
        best = c->open[i], best_rank = rank, longer = candidate;
    }
    if (best < 0) return start_run(c, x);
    c->list[best] = longer;
    return push_number(c, &c->next, &c->n_next, &c->next_capacity, best);
}

void column_runs_end_row(column_runs *c)
{
    int64_t *list = c->open, capacity = c->open_capacity;
    c->open = c->next, c->open_capacity = c->next_capacity, c->n_open = c->n_next, c->from = 0;
    c->next = list, c->next_capacity = capacity, c->n_next = 0;
}

static int may_repeat(const column_run *p, hga_id n)
{
    column_run longer = *p;
    longer.n_dst += n;
    return p->n_dst > 1 && !p->left && !p->right && types_fit(&longer);
}

int column_runs_repeat_row(column_runs *c, hga_id n)
{
    for (int64_t i = 0; i < c->n_open; i++)
        if (!may_repeat(&c->list[c->open[i]], n)) return 0;
    for (int64_t i = 0; i < c->n_open; i++) c->list[c->open[i]].n_dst += n;
    return 1;
}

/* ---- edges into runs ---- */

/* A total order: a row has one edge of a source and type. */
static int cell_before(const cell *a, const cell *b)
{
    return a->column != b->column ? a->column < b->column : a->type < b->type;
}

SORT_DEFINE(sort_cells, cell, cell_before)

/* The longest run from cell i on. Types lie in [0, 2^31), so their differences fit. */
static edge_run run_at(const cell *cells, int64_t n, hga_id row, int64_t i)
{
    const cell *at = &cells[i];
    edge_run x = {row, at->column, 1, at->type, 0, at->weight};
    for (int64_t k = i + 1; k < n; k++, x.n++) {
        const cell *here = &cells[k];
        if (here->column != here[-1].column + 1 || here->weight != x.weight) break;
        if (x.n == 1) x.slope = here->type - at->type;
        if (here->type - here[-1].type != x.slope) break;
    }
    if (x.n == 1) x.slope = 0;
    return x;
}

/* A row's cells as runs, each of which extends an open run or starts one. */
hga_status column_runs_add_row(column_runs *c, hga_id row, cell *cells, int64_t n)
{
    hga_status st = HGA_OK;
    sort_cells(cells, n);
    for (int64_t i = 0; i < n;) {
        edge_run x = run_at(cells, n, row, i);
        HGA_TRY(column_runs_add_run(c, &x));
        i += x.n;
    }
    column_runs_end_row(c);
done:
    return st;
}

/* ---- runs into repeats ---- */

/* Orders runs by everything but their position; 0: equal. */
static int by_form(const column_run *a, const column_run *b)
{
    if (a->n_dst != b->n_dst) return a->n_dst < b->n_dst ? -1 : 1;
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    if (a->type != b->type) return a->type < b->type ? -1 : 1;
    if (a->type_dst != b->type_dst) return a->type_dst < b->type_dst ? -1 : 1;
    if (a->type_src != b->type_src) return a->type_src < b->type_src ? -1 : 1;
    if (a->weight != b->weight) return a->weight < b->weight ? -1 : 1;
    if (a->left != b->left) return a->left < b->left ? -1 : 1;
    return (a->right > b->right) - (a->right < b->right);
}

/* A total order: two runs of one form that begin at one edge would share it. */
static int run_before(const column_run *a, const column_run *b)
{
    int form = by_form(a, b);
    if (form) return form < 0;
    return a->dst != b->dst ? a->dst < b->dst : a->src < b->src;
}

SORT_DEFINE(sort_runs, column_run, run_before)

static int64_t next_dst(const column_run *p) { return p->dst + (int64_t)p->count * p->dst_step; }

static int64_t next_src(const column_run *p) { return p->src + (int64_t)p->count * p->src_step; }

/* A hash table of runs by a position: where they begin, or where the next of a repeat is expected. The form is not
   hashed, since few forms share a position. */
static int64_t *run_slot(const column_runs *c, int64_t *slots, int64_t dst, int64_t src)
{
    uint64_t x = (uint64_t)dst * 0x9E3779B97F4A7C15u ^ (uint64_t)src * 0xC2B2AE3D27D4EB4Fu;
    return slots + (int64_t)((x ^ x >> 29) & (uint64_t)(c->n_slots - 1));
}

static int64_t *slot_after(const column_runs *c, int64_t *slots, int64_t *slot)
{
    return slot + 1 == slots + c->n_slots ? slots : slot + 1;
}

static void put_run(const column_runs *c, int64_t *slots, int64_t dst, int64_t src, int64_t i)
{
    int64_t *slot = run_slot(c, slots, dst, src);
    while (*slot >= 0) slot = slot_after(c, slots, slot);
    *slot = i;
}

static void expect_next(column_runs *c, int64_t i)
{
    put_run(c, c->slots, next_dst(&c->list[i]), next_src(&c->list[i]), i);
}

/* The repeat whose next instance is expected at `here`; -1: none. Entries of repeats that grew since no longer match.
   */
static int64_t find_expecting(const column_runs *c, const column_run *here)
{
    int64_t *slot = run_slot(c, c->slots, here->dst, here->src);
    for (; *slot >= 0; slot = slot_after(c, c->slots, slot)) {
        const column_run *p = &c->list[*slot];
        if (next_dst(p) == here->dst && next_src(p) == here->src && by_form(p, here) == 0) return *slot;
    }
    return -1;
}

/* Whether a run of this form begins at (dst, src). */
static int is_run_at(const column_runs *c, const column_run *form, int64_t dst, int64_t src)
{
    int64_t *slot = run_slot(c, c->positions, dst, src);
    for (; *slot >= 0; slot = slot_after(c, c->positions, slot)) {
        const column_run *p = &c->list[*slot];
        if (p->dst == dst && p->src == src && by_form(p, form) == 0) return 1;
    }
    return 0;
}

/* How often the step from `first` to `here` leads to another run of the form, FAR at most. */
enum { FAR = 8 };

static int steps_on(const column_runs *c, const column_run *first, const column_run *here)
{
    int64_t down = (int64_t)here->dst - first->dst, right = (int64_t)here->src - first->src;
    int n = 0;
    while (n < FAR && is_run_at(c, here, here->dst + (n + 1) * down, here->src + (n + 1) * right)) n++;
    return n;
}

typedef struct run_place {
    const column_run *runs;
    hga_id src;
} run_place;

static int is_right_of(const void *context, int64_t i)
{
    const run_place *p = context;
    return p->runs[i].src > p->src;
}

/* Runs of one form: [before, row) begin in the previous row that has some, [row, end) in this. */
typedef struct equal_runs {
    int64_t before, row, end;
} equal_runs;

/* The first run of a possible repeat, and how many more instances it would have. */
typedef struct partner {
    int64_t first; /* -1: none */
    int far;
} partner;

static void consider(const column_runs *c, const column_run *here, int64_t i, partner *best)
{
    const column_run *p = &c->list[i];
    if (p->count != 1 || p->src > here->src) return;
    int far = steps_on(c, p, here);
    if (best->first < 0 || far > best->far) *best = (partner){i, far};
}

/* Considers of the row before the counterpart, where both rows have as many, and the 3 nearest runs not to the right,
   so that the cost stays linear. Of two that lead as far, the first considered wins. */
static partner find_partner(const column_runs *c, const equal_runs *at, int64_t i)
{
    partner best = {-1, 0};
    const column_run *here = &c->list[i];
    if (at->end - at->row == at->row - at->before) consider(c, here, at->before + (i - at->row), &best);
    int64_t beyond = search_first(at->before, at->row, is_right_of, &(run_place){c->list, here->src});
    for (int64_t k = beyond - 1, n = 0; k >= at->before && k >= beyond - 16 && n < 3; k--)
        if (c->list[k].count == 1) consider(c, here, k, &best), n++;
    return best;
}

/* Joins a single run to a repeat; a new repeat needs `least` more instances. */
static void join_run(column_runs *c, const equal_runs *at, int64_t i, int least)
{
    column_run *here = &c->list[i];
    if (here->count != 1) return;
    int64_t first = find_expecting(c, here);
    if (first < 0) {
        partner found = find_partner(c, at, i);
        if (found.first < 0 || found.far < least) return;
        first = found.first;
        c->list[first].dst_step = here->dst - c->list[first].dst;
        c->list[first].src_step = here->src - c->list[first].src;
    }
    here->count = 0;
    c->list[first].count++;
    expect_next(c, first);
}

/* The next row of runs of one form; a new form starts without a row before. */
static equal_runs next_row(const column_runs *c, const equal_runs *last)
{
    int64_t row = last->end, end = row + 1;
    int same = row > 0 && by_form(&c->list[row - 1], &c->list[row]) == 0;
    while (end < c->n_list && c->list[end].dst == c->list[row].dst && by_form(&c->list[end], &c->list[row]) == 0) end++;
    return (equal_runs){same ? last->row : row, row, end};
}

static void join_rows(column_runs *c, int least)
{
    for (equal_runs at = {0, 0, 0}; at.end < c->n_list;) {
        at = next_row(c, &at);
        for (int64_t i = at.row; i < at.end; i++) join_run(c, &at, i, least);
    }
}

/* First repeats of three and more, so that no pair breaks them up; then pairs. */
static hga_status find_repeats(column_runs *c)
{
    hga_status st = HGA_OK;
    if (c->n_list < 2) return HGA_OK;
    sort_runs(c->list, c->n_list);
    for (c->n_slots = 2; c->n_slots < 2 * c->n_list;) c->n_slots *= 2;
    HGA_TRY(hga_new(c->allocator, c->n_slots, sizeof *c->slots, &c->slots));
    HGA_TRY(hga_new(c->allocator, c->n_slots, sizeof *c->positions, &c->positions));
    for (int64_t i = 0; i < c->n_slots; i++) c->slots[i] = c->positions[i] = -1;
    for (int64_t i = 0; i < c->n_list; i++) put_run(c, c->positions, c->list[i].dst, c->list[i].src, i);
    join_rows(c, 1);
    join_rows(c, 0);
done:
    return st;
}

/* ---- out ---- */

static int64_t run_edges(const column_run *p)
{
    int64_t first = p->n, last = row_n(p, p->n_dst - 1);
    return (first + last) * p->n_dst / 2 * p->count;
}

/* The block of a run; its shape follows from which ends of its rows move. */
static hga_block block_of(const column_run *p)
{
    hga_block b = {.dst = p->dst,
                   .n_dst = p->n_dst,
                   .src = p->src,
                   .type = p->type,
                   .type_dst = p->type_dst,
                   .type_src = p->type_src};
    b.n_src = p->n + p->right * (p->n_dst - 1);
    b.weight = p->weight == 1 ? 0 : p->weight;
    if (p->count > 1) b.count = p->count, b.dst_step = p->dst_step, b.src_step = p->src_step;
    if (p->left && !p->right)
        b.shape = HGA_UPPER;
    else if (p->right && !p->left && p->n == 1)
        b.shape = HGA_LOWER;
    else if (p->right)
        b.shape = HGA_BAND, b.band_first = p->left ? 0 : 1 - p->n_dst, b.band_last = p->n - 1;
    return b;
}

static hga_id node_in_order(const hga_id *order, hga_id position) { return order ? order[position] : position; }

/* Adds one row of a run as explicit edges. */
static hga_status tell_row(const column_runs *c, const column_run *p, hga_id instance, hga_id r)
{
    hga_status st = HGA_OK;
    hga_id v = node_in_order(c->dst_order, p->dst + instance * p->dst_step + r), first = row_src(p, r);
    for (hga_id k = 0; !st && k < row_n(p, r); k++) {
        int64_t type = p->type + (int64_t)r * p->type_dst + (int64_t)(first - p->src + k) * p->type_src;
        st = hga_builder_add_edge(c->b, c->index, node_in_order(c->src_order, first + k + instance * p->src_step), v,
                                  (int32_t)type, p->weight);
    }
    return st;
}

/* Adds a run as a block, or, with few edges, as explicit edges. */
static hga_status tell_run(const column_runs *c, const column_run *p)
{
    if (run_edges(p) >= FEWEST_EDGES) {
        hga_block b = block_of(p);
        return hga_builder_add_blocks(c->b, c->index, &b);
    }
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < p->count; i++)
        for (hga_id r = 0; !st && r < p->n_dst; r++) st = tell_row(c, p, i, r);
    return st;
}

hga_status column_runs_tell(column_runs *c)
{
    hga_status st = find_repeats(c);
    for (int64_t i = 0; !st && i < c->n_list; i++) st = tell_run(c, &c->list[i]);
    return st;
}

void column_runs_clear(column_runs *c)
{
    hga_delete(c->allocator, c->list, c->list_capacity, sizeof *c->list);
    hga_delete(c->allocator, c->open, c->open_capacity, sizeof *c->open);
    hga_delete(c->allocator, c->next, c->next_capacity, sizeof *c->next);
    hga_delete(c->allocator, c->slots, c->n_slots, sizeof *c->slots);
    hga_delete(c->allocator, c->positions, c->n_slots, sizeof *c->positions);
}
