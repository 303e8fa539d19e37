/* row_bands.c: the intersection of a group of rows and a segment, and whether tiles pay for it. */
#include "row_bands.h"

/* Intersects a segment with the group's rows, and its columns with those that any of them has; 0: empty. */
int row_band_trim(const hga_segment *s, const row_group *g, row_band *out)
{
    int64_t shift = (int64_t)g->first - s->row; /* the segment's own row of lane 0 */
    int64_t r0 = most(0, -shift), r1 = least(g->n_rows, s->n_rows - shift);
    int64_t lo = shift + s->band_first, hi = shift + s->band_last;
    int64_t c0 = most(0, r0 + lo), c1 = least(s->n_src, r1 + hi);
    if (r0 >= r1 || c0 >= c1) return 0;
    out->segment = s;
    out->row_first = (hga_id)r0, out->row_last = (hga_id)r1;
    out->n = (hga_id)(c1 - c0), out->src = (hga_id)(s->src + c0);
    out->band_first = lo - c0, out->band_last = hi - c0, out->hole = shift + s->hole - c0;
    out->type = s->type + shift * s->type_dst + c0 * s->type_src;
    return 1;
}

int row_band_cut(const row_band *x, int64_t src, hga_id n, row_band *out)
{
    int64_t c0 = most(0, src - x->src), c1 = least(x->n, src + n - x->src);
    if (c0 >= c1) return 0;
    *out = *x;
    out->src = (hga_id)(x->src + c0), out->n = (hga_id)(c1 - c0);
    out->band_first -= c0, out->band_last -= c0, out->hole -= c0;
    out->type += c0 * x->segment->type_src;
    return 1;
}

int64_t row_band_edges(const row_band *x)
{
    int64_t edges = 0;
    if (row_band_is_whole(x)) return (int64_t)(x->row_last - x->row_first) * x->n;
    for (hga_id r = x->row_first; r < x->row_last; r++) {
        int64_t c0 = most(0, r + x->band_first), c1 = least(x->n, r + x->band_last + 1), hole = r + x->hole;
        if (c1 > c0) edges += c1 - c0 - (x->segment->has_hole && hole >= c0 && hole < c1);
    }
    return edges;
}

int row_band_pays(const row_band *x) { return (double)row_band_edges(x) >= TILE_SHARE * KERNEL_TILE * x->n; }

int row_band_is_wide(const row_band *x)
{
    int64_t first = most(x->band_first, 1 - (int64_t)KERNEL_TILE), last = least(x->band_last, x->n - 1);
    return least(x->n, last - first + 1) >= 2 * KERNEL_CHUNK;
}

/* Writes the types of all lanes from the first to the last that have the column; a hole between them keeps its old
   type. */
void row_band_types(const row_band *x, hga_id c, int32_t *type)
{
    const unsigned rows = rows_of_column(x, c);
    const uint32_t step = (uint32_t)x->segment->type_dst;
    if (!rows) return;
    const hga_id first = __builtin_ctz(rows), end = 32 - __builtin_clz(rows);
    const unsigned missing = ((2u << (end - 1)) - (1u << first)) & ~rows;
    const hga_id hole = missing ? __builtin_ctz(missing) : first;
    const int32_t kept = type[hole];
    uint32_t next = (uint32_t)(x->type + (int64_t)c * x->segment->type_src) + (uint32_t)first * step;
    for (hga_id r = first; r < end; r++, next += step) type[r] = (int32_t)next;
    if (missing) type[hole] = kept;
}

int columns_are_full(const lane_mask *rows, hga_id n, const row_group *g)
{
    unsigned all = (1u << g->n_rows) - 1;
    for (hga_id c = 0; c < n; c++)
        if (rows[c] != all) return 0;
    return 1;
}
