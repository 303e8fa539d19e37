/* residues.c: edges on diagonals with a stride of d (dilated masks). In the order of tokens by their residue modulo d
   these diagonals are adjacent, and so are bands; a graph is rewritten in that order where it then takes less. */
#include "copy.h"
#include "column_runs.h"
#include "residues.h"
#include "sort.h"

/* Fewer diagonals do not pay for an order; more offsets are not examined. */
enum { FEWEST_DIAGONALS = 4, MOST_OFFSETS = 1 << 16 };

static int number_before(const hga_id *a, const hga_id *b) { return *a < *b; }

SORT_DEFINE(sort_numbers, hga_id, number_before)

static int is_diagonal(const hga_block *b)
{
    return b->shape == HGA_BAND && b->band_first == 0 && b->band_last == 0 && b->n_dst > 1;
}

/* The offsets of the diagonals from the main one; *n_edges: the edges on them. */
static hga_status find_offsets(const hga_allocator *a, const hga_relation *r, hga_id **out, int64_t *n,
                               int64_t *capacity, hga_pos *n_edges)
{
    hga_status st = HGA_OK;
    for (hga_block_walk w = {0}; hga_relation_next(r, &w);) {
        const hga_block *b = &w.block;
        hga_id count = b->count ? b->count : 1;
        if (!is_diagonal(b) || *n > MOST_OFFSETS - count) continue;
        HGA_TRY(hga_grow(a, out, capacity, *n, *n + count, sizeof **out));
        for (hga_id k = 0; k < count; k++) (*out)[(*n)++] = b->src - b->dst + k * (b->src_step - b->dst_step);
        *n_edges += (hga_pos)b->n_dst * count;
    }
done:
    return st;
}

/* The most frequent of n sorted numbers that are at least 2, the least of those; 0: none. */
static hga_id most_frequent(const hga_id *x, int64_t n)
{
    hga_id best = 0;
    int64_t most = 0;
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && x[end] == x[i]; end++) continue;
        if (x[i] >= 2 && end - i > most) best = x[i], most = end - i;
    }
    return best;
}

/* The most frequent distance between diagonals; 0 where fewer than half of the edges are on diagonals, or these are
   few. */
static hga_status find_step(const hga_allocator *a, const hga_relation *r, hga_id *step)
{
    hga_status st = HGA_OK;
    hga_id *offset = NULL;
    int64_t n = 0, capacity = 0;
    hga_pos n_edges = 0;
    *step = 0;
    HGA_TRY(find_offsets(a, r, &offset, &n, &capacity, &n_edges));
    if (n < FEWEST_DIAGONALS || n_edges < r->n_edges / 2) goto done;
    sort_numbers(offset, n);
    for (int64_t i = 0; i + 1 < n; i++) offset[i] = offset[i + 1] - offset[i];
    sort_numbers(offset, n - 1);
    *step = most_frequent(offset, n - 1);
done:
    hga_delete(a, offset, capacity, sizeof *offset);
    return st;
}

/* Nodes [first, first + n) sorted by residue, then by number. */
static void sort_by_residue(hga_id first, hga_id n, hga_id step, hga_id *order)
{
    for (hga_id r = 0; r < step && r < n; r++)
        for (int64_t i = r; i < n; i += step) *order++ = first + (hga_id)i;
}

typedef struct reordering {
    const hga_graph *g;
    hga_nodes nodes;
    hga_id *dst_order, *src_order, *column_of; /* [n_queries], [n_keys] positions -> nodes; [n] a key's position */
    int64_t cell_capacity;
    cell *cells;
    column_runs found;
} reordering;

/* Queries and keys by residue, and the column of each key. */
static hga_status find_orders(reordering *o, hga_id step)
{
    hga_status st = HGA_OK;
    const hga_allocator *a = o->found.allocator;
    HGA_TRY(hga_new(a, o->nodes.n_queries, sizeof *o->dst_order, &o->dst_order));
    HGA_TRY(hga_new(a, o->nodes.n_keys, sizeof *o->src_order, &o->src_order));
    HGA_TRY(hga_new(a, o->nodes.n, sizeof *o->column_of, &o->column_of));
    sort_by_residue(o->nodes.query_first, o->nodes.n_queries, step, o->dst_order);
    sort_by_residue(o->nodes.key_first, o->nodes.n_keys, step, o->src_order);
    for (hga_id i = 0; i < o->nodes.n_keys; i++) o->column_of[o->src_order[i]] = i;
    o->found.dst_order = o->dst_order, o->found.src_order = o->src_order;
done:
    return st;
}

/* Adds the edges of one row, by their columns in the new order. */
static hga_status add_reordered(reordering *o, hga_id row)
{
    hga_status st = HGA_OK;
    hga_csr edges = {0};
    HGA_TRY(hga_graph_rows(o->g, 0, o->dst_order[row], 1, &edges));
    hga_pos n = edges.ptr[1];
    HGA_TRY(hga_grow(o->found.allocator, &o->cells, &o->cell_capacity, 0, n, sizeof *o->cells));
    for (hga_pos e = 0; e < n; e++) o->cells[e] = (cell){o->column_of[edges.src[e]], edges.type[e], edges.weight[e]};
    HGA_TRY(column_runs_add_row(&o->found, row, o->cells, n));
done:
    hga_csr_clear(&edges);
    return st;
}

/* Rebuilds the graph with its relation in the order of residues. */
static hga_status say_again(reordering *o, hga_id step, hga_graph **out)
{
    hga_status st = HGA_OK;
    hga_builder *b = NULL;
    HGA_TRY(hga_builder_create(o->found.allocator, &b));
    o->found.b = b;
    HGA_TRY(nodes_copy(b, o->g));
    HGA_TRY(hga_builder_set_claims(b, o->nodes.claims));
    HGA_TRY(hga_builder_add_relation(b, hga_graph_relation(o->g, 0).name, &o->found.index));
    HGA_TRY(find_orders(o, step));
    HGA_TRY(hga_builder_set_order(b, o->found.index, o->dst_order, o->nodes.n_queries, o->src_order, o->nodes.n_keys));
    for (hga_id row = 0; row < o->nodes.n_queries; row++) HGA_TRY(add_reordered(o, row));
    HGA_TRY(column_runs_tell(&o->found));
    HGA_TRY(hga_builder_finish(b, out));
done:
    hga_builder_destroy(b);
    return st;
}

static hga_pos stored(const hga_graph *g)
{
    hga_relation r = hga_graph_relation(g, 0);
    return r.n_blocks + r.n_explicit;
}

/* Replaces *g where the order stores it in fewer blocks and edges. */
hga_status residues_order(hga_graph **g)
{
    hga_status st = HGA_OK;
    hga_id step;
    hga_graph *again = NULL;
    hga_relation r = hga_graph_relation(*g, 0);
    const hga_allocator a = *hga_graph_allocator(*g); /* which outlives the graph */
    reordering o = {.g = *g, .nodes = hga_graph_nodes(*g), .found = {.allocator = &a}};
    HGA_TRY(find_step(o.found.allocator, &r, &step));
    if (step == 0) return HGA_OK;
    HGA_TRY(say_again(&o, step, &again));
    if (stored(again) < stored(*g)) {
        hga_graph *old = *g;
        *g = again, again = old;
    }
done:
    hga_graph_destroy(again);
    hga_delete(o.found.allocator, o.dst_order, o.nodes.n_queries, sizeof *o.dst_order);
    hga_delete(o.found.allocator, o.src_order, o.nodes.n_keys, sizeof *o.src_order);
    hga_delete(o.found.allocator, o.column_of, o.nodes.n, sizeof *o.column_of);
    hga_delete(o.found.allocator, o.cells, o.cell_capacity, sizeof *o.cells);
    column_runs_clear(&o.found);
    return st;
}
