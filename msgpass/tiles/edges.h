/* edges.h: the in-edges of rows, a chunk at a time, and their canonical positions (ranks.c). */
#ifndef EDGES_H
#define EDGES_H

#include "longer.h"
#include "plan.h"

/* Columns that the narrow segments of one run may span. */
enum { RUN_COLUMNS = 256 };

enum { CHUNK_AND_MORE = KERNEL_CHUNK + KERNEL_HEAD_EDGES };

/* In-edges of one row, at most KERNEL_CHUNK of them. */
typedef struct edge_chunk {
    hga_id n;
    hga_id more; /* src continues with so many of the next edges, of this row and the following ones */
    hga_id src[CHUNK_AND_MORE];
    int32_t type[KERNEL_CHUNK];
    float weight[KERNEL_CHUNK];
    hga_id pos_of[KERNEL_CHUNK], src_pos_of[KERNEL_CHUNK]; /* node + 1 whose position is used, 0: its own */
    hga_pos number;                                        /* of the chunk's first edge among those that are read */
    int has_gaps;                                          /* not all of the row's edges are read */
} edge_chunk;

typedef struct rank_key { /* what canonical order compares; weights only distinguish twins */
    hga_id src;
    int32_t type;
    float weight;
    hga_id pos_of, src_pos_of;
    hga_pos number; /* in the order read */
    hga_pos index;  /* canonical, of the edge that was read as number i, in rank[i] */
} rank_key;

/* The key that orders most segments; ties are ordered by the segment's other members. */
typedef struct segment_key {
    hga_id src;   /* the first source of its instance */
    int64_t type; /* type of its first edge */
    const hga_segment *segment;
} segment_key;

/* Segments of the panel that is loaded, [capacity] each. */
typedef struct reader_segments {
    hga_segment *at;    /* sorted by their instances' first sources */
    hga_segment *found; /* in the order in which they were found */
    segment_key *key;   /* their sort keys */
    hga_pos n, capacity;
} reader_segments;

/* The edges of row `ranked` in canonical order, at[i].index being that of edge i as read; of calls that need them,
   where the relation has blocks. */
typedef struct ranked_edges {
    rank_key *at; /* [capacity] */
    hga_id ranked;
    hga_pos capacity;
} ranked_edges;

/* Reads the rows of one stage's relation, a panel at a time. */
typedef struct row_reader {
    const hga_graph *graph;
    const hga_graph *longer; /* of relations with a longer graph; NULL */
    int ahead;  /* some of the loaded rows exist in the longer graph only: nodes are its, see reader_source */
    int far;    /* sources are in memory, not in caches, in no order: chunks list the next ones for prefetching */
    int strict; /* a row's segments are ordered by its own columns: hga_options.strict_rows */
    int from_instances; /* strict chunks begin at multiples counted from the first column of an instance */
    hga_id relation;
    hga_relation r;
    hga_nodes nodes;
    reader_segments segments;
    hga_id *list; /* [list_capacity] segments of each row of the panel */
    hga_pos list_capacity;
    ranked_edges ranks;
    hga_id first, n; /* positions loaded */
    hga_id list_ptr[PANEL_ROWS + 1];
} row_reader;

typedef struct edge_cursor {
    const row_reader *reader;
    const uint16_t *done; /* NULL, or of each segment of the panel: skipped when it has one of `done_bits` */
    unsigned done_bits;
    hga_id v;
    hga_id position;
    hga_id list_at, list_end;        /* segments to come */
    hga_id column, column_end, hole; /* of the current one */
    hga_pos explicit_at, explicit_end;
    hga_id tree_at, tree_end;
    hga_pos number;
} edge_cursor;

/* Opens the reader on a stage's relation. */
void reader_open(row_reader *r, const hga_plan *plan, hga_id stage);
/* Loads the segments of positions [first, first + n), n <= PANEL_ROWS. */
void reader_load(row_reader *r, hga_id first, hga_id n);
/* Loads a panel, n > 0, that begins at a multiple of sixteen of its level. Where its last sixteen is incomplete, also
   loads the rows that a longer graph has next. Returns the number of rows loaded. */
hga_id reader_load_panel(row_reader *r, hga_id first, hga_id n);
/* The node at a source position; an arbitrary node where it is not in this graph. */
hga_id reader_source(const row_reader *r, int64_t position);
/* Maps a segment's pos_of or src_pos_of likewise. */
hga_id reader_pos(const row_reader *r, hga_id pos_of);
/* A cursor on node v, whose position must be loaded (not needed along the tree). */
edge_cursor cursor_start(const row_reader *r, hga_id v);
/* The same without the edges of segments that are done: done[segment] has one of done_bits. */
edge_cursor cursor_start_beyond(const row_reader *r, hga_id v, const uint16_t *done, unsigned done_bits);
/* Reads the next edges, at most `limit` and KERNEL_CHUNK; chunk->n = 0 at the end. */
void cursor_next(edge_cursor *c, hga_pos limit, edge_chunk *chunk);
/* Skips n edges. */
void cursor_skip(edge_cursor *c, hga_pos n);
/* Allocates memory to rank rows of up to so many edges. */
hga_status reader_rank_capacity(row_reader *r, hga_pos edges, const hga_allocator *a);
/* Frees that memory. */
void reader_unrank(row_reader *r, const hga_allocator *a);
/* Whether the n loaded rows from position `first` on have few segments, and no two edges from one source. */
int reader_counts(const row_reader *r, hga_id first, hga_id n);
/* The canonical position of the edge from node src in such a row, at a loaded position; of a relation whose edges are
   blocks in the order of nodes. */
hga_pos reader_rank_of(const row_reader *r, hga_id position, hga_id src);
/* Canonical positions of a chunk's edges within the row (add that of the row's first edge); the chunk of a row
   that reader_counts does not take has no gaps. */
void reader_ranks(row_reader *r, hga_id v, const edge_chunk *chunk, hga_pos *rank);

#endif
