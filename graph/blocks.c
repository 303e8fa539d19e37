/* blocks.c: many blocks in order: a query for some rows answers with segments, without visiting the edges or the other
   rows. */
#include "block.h"
#include "blocks.h"
#include "segment_order.h"
#include "sort.h"

/* By position, then by every other member, so that the order does not depend on the sorting algorithm. */
static int block_before(const hga_block *a, const hga_block *b)
{
    if (a->dst != b->dst) return a->dst < b->dst;
    if (a->src != b->src) return a->src < b->src;
    if (a->type != b->type) return a->type < b->type;
    if (a->n_dst != b->n_dst) return a->n_dst < b->n_dst;
    if (a->n_src != b->n_src) return a->n_src < b->n_src;
    if (a->count != b->count) return a->count < b->count;
    if (a->dst_step != b->dst_step) return a->dst_step < b->dst_step;
    if (a->src_step != b->src_step) return a->src_step < b->src_step;
    if (a->type_dst != b->type_dst) return a->type_dst < b->type_dst;
    if (a->type_src != b->type_src) return a->type_src < b->type_src;
    if (a->pos_of != b->pos_of) return a->pos_of < b->pos_of;
    if (a->pos_step != b->pos_step) return a->pos_step < b->pos_step;
    if (a->src_pos_of != b->src_pos_of) return a->src_pos_of < b->src_pos_of;
    if (a->src_pos_step != b->src_pos_step) return a->src_pos_step < b->src_pos_step;
    if (a->weight != b->weight) return a->weight < b->weight;
    if (a->shape != b->shape) return a->shape < b->shape;
    if (a->band_first != b->band_first) return a->band_first < b->band_first;
    return a->band_last < b->band_last;
}

SORT_DEFINE(sort_blocks, hga_block, block_before)

void blocks_sort(hga_block *blocks, hga_pos n) { sort_blocks(blocks, n); }

/* An interval index: the sorted array read as a balanced tree whose roots are the middles of ranges. reach[root] is one
   past the last row of its subtree. */
static int64_t index_range(const hga_block *blocks, hga_pos lo, hga_pos hi, int64_t *reach)
{
    if (lo >= hi) return 0;
    hga_pos mid = lo + (hi - lo) / 2;
    int64_t end = row_end(&blocks[mid]);
    end = most(end, index_range(blocks, lo, mid, reach));
    end = most(end, index_range(blocks, mid + 1, hi, reach));
    return reach[mid] = end;
}

void blocks_index(const hga_block *blocks, hga_pos n, int64_t *reach) { index_range(blocks, 0, n, reach); }

/* Cuts instance i to the rows [first, last), and its columns to those that some of these rows has. 0: nothing left. */
static int cut_instance(const hga_block *b, hga_id i, int64_t first, int64_t last, hga_segment *s)
{
    int64_t lo, hi, row = b->dst + (int64_t)i * b->dst_step;
    shape_band(b, &lo, &hi, &s->has_hole);
    int64_t r0 = most(row, first), r1 = least(row + b->n_dst, last), down = r0 - row;
    lo += down, hi += down;
    int64_t c0 = clamp(lo, 0, b->n_src), c1 = clamp(r1 - r0 + hi, c0, b->n_src);
    if (r0 >= r1 || c0 >= c1 || lo > hi) return 0;
    s->row = (hga_id)r0, s->n_rows = (hga_id)(r1 - r0);
    s->src = (hga_id)(b->src + (int64_t)i * b->src_step + c0), s->n_src = (hga_id)(c1 - c0);
    s->row_inside = (hga_id)down, s->src_inside = (hga_id)c0;
    int64_t width = s->n_src, height = s->n_rows;
    s->band_first = (hga_id)clamp(lo - c0, -height, width), s->band_last = (hga_id)clamp(hi - c0, -height, width);
    int64_t hole = down - c0;
    s->has_hole = s->has_hole && hole > -height && hole < width;
    s->hole = s->has_hole ? (hga_id)hole : 0;
    /* may leave [0, n_types) outside the band only */
    s->type = (int32_t)(b->type + down * b->type_dst + c0 * b->type_src);
    s->type_dst = b->type_dst, s->type_src = b->type_src;
    s->pos_of = b->pos_of ? (hga_id)(b->pos_of + (int64_t)i * b->pos_step) : HGA_POS_OWN;
    s->src_pos_of = b->src_pos_of ? (hga_id)(b->src_pos_of + (int64_t)i * b->src_pos_step) : HGA_POS_OWN;
    s->weight = b->weight == 0 ? 1 : b->weight;
    return 1;
}

/* The number of instances from i to i1 that are cut alike: all where they share their rows, else those that lie inside
   [first, last). */
static int64_t alike(const hga_block *b, int64_t i, int64_t i1, int64_t first, int64_t last)
{
    int64_t row = b->dst + i * b->dst_step;
    if (b->dst_step == 0) return i1 - i + 1;
    if (i == i1 || row < first || row + b->n_dst > last) return 1;
    return least(i1, floor_div(last - b->n_dst - b->dst, b->dst_step)) - i + 1;
}

/* The instances [*i0, *i1] of a block that have some of rows [first, last). One division finds the last; the first
   rarely needs another. */
static void find_instances(const hga_block *b, int64_t first, int64_t last, int64_t *i0, int64_t *i1)
{
    *i0 = 0, *i1 = instances(b) - 1;
    if (b->dst_step <= 0) return;
    if (last - 1 - b->dst < *i1 * b->dst_step) *i1 = floor_div(last - 1 - b->dst, b->dst_step);
    const int64_t beyond = b->dst + *i1 * b->dst_step + b->n_dst - first; /* rows of it from `first` on */
    if (beyond <= b->dst_step)
        *i0 = beyond > 0 ? most(*i1, 0) : *i1 + 1;
    else
        *i0 = most(0, *i1 - (beyond - 1) / b->dst_step);
}

/* Visits the block's instances with rows in [first, last); those cut alike are one hga_segments. */
static void visit_block(const hga_block *b, int64_t first, int64_t last, hga_segments_visit visit, void *context)
{
    int64_t i0, i1;
    find_instances(b, first, last, &i0, &i1);
    hga_segments s = {.row_step = b->dst_step,
                      .src_step = b->src_step,
                      .pos_step = b->pos_of ? b->pos_step : 0,
                      .src_pos_step = b->src_pos_of ? b->src_pos_step : 0};
    for (int64_t i = i0; i <= i1; i += s.count) {
        s.count = (hga_id)alike(b, i, i1, first, last);
        if (cut_instance(b, (hga_id)i, first, last, &s.first)) visit(&s, context);
    }
}

typedef struct query {
    const stored_relation *r;
    int64_t first, last;
    hga_segments_visit visit;
    void *context;
} query;

/* Visits, in order, the blocks among [lo, hi) of the tree that have some of the requested rows. */
static void visit_range(const query *q, hga_pos lo, hga_pos hi)
{
    while (lo < hi) {
        hga_pos mid = lo + (hi - lo) / 2;
        if (q->r->reach[mid] <= q->first) return;
        visit_range(q, lo, mid);
        const hga_block *b = &q->r->blocks[mid];
        if (b->dst >= q->last) return;
        if (row_end(b) > q->first) visit_block(b, q->first, q->last, q->visit, q->context);
        lo = mid + 1;
    }
}

void blocks_visit(const stored_relation *r, hga_id first, hga_id n, hga_segments_visit visit, void *context)
{
    query q = {r, first, (int64_t)first + n, visit, context};
    if (n > 0 && r->choices.n)
        choices_visit(r, first, n, visit, context);
    else if (n > 0)
        visit_range(&q, 0, r->n_blocks);
}

typedef struct collected {
    hga_segment *out;
    hga_pos capacity, n;
} collected;

static void collect_segments(const hga_segments *s, void *context)
{
    collected *c = context;
    for (hga_id i = 0; i < s->count && c->n + i < c->capacity; i++) c->out[c->n + i] = hga_segments_at(s, i);
    c->n += s->count;
}

/* By source, type and row, as promised; then by every other member. */
static int segment_before(const hga_segment *a, const hga_segment *b)
{
    if (a->src != b->src) return a->src < b->src;
    if (a->type != b->type) return a->type < b->type;
    if (a->row != b->row) return a->row < b->row;
    return segment_shape_before(a, b);
}

SORT_DEFINE(sort_segments, hga_segment, segment_before)

hga_pos hga_graph_segments(const hga_graph *g, hga_id index, hga_id first, hga_id n, hga_segment *out, hga_pos capacity)
{
    collected c = {out, capacity, 0};
    blocks_visit(&g->relation[index], first, n, collect_segments, &c);
    if (c.n <= capacity) sort_segments(out, c.n);
    return c.n;
}

void hga_graph_visit_segments(const hga_graph *g, hga_id index, hga_id first, hga_id n, hga_segments_visit visit,
                              void *context)
{
    blocks_visit(&g->relation[index], first, n, visit, context);
}
