/* ranks.c: canonical positions of a row's edges: their indices among all of the row's, by source, type, weight and
   positions, as semantics/row_edges.c has them. Rows without two edges from one source are counted by their
   segments. */
#include "edges.h"
#include "sort.h"

/* Total order: equal edges keep the order in which they are read. */
static int before(const rank_key *a, const rank_key *b)
{
    if (a->src != b->src) return a->src < b->src;
    if (a->type != b->type) return a->type < b->type;
    if (a->weight != b->weight) return a->weight < b->weight;
    if (a->pos_of != b->pos_of) return a->pos_of < b->pos_of;
    return a->src_pos_of != b->src_pos_of ? a->src_pos_of < b->src_pos_of : a->number < b->number;
}

SORT_DEFINE(sort_ranks, rank_key, before)

hga_status reader_rank_capacity(row_reader *r, hga_pos edges, const hga_allocator *a)
{
    if (edges <= r->ranks.capacity) return HGA_OK;
    reader_unrank(r, a);
    hga_status st = hga_new(a, edges, sizeof *r->ranks.at, &r->ranks.at);
    if (!st) r->ranks.capacity = edges;
    return st;
}

void reader_unrank(row_reader *r, const hga_allocator *a)
{
    hga_delete(a, r->ranks.at, r->ranks.capacity, sizeof *r->ranks.at);
    r->ranks.at = NULL, r->ranks.capacity = 0;
}

/* Sorts all edges of the row into canonical order in r->rank; then stores the rank of edge i, as read, in
   rank[i].index. */
static void rank_row(row_reader *r, hga_id v)
{
    edge_cursor c = cursor_start(r, v);
    edge_chunk chunk;
    hga_pos n = 0;
    for (cursor_next(&c, KERNEL_CHUNK, &chunk); chunk.n; cursor_next(&c, KERNEL_CHUNK, &chunk))
        for (hga_id e = 0; e < chunk.n; e++, n++)
            r->ranks.at[n] = (rank_key){chunk.src[e],    chunk.type[e],       chunk.weight[e],
                                        chunk.pos_of[e], chunk.src_pos_of[e], .number = n};
    sort_ranks(r->ranks.at, n);
    for (hga_pos i = 0; i < n; i++) r->ranks.at[r->ranks.at[i].number].index = i;
    r->ranks.ranked = v;
}

/* ---- of rows of segments without twins ---- */

/* The columns of a row in one of its segments: source positions [begin, end) but `hole`, -1: none. */
typedef struct row_span {
    hga_id begin, end, hole;
} row_span;

static row_span span_of(const hga_segment *s, hga_id position)
{
    hga_id begin, end, hole;
    hga_segment_columns(s, position, &begin, &end, &hole);
    return (row_span){s->src + begin, s->src + end, hole < begin || hole >= end ? -1 : s->src + hole};
}

static hga_id columns_before(const row_span *x, hga_id at)
{
    const hga_id end = at < x->end ? at : x->end;
    return end <= x->begin ? 0 : end - x->begin - (x->hole >= 0 && x->hole < end);
}

hga_pos reader_rank_of(const row_reader *r, hga_id position, hga_id src)
{
    hga_pos before = 0;
    for (hga_id i = r->list_ptr[position - r->first]; i < r->list_ptr[position - r->first + 1]; i++) {
        const row_span x = span_of(&r->segments.at[r->list[i]], position);
        if (x.begin < x.end) before += columns_before(&x, src + x.begin - reader_source(r, x.begin));
    }
    return before;
}

/* The most segments of a row that are counted edge by edge: sorting a row's edges takes less time than to look through
   more. */
enum { MOST_COUNTED = 16 };

static hga_id segments_of(const row_reader *r, hga_id position)
{
    return r->list_ptr[position - r->first + 1] - r->list_ptr[position - r->first];
}

/* Whether a row has some column in both. */
static int spans_meet(const row_span *x, const row_span *y)
{
    const hga_id begin = x->begin > y->begin ? x->begin : y->begin, end = x->end < y->end ? x->end : y->end;
    const int is_hole = end - begin == 1 && (x->hole == begin || y->hole == begin);
    return begin < end && !is_hole;
}

static int row_has_twins(const row_reader *r, hga_id position)
{
    const hga_id first = r->list_ptr[position - r->first], end = r->list_ptr[position - r->first + 1];
    for (hga_id i = first; i < end; i++) {
        const row_span x = span_of(&r->segments.at[r->list[i]], position);
        for (hga_id j = first; j < i; j++) {
            const row_span y = span_of(&r->segments.at[r->list[j]], position);
            if (spans_meet(&x, &y)) return 1;
        }
    }
    return 0;
}

int reader_counts(const row_reader *r, hga_id first, hga_id n)
{
    hga_id i = 0;
    while (i < n && segments_of(r, first + i) <= MOST_COUNTED && !row_has_twins(r, first + i)) i++;
    return i == n;
}

/* ---- of a chunk ---- */

void reader_ranks(row_reader *r, hga_id v, const edge_chunk *chunk, hga_pos *rank)
{
    if (!r->r.n_blocks) { /* explicit edges are read in canonical order; r->rank may have no capacity */
        for (hga_id e = 0; e < chunk->n; e++) rank[e] = chunk->number + e;
        return;
    }
    if (chunk->has_gaps) {
        const hga_id position = r->r.dst_rank ? r->r.dst_rank[v] : v;
        for (hga_id e = 0; e < chunk->n; e++) rank[e] = reader_rank_of(r, position, chunk->src[e]);
        return;
    }
    if (r->ranks.ranked != v) rank_row(r, v);
    for (hga_id e = 0; e < chunk->n; e++) rank[e] = r->ranks.at[chunk->number + e].index;
}
