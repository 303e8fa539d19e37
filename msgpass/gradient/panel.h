/* panel.h: rows of an attended stage that go back together, for one head: groups of sixteen, tile by tile; a window of
   columns is brought near once for all groups that have edges there. */
#ifndef HGA_GRADIENT_PANEL_H
#define HGA_GRADIENT_PANEL_H

#include "fast.h"

/* A window of columns is a tile of a group when at least one in TILE_SHARE of its pairs has an edge. */
enum { WINDOW = KERNEL_CHUNK, TILE_SHARE = 4, GROUPS = 8 };

/* An edge that no tile took. */
typedef struct left_edge {
    hga_id row; /* of the group */
    row_edge e;
    hga_pos position; /* canonical in the row, where that matters */
} left_edge;

/* Bits of the group's rows that have edges to each column of a window. */
typedef struct window {
    hga_id first, n, group;
    int full; /* all rows that there are have edges to all columns */
    uint16_t rows[WINDOW];
} window;

/* Sixteen rows and what belongs to them. */
typedef struct group {
    hga_id node[KERNEL_TILE]; /* -1: no row, or one that nothing is asked of */
    uint32_t there;           /* bit i: node[i] >= 0 */
    float lse[KERNEL_TILE], delta[KERNEL_TILE];
    float *q, *g;                /* turned, [padded][KERNEL_TILE] */
    float *q_rows, *g_rows, *dq; /* [KERNEL_TILE][padded] */
    int64_t windows, n_windows;  /* those of the panel's list that are its own, ascending */
} group;

typedef struct panel {
    group group[GROUPS];
    float *k, *v, *dk, *dv; /* a window's columns where they do not lie side by side */
    hga_segment *segment;   /* of a group, by source */
    window *window;
    left_edge *left; /* edges for rows, by row once they are all there */
    left_edge *sorted;
    int64_t segment_room, n_segments, window_room, n_windows, left_room, n_left, sorted_room;
    float *memory;
    int64_t floats;
} panel;

/* fast_attend.c: leave an edge of a group's row for later, alone. */
hga_status leave(fast_pass *p, hga_id row, row_edge e, hga_pos position);

/* fast_tiles.c: the windows of a group whose rows begin at position `first`, and the edges that are in none, left; and
   all windows of the panel. */
hga_status find_windows(fast_pass *p, hga_id s, group *g, hga_id first, hga_id n);
void run_windows(fast_pass *p, hga_id s);

#endif
