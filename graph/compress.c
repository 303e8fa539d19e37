/* compress.c: explicit edges as blocks, wherever they are regular. Three steps: the edges of a row fall into runs of
   columns; runs of consecutive rows that keep their ends, or move them by one, grow into pieces; equal pieces at equal
   distances become one block with a count. What stays small stays explicit. All in positions, that is in the relation's
   orders. */
#include "copy.h"
#include "sort.h"

#include <string.h>

/* A block of fewer edges is not worth its record. */
enum { FEWEST_EDGES = 4 };

typedef struct cell { /* an explicit edge of the row at hand */
    hga_id column;
    int32_t type;
    float weight;
} cell;

typedef struct run { /* columns [src, src + n) of one row; column c has type + (c - src) * slope */
    hga_id row, src, n;
    int32_t type, slope;
    float weight;
} run;

/* Rows [dst, dst + n_dst); row r has columns [src + r * left, src + n + r * right), both 0 or 1: rectangles, triangles,
   bands. `count` times with the steps; 0: another piece tells it. */
typedef struct piece {
    hga_id n_dst, n;
    int32_t type, type_dst, type_src;
    float weight;
    uint8_t left, right;
    hga_id dst, src, count, dst_step, src_step;
} piece;

typedef struct compression {
    const hga_allocator *allocator;
    const hga_relation *r;
    hga_id n_nodes, index;
    hga_builder *b;
    hga_id *column_of; /* [n_nodes] node -> column, -1 without; NULL: the identity */
    int64_t n_cells, cell_room, n_pieces, piece_room, n_open, open_room, n_next, next_room, n_slots;
    cell *cells;
    piece *pieces;
    int64_t *open, *next; /* pieces that end in the row before, by their columns there; those that end in this row */
    int64_t *slots;       /* hash table: where a repeated piece is expected next; -1 empty */
} compression;

/* ---- rows into runs ---- */

/* Total: a row has one edge of a source and type. */
static int cell_before(const cell *a, const cell *b)
{
    return a->column != b->column ? a->column < b->column : a->type < b->type;
}

SORT_DEFINE(sort_cells, cell, cell_before)

static hga_id row_node(const compression *c, hga_id row) { return c->r->dst_order ? c->r->dst_order[row] : row; }

static hga_id column_node(const compression *c, hga_id column)
{
    return c->r->src_order ? c->r->src_order[column] : column;
}

/* The row's explicit edges by column; those whose source has no column stay explicit. */
static hga_status find_cells(compression *c, hga_id row)
{
    hga_status st = HGA_OK;
    hga_id v = row_node(c, row);
    hga_pos first = c->r->ptr[v], end = c->r->ptr[v + 1];
    c->n_cells = 0;
    HGA_TRY(hga_grow(c->allocator, &c->cells, &c->cell_room, 0, end - first, sizeof *c->cells));
    for (hga_pos e = first; e < end; e++) {
        hga_id u = c->r->src[e];
        cell x = {c->column_of ? c->column_of[u] : u, c->r->type ? c->r->type[e] : 0,
                  c->r->weight ? c->r->weight[e] : 1};
        if (x.column >= 0)
            c->cells[c->n_cells++] = x;
        else
            HGA_TRY(hga_builder_add_edge(c->b, c->index, u, v, x.type, x.weight));
    }
    sort_cells(c->cells, c->n_cells);
done:
    return st;
}

/* The longest run from cell i on. Types lie in [0, 2^31), so their differences fit. */
static run run_at(const compression *c, hga_id row, int64_t i)
{
    const cell *at = &c->cells[i];
    run x = {row, at->column, 1, at->type, 0, at->weight};
    for (int64_t k = i + 1; k < c->n_cells; k++, x.n++) {
        const cell *here = &c->cells[k];
        if (here->column != here[-1].column + 1 || here->weight != x.weight) break;
        if (x.n == 1) x.slope = here->type - at->type;
        if (here->type - here[-1].type != x.slope) break;
    }
    if (x.n == 1) x.slope = 0;
    return x;
}

/* ---- runs into pieces ---- */

static int64_t size_of(int64_t x) { return x < 0 ? -x : x; }

/* The first column, and the number of columns, of row r of a piece. */
static hga_id row_src(const piece *p, hga_id r) { return p->src + r * p->left; }

static hga_id row_n(const piece *p, hga_id r) { return p->n + r * p->right - r * p->left; }

/* The piece with the run as its next row, if it has that form. *rank says how well they fit: going on as before,
   staying, or starting to move. */
static int extend(const piece *p, const run *x, piece *longer, int *rank)
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
    /* every cell of the rectangle around the piece has a type that fits, so that nothing overflows on the way to those
       that count */
    int64_t width = (int64_t)p->n + longer->n_dst;
    if (size_of(down) > INT32_MAX ||
        size_of(p->type) + size_of(down) * longer->n_dst + size_of(longer->type_src) * width > INT32_MAX)
        return 0;
    longer->type_dst = (int32_t)down;
    *rank = p->n_dst > 1 ? 3 : left == 0 && right == 0 ? 2 : left == right ? 1 : 0;
    return 1;
}

static hga_status push(const compression *c, int64_t **list, int64_t *n, int64_t *room, int64_t value)
{
    hga_status st = hga_grow(c->allocator, list, room, *n, *n + 1, sizeof **list);
    if (!st) (*list)[(*n)++] = value;
    return st;
}

static hga_status start_piece(compression *c, const run *x)
{
    hga_status st = hga_grow(c->allocator, &c->pieces, &c->piece_room, c->n_pieces, c->n_pieces + 1, sizeof *c->pieces);
    if (st) return st;
    piece *p = &c->pieces[c->n_pieces];
    memset(p, 0, sizeof *p);
    p->dst = x->row, p->n_dst = 1, p->src = x->src, p->n = x->n, p->type = x->type, p->type_src = x->slope,
    p->weight = x->weight, p->count = 1;
    return push(c, &c->next, &c->n_next, &c->next_room, c->n_pieces++);
}

/* Where an open piece's last row begins. */
static hga_id open_src(const compression *c, int64_t i)
{
    const piece *p = &c->pieces[c->open[i]];
    return row_src(p, p->n_dst - 1);
}

/* Give a run to the open piece that it fits best, or start a piece with it. *from is the first open piece that this run
   and later ones can reach. */
static hga_status place_run(compression *c, const run *x, int64_t *from)
{
    int64_t best = -1;
    int best_rank = -1, rank;
    piece longer, candidate;
    while (*from < c->n_open && open_src(c, *from) < x->src - 1) ++*from;
    for (int64_t i = *from; i < c->n_open && open_src(c, i) <= x->src; i++) {
        const piece *p = &c->pieces[c->open[i]];
        if (p->dst + p->n_dst > x->row || !extend(p, x, &candidate, &rank) || rank <= best_rank) continue;
        best = c->open[i], best_rank = rank, longer = candidate;
    }
    if (best < 0) return start_piece(c, x);
    c->pieces[best] = longer;
    return push(c, &c->next, &c->n_next, &c->next_room, best);
}

static hga_status find_pieces(compression *c)
{
    hga_status st = HGA_OK;
    for (hga_id row = 0; row < c->n_nodes; row++) {
        HGA_TRY(find_cells(c, row));
        int64_t from = 0;
        for (int64_t i = 0; i < c->n_cells;) {
            run x = run_at(c, row, i);
            HGA_TRY(place_run(c, &x, &from));
            i += x.n;
        }
        int64_t *list = c->open, room = c->open_room;
        c->open = c->next, c->open_room = c->next_room, c->n_open = c->n_next;
        c->next = list, c->next_room = room, c->n_next = 0;
    }
done:
    return st;
}

/* ---- pieces into repeats ---- */

/* Equal but for their place. */
static int by_form(const piece *a, const piece *b)
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

/* Total: two pieces of one form that begin at one edge would share it. */
static int piece_before(const piece *a, const piece *b)
{
    int form = by_form(a, b);
    if (form) return form < 0;
    return a->dst != b->dst ? a->dst < b->dst : a->src < b->src;
}

SORT_DEFINE(sort_pieces, piece, piece_before)

static int64_t next_dst(const piece *p) { return p->dst + (int64_t)p->count * p->dst_step; }

static int64_t next_src(const piece *p) { return p->src + (int64_t)p->count * p->src_step; }

/* A slot for a place; the form takes no part, since few forms share a place. */
static int64_t slot_of(const compression *c, int64_t dst, int64_t src)
{
    uint64_t x = (uint64_t)dst * 0x9E3779B97F4A7C15u ^ (uint64_t)src * 0xC2B2AE3D27D4EB4Fu;
    return (int64_t)((x ^ x >> 29) & (uint64_t)(c->n_slots - 1));
}

static void expect_next(compression *c, int64_t i)
{
    const piece *p = &c->pieces[i];
    int64_t slot = slot_of(c, next_dst(p), next_src(p));
    while (c->slots[slot] >= 0) slot = (slot + 1) & (c->n_slots - 1);
    c->slots[slot] = i;
}

/* The repeated piece that expects an equal one just here; -1 without. Entries that have moved on since no longer match.
   */
static int64_t find_expecting(const compression *c, const piece *here)
{
    for (int64_t slot = slot_of(c, here->dst, here->src); c->slots[slot] >= 0; slot = (slot + 1) & (c->n_slots - 1)) {
        const piece *p = &c->pieces[c->slots[slot]];
        if (next_dst(p) == here->dst && next_src(p) == here->src && by_form(p, here) == 0) return c->slots[slot];
    }
    return -1;
}

typedef struct place {
    const piece *pieces;
    hga_id src;
} place;

static int is_right_of(const void *context, int64_t i)
{
    const place *p = context;
    return p->pieces[i].src > p->src;
}

/* Of the equal pieces [first, end) of one row, the nearest one not to the right of `here` that is still single; -1
   without. Looks at a few only, so that the cost stays linear. */
static int64_t find_nearest(const compression *c, int64_t first, int64_t end, const piece *here)
{
    int64_t beyond = search_first(first, end, is_right_of, &(place){c->pieces, here->src});
    for (int64_t i = beyond - 1; i >= first && i >= beyond - 16; i--)
        if (c->pieces[i].count == 1) return i;
    return -1;
}

/* Equal pieces that begin in one row: [before, row) in the row before, [row, end) in this. */
typedef struct neighbours {
    int64_t before, row, end;
} neighbours;

/* Where a piece may be the second of a repeat: with its counterpart when both rows have as many, else with the nearest.
   */
static int64_t find_partner(const compression *c, const neighbours *at, int64_t i)
{
    const piece *here = &c->pieces[i];
    int64_t counterpart = at->before + (i - at->row);
    int as_many = at->end - at->row == at->row - at->before;
    if (as_many && c->pieces[counterpart].count == 1 && c->pieces[counterpart].src <= here->src) return counterpart;
    return find_nearest(c, at->before, at->row, here);
}

static void join_piece(compression *c, const neighbours *at, int64_t i)
{
    piece *here = &c->pieces[i];
    int64_t first = find_expecting(c, here);
    if (first < 0) {
        first = find_partner(c, at, i);
        if (first < 0) return;
        c->pieces[first].dst_step = here->dst - c->pieces[first].dst;
        c->pieces[first].src_step = here->src - c->pieces[first].src;
    }
    here->count = 0;
    c->pieces[first].count++;
    expect_next(c, first);
}

/* The next row of equal pieces; a new form starts without a row before. */
static neighbours next_row(const compression *c, const neighbours *last)
{
    int64_t row = last->end, end = row + 1;
    int same = row > 0 && by_form(&c->pieces[row - 1], &c->pieces[row]) == 0;
    while (end < c->n_pieces && c->pieces[end].dst == c->pieces[row].dst &&
           by_form(&c->pieces[end], &c->pieces[row]) == 0)
        end++;
    return (neighbours){same ? last->row : row, row, end};
}

static hga_status find_repeats(compression *c)
{
    if (c->n_pieces < 2) return HGA_OK;
    sort_pieces(c->pieces, c->n_pieces);
    int64_t n_slots = 2;
    while (n_slots < 2 * c->n_pieces) n_slots *= 2;
    hga_status st = hga_new(c->allocator, n_slots, sizeof *c->slots, &c->slots);
    if (st) return st;
    c->n_slots = n_slots;
    for (int64_t i = 0; i < n_slots; i++) c->slots[i] = -1;
    for (neighbours at = {0, 0, 0}; at.end < c->n_pieces;) {
        at = next_row(c, &at);
        for (int64_t i = at.row; i < at.end; i++) join_piece(c, &at, i);
    }
    return HGA_OK;
}

/* ---- out ---- */

static int64_t piece_edges(const piece *p)
{
    int64_t first = p->n, last = row_n(p, p->n_dst - 1);
    return (first + last) * p->n_dst / 2 * p->count;
}

static hga_block block_of(const piece *p)
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

static hga_status tell_row(const compression *c, const piece *p, hga_id instance, hga_id r)
{
    hga_status st = HGA_OK;
    hga_id v = row_node(c, p->dst + instance * p->dst_step + r), first = row_src(p, r);
    for (hga_id k = 0; !st && k < row_n(p, r); k++) {
        int64_t type = p->type + (int64_t)r * p->type_dst + (int64_t)(first - p->src + k) * p->type_src;
        st = hga_builder_add_edge(c->b, c->index, column_node(c, first + k + instance * p->src_step), v, (int32_t)type,
                                  p->weight);
    }
    return st;
}

static hga_status tell_piece(const compression *c, const piece *p)
{
    if (piece_edges(p) >= FEWEST_EDGES) {
        hga_block b = block_of(p);
        return hga_builder_add_blocks(c->b, c->index, &b);
    }
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < p->count; i++)
        for (hga_id r = 0; !st && r < p->n_dst; r++) st = tell_row(c, p, i, r);
    return st;
}

static hga_status find_columns(compression *c)
{
    if (!c->r->src_order) return HGA_OK;
    hga_status st = hga_new(c->allocator, c->n_nodes, sizeof *c->column_of, &c->column_of);
    if (st) return st;
    for (hga_id u = 0; u < c->n_nodes; u++) c->column_of[u] = -1;
    for (hga_id i = 0; i < c->r->n_src_order; i++) c->column_of[c->r->src_order[i]] = i;
    return HGA_OK;
}

static hga_status compress_relation(compression *c)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_builder_add_relation(c->b, c->r->name, &c->index));
    HGA_TRY(hga_builder_set_order(c->b, c->index, c->r->dst_order, c->n_nodes, c->r->src_order, c->r->n_src_order));
    for (hga_pos i = 0; i < c->r->n_blocks; i++) HGA_TRY(hga_builder_add_blocks(c->b, c->index, &c->r->blocks[i]));
    if (c->r->n_explicit == 0) return HGA_OK;
    HGA_TRY(find_columns(c));
    HGA_TRY(find_pieces(c));
    HGA_TRY(find_repeats(c));
    for (int64_t i = 0; i < c->n_pieces; i++) HGA_TRY(tell_piece(c, &c->pieces[i]));
done:
    hga_delete(c->allocator, c->column_of, c->n_nodes, sizeof *c->column_of);
    hga_delete(c->allocator, c->cells, c->cell_room, sizeof *c->cells);
    hga_delete(c->allocator, c->pieces, c->piece_room, sizeof *c->pieces);
    hga_delete(c->allocator, c->open, c->open_room, sizeof *c->open);
    hga_delete(c->allocator, c->next, c->next_room, sizeof *c->next);
    hga_delete(c->allocator, c->slots, c->n_slots, sizeof *c->slots);
    return st;
}

hga_status hga_graph_compress(const hga_graph *g, hga_graph **out)
{
    hga_status st = HGA_OK;
    hga_nodes nodes = hga_graph_nodes(g);
    hga_builder *b = NULL;
    *out = NULL;
    HGA_TRY(hga_builder_create(hga_graph_allocator(g), &b));
    HGA_TRY(nodes_copy(b, g));
    HGA_TRY(hga_builder_set_claims(b, nodes.claims));
    for (hga_id i = 0; i < nodes.n_relations; i++) {
        hga_relation r = hga_graph_relation(g, i);
        compression c = {.allocator = hga_graph_allocator(g), .r = &r, .n_nodes = nodes.n, .b = b};
        HGA_TRY(compress_relation(&c));
    }
    HGA_TRY(hga_builder_finish(b, out));
done:
    hga_builder_destroy(b);
    return st;
}
