/* block.c: the arithmetic of one block, intervals times intervals, repeated: its edges, their types, what it may be. */
#include "block.h"
#include "blocks.h"

/* The pairs (r, c) of an instance with c - r <= t: the sum over rows of clamp(r + t + 1, 0, n_src). Fits int64: both
   sides are int32. */
static int64_t pairs_up_to(int64_t n_dst, int64_t n_src, int64_t t)
{
    int64_t rise = clamp(-t, 0, n_dst), full = clamp(n_src - t, rise, n_dst);
    int64_t sloped = full - rise;
    return sloped * (rise + t + 1 + full + t) / 2 + (n_dst - full) * n_src;
}

/* The block's number of edges; -1: more than 63 bits count. */
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

/* Block i of the relation has rows, columns, types and positions that exist, and a weight that is one. */
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
