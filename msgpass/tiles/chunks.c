/* chunks.c: columns packed into chunks: the open chunk and its batch; runs of a group's columns in narrow segments,
   made of row bands, the intersections of the group and each segment. Neighbouring groups often have the same columns:
   a chunk with the previous group's columns is not added again, but becomes one more part of that chunk. */
#include "lay.h"
#include "stage_plan.h"

#include <string.h>

void forget_twins(tile_batch *b) { b->twin = b->twin_end = 0, b->own_first = -1; }

/* Replaces column e by column `some`, whose type no pair uses there. */
static void leave_column_out(tile_chunk *chunk, hga_id e, hga_id some)
{
    edge_chunk *c = &chunk->columns;
    const uint64_t bit = UINT64_C(1) << e;
    chunk->types_vary = chunk->types_vary >> some & 1 ? chunk->types_vary | bit : chunk->types_vary & ~bit;
    c->src[e] = c->src[some], c->type[e] = c->type[some];
    c->pos_of[e] = c->pos_of[some], c->src_pos_of[e] = c->src_pos_of[some];
}

/* Empties a chunk without requested columns. Its parts stay, since groups may begin and end with them. */
static void leave_all_out(tile_chunk *c)
{
    c->columns.n = c->odd = 0;
    for (hga_id i = 0; i < c->n_parts; i++) c->part[i].first = c->part[i].last = 0;
}

/* Columns without requested rows must not be read and may not exist: each is replaced by a column that is read. */
static void leave_columns_out(tile_chunk *c)
{
    unsigned requested[PANEL_GROUPS];
    uint64_t read = 0;
    for (hga_id i = 0; i < c->n_parts; i++) requested[i] = requested_mask(c->part[i].group);
    for (hga_id e = 0; e < c->columns.n; e++)
        for (hga_id i = 0; i < c->n_parts; i++)
            if (e >= c->part[i].first && e < c->part[i].last && c->rows[i][e] & requested[i]) read |= UINT64_C(1) << e;
    if (!read) {
        leave_all_out(c);
        return;
    }
    hga_id some = (hga_id)__builtin_ctzll(read);
    for (hga_id e = 0; e < c->columns.n; e++) {
        if (read >> e & 1)
            some = e;
        else
            leave_column_out(c, e, some);
    }
}

/* Clears the types of pairs that no requested row has: they may not exist. */
static void leave_types_out(tile_batch *b, const tile_chunk *c)
{
    for (hga_id i = 0; i < c->n_parts; i++) {
        unsigned requested = requested_mask(c->part[i].group);
        for (hga_id e = c->part[i].first; e < c->part[i].last; e++)
            for (hga_id r = 0; r < KERNEL_TILE && c->types_vary >> e & 1; r++)
                if (!(c->rows[i][e] & requested & 1u << r))
                    b->pair_type[((ptrdiff_t)(c->typed + i) * KERNEL_CHUNK + e) * KERNEL_TILE + r] = -1;
    }
}

/* Runs the batch, without columns and types of rows that are not requested, and empties it. */
void hand_over(tile_chooser *t)
{
    for (hga_id i = 0; t->leaves_out && i < t->batch->n; i++) {
        tile_chunk *c = &t->batch->chunk[i];
        leave_columns_out(c);
        if (c->types_vary) leave_types_out(t->batch, c);
    }
    if (t->batch->n) t->run(t->context, t->batch);
    t->batch->n = t->batch->n_typed = 0;
    forget_twins(t->batch);
}

/* Whether the batch has capacity for one more chunk with so many typed parts. */
static int has_capacity(const tile_chooser *t, hga_id parts)
{
    return t->batch->n < BATCH_CHUNKS && (!t->types || t->batch->n_typed + parts <= PANEL_GROUPS);
}

tile_chunk *open_chunk(tile_chooser *t, hga_id parts)
{
    if (!t->open && !has_capacity(t, parts)) hand_over(t);
    tile_chunk *c = &t->batch->chunk[t->batch->n];
    if (!t->open) c->columns.n = 0, c->odd = 0, c->types_vary = 0;
    t->open = 1;
    return c;
}

static int same_columns(const tile_chooser *t, const edge_chunk *a, const edge_chunk *b)
{
    size_t n = (size_t)a->n;
    if (a->n != b->n || memcmp(a->src, b->src, n * sizeof *a->src) ||
        memcmp(a->weight, b->weight, n * sizeof *a->weight))
        return 0;
    return !t->types || !memcmp(a->type, b->type, n * sizeof *a->type);
}

/* Whether the chunk has parts of earlier groups only. A wide segment's chunk may have the group already, where pairs
   have two edges. */
static int is_before(const tile_chunk *c, const row_group *g)
{
    return c->part[c->n_parts - 1].group->number < g->number;
}

/* Adds a chunk with the same columns as the previous group's chunk to that as one more part. */
static int join_twin(const tile_chooser *t, const tile_chunk *c)
{
    tile_batch *b = t->batch;
    tile_chunk *twin = &b->chunk[b->twin];
    if (b->twin == b->twin_end || c->pairs || twin->pairs || !is_before(twin, c->part[0].group) ||
        c->odd != twin->odd || !same_columns(t, &c->columns, &twin->columns)) {
        b->twin = b->twin_end;
        return 0;
    }
    if (b->own_first < 0) b->own_first = b->twin;
    memcpy(twin->rows[twin->n_parts], c->rows[0], sizeof c->rows[0]);
    twin->part[twin->n_parts++] = c->part[0];
    b->twin++;
    return 1;
}

/* Whether any requested row has a column: not where only rows of the longer graph do. */
static int is_of_rows_here(const tile_chunk *c)
{
    unsigned seen = 0;
    for (hga_id i = 0; i < c->n_parts; i++) {
        unsigned requested = requested_mask(c->part[i].group);
        for (hga_id e = c->part[i].first; e < c->part[i].last; e++) seen |= c->rows[i][e] & requested;
    }
    return seen != 0;
}

/* Adds the chunk to the batch, or as a part to the previous group's chunk with the same columns. */
void close_chunk(tile_chooser *t)
{
    tile_batch *b = t->batch;
    tile_chunk *c = &b->chunk[b->n];
    t->open = 0;
    for (hga_id i = 0; i < c->n_parts; i++) c->part[i].group->laid = 1;
    if (t->reader->ahead && !is_of_rows_here(c)) return;
    c->pairs = t->positions || t->ranks || c->types_vary, c->typed = b->n_typed;
    for (hga_id i = 0; i < c->n_parts; i++) c->part[i].group->tiled = 1;
    if (join_twin(t, c)) return;
    if (b->own_first < 0) b->own_first = b->n;
    b->n++;
    if (c->types_vary) b->n_typed += c->n_parts;
    if (t->positions || t->ranks) hand_over(t); /* capacity: one chunk's positions, and biases of edges */
}

void next_group(tile_batch *b)
{
    b->twin = b->own_first < 0 ? b->n : b->own_first;
    b->twin_end = b->n, b->own_first = -1;
}

/* Writes n edges, from a source position on, as columns e .. of the chunk. */
void put_columns(const tile_chooser *t, edge_chunk *c, const hga_segment *s, hga_id e, hga_id n, int64_t position,
                 int64_t type, int32_t type_step)
{
    const hga_id *order = t->reader->r.src_order;
    const hga_id pos_of = reader_pos(t->reader, s->pos_of), src_pos_of = reader_pos(t->reader, s->src_pos_of);
    if (t->reader->ahead)
        for (hga_id i = 0; i < n; i++) c->src[e + i] = reader_source(t->reader, position + i);
    else
        for (hga_id i = 0; i < n; i++) c->src[e + i] = order ? order[position + i] : (hga_id)(position + i);
    for (hga_id i = 0; i < n; i++) c->weight[e + i] = s->weight;
    for (hga_id i = 0; i < n; i++) c->pos_of[e + i] = pos_of, c->src_pos_of[e + i] = src_pos_of;
    for (hga_id i = 0; i < n; i++) c->type[e + i] = (int32_t)(type + (int64_t)i * type_step); /* unless types vary */
}

/* ---- runs: a group's columns in narrow segments ---- */

/* A row with all of its edges in tiles saves the row kernel's overhead, about as much as so many edges cost
   (measured). */
enum { ROW_EDGES = 12 };

/* Branch-free, since the groups' bits follow no pattern. */
void list_own(tile_chooser *t, const row_group *g)
{
    hga_pos n = 0;
    for (hga_pos i = 0; i < t->reader->segments.n; i++) {
        t->seen.own[n] = (hga_id)i;
        n += (unsigned)t->seen.narrow[i] >> g->number & 1u;
    }
    t->seen.n_own = n;
}

/* Whether a row of the row band has already one of the run's columns [at, at + n), of which the first is the row band's
   first. */
static int meets(const run *r, const row_band *x, hga_id at, hga_id n)
{
    unsigned seen = 0;
    if (row_band_is_whole(x)) {
        for (hga_id c = 0; c < n; c++) seen |= r->rows[at + c];
        return (seen & row_band_mask(x)) != 0;
    }
    for (hga_id c = 0; c < n; c++) seen |= r->rows[at + c] & rows_of_column(x, c);
    return seen != 0;
}

/* Whether x can share tile columns with the run's row bands: not if a pair would be there twice, or if its scores have
   other terms than theirs. */
static int joins(const run *r, const row_band *x)
{
    const hga_segment *s = x->segment, *t = r->row_band.segment;
    if (s->weight != t->weight || s->pos_of != t->pos_of || s->src_pos_of != t->src_pos_of) return 0;
    if (x->src < r->src || x->src >= r->src + r->n || x->src + x->n > r->src + RUN_COLUMNS) return 0;
    hga_id at = (hga_id)(x->src - r->src);
    return !meets(r, x, at, (hga_id)least(x->n, r->n - at));
}

/* Adds the row band's columns to the run, each with the rows that have it. */
static void join_row_band(run *r, const row_band *x)
{
    hga_id at = (hga_id)(x->src - r->src);
    for (; r->n < at + x->n; r->n++) r->rows[r->n] = 0;
    if (row_band_is_whole(x)) {
        unsigned rows = row_band_mask(x);
        for (hga_id c = 0; c < x->n; c++) r->rows[at + c] = (lane_mask)(r->rows[at + c] | rows);
        r->any |= rows;
    } else {
        for (hga_id c = 0; c < x->n; c++) {
            unsigned rows = rows_of_column(x, c);
            r->rows[at + c] = (lane_mask)(r->rows[at + c] | rows);
            r->any |= rows;
        }
    }
    r->edges += row_band_edges(x);
    r->n_row_bands++;
}

/* Collects the row bands from the group's own segment `from` on that can be one tile; 0: none is left. */
int next_run(const tile_chooser *t, const row_group *g, hga_pos from, run *r)
{
    row_band x = {0};
    r->n_row_bands = 0;
    for (hga_pos i = from; i < t->seen.n_own; i++) {
        if (!row_band_trim(own_segment(t, i), g, &x)) continue;
        if (r->n_row_bands && !joins(r, &x)) break;
        if (!r->n_row_bands) {
            r->first = i, r->row_band = x;
            r->src = x.src, r->n = 0, r->edges = 0, r->any = 0;
        }
        join_row_band(r, &x);
        r->last = i + 1;
    }
    return r->n_row_bands > 0;
}

int run_pays(const tile_chooser *t, const row_group *g, const run *r)
{
    hga_id saved = t->reader->r.ptr ? 0 : ROW_EDGES * __builtin_popcount(r->any);
    return (double)(r->edges + saved) >= TILE_SHARE * g->n_rows * r->n;
}

void mark_run(tile_chooser *t, const row_group *g, const run *r)
{
    for (hga_pos i = r->first; i < r->last; i++)
        t->seen.tiled[t->seen.own[i]] = (uint16_t)(t->seen.tiled[t->seen.own[i]] | 1u << g->number);
}

void load_run_types(tile_chooser *t, const row_group *g, const run *r)
{
    row_band x;
    memset(t->run_type, -1, (size_t)r->n * KERNEL_TILE * sizeof *t->run_type);
    for (hga_pos i = r->first; i < r->last; i++) {
        if (!row_band_trim(own_segment(t, i), g, &x)) continue;
        for (hga_id c = 0; c < x.n; c++) row_band_types(&x, c, t->run_type + (x.src + c - r->src) * KERNEL_TILE);
    }
}

/* ---- row bands: what a group has of a segment ---- */

/* Intersects a segment with the group's rows, and its columns with those that any of them has; 0: empty. */
int row_band_trim(const hga_segment *s, const row_group *g, row_band *out)
{
    int64_t shift = (int64_t)g->first - s->row; /* the segment's own row of lane 0 */
    int64_t r0 = most(0, -shift), r1 = least(g->n_rows, s->n_rows - shift);
    int64_t lo = shift + s->band_first, hi = shift + s->band_last;
    int64_t c0 = most(0, r0 + lo), c1 = least(s->n_src, r1 + hi);
    if (r0 >= r1 || c0 >= c1) return 0;
    out->segment = s;
    out->row_first = (hga_id)r0, out->row_last = (hga_id)r1;
    out->n = (hga_id)(c1 - c0), out->src = (hga_id)(s->src + c0);
    out->band_first = lo - c0, out->band_last = hi - c0, out->hole = shift + s->hole - c0;
    out->type = s->type + shift * s->type_dst + c0 * s->type_src;
    return 1;
}

int row_band_cut(const row_band *x, int64_t src, hga_id n, row_band *out)
{
    int64_t c0 = most(0, src - x->src), c1 = least(x->n, src + n - x->src);
    if (c0 >= c1) return 0;
    *out = *x;
    out->src = (hga_id)(x->src + c0), out->n = (hga_id)(c1 - c0);
    out->band_first -= c0, out->band_last -= c0, out->hole -= c0;
    out->type += c0 * x->segment->type_src;
    return 1;
}

int64_t row_band_edges(const row_band *x)
{
    int64_t edges = 0;
    if (row_band_is_whole(x)) return (int64_t)(x->row_last - x->row_first) * x->n;
    for (hga_id r = x->row_first; r < x->row_last; r++) {
        int64_t c0 = most(0, r + x->band_first), c1 = least(x->n, r + x->band_last + 1), hole = r + x->hole;
        if (c1 > c0) edges += c1 - c0 - (x->segment->has_hole && hole >= c0 && hole < c1);
    }
    return edges;
}

int row_band_pays(const row_band *x) { return (double)row_band_edges(x) >= TILE_SHARE * KERNEL_TILE * x->n; }

int row_band_is_wide(const row_band *x)
{
    int64_t first = most(x->band_first, 1 - (int64_t)KERNEL_TILE), last = least(x->band_last, x->n - 1);
    return least(x->n, last - first + 1) >= 2 * KERNEL_CHUNK;
}

/* Writes the types of all lanes from the first to the last that have the column; a hole between them keeps its old
   type. */
void row_band_types(const row_band *x, hga_id c, int32_t *type)
{
    const unsigned rows = rows_of_column(x, c);
    const uint32_t step = (uint32_t)x->segment->type_dst;
    if (!rows) return;
    const hga_id first = __builtin_ctz(rows), end = 32 - __builtin_clz(rows);
    const unsigned missing = ((2u << (end - 1)) - (1u << first)) & ~rows;
    const hga_id hole = missing ? __builtin_ctz(missing) : first;
    const int32_t kept = type[hole];
    uint32_t next = (uint32_t)(x->type + (int64_t)c * x->segment->type_src) + (uint32_t)first * step;
    for (hga_id r = first; r < end; r++, next += step) type[r] = (int32_t)next;
    if (missing) type[hole] = kept;
}

int columns_are_full(const lane_mask *rows, hga_id n, const row_group *g)
{
    unsigned all = (1u << g->n_rows) - 1;
    for (hga_id c = 0; c < n; c++)
        if (rows[c] != all) return 0;
    return 1;
}

/* ---- lookups ---- */

int32_t *chunk_pair_types(const tile_chooser *t, hga_id i, hga_id e)
{
    return t->batch->pair_type + ((ptrdiff_t)(t->batch->n_typed + i) * KERNEL_CHUNK + e) * KERNEL_TILE;
}

const hga_segment *own_segment(const tile_chooser *t, hga_pos i) { return &t->reader->segments.at[t->seen.own[i]]; }

int run_types_are_columns(const run *r) { return r->n_row_bands == 1 && !r->row_band.segment->type_dst; }

int has_explicit(const tile_chooser *t, const row_group *g)
{
    const hga_relation *r = &t->reader->r;
    for (hga_id i = 0; i < g->n_rows && r->ptr; i++) {
        hga_id v = row_node(g->node[i]);
        if (v >= 0 && r->ptr[v + 1] > r->ptr[v]) return 1;
    }
    return 0;
}
