/* strips.h: what a group of rows has of a segment. */
#ifndef STRIPS_H
#define STRIPS_H

#include "least.h"
#include "tiles.h"

/* The part of a segment that meets a group's rows. Lane r has the columns c in [0, n) with band_first <= c - r <=
   band_last but c - r != hole. */
typedef struct strip {
    const hga_segment *segment;
    hga_id row_first, row_last, n;
    hga_id src; /* position of column 0 */
    int64_t band_first, band_last, hole;
    int64_t type; /* of lane 0 and column 0 */
} strip;

/* 0 when nothing of the segment is left for the group. */
int strip_trim(const hga_segment *s, const row_group *g, strip *out);
/* The part of a strip at source positions [src, src + n); 0 when there is none. */
int strip_cut(const strip *x, int64_t src, hga_id n, strip *out);
int64_t strip_edges(const strip *x);
/* Is the strip better off in tiles than row by row? */
int strip_pays(const strip *x);
/* Rows with many columns: such strips are not laid into runs but passed through by themselves. Of the group's rows
   alone, so that it does not matter which others are in the panel. */
int strip_is_wide(const strip *x);
/* Types of a strip's column c, lane by lane. */
void strip_types(const strip *x, hga_id c, int32_t *type);
/* Have all of the group's rows all of the columns? */
int columns_are_full(const lanes *rows, hga_id n, const row_group *g);

/* The lanes that a strip meets, as bits; do they have all of its columns? */
static inline unsigned strip_lanes(const strip *x)
{
    return ((1u << (x->row_last - x->row_first)) - 1) << x->row_first;
}
static inline int strip_is_whole(const strip *x)
{
    return !x->segment->has_hole && x->band_first <= 1 - (int64_t)x->row_last &&
           x->band_last >= (int64_t)x->n - 1 - x->row_first;
}

/* The lanes that have column c, as bits. */
static inline unsigned rows_of_column(const strip *x, hga_id c)
{
    int64_t r0 = most(x->row_first, c - x->band_last), r1 = least(x->row_last, c - x->band_first + 1),
            hole = c - x->hole;
    if (r0 >= r1) return 0;
    unsigned rows = ((1u << (r1 - r0)) - 1) << r0;
    return x->segment->has_hole && hole >= r0 && hole < r1 ? rows & ~(1u << hole) : rows;
}

#endif
