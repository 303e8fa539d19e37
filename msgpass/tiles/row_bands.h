/* row_bands.h: the intersection of a group of rows and a segment. */
#ifndef ROW_BANDS_H
#define ROW_BANDS_H

#include "least.h"
#include "tiles.h"

/* The part of a segment that meets a group's rows. Lane r has the columns c in [0, n) with band_first <= c - r <=
   band_last but c - r != hole. */
typedef struct row_band {
    const hga_segment *segment;
    hga_id row_first, row_last, n;
    hga_id src; /* position of column 0 */
    int64_t band_first, band_last, hole;
    int64_t type; /* of lane 0 and column 0 */
} row_band;

/* 0 when the intersection is empty. */
int row_band_trim(const hga_segment *s, const row_group *g, row_band *out);
/* The row band at source positions [src, src + n); 0 when it is empty. */
int row_band_cut(const row_band *x, int64_t src, hga_id n, row_band *out);
int64_t row_band_edges(const row_band *x);
/* Whether tiles are faster for the row band than row by row. */
int row_band_pays(const row_band *x);
/* Whether a row band has many columns: it is then not packed into runs but traversed by itself. Depends on the group's
   rows alone, not on the other rows of the panel. */
int row_band_is_wide(const row_band *x);
/* Types of a row band's column c, by lane. */
void row_band_types(const row_band *x, hga_id c, int32_t *type);
/* Whether all of the group's rows have all of the columns. */
int columns_are_full(const lane_mask *rows, hga_id n, const row_group *g);

/* Mask of the row band's lanes; row_band_is_whole: whether all of these have all of its columns. */
static inline unsigned row_band_mask(const row_band *x)
{
    return ((1u << (x->row_last - x->row_first)) - 1) << x->row_first;
}
static inline int row_band_is_whole(const row_band *x)
{
    return !x->segment->has_hole && x->band_first <= 1 - (int64_t)x->row_last &&
           x->band_last >= (int64_t)x->n - 1 - x->row_first;
}

/* Mask of the lanes that have column c. */
static inline unsigned rows_of_column(const row_band *x, hga_id c)
{
    int64_t r0 = most(x->row_first, c - x->band_last), r1 = least(x->row_last, c - x->band_first + 1),
            hole = c - x->hole;
    if (r0 >= r1) return 0;
    unsigned rows = ((1u << (r1 - r0)) - 1) << r0;
    return x->segment->has_hole && hole >= r0 && hole < r1 ? rows & ~(1u << hole) : rows;
}

#endif
