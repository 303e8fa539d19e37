/* degrees.c: in-degrees of rows, without expanding edges, and whether a row can be listed at all. The degrees of an
   instance's rows are piecewise linear, so instances add second differences, and two prefix sums end it: the cost is
   that of instances and rows, however many instances overlap. A file of two hundred bytes can declare 2^62 edges;
   graphs that cannot be visited in time and memory proportional to their nodes are refused here. */
#include "block.h"
#include "blocks.h"

typedef struct counting { /* positions [first, first + n) */
    hga_id first, n;
    hga_pos *bend; /* [n] second differences; sums may wrap, so they are added as unsigned numbers */
} counting;

static void add_bend(const counting *c, int64_t position, int64_t x)
{
    int64_t i = position - c->first;
    if (i < c->n) c->bend[i] = (hga_pos)((uint64_t)c->bend[i] + (uint64_t)x);
}

/* Adds x to the degrees from that position on. */
static void add_step(const counting *c, int64_t position, int64_t x)
{
    add_bend(c, position, x), add_bend(c, position + 1, -x);
}

/* Adds times * clamp(r + t, 0, n_src) to the degree of row r of the segment. */
static void add_ramp(const counting *c, const hga_segment *s, int64_t t, int64_t times)
{
    int64_t last = (int64_t)s->n_rows - 1, from = clamp(-t, 0, last), to = clamp(s->n_src - t, from, last);
    add_step(c, s->row, times * clamp(t, 0, s->n_src));
    add_bend(c, s->row + from + 1, times), add_bend(c, s->row + to + 1, -times);
    add_step(c, s->row + last + 1, -times * clamp(last + t, 0, s->n_src));
}

static void count_segment(const counting *c, const hga_segment *s, int64_t times)
{
    add_ramp(c, s, (int64_t)s->band_last + 1, times);
    add_ramp(c, s, s->band_first, -times);
    int64_t from = clamp(-(int64_t)s->hole, 0, s->n_rows), to = clamp((int64_t)s->n_src - s->hole, from, s->n_rows);
    if (!s->has_hole) return;
    add_step(c, s->row + from, -times), add_step(c, s->row + to, times);
}

/* Instances that share their rows have as many columns each. */
static void count_segments(const hga_segments *s, void *context)
{
    hga_id n = s->row_step == 0 ? 1 : s->count, times = s->count / n;
    for (hga_id i = 0; i < n; i++) {
        hga_segment one = hga_segments_at(s, i);
        count_segment(context, &one, times);
    }
}

/* The degrees of positions [first, first + n), from blocks only. */
static void count_positions(const stored_relation *r, hga_id first, hga_id n, hga_pos *degree)
{
    counting c = {first, n, degree};
    uint64_t slope = 0, here = 0;
    for (hga_id i = 0; i < n; i++) degree[i] = 0;
    blocks_visit(r, first, n, count_segments, &c);
    for (hga_id i = 0; i < n; i++) {
        slope += (uint64_t)degree[i], here += slope;
        degree[i] = (hga_pos)here;
    }
}

/* Permutes in place, cycle by cycle: x[order[p]] becomes the old x[p]. A moved value is marked by its sign. */
static void move_to_nodes(const hga_id *order, hga_id n, hga_pos *x)
{
    for (hga_id start = 0; start < n; start++) {
        hga_id at = start;
        hga_pos carried = x[start];
        if (carried < 0) continue;
        do {
            hga_pos next = x[order[at]];
            x[order[at]] = ~carried;
            carried = next, at = order[at];
        } while (at != start);
    }
    for (hga_id v = 0; v < n; v++) x[v] = ~x[v];
}

void hga_graph_degrees(const hga_graph *g, hga_id index, hga_id first, hga_id n, hga_pos *degree)
{
    const stored_relation *r = &g->relation[index];
    if (!r->order.dst || n == g->n)
        count_positions(r, first, n, degree);
    else
        for (hga_id i = 0; i < n; i++) count_positions(r, r->order.dst_rank[first + i], 1, &degree[i]);
    if (r->order.dst && n == g->n) move_to_nodes(r->order.dst, n, degree);
    for (hga_id i = 0; r->edges.ptr && i < n; i++) degree[i] += r->edges.ptr[first + i + 1] - r->edges.ptr[first + i];
}

/* ---- rows that can be listed ---- */

/* The most edges of a row: four for every node, or 2^16, so that a list of them takes memory proportional to the nodes,
   or little. */
static hga_pos most_listed(const hga_graph *g) { return g->n > 1 << 14 ? 4 * (hga_pos)g->n : 1 << 16; }

/* An upper bound of a block's edges in any row. */
static int64_t block_most(const hga_block *b)
{
    int64_t count = b->count ? b->count : 1;
    int64_t together = b->dst_step == 0 ? count : least(count, ((int64_t)b->n_dst - 1) / b->dst_step + 1);
    return together * b->n_src;
}

/* The block with the most edges of the row. */
static hga_pos heaviest(const hga_graph *g, hga_id index, hga_id row)
{
    const stored_relation *r = &g->relation[index];
    hga_pos found = 0, most = -1;
    for (hga_pos i = 0; i < r->n_blocks; i++) {
        hga_pos here;
        stored_relation alone = {.n_blocks = 1, .blocks = &r->blocks[i], .reach = &(int64_t){INT64_MAX}};
        count_positions(&alone, r->order.dst_rank ? r->order.dst_rank[row] : row, 1, &here);
        if (here > most) most = here, found = i;
    }
    return found;
}

/* Whether a row may be too long, by a bound that clears most relations. */
static int may_be_long(const hga_graph *g, const stored_relation *r)
{
    int64_t sum = 0;
    for (hga_pos i = 0; r->blocks && i < r->n_blocks && sum <= most_listed(g); i++) sum += block_most(&r->blocks[i]);
    return sum > most_listed(g);
}

/* Refuses a relation whose blocks give some row too many edges, and names the block with most of them. */
static hga_status find_long_row(const hga_graph *g, hga_id index, hga_pos *degree)
{
    const stored_relation *r = &g->relation[index];
    hga_graph_degrees(g, index, 0, g->n, degree);
    for (hga_id v = 0; v < g->n; v++) {
        hga_pos listed = r->edges.ptr ? r->edges.ptr[v + 1] - r->edges.ptr[v] : 0; /* explicit edges */
        if (degree[v] - listed <= most_listed(g)) continue;
        const hga_pos at = heaviest(g, index, v);
        const hga_block *b = &r->blocks[at];
        return hga_fail(HGA_EGRAPH,
                        "relation %s: blocks give row %d %lld edges, more than %lld; most come from block %lld: count "
                        "%d, n_src %d",
                        r->name, v, (long long)(degree[v] - listed), (long long)most_listed(g), (long long)at, b->count,
                        b->n_src);
    }
    return HGA_OK;
}

/* The rule that blocks give no row more edges than can be listed; degrees are counted only where the bound does not
   clear the relation. */
hga_status rows_can_be_listed(const hga_graph *g)
{
    hga_status st = HGA_OK;
    hga_pos *degree = NULL;
    for (hga_id i = 0; !st && i < g->n_relations; i++) {
        if (!may_be_long(g, &g->relation[i])) continue;
        if (!degree) HGA_TRY(hga_new(&g->allocator, g->n, sizeof *degree, &degree));
        st = find_long_row(g, i, degree);
    }
done:
    hga_delete(&g->allocator, degree, g->n, sizeof *degree);
    return st;
}

/* ---- instances that can be visited ---- */

/* The most rows of a block's instances: 1024 for every node, or 2^28, since visiting more takes minutes. */
static hga_pos most_visited(const hga_graph *g) { return g->n > 1 << 18 ? 1024 * (hga_pos)g->n : 1 << 28; }

/* The rule that a block's instances have no more rows together than can be visited. */
hga_status instances_can_be_visited(const hga_graph *g)
{
    for (hga_id i = 0; i < g->n_relations; i++) {
        const stored_relation *r = &g->relation[i];
        for (hga_pos k = 0; r->blocks && k < r->n_blocks; k++) {
            const hga_block *b = &r->blocks[k];
            if ((int64_t)b->count * b->n_dst <= most_visited(g)) continue;
            return hga_fail(HGA_EGRAPH,
                            "relation %s, block %lld: count %d of %d rows each are %lld rows, more than %lld; wider "
                            "instances, a band or a src_order say it with fewer",
                            r->name, (long long)k, b->count, b->n_dst, (long long)b->count * b->n_dst,
                            (long long)most_visited(g));
        }
    }
    return HGA_OK;
}
