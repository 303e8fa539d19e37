/* picture.h: what an attention picture shows, as data: rectangles over query tokens x key tokens. */
#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H

#include "complain.h"

#include "hga_inspect.h"

/* Query tokens [query, query + n_queries) x key tokens [key, key + n_keys). */
typedef struct picture_rect {
    hga_id query, n_queries, key, n_keys;
    hga_id level; /* of a pattern: the higher one of the edge's ends; where several meet in a cell, the one that covers most of it (of equals the coarser) */
    float value;  /* in (0, 1]. Of a pattern: the share of the pairs that is covered; of weights: see picture.decades */
} picture_rect;

typedef struct picture {
    hga_id n_queries, n_keys, n_levels;
    hga_id rows, columns;  /* cells: cell row r has query tokens [r * n_queries / rows, (r + 1) * n_queries / rows) */
    int exact;             /* every token is a cell of its own, and of a pattern the rectangles are those of hga_program_pattern, coarse ones first */
    picture_rect *rects;
    int64_t n_rects, room;
    /* of a pattern */
    double *level_pairs;   /* [n_levels]: pairs covered at that level, as often as they are */
    hga_coverage coverage;
    /* of weights */
    int is_weights;
    double largest;        /* attention that the queries of a cell's row pay, on average, to the cell; values are log10 of a cell's part of it, 0 = 10^-decades */
    int decades;
} picture;

/* The attention pattern of a program on at most max_rows x max_columns cells; exact where tokens are no more than that. What a cell shows is counted, not sampled.
   `progress` (NULL accepted) as in hga_graph.h. */
int picture_pattern(const hga_program *p, const hga_graph *g, hga_id max_rows, hga_id max_columns, hga_progress progress, void *context, picture *out);

/* The attention weights for given tensors [rows][heads][dim]; head -1: the mean over heads. */
typedef struct picture_tensors {
    const char *query, *key; /* paths */
    hga_id head;
} picture_tensors;
int picture_weights(const hga_program *p, const hga_graph *g, const picture_tensors *tensors, hga_id max_rows, hga_id max_columns, hga_progress progress, void *context,
                    picture *out);

void picture_clear(picture *p);

/* ---- for the two makers ---- */

/* The first token of cell i when n tokens make `cells` cells; the cell of a token. */
hga_id cell_start(hga_id i, hga_id n, hga_id cells);
hga_id cell_of(hga_id token, hga_id n, hga_id cells);
int picture_add(picture *p, picture_rect r);
/* Turn cells of equal colour into as few rectangles as a greedy walk finds. value[rows * columns], 0 shows nothing; level NULL: 0. Values go into `steps` steps. */
int picture_from_cells(picture *p, const float *value, const hga_id *level, int steps);

#endif
