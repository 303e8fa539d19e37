/* blocks.c: the arithmetic of blocks. A block is intervals times intervals, repeated; a query for some rows answers
   with segments, without visiting the edges or the other rows. */
#include "graph.h"
#include "segment_order.h"
#include "sort.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t clamp(int64_t x, int64_t lo, int64_t hi) { return x < lo ? lo : x > hi ? hi : x; }
/* floor(a / b), b > 0 */
static int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

static hga_id instances(const hga_block *b) { return b->count ? b->count : 1; }

/* One past the last row of the last instance. */
static int64_t row_end(const hga_block *b) { return b->dst + (int64_t)(instances(b) - 1) * b->dst_step + b->n_dst; }

/* The shape as a band of offsets column - row; *hole tells whether offset 0 is left out. */
static void shape_band(const hga_block *b, int64_t *lo, int64_t *hi, int *hole)
{
    int64_t low = -(int64_t)b->n_dst, high = b->n_src;
    switch (b->shape) {
    case HGA_LOWER: high = 0; break;
    case HGA_STRICT_LOWER: high = -1; break;
    case HGA_UPPER: low = 0; break;
    case HGA_STRICT_UPPER: low = 1; break;
    case HGA_BAND: low = clamp(b->band_first, low, high + 1), high = clamp(b->band_last, low - 1, high); break;
    default: break;
    }
    *lo = low, *hi = high, *hole = b->shape == HGA_OFF_DIAGONAL;
}

/* The pairs (r, c) of an instance with c - r <= t: the sum over rows of clamp(r + t + 1, 0, n_src). Fits int64: both
   sides are int32. */
static int64_t pairs_up_to(int64_t n_dst, int64_t n_src, int64_t t)
{
    int64_t rise = clamp(-t, 0, n_dst), full = clamp(n_src - t, rise, n_dst);
    int64_t sloped = full - rise;
    return sloped * (rise + t + 1 + full + t) / 2 + (n_dst - full) * n_src;
}

int64_t block_edges(const hga_block *b)
{
    int64_t lo, hi;
    int hole;
    shape_band(b, &lo, &hi, &hole);
    if (lo > hi) return 0;
    int64_t one = pairs_up_to(b->n_dst, b->n_src, hi) - pairs_up_to(b->n_dst, b->n_src, lo - 1) -
                  (hole ? least(b->n_dst, b->n_src) : 0),
            all;
    return __builtin_mul_overflow(one, (int64_t)instances(b), &all) ? -1 : all;
}

/* Types are affine, so their extremes over the band lie at the ends of a few rows: the first and last, and those where
   clipping starts or stops. */
void block_types(const hga_block *b, int64_t *least_type, int64_t *most_type)
{
    int64_t lo, hi;
    int hole;
    shape_band(b, &lo, &hi, &hole);
    *least_type = INT64_MAX, *most_type = INT64_MIN;
    if (b->shape == HGA_ALL && b->type_dst == 0 && b->type_src == 0) { /* most blocks, and there may be millions */
        if (b->n_dst > 0 && b->n_src > 0) *least_type = *most_type = b->type;
        return;
    }
    int64_t bend[] = {0, b->n_dst - 1, -hi, -lo, b->n_src - 1 - hi, b->n_src - 1 - lo};
    for (size_t i = 0; i < sizeof bend / sizeof *bend; i++)
        for (int64_t r = bend[i] - 1; r <= bend[i] + 1; r++) {
            if (r < 0 || r >= b->n_dst) continue;
            int64_t c0 = most(0, r + lo), c1 = least(b->n_src - 1, r + hi);
            c0 += hole && c0 == r, c1 -= hole && c1 == r;
            if (c0 > c1) continue;
            int64_t row = b->type + r * b->type_dst, one = row + c0 * b->type_src, other = row + c1 * b->type_src;
            *least_type = least(*least_type, least(one, other));
            *most_type = most(*most_type, most(one, other));
        }
}

/* Is pos_of 0, or a node + 1 in every instance? *last is that of the last one. */
static int names_nodes(const hga_block *b, hga_id pos_of, hga_id step, hga_id n_nodes, int64_t *last)
{
    *last = pos_of + (int64_t)(instances(b) - 1) * step;
    return pos_of == 0 || (pos_of > 0 && *last >= 1 && *last <= n_nodes);
}

hga_status block_check(const hga_block *b, hga_id n_rows, hga_id n_columns, hga_id n_nodes, const char *name, hga_pos i)
{
    long long at = (long long)i;
    if (b->n_dst < 0 || b->n_src < 0 || b->count < 0 || b->dst_step < 0 || b->src_step < 0)
        return hga_fail(HGA_EGRAPH, "relation %s, block %lld: a size, count or step is negative", name, at);
    if (b->dst < 0 || row_end(b) > n_rows)
        return hga_fail(HGA_EGRAPH, "relation %s, block %lld: rows %d .. %lld leave [0, %d)", name, at, b->dst,
                        (long long)row_end(b) - 1, n_rows);
    int64_t column_end = b->src + (int64_t)(instances(b) - 1) * b->src_step + b->n_src;
    if (b->src < 0 || column_end > n_columns)
        return hga_fail(HGA_EGRAPH, "relation %s, block %lld: columns %d .. %lld leave [0, %d)", name, at, b->src,
                        (long long)column_end - 1, n_columns);
    if ((unsigned)b->shape > HGA_BAND)
        return hga_fail(HGA_EGRAPH, "relation %s, block %lld: %d is not a shape", name, at, (int)b->shape);
    int64_t low, high;
    block_types(b, &low, &high);
    if (low <= high && (low < 0 || high >= INT32_MAX))
        return hga_fail(HGA_EGRAPH, "relation %s, block %lld: type %lld is out of range", name, at,
                        (long long)(low < 0 ? low : high));
    if (!(b->weight >= 0) || b->weight > 3e38f)
        return hga_fail(HGA_EGRAPH, "relation %s, block %lld: weight %g is not positive and finite", name, at,
                        (double)b->weight);
    int64_t last;
    if (!names_nodes(b, b->pos_of, b->pos_step, n_nodes, &last))
        return hga_fail(HGA_EGRAPH, "relation %s, block %lld: pos_of %d .. %lld is not a node + 1", name, at, b->pos_of,
                        (long long)last);
    if (!names_nodes(b, b->src_pos_of, b->src_pos_step, n_nodes, &last))
        return hga_fail(HGA_EGRAPH, "relation %s, block %lld: src_pos_of %d .. %lld is not a node + 1", name, at,
                        b->src_pos_of, (long long)last);
    return HGA_OK;
}

/* By place, and where that is the same by every member, so that the order of equals does not hang on who sorts. */
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

/* The sorted array read as a balanced tree, the middle of every range its root, gives an interval index: reach is the
   farthest row below a root. */
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

/* Cut one instance, its first row at `row`, to the rows [first, last), and its columns to those that some row keeps. */
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

/* How many instances from i on, up to i1, are cut alike: all of them where they share their rows, else those that lie
   inside. */
static int64_t alike(const hga_block *b, int64_t i, int64_t i1, int64_t first, int64_t last)
{
    int64_t row = b->dst + i * b->dst_step;
    if (b->dst_step == 0) return i1 - i + 1;
    if (i == i1 || row < first || row + b->n_dst > last) return 1;
    return least(i1, floor_div(last - b->n_dst - b->dst, b->dst_step)) - i + 1;
}

static void visit_block(const hga_block *b, int64_t first, int64_t last, hga_segments_visit visit, void *context)
{
    int64_t i0 = 0, i1 = instances(b) - 1;
    if (b->dst_step > 0) {
        i0 = most(i0, floor_div(first - b->n_dst - b->dst, b->dst_step) + 1);
        i1 = least(i1, floor_div(last - 1 - b->dst, b->dst_step));
    }
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
    if (n > 0 && r->n_choices)
        choices_visit(r, first, n, visit, context);
    else if (n > 0)
        visit_range(&q, 0, r->n_blocks);
}

typedef struct collected {
    hga_segment *out;
    hga_pos capacity, n;
} collected;

static void collect(const hga_segments *s, void *context)
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
    blocks_visit(&g->relation[index], first, n, collect, &c);
    if (c.n <= capacity) sort_segments(out, c.n);
    return c.n;
}

void hga_graph_visit_segments(const hga_graph *g, hga_id index, hga_id first, hga_id n, hga_segments_visit visit,
                              void *context)
{
    blocks_visit(&g->relation[index], first, n, visit, context);
}
