/* tiles.h: attention in tiles. choose_tiles.c chooses columns, as data (lay.h); run_tiles.c computes them;
   attend_panel.c calls both. */
#ifndef TILES_H
#define TILES_H

#include "least.h"
#include "edges.h"
#include "stage_plan.h"
#include "sums.h"
#include "window_visits.h"

/* In place of a row's node: the stage has no row here. */
enum { NO_ROW = -1 };
/* In place of a row's node v: this execution does not compute the row. But tiles are chosen from all rows of the graph,
   requested or not, so that a row has the same bits in a slice as in a whole execution. */
static inline hga_id left_out(hga_id v) { return -2 - v; }
/* The node of a row, computed or left out; NO_ROW stays. */
static inline hga_id row_node(hga_id node) { return node < NO_ROW ? -2 - node : node; }

/* Rows that are computed together: group `number` of a panel. */
typedef struct row_group {
    hga_id stage, number, first, n_rows;
    const hga_id *node;  /* < 0: the row is not computed, see NO_ROW */
    const hga_id *split; /* NULL, or of each row the split that takes its state, see long_row */
    int laid;            /* has columns in tiles, at least those of the next rows of a longer graph */
    int tiled;           /* has columns in tiles */
    int begun;           /* some of its tiles have been computed: the states are in the group's slot */
    int rest;            /* has edges that the row kernel computes */
    /* all that is not in the batch has been computed, and there is no rest: the batch ends its rows */
    int complete;
    int stored;            /* the batch has ended its rows */
    const hga_id *carried; /* NULL, or of each row the slot of its state, before and after: see columns.h */
    hga_id n_shared;       /* parts in chunks that groups share, which are last */
    /* the rows, as bits, that have all of their edges in families; not 0: the group has no other edges */
    unsigned in_families;
} row_group;

/* Mask of its rows that are computed. */
static inline unsigned requested_mask(const row_group *g)
{
    unsigned rows = 0;
    for (hga_id r = 0; r < g->n_rows; r++) rows |= (unsigned)(g->node[r] >= 0) << r;
    return rows;
}

typedef struct row_panel {
    row_group group[PANEL_GROUPS];
    hga_id n_groups;
} row_panel;

/* A group that has the columns [first, last) of a chunk. */
typedef struct tile_part {
    row_group *group;
    hga_id first, last;
    int full;          /* every row has every column of these */
    int opens, closes; /* for run_tiles: the group's first part of the batch, the last one of all */
    hga_id slot;       /* of its states while tiles are computed */
} tile_part;

/* Columns, and the groups that have them; rows[i][c] is the lane mask of column c in part i. */
typedef struct tile_chunk {
    edge_chunk columns;
    hga_id odd; /* 1: the first column has an odd index in its block; see kernel_tile */
    hga_id n_parts;
    int pairs; /* terms of scores differ from row to row: positions, or types */
    /* Columns, as bits, whose pairs have types of their own: of each part the batch's pair_type has them, the first
       part's being number `typed`. Of other columns all rows have one type, which is the column's. */
    uint64_t types_vary;
    hga_id typed;
    tile_part part[PANEL_GROUPS];
    lane_mask rows[PANEL_GROUPS][KERNEL_CHUNK];
} tile_chunk;

/* Chunks that are computed head by head: a head's queries and states stay in the first cache for all of them. */
enum { BATCH_CHUNKS = 8 };

typedef struct tile_batch {
    hga_id stage, n;
    /* chunks of the previous group that the next ones may equal; the first one of this group, -1 */
    hga_id twin, twin_end, own_first;
    /* [PANEL_GROUPS][KERNEL_CHUNK][tile]: of n_typed parts the types of pairs, where they vary; -1 without an edge */
    int32_t *pair_type;
    hga_id n_typed;
    tile_chunk chunk[BATCH_CHUNKS];
} tile_batch;

/* Runs a batch; the batch is refilled afterwards. */
typedef void (*tile_runner)(void *context, tile_batch *batch);

/* Some rows of a group, and columns: all that these rows have, of which none has more than KERNEL_FAMILY, and some
   perhaps none. Lane r's pair with column e has type columns->type[e] + r * type_step[e]. */
typedef struct family_chunk {
    unsigned all;        /* the rows, as bits */
    edge_chunk *columns; /* the worker's */
    int32_t type_step[KERNEL_CHUNK];
    lane_mask rows[KERNEL_CHUNK];
} family_chunk;

/* Runs families of a group. */
typedef void (*family_runner)(void *context, row_group *g, const family_chunk *c);

/* Columns that a group has among the KERNEL_CHUNK from a chunk's begin on: as bits, and which rows have which. */
typedef struct shared_part {
    row_group *group;
    uint64_t columns;
    hga_id next; /* part of the chunk, -1 */
    lane_mask rows[KERNEL_CHUNK];
} shared_part;

/* Columns from source position `begin` on that groups share: those that some part has, as bits. */
typedef struct shared_chunk {
    const hga_segment *segment; /* of some group; all groups have its weight */
    int64_t begin;
    uint64_t columns;
    hga_id first, last; /* parts */
} shared_chunk;

/* The shared chunks of a panel, and their order; SHARED_PARTS parts a group. */
enum { SHARED_PARTS = 64, MOST_SHARED = PANEL_GROUPS * SHARED_PARTS };
typedef struct shared_chunks {
    hga_id n_parts, n_chunks;
    uint16_t order[MOST_SHARED]; /* numbers of the chunks */
    shared_chunk chunk[MOST_SHARED];
    shared_part part[MOST_SHARED];
} shared_chunks;

/* Segments of the panel, [segments' capacity] each. */
typedef struct chooser_segments {
    uint16_t *tiled;  /* bit g when group g of the panel has the segment in tiles */
    uint16_t *narrow; /* bit g when group g has rows of it, and it has few columns */
    hga_id *own;      /* [.. + 1], the first n_own: the segments of the current group, ascending */
    hga_pos n_own;
} chooser_segments;

typedef struct tile_chooser {
    const row_reader *reader; /* of the panel's segments */
    int types, positions;     /* do scores depend on types, on positions? */
    int ranks;                /* do they depend on which of the row's edges an edge is? */
    unsigned unranked; /* then: groups, as bits, whose rows reader_counts does not take: none of them is in a tile */
    int families_have_types; /* families' scores depend on their columns' types, which rows may not distinguish then */
    int strict;              /* hga_options.strict_rows */
    int leaves_out;          /* are there rows that are not computed, whose columns may not have been written? */
    tile_runner run;
    family_runner run_families; /* NULL: there are no families */
    family_chunk families;      /* that are being laid, or were */
    int64_t query_numbers;      /* of all heads */
    void *context;
    int enough; /* `run` needs no more of this panel's tiles: the caller has interrupted it */
    tile_batch *batch;
    int open;                      /* a chunk is open */
    int32_t *pair_type, *run_type; /* the batch's; [RUN_COLUMNS][tile] */
    chooser_segments seen;
    shared_chunks *shared; /* not yet in chunks */
} tile_chooser;

/* Every edge of the panel is either in one batch or left to the row kernel: `tiled` tells which segments of which group
   are in tiles. */
void choose_tiles(tile_chooser *t, row_panel *p);

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
/* Number of its edges. */
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

/* Mask of the row band's lanes. */
static inline unsigned row_band_mask(const row_band *x)
{
    return ((1u << (x->row_last - x->row_first)) - 1) << x->row_first;
}
/* Whether all of its lanes have all of its columns. */
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

/* Whether rows that have so many edges among so many pairs run as families rather than in tiles. */
static inline int run_as_families(double edges, double pairs) { return edges < FAMILY_SHARE * pairs; }

#endif
