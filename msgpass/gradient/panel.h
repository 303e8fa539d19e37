/* panel.h: rows of an attending stage that go backward together, for one head: groups of sixteen, tile by tile; columns
   are copied once for all groups that have edges there. */
#ifndef HGA_GRADIENT_PANEL_H
#define HGA_GRADIENT_PANEL_H

#include "fast_pass.h"
#include "window_visits.h"

enum { WINDOW = KERNEL_CHUNK, GROUPS = ROW_RANGE_PANEL / KERNEL_TILE };

/* What scores of the stage at hand have besides the product with the key, a mass and a weight. */
typedef struct score_parts {
    int types;     /* relative keys or biases, or dropout, which depends on types where there are several */
    int positions; /* node_pos */
    int ranks;     /* edge_bias, which counts a row's edges */
} score_parts;

/* An edge in no tile. */
typedef struct left_edge {
    hga_id row; /* of the group */
    row_edge e;
    hga_pos position; /* canonical in the row, where that matters */
} left_edge;

/* Consecutive columns of a group, at most WINDOW; bits of its rows that have edges to each.
   What the stage's scores do not have is not there. */
typedef struct window {
    hga_id first, n;
    int full; /* all rows that there are have edges to all columns */
    lane_mask rows[WINDOW];
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
    int64_t rows[2];   /* of each group, bits of its rows; -1: all rows that there are have edges to all columns */
    int64_t own, rank; /* of the window, among the numbers */
    hga_id n_types;    /* types, among the numbers: one for each column, or, with n_indices, those */
    int64_t types, n_indices; /* that the pairs' indices name */
    draws drop_mask;
} tile;

/* Sixteen rows and what belongs to them. */
typedef struct group {
    hga_id node[KERNEL_TILE]; /* -1: no row, or one without a gradient */
    uint32_t there;           /* bit i: node[i] >= 0 */
    float lse[KERNEL_TILE], delta[KERNEL_TILE];
    float at[KERNEL_TILE];           /* of scores that lose what distances take: hga_graph_positions of the nodes */
    float *q, *g;                    /* transposed, [padded][KERNEL_TILE] */
    float *q_rows, *g_rows, *dq;     /* [KERNEL_TILE][padded] */
    int64_t windows, n_windows;      /* found, ascending, in the panel's list */
    int64_t tiles, n_tiles;          /* its own, and those it shares with the next group */
    int64_t edges;                   /* its left edges in the panel's list, row after row: */
    hga_id row_end[KERNEL_TILE + 1]; /* row r's are [edges + row_end[r], edges + row_end[r + 1]) */
} group;

/* What was found for a group of a stage: the next head has the same, if it has the same rows. */
typedef struct found {
    int known;
    uint32_t there;
    int64_t tiles, n_tiles, edges;
    hga_id row_end[KERNEL_TILE + 1];
    draws drop_mask; /* of the edges, a byte each */
} found;

/* How long the panel's lists are. */
typedef struct lengths {
    int64_t tiles, numbers, bits, n_indices, edges;
} lengths;

/* What draws depend on besides pairs and their types: those of one drawing have it in common. */
typedef struct drawing {
    uint64_t number, seed; /* number 0: there was none yet */
    uint32_t layer;
    hga_id first_head, eight;
    unsigned heads; /* bit h: head 8 * eight + h runs backward with this panel */
    int64_t n;      /* of the panel's list that are drawn */
} drawing;

/* Types of a window's pairs while it is being found. */
typedef struct pair_types {
    int mixed; /* some column has several */
    int32_t column[WINDOW], pair[WINDOW][KERNEL_TILE];
    int16_t *index; /* [n_types]: a type's index, -1 without */
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

/* Scratch of the tile or the row at hand. */
typedef struct panel_operands {
    float *typed, *d_typed; /* [WINDOW][padded]: a tile's keys with their types' added, and the gradients of both */
    float *position, *d_position, *own, *own_transposed, *d_own; /* of a tile's columns, and of its rows */
    float *pair_bias, *slopes;                                   /* [WINDOW][KERNEL_TILE] */
    int32_t *pair_type;                                          /* the same */
    float *d_additive;                                           /* [padded]: of a tile or of some edges */
    float *row;                                                  /* a row of the caller's */
} panel_operands;

/* What is found of the group at hand, before it is divided into tiles. */
typedef struct panel_finding {
    pair_types seen;
    hga_id rank[KERNEL_TILE]; /* edges of the group's rows so far */
    int unranked;             /* edges of the group came that do not count in order */
    hga_segment *segment;     /* of a group, by source */
    window *window;           /* of a group, or of two */
    left_edge *left;          /* of the group, for rows */
    int64_t segment_capacity, n_segments, window_capacity, n_windows, left_capacity, n_left;
} panel_finding;

/* The tiles of the panel's groups, and the lists that tiles refer to by offset. */
typedef struct panel_lists {
    tile *tile;
    hga_id *number;
    lane_mask *bits;
    uint8_t *index;
    left_edge *edge; /* left edges by row, of all groups */
    int64_t tile_capacity, number_capacity, bits_capacity, index_capacity, edge_capacity;
    lengths n;
} panel_lists;

/* Cached from head to head and from call to call. */
typedef struct panel_memo {
    found *found; /* [stages][groups of all rows, an even number]; NULL: nothing is remembered */
    int64_t n_found;
    score_parts found_with; /* what the calls had that found it */
    int64_t panels;         /* since relative keys' gradients were added to `sums` */
    lengths remembered;     /* what is remembered of the lists */
    lengths most;           /* what a panel had of them at most */
    int noted;              /* something of the panel at hand is to be remembered */
    int64_t capacity;       /* bytes that it may take in all; 0: no more is remembered */
} panel_memo;

typedef struct panel_dropout {
    drawing drawing;
    uint16_t *drawn; /* bits, while there is capacity for draws_most; and a tile's of one head */
    int64_t drawn_capacity, draws_most;
    uint16_t single[2][WINDOW];
} panel_dropout;

typedef struct panel_memory {
    float *at;
    int64_t floats;
} panel_memory;

typedef struct panel {
    group group[GROUPS];
    score_parts parts; /* of the stage at hand */
    hga_id begin, end; /* rows that are attended now, of groups that may have others */
    tile_columns near;
    panel_operands operands;
    panel_finding finding;
    panel_lists lists;
    panel_memo memo;
    panel_dropout dropout;
    panel_memory memory;
    struct column_batch *columns; /* NULL: no stage runs by columns */
} panel;

/* Grows a list to hold `more` after its first n. */
static inline hga_status make_capacity(const fast_pass *p, void *list, int64_t *capacity, int64_t n, int64_t more,
                                       size_t size)
{
    return n + more > *capacity ? hga_grow(&p->plan->memory.user, list, capacity, n, n + more, size) : HGA_OK;
}

/* Do pairs have scores of their own, or dropped weights? */
static inline int has_parts(const panel *x) { return x->parts.types || x->parts.positions || x->parts.ranks; }

#endif
