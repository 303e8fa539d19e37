/* panel.h: rows of an attended stage that go back together, for one head: groups of sixteen, tile by tile; a window of
   columns is brought near once for all groups that have edges there. */
#ifndef HGA_GRADIENT_PANEL_H
#define HGA_GRADIENT_PANEL_H

#include "fast.h"

/* A window of columns is a tile of a group when at least one in TILE_SHARE of its pairs has an edge. */
enum { WINDOW = KERNEL_CHUNK, TILE_SHARE = 4, GROUPS = STRIP_PANEL / KERNEL_TILE };

/* What scores of the stage at hand have besides the product with the key, a mass and a weight. */
typedef struct score_parts {
    int types;     /* relative keys or biases, or dropout, which looks at types */
    int positions; /* node_pos */
    int ranks;     /* edge_bias, which counts a row's edges */
} score_parts;

/* An edge that no tile took. */
typedef struct left_edge {
    hga_id row; /* of the group */
    row_edge e;
    hga_pos position; /* canonical in the row, where that matters */
} left_edge;

/* Bits of the group's rows that have edges to each column of a window. What the stage's scores do not have is not
   there. */
typedef struct window {
    hga_id first, n, group;
    int full; /* all rows that there are have edges to all columns */
    uint16_t rows[WINDOW];
    hga_id n_types;           /* types in the panel's list from `types` on: one for each column, or, with `places`, */
    int64_t types, places;    /* those that the pairs' places name; -1: none */
    hga_id own[KERNEL_TILE];  /* node + 1 whose position a row uses, 0: its own */
    hga_id rank[KERNEL_TILE]; /* edges of the row before the window */
} window;

/* Sixteen rows and what belongs to them. */
typedef struct group {
    hga_id node[KERNEL_TILE]; /* -1: no row, or one that nothing is asked of */
    uint32_t there;           /* bit i: node[i] >= 0 */
    float lse[KERNEL_TILE], delta[KERNEL_TILE];
    float *q, *g;                    /* turned, [padded][KERNEL_TILE] */
    float *q_rows, *g_rows, *dq;     /* [KERNEL_TILE][padded] */
    int64_t windows, n_windows;      /* those of the panel's list that are its own, ascending */
    int64_t edges;                   /* its left edges in the panel's list, row after row: */
    hga_id row_end[KERNEL_TILE + 1]; /* row r's are [edges + row_end[r], edges + row_end[r + 1]) */
} group;

/* What was found for a group of a stage: the next head has the same, if it has the same rows. */
typedef struct found {
    int known;
    uint32_t there;
    int64_t windows, n_windows, edges;
    hga_id row_end[KERNEL_TILE + 1];
} found;

/* How long the panel's lists are. */
typedef struct lengths {
    int64_t windows, types, places, edges;
} lengths;

/* Types of a window's pairs while it is being found. */
typedef struct pair_types {
    int mixed; /* some column has several */
    int32_t column[WINDOW], pair[WINDOW][KERNEL_TILE];
    int16_t *place; /* [n_types]: a type's place, -1 without */
    int64_t n_types;
} pair_types;

typedef struct panel {
    group group[GROUPS];
    score_parts parts;
    float *k, *v, *dk, *dv; /* a window's columns where they do not lie side by side */
    float *r, *dr;          /* [KERNEL_PLACES][padded]: relative keys of a window's types */
    float *position, *d_position, *own, *own_turned, *d_own; /* of a window's columns, and of its rows */
    float *pair_bias, *kept, *slopes;                        /* [WINDOW][KERNEL_TILE] */
    int32_t *pair_type;                                      /* the same */
    pair_types seen;
    hga_id rank[KERNEL_TILE]; /* edges of the rows of the group at hand so far */
    int unranked;             /* edges of the group came that do not count in order */
    hga_segment *segment;     /* of a group, by source */
    window *window;
    int32_t *type;
    uint8_t *place;
    left_edge *left; /* of the group at hand, for rows */
    left_edge *edge; /* the same by row, of all groups */
    int64_t segment_room, n_segments, window_room, n_windows, type_room, n_types, place_room, n_places, left_room,
        n_left, edge_room, n_edges;
    found *found; /* [stages][groups of all rows]; NULL: nothing is remembered */
    int64_t n_found;
    lengths remembered; /* what is remembered of the lists */
    int64_t room;       /* bytes that it may take in all; 0: no more is remembered */
    float *memory;
    int64_t floats;
} panel;

/* fast_edges.c: edges one by one. Leave one of a group's row for later; all explicit ones of a group, or simply all;
   what is left, row after row. */
hga_status leave(fast_pass *p, hga_id row, row_edge e, hga_pos position);
hga_status leave_explicit(fast_pass *p, const group *g);
hga_status leave_rows(fast_pass *p, const group *g);
hga_status sort_left(fast_pass *p, group *g);
void run_left(fast_pass *p, hga_id s, const group *g);
/* What the score of an edge has besides the product with the key. */
float base_score(const fast_pass *p, hga_id s, hga_id v, const left_edge *x);

/* fast_tiles.c: the windows of a group whose rows begin at position `first`, and the edges that are in none, left. */
hga_status find_windows(fast_pass *p, hga_id s, group *g, hga_id first, hga_id n);

/* fast_windows.c: all windows of the panel. */
void run_windows(fast_pass *p, hga_id s);

#endif
