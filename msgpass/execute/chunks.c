/* chunks.c: the open chunk, and the batch that it joins. Neighbouring groups often have the same columns: a chunk with
   the previous group's columns is not added again, but becomes one more part of that chunk. */
#include "lay.h"
#include "phases.h"

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
    c->pairs = t->positions || c->types_vary, c->typed = b->n_typed;
    for (hga_id i = 0; i < c->n_parts; i++) c->part[i].group->tiled = 1;
    if (join_twin(t, c)) return;
    if (b->own_first < 0) b->own_first = b->n;
    b->n++;
    if (c->types_vary) b->n_typed += c->n_parts;
    if (t->positions) hand_over(t); /* capacity: one chunk's positions */
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
