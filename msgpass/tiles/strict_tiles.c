/* strict_tiles.c: hga_options.strict_rows: a row's computation depends on its own edges, whatever its neighbours see.
   All columns of blocks are computed in tiles, at fixed slots: chunks are the KERNEL_CHUNK columns from a multiple of
   that on, counted from the first node of the columns' level (positions, where the relation has an order of sources;
   for rows that more tokens do not change, from the first column of the block's instance), in order. Columns that a row
   does not see change none of its bits. Edges of other weights or positions have chunks of their own, and so has the
   second edge of a pair. */
#include "lay.h"
#include "stage_plan.h"
#include "sort.h"

#include <string.h>

/* What all edges of a chunk share; chunks of the same columns differ in it. */
typedef struct edge_class {
    float weight;
    hga_id pos_of, src_pos_of;
} edge_class;

/* Columns [begin, begin + n), and the first n_active of the chooser's `own`: segments that have some of them. */
typedef struct column_block {
    int64_t begin;
    hga_id n;
    hga_pos n_active;
} column_block;

/* Which rows of each group have which columns of the block; twice: some pair has several edges. */
typedef struct block_rows {
    lane_mask rows[PANEL_GROUPS][KERNEL_CHUNK];
    int twice;
} block_rows;

static edge_class class_of(const hga_segment *s) { return (edge_class){s->weight, s->pos_of, s->src_pos_of}; }

static int class_before(edge_class x, edge_class y)
{
    if (x.weight < y.weight || x.weight > y.weight) return x.weight < y.weight;
    return x.pos_of != y.pos_of ? x.pos_of < y.pos_of : x.src_pos_of < y.src_pos_of;
}

static int is_of_class(const hga_segment *s, edge_class x)
{
    return !class_before(class_of(s), x) && !class_before(x, class_of(s));
}

/* ---- which rows have which columns ---- */

typedef void (*row_band_visit)(const tile_chooser *t, const row_band *x, hga_id g, hga_id at, void *context);

/* Visits the row bands of a class in the block, group by group; `at` is the column of the block at which one begins. */
static void visit_row_bands(const tile_chooser *t, const row_panel *p, const column_block *b, edge_class of,
                            row_band_visit visit, void *context)
{
    row_band whole, x;
    for (hga_id g = 0; g < p->n_groups; g++)
        for (hga_pos i = 0; i < b->n_active; i++) {
            const hga_segment *s = &t->reader->segments.at[t->seen.own[i]];
            if (!is_of_class(s, of) || !row_band_trim(s, &p->group[g], &whole)) continue;
            if (row_band_cut(&whole, b->begin, b->n, &x)) visit(t, &x, g, (hga_id)(x.src - b->begin), context);
        }
}

static void note_row_band(const tile_chooser *t, const row_band *x, hga_id g, hga_id at, void *context)
{
    block_rows *all = context;
    (void)t;
    for (hga_id c = 0; c < x->n; c++) {
        unsigned rows = rows_of_column(x, c);
        all->twice |= (all->rows[g][at + c] & rows) != 0;
        all->rows[g][at + c] = (lane_mask)(all->rows[g][at + c] | rows);
    }
}

/* Edges with index `number` among their pairs' edges, in the order of types, and the chunk's arrays of types. */
typedef struct layer {
    block_rows *all;
    const row_panel *p;
    const column_block *block;
    int32_t *types[PANEL_GROUPS]; /* of each group's column 0; NULL */
    int number, more;
} layer;

static int32_t type_at(const row_band *x, hga_id c, hga_id r)
{
    return (int32_t)(x->type + (int64_t)c * x->segment->type_src + (int64_t)r * x->segment->type_dst);
}

/* Counts the edges of the pair (lane r, column c of row band x), which is column `at` of the block, that come before
   x's: of lower types, wherever their blocks begin. Edges of one type are the same edge. */
static int edges_before(const tile_chooser *t, const layer *l, const row_band *x, hga_id g, hga_id at, hga_id c,
                        hga_id r)
{
    int before = 0;
    int32_t type = type_at(x, c, r);
    row_band whole, other;
    for (hga_pos i = 0; i < l->block->n_active; i++) {
        const hga_segment *s = &t->reader->segments.at[t->seen.own[i]];
        if (s == x->segment || !is_of_class(s, class_of(x->segment)) || !row_band_trim(s, &l->p->group[g], &whole) ||
            !row_band_cut(&whole, l->block->begin + at, 1, &other) || !(rows_of_column(&other, 0) >> r & 1u))
            continue;
        int32_t here = type_at(&other, 0, r);
        before += here < type || (here == type && s < x->segment);
    }
    return before;
}

/* Marks the edges of row band x with index l->number in their pairs, and notes if pairs have more. */
static void note_layer(const tile_chooser *t, const row_band *x, hga_id g, hga_id at, void *context)
{
    layer *l = context;
    for (hga_id c = 0; c < x->n; c++)
        for (unsigned rows = rows_of_column(x, c); rows; rows &= rows - 1) {
            hga_id r = __builtin_ctz(rows);
            int number = edges_before(t, l, x, g, at + c, c, r);
            l->more |= number > l->number;
            if (number != l->number) continue;
            l->all->rows[g][at + c] = (lane_mask)(l->all->rows[g][at + c] | 1u << r);
            if (l->types[g]) l->types[g][(at + c) * KERNEL_TILE + r] = type_at(x, c, r);
        }
}

static void note_types(const tile_chooser *t, const row_band *x, hga_id g, hga_id at, void *context)
{
    const layer *l = context;
    (void)t;
    if (!l->types[g]) return; /* a hole is all that the band has of the block, as of all of its group's */
    for (hga_id c = 0; c < x->n; c++) row_band_types(x, c, l->types[g] + (at + c) * KERNEL_TILE);
}

/* ---- chunks ---- */

static hga_id first_accumulator(hga_id column) { return column / SUM_ACCUMULATORS * SUM_ACCUMULATORS; }

/* The first and the end of the columns that some row has; returns 0 if there are none. */
static int find_used(const lane_mask *rows, hga_id n, hga_id *first, hga_id *end)
{
    for (*first = 0; *first < n && !rows[*first];) ++*first;
    for (*end = n; *end > *first && !rows[*end - 1];) --*end;
    return *end > *first;
}

/* Writes columns [from, end) of the block. Columns that no row has may not be written yet: each is replaced by one that
   some row has. */
static void lay_some(const tile_chooser *t, const column_block *b, const hga_segment *s, const lane_mask *any,
                     hga_id from, hga_id end, edge_chunk *out)
{
    hga_id some = from;
    while (!any[some]) some++;
    put_columns(t, out, s, 0, end - from, b->begin + from, 0, 0);
    for (hga_id e = from; e < end; e++) {
        if (any[e]) some = e;
        out->src[e - from] = reader_source(t->reader, b->begin + some);
    }
    out->n = end - from;
}

/* Makes a chunk of the marked rows; the caller fills in its types, since it knows which edges these are. Returns NULL
   when no row is marked. */
static tile_chunk *lay_rows(tile_chooser *t, row_panel *p, const column_block *b, const hga_segment *s,
                            const block_rows *all, layer *l)
{
    lane_mask any[KERNEL_CHUNK] = {0};
    hga_id from, end, first, last;
    for (hga_id g = 0; g < p->n_groups; g++)
        for (hga_id c = 0; c < b->n; c++) any[c] |= all->rows[g][c];
    if (!find_used(any, b->n, &from, &end)) return NULL;
    from = first_accumulator(from);
    tile_chunk *c = open_chunk(t, p->n_groups);
    c->n_parts = 0, c->types_vary = t->types ? UINT64_MAX : 0;
    lay_some(t, b, s, any, from, end, &c->columns);
    for (hga_id g = 0; g < p->n_groups; g++) {
        l->types[g] = NULL;
        if (!find_used(all->rows[g], b->n, &first, &last)) continue;
        first = first_accumulator(first);
        hga_id part = c->n_parts++;
        memcpy(c->rows[part], all->rows[g] + from, (size_t)(end - from) * sizeof *any);
        c->part[part] = (tile_part){.group = &p->group[g],
                                    .first = first - from,
                                    .last = last - from,
                                    .full = columns_are_full(all->rows[g] + first, last - first, &p->group[g])};
        if (!t->types) continue;
        memset(chunk_pair_types(t, part, 0), -1, sizeof(int32_t) * KERNEL_CHUNK * KERNEL_TILE);
        l->types[g] = chunk_pair_types(t, part, 0) - (ptrdiff_t)from * KERNEL_TILE;
    }
    return c;
}

/* Makes a chunk for each index of an edge in its pair, where pairs have several edges. */
static void lay_layers(tile_chooser *t, row_panel *p, const column_block *b, const hga_segment *s, block_rows *all)
{
    layer l = {.all = all, .p = p, .block = b, .more = 1};
    for (; l.more; l.number++) {
        memset(all->rows, 0, sizeof all->rows);
        memset(l.types, 0, sizeof l.types);
        l.more = 0;
        visit_row_bands(t, p, b, class_of(s), note_layer, &l);
        if (!lay_rows(t, p, b, s, all, &l)) continue;
        if (t->types) visit_row_bands(t, p, b, class_of(s), note_layer, &l);
        close_chunk(t);
    }
}

/* Makes chunks of the edges of one class in the block: one, or one for each layer where pairs have several edges. */
static void lay_class(tile_chooser *t, row_panel *p, const column_block *b, const hga_segment *s)
{
    block_rows all;
    layer l = {.all = &all};
    memset(all.rows, 0, sizeof all.rows), all.twice = 0;
    visit_row_bands(t, p, b, class_of(s), note_row_band, &all);
    if (all.twice) {
        lay_layers(t, p, b, s, &all);
        return;
    }
    if (!lay_rows(t, p, b, s, &all, &l)) return;
    if (t->types) visit_row_bands(t, p, b, class_of(s), note_types, &l);
    close_chunk(t);
}

/* The first segment of the class after that of `last`; NULL: of the first class. */
static const hga_segment *next_class(const tile_chooser *t, const column_block *b, const hga_segment *last)
{
    const hga_segment *next = NULL;
    for (hga_pos i = 0; i < b->n_active; i++) {
        const hga_segment *s = &t->reader->segments.at[t->seen.own[i]];
        if (last && !class_before(class_of(last), class_of(s))) continue;
        if (!next || class_before(class_of(s), class_of(next))) next = s;
    }
    return next;
}

static void lay_block(tile_chooser *t, row_panel *p, const column_block *b)
{
    for (const hga_segment *s = next_class(t, b, NULL); s; s = next_class(t, b, s)) lay_class(t, p, b, s);
}

/* ---- the blocks of a panel ---- */

/* Orders by the column that chunks are counted from, then by source. */
static int begins_before(const segment_key *x, const segment_key *y)
{
    if (x->type != y->type) return x->type < y->type;
    return x->src != y->src ? x->src < y->src : x->segment < y->segment;
}

SORT_DEFINE(sort_by_source, segment_key, begins_before)

/* The block that contains source position `at`, counted from `first`, or from the first node of its level. */
static column_block block_at(const tile_chooser *t, int64_t first, int64_t at)
{
    const row_reader *r = t->reader;
    const hga_nodes nodes = r->ahead ? hga_graph_nodes(r->longer) : r->nodes;
    int64_t end = INT64_MAX;
    if (!r->r.src_order) {
        hga_id level = nodes.n_levels - 1;
        while (nodes.level_ptr[level] > at) level--;
        first = nodes.level_ptr[level], end = nodes.level_ptr[level + 1];
    }
    column_block b = {.begin = at - (at - first) % KERNEL_CHUNK};
    b.n = (hga_id)least(KERNEL_CHUNK, end - b.begin);
    return b;
}

static int64_t end_of_segment(const hga_segment *s) { return (int64_t)s->src + s->n_src; }

/* Makes the chunks of n segments whose chunks are counted from the same column. */
static void lay_blocks_of(tile_chooser *t, row_panel *p, const segment_key *key, hga_pos n)
{
    hga_pos next = 0, active = 0;
    for (int64_t at = 0; active || next < n;) {
        column_block b = block_at(t, key->type, active ? at : key[next].src);
        for (; next < n && key[next].src < b.begin + b.n; next++)
            t->seen.own[active++] = (hga_id)(key[next].segment - t->reader->segments.at);
        b.n_active = active, at = b.begin + b.n;
        lay_block(t, p, &b);
        hga_pos kept = 0;
        for (hga_pos i = 0; i < active; i++)
            if (end_of_segment(&t->reader->segments.at[t->seen.own[i]]) > at) t->seen.own[kept++] = t->seen.own[i];
        active = kept;
    }
}

/* All segments block by block, ordered by the column that chunks are counted from, then by source. */
static void lay_blocks(tile_chooser *t, row_panel *p)
{
    segment_key *key = t->reader->segments.key;
    const hga_pos n = t->reader->segments.n;
    for (hga_pos i = 0; i < n; i++) {
        const hga_segment *s = &t->reader->segments.at[i];
        key[i] = (segment_key){s->src, t->reader->from_instances ? s->src - s->src_inside : 0, s};
    }
    sort_by_source(key, n);
    for (hga_pos i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && key[end].type == key[i].type;) end++;
        lay_blocks_of(t, p, key + i, end - i);
    }
}

void choose_strictly(tile_chooser *t, row_panel *p)
{
    forget_twins(t->batch);
    for (hga_pos i = 0; i < t->reader->segments.n; i++) t->seen.tiled[i] = UINT16_MAX;
    for (hga_id g = 0; g < p->n_groups; g++) p->group[g].rest = has_explicit(t, &p->group[g]);
    lay_blocks(t, p);
    for (hga_id g = 0; g < p->n_groups; g++) p->group[g].complete = p->group[g].tiled && !p->group[g].rest;
    hand_over(t);
}
