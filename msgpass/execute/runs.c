/* runs.c: a group's narrow row bands, contiguous or overlapping. Windows that advance by a column every row or two
   overlap almost wholly: each alone is a thin row band, all together are a full tile. */
#include "lay.h"

#include <string.h>

/* A row with all of its edges in tiles saves the row kernel's overhead, about as much as so many edges cost
   (measured). */
enum { ROW_EDGES = 12 };

/* Branch-free, since the groups' bits follow no pattern. */
void list_own(tile_chooser *t, const row_group *g)
{
    hga_pos n = 0;
    for (hga_pos i = 0; i < t->reader->segments.n; i++) {
        t->seen.own[n] = (hga_id)i;
        n += (unsigned)t->seen.narrow[i] >> g->number & 1u;
    }
    t->seen.n_own = n;
}

/* Whether a row of the row band has already one of the run's columns [at, at + n), of which the first is the row band's
   first. */
static int meets(const run *r, const row_band *x, hga_id at, hga_id n)
{
    unsigned seen = 0;
    if (row_band_is_whole(x)) {
        for (hga_id c = 0; c < n; c++) seen |= r->rows[at + c];
        return (seen & row_band_mask(x)) != 0;
    }
    for (hga_id c = 0; c < n; c++) seen |= r->rows[at + c] & rows_of_column(x, c);
    return seen != 0;
}

/* Whether x can share tile columns with the run's row bands: not if a pair would be there twice, or if its scores have
   other terms than theirs. */
static int joins(const run *r, const row_band *x)
{
    const hga_segment *s = x->segment, *t = r->row_band.segment;
    if (s->weight != t->weight || s->pos_of != t->pos_of || s->src_pos_of != t->src_pos_of) return 0;
    if (x->src < r->src || x->src >= r->src + r->n || x->src + x->n > r->src + RUN_COLUMNS) return 0;
    hga_id at = (hga_id)(x->src - r->src);
    return !meets(r, x, at, (hga_id)least(x->n, r->n - at));
}

/* Adds the row band's columns to the run, each with the rows that have it. */
static void join_row_band(run *r, const row_band *x)
{
    hga_id at = (hga_id)(x->src - r->src);
    for (; r->n < at + x->n; r->n++) r->rows[r->n] = 0;
    if (row_band_is_whole(x)) {
        unsigned rows = row_band_mask(x);
        for (hga_id c = 0; c < x->n; c++) r->rows[at + c] = (lane_mask)(r->rows[at + c] | rows);
        r->any |= rows;
    } else {
        for (hga_id c = 0; c < x->n; c++) {
            unsigned rows = rows_of_column(x, c);
            r->rows[at + c] = (lane_mask)(r->rows[at + c] | rows);
            r->any |= rows;
        }
    }
    r->edges += row_band_edges(x);
    r->n_row_bands++;
}

/* Collects the row bands from the group's own segment `from` on that can be one tile; 0: none is left. */
int next_run(const tile_chooser *t, const row_group *g, hga_pos from, run *r)
{
    row_band x = {0};
    r->n_row_bands = 0;
    for (hga_pos i = from; i < t->seen.n_own; i++) {
        if (!row_band_trim(own_segment(t, i), g, &x)) continue;
        if (r->n_row_bands && !joins(r, &x)) break;
        if (!r->n_row_bands) {
            r->first = i, r->row_band = x;
            r->src = x.src, r->n = 0, r->edges = 0, r->any = 0;
        }
        join_row_band(r, &x);
        r->last = i + 1;
    }
    return r->n_row_bands > 0;
}

int run_pays(const tile_chooser *t, const row_group *g, const run *r)
{
    hga_id saved = t->reader->r.ptr ? 0 : ROW_EDGES * __builtin_popcount(r->any);
    return (double)(r->edges + saved) >= TILE_SHARE * g->n_rows * r->n;
}

void mark_run(tile_chooser *t, const row_group *g, const run *r)
{
    for (hga_pos i = r->first; i < r->last; i++)
        t->seen.tiled[t->seen.own[i]] = (uint16_t)(t->seen.tiled[t->seen.own[i]] | 1u << g->number);
}

void load_run_types(tile_chooser *t, const row_group *g, const run *r)
{
    row_band x;
    memset(t->run_type, -1, (size_t)r->n * KERNEL_TILE * sizeof *t->run_type);
    for (hga_pos i = r->first; i < r->last; i++) {
        if (!row_band_trim(own_segment(t, i), g, &x)) continue;
        for (hga_id c = 0; c < x.n; c++) row_band_types(&x, c, t->run_type + (x.src + c - r->src) * KERNEL_TILE);
    }
}
