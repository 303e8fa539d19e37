/* panel.h: rows of an attended stage that go back together, for one head: groups of sixteen, tile by tile; columns are
   brought near once for all groups that have edges there. */
#ifndef HGA_GRADIENT_PANEL_H
#define HGA_GRADIENT_PANEL_H

#include "fast.h"
#include "window_visits.h"

enum { WINDOW = KERNEL_CHUNK, GROUPS = STRIP_PANEL / KERNEL_TILE };

/* What scores of the stage at hand have besides the product with the key, a mass and a weight. */
typedef struct score_parts {
    int types;     /* relative keys or biases, or dropout, which looks at types where there are several */
    int positions; /* node_pos */
    int ranks;     /* edge_bias, which counts a row's edges */
} score_parts;

/* An edge that no tile took. */
typedef struct left_edge {
    hga_id row; /* of the group */
    row_edge e;
    hga_pos position; /* canonical in the row, where that matters */
} left_edge;

/* Columns side by side, as a group is found to have them, at most WINDOW; bits of its rows that have edges to each.
   What the stage's scores do not have is not there. */
typedef struct window {
    hga_id first, n;
    int full; /* all rows that there are have edges to all columns */
    lanes rows[WINDOW];
    hga_id own[KERNEL_TILE];  /* node + 1 whose position a row uses, 0: its own */
    hga_id rank[KERNEL_TILE]; /* edges of the row before the window */
} window;

/* Bits that dropout drew for several heads, and where the panel has them; of the drawing with this number. */
typedef struct draws {
    uint64_t drawing; /* 0: of none */
    int64_t at;
} draws;

/* Columns that are computed together, of one group, or of two neighbours where no pair has anything of its own. What is
   long is in the panel's lists; -1: not there. */
typedef struct tile {
    hga_id n, first; /* columns, and the first one's position */
    int64_t columns; /* where the list of their positions begins; -1: they are first, first + 1, .. */
    hga_id group, n_groups;
    int64_t rows[2];       /* of each group, bits of its rows; -1: all rows that there are have edges to all columns */
    int64_t own, rank;     /* of the window, among the numbers */
    hga_id n_types;        /* types, among the numbers: one for each column, or, with `places`, those */
    int64_t types, places; /* that the pairs' places name */
    draws kept;
} tile;

/* Sixteen rows and what belongs to them. */
typedef struct group {
    hga_id node[KERNEL_TILE]; /* -1: no row, or one that nothing is asked of */
    uint32_t there;           /* bit i: node[i] >= 0 */
    float lse[KERNEL_TILE], delta[KERNEL_TILE];
    float at[KERNEL_TILE];           /* of scores that lose what distances take: hga_graph_positions of the nodes */
    float *q, *g;                    /* turned, [padded][KERNEL_TILE] */
    float *q_rows, *g_rows, *dq;     /* [KERNEL_TILE][padded] */
    int64_t windows, n_windows;      /* found, ascending, in the panel's list */
    int64_t tiles, n_tiles;          /* its own, and those it has with the group behind it */
    int64_t edges;                   /* its left edges in the panel's list, row after row: */
    hga_id row_end[KERNEL_TILE + 1]; /* row r's are [edges + row_end[r], edges + row_end[r + 1]) */
} group;

/* What was found for a group of a stage: the next head has the same, if it has the same rows. */
typedef struct found {
    int known;
    uint32_t there;
    int64_t tiles, n_tiles, edges;
    hga_id row_end[KERNEL_TILE + 1];
    draws kept; /* of the edges, a byte each */
} found;

/* How long the panel's lists are. */
typedef struct lengths {
    int64_t tiles, numbers, bits, places, edges;
} lengths;

/* What draws depend on besides pairs and their types: those of one drawing have it in common. */
typedef struct drawing {
    uint64_t number, seed; /* number 0: there was none yet */
    uint32_t layer;
    hga_id first_head, eight;
    unsigned heads; /* bit h: head 8 * eight + h goes back with this panel */
    int64_t n;      /* of the panel's list that are drawn */
} drawing;

/* Types of a window's pairs while it is being found. */
typedef struct pair_types {
    int mixed; /* some column has several */
    int32_t column[WINDOW], pair[WINDOW][KERNEL_TILE];
    int16_t *place; /* [n_types]: a type's place, -1 without */
    int64_t n_types;
} pair_types;

/* Where a tile's columns are. */
typedef struct tile_columns {
    const tile *tile; /* NULL: of none */
    hga_id node[WINDOW];
    float at[WINDOW]; /* as a group's */
    const float *k[WINDOW], *v[WINDOW];
    float *dk[WINDOW], *dv[WINDOW];
} tile_columns;

typedef struct panel {
    group group[GROUPS];
    score_parts parts, found_with; /* of the stage at hand; and what the calls brought that found what is remembered */
    hga_id begin, end;             /* rows that are attended now, of groups that may have others */
    tile_columns near;
    float *typed, *d_typed; /* [WINDOW][padded]: a tile's keys with their types' added, and what both are given */
    float *position, *d_position, *own, *own_turned, *d_own; /* of a tile's columns, and of its rows */
    float *pair_bias, *slopes;                               /* [WINDOW][KERNEL_TILE] */
    int32_t *pair_type;                                      /* the same */
    float *row;                                              /* a row of the caller's */
    pair_types seen;
    hga_id rank[KERNEL_TILE]; /* edges of the rows of the group at hand so far */
    int unranked;             /* edges of the group came that do not count in order */
    hga_segment *segment;     /* of a group, by source */
    window *window;           /* of a group, or of two */
    tile *tile;
    hga_id *number;
    lanes *bits;
    uint8_t *place;
    left_edge *left; /* of the group at hand, for rows */
    left_edge *edge; /* the same by row, of all groups */
    int64_t segment_room, n_segments, window_room, n_windows, tile_room, number_room, bits_room, place_room, left_room,
        n_left, edge_room;
    lengths n;
    found *found; /* [stages][groups of all rows, an even number]; NULL: nothing is remembered */
    int64_t n_found;
    int64_t panels;     /* since relative keys' gradients were poured */
    lengths remembered; /* what is remembered of the lists */
    lengths most;       /* what a panel had of them at most */
    int noted;          /* something of the panel at hand is to be remembered */
    int64_t room;       /* bytes that it may take in all; 0: no more is remembered */
    drawing drawing;
    uint16_t *drawn; /* bits, while there is room for draws_most; and a tile's of one head */
    int64_t drawn_room, draws_most;
    uint16_t single[2][WINDOW];
    float *memory;
    int64_t floats;
    struct column_batch *columns; /* NULL: no stage goes by columns */
} panel;

/* Room for `more` behind the first n of a list. */
static inline hga_status room_for(const fast_pass *p, void *list, int64_t *room, int64_t n, int64_t more, size_t size)
{
    return n + more > *room ? hga_grow(&p->plan->given, list, room, n, n + more, size) : HGA_OK;
}

/* Do pairs have scores of their own, or weights that are dropped? */
static inline int has_parts(const panel *x) { return x->parts.types || x->parts.positions || x->parts.ranks; }

/* fast_rows.c: how many rows a group has that begins at position `first`; they fill it, and what they are given is
   stored. */
hga_id rows_from(const fast_pass *p, hga_id first);
/* Has a call for some rows named none of these positions? */
int is_passed_over(const fast_pass *p, hga_id first, hga_id end);
void load_sixteen(fast_pass *p, hga_id s, group *g, hga_id first);
/* The rows that a call for all of them would fill it with, without their numbers. */
void expect_sixteen(fast_pass *p, hga_id s, group *g, hga_id first);
void store_sixteen(fast_pass *p, hga_id s, const group *g, hga_id first);
/* The group's operands turned, as they are row by row. */
void turn_group(const fast_pass *p, const hga_stage *stage, group *g);
/* Is anything asked of the field? */
int is_asked(const fast_pass *p, hga_id f);

/* fast_edges.c: edges one by one. Leave one of a group's row for later; all explicit ones of a group, or simply all;
   what is left, row after row. */
hga_status leave(fast_pass *p, hga_id row, row_edge e, hga_pos position);
hga_status leave_explicit(fast_pass *p, const group *g);
hga_status leave_rows(fast_pass *p, const group *g);
hga_status sort_left(fast_pass *p, group *g);
/* `bits`: what dropout drew for several heads, a byte for each left edge; NULL: it draws for the head at hand. */
void run_left(fast_pass *p, hga_id s, const group *g, const uint8_t *bits);
/* What is known of edges: those bits; weights and what slopes have in their place (kernel_grad_row), or NULL. */
typedef struct known_edges {
    const uint8_t *bits;
    const float *weight, *slope;
} known_edges;
/* At most KERNEL_CHUNK edges of a row of the group. */
void run_some_edges(fast_pass *p, hga_id s, const group *g, hga_id row, const left_edge *x, hga_id n,
                    known_edges known);
/* What dropout leaves of n <= KERNEL_CHUNK edges of row v, `stride` bytes apart, in some heads, kept[n][heads]. */
void drop_row(const fast_pass *p, hga_id v, const row_edge *e, size_t stride, hga_id n, hga_id first_head, hga_id heads,
              float *kept);
/* Scores of n <= KERNEL_CHUNK edges e of row v, from the canonical position on, to `score`. */
void score_edges(const fast_pass *p, hga_id s, hga_id v, const float *q, const row_edge *e, hga_pos position, hga_id n,
                 float *score);
/* What the score of an edge has besides the product with the key. */
float base_score(const fast_pass *p, hga_id s, hga_id v, const left_edge *x);

/* fast_pieces.c: the windows of a group whose rows begin at position `first`, and the edges that are in none, left.
   Where pairs have something of their own every window becomes a tile at once. */
hga_status find_windows(fast_pass *p, hga_id s, group *g, hga_id first, hga_id n);

/* The segments of n rows from position `first` on, by source. */
hga_status read_segments(fast_pass *p, hga_id s, hga_id first, hga_id n);

/* fast_tiles.c: a window of a group by itself; and the windows of two groups, side by side. */
hga_status lay_window(fast_pass *p, group *g, const window *w, tile *t);
hga_status lay_windows(fast_pass *p, group *pair);

/* fast_run_tiles.c: all tiles of the panel. */
hga_status run_panel_tiles(fast_pass *p, hga_id s);
/* One whose pairs have nothing of their own, of the panel's groups. */
hga_status run_plain_tile(fast_pass *p, hga_id s, tile *t);

/* fast_by_columns.c: what a panel needs for stages that go by columns, NULL where none does; may such a call's stage;
   and the rows between the panel's begin and end. */
typedef struct column_batch column_batch;
int64_t column_batch_bytes(const hga_plan *plan);
hga_status column_batch_create(const hga_plan *plan, column_batch **out);
void column_batch_destroy(const hga_allocator *a, column_batch *x);
int goes_by_columns(const fast_pass *p, hga_id s);
hga_status attend_by_columns(fast_pass *p, hga_id s);

/* fast_draws.c: what dropout draws, for all heads of an eight that go back with this panel: kept with what is
   remembered of tiles and edges until the seed, the layer or the eight is another, while there is room.
   How many numbers that may be; a head comes; bits of the tile's groups at hand; and of a group's left edges, *bits
   NULL where they are not kept. */
int64_t most_draws(const hga_plan *plan);
void draws_open(const fast_pass *p);
/* Room for all that a call will draw into tiles and lists that are found. */
hga_status reserve_draws(fast_pass *p);
hga_status tile_draws(const fast_pass *p, tile *t, const uint16_t *kept[2]);
hga_status left_draws(const fast_pass *p, const group *g, found *f, const uint8_t **bits);

#endif
