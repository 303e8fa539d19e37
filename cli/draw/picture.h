/* picture.h: what an attention picture shows, as data: rectangles over query tokens x key tokens. */
#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H

#include "complain.h"
#include "progress.h"
#include "tensor_file.h"

#include "hga_export.h"
#include "hga_inspect.h"

/* Query tokens [query, query + n_queries) x key tokens [key, key + n_keys). `level`, of a pattern, is the higher one of
   the edge's ends; where several meet in a cell, the one that covers most of it, of equals the coarser. `value` is in
   (0, 1]: of a pattern the share of the pairs that is covered, of weights see `decades` below. */
typedef struct picture_rect {
    hga_id query, n_queries, key, n_keys;
    hga_id level;
    float value;
} picture_rect;

/* Cell row r has query tokens [r * n_queries / rows, (r + 1) * n_queries / rows), columns likewise. `exact`: every
   token is a cell of its own, and the rectangles of a pattern are those of hga_program_pattern, coarse ones first. */
typedef struct picture {
    hga_id n_queries, n_keys, n_levels;
    hga_id rows, columns;
    int exact;
    picture_rect *rects; /* those that look alike one after the other, coarse levels first */
    int64_t n_rects, capacity;
    /* of a pattern */
    double *level_pairs; /* [n_levels]: pairs covered at that level, each once */
    hga_coverage coverage;
    /* of weights: the largest attention that the queries of a cell's row pay, on average, to the cell. A value is log10
       of the cell's part of it, counted from 0 at 10^-decades to 1 */
    int is_weights;
    double largest;
    int decades;
} picture;

/* The attention pattern of a program on at most max_rows x max_columns cells; exact where tokens are no more than that.
   What a cell shows is counted, not sampled. bar NULL: none. */
int picture_pattern(const hga_program *p, const hga_graph *g, hga_id max_rows, hga_id max_columns, progress *bar,
                    picture *out);

/* The attention weights for the caller's tensors [rows][heads][dim]; head -1: the mean over heads. */
typedef struct picture_tensors {
    const char *query, *key; /* paths */
    hga_id head;
    tensor_layout layout;
    int quiet;
} picture_tensors;
int picture_weights(const hga_program *p, const hga_graph *g, const picture_tensors *tensors, hga_id max_rows,
                    hga_id max_columns, progress *bar, picture *out);

/* mark[rows * columns]: 1 for the cells of a pattern in which some pair is covered more than once: the shares of its
   rectangles exceed the cell. */
int picture_overlaps(const picture *p, unsigned char **mark);
/* Levels up to the highest that covers something: what the colours are spread over. */
hga_id picture_levels(const picture *p);

/* Are two rectangles of one level and value? */
int picture_alike(const picture_rect *a, const picture_rect *b);

void picture_clear(picture *p);

/* ---- for the makers ---- */

/* A graph's picture before anything is drawn: its sizes. */
picture picture_of(const hga_graph *g, hga_id max_rows, hga_id max_columns);
/* Pairs of a cell; area[rows * columns] += `times` the pairs that a rectangle has in each cell. */
double picture_cell_area(const picture *p, hga_id row, hga_id column);
void picture_add_area(const picture *p, const picture_rect *r, double times, double *area);

/* The first token of cell i when n tokens make `cells` cells; the cell of a token. */
hga_id cell_start(hga_id i, hga_id n, hga_id cells);
hga_id cell_of(hga_id token, hga_id n, hga_id cells);
/* Turn cells of equal colour into as few rectangles as a greedy walk finds. value[rows * columns], 0 shows nothing;
   level NULL: 0. Values go into `steps` steps. */
int picture_from_cells(picture *p, const float *value, const hga_id *level, int steps);

#endif
