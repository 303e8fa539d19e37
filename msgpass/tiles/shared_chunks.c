/* shared_chunks.c: long runs of columns, in chunks that the groups of a panel share: a chunk's keys and values are
   loaded into the first cache once for all of them, and the kernel takes two groups at a time. Chunks begin at
   multiples of KERNEL_CHUNK from the first node of the columns' level, in the order of each group's own runs: so a
   row's bits do not depend on the other groups. */
#include "lay.h"
#include "stage_plan.h"

#include <string.h>

/* Runs of at least so many columns, of which sixteen rows have at least this share: they move slowly from row to row,
   so that neighbouring groups have nearly the same. Others are a chunk or two of the group's own, which chunks at fixed
   positions would cut up (measured: windows of 20 and 45 to either side would take 1.3 and 1.1 times as long). */
enum { LONG_RUN = 56 };
static const double SLOW_SHARE = 0.88;

static int moves_slowly(const row_group *g, const run *r)
{
    hga_id columns = 0;
    for (hga_id c = 0; c < r->n; c++) columns += r->rows[c] != 0;
    return columns >= LONG_RUN && (double)r->edges >= SLOW_SHARE * g->n_rows * columns;
}

static int64_t level_begin(const row_reader *r, int64_t v)
{
    const hga_nodes nodes = r->ahead ? hga_graph_nodes(r->longer) : r->nodes;
    hga_id level = nodes.n_levels - 1;
    while (nodes.level_ptr[level] > v) level--;
    return nodes.level_ptr[level];
}

/* Index of the run's first column in its chunk. */
static hga_id index_inside(const tile_chooser *t, const run *r)
{
    return (hga_id)((r->src - level_begin(t->reader, r->src)) % KERNEL_CHUNK);
}

/* Not where types or positions differ from pair to pair: a batch has capacity for one such chunk only. */
int is_shared_run(const tile_chooser *t, const row_group *g, const run *r)
{
    if (t->types || t->positions || t->reader->r.src_order || r->n < LONG_RUN || !moves_slowly(g, r)) return 0;
    return g->n_shared + (index_inside(t, r) + r->n - 1) / KERNEL_CHUNK < SHARED_PARTS;
}

/* ---- the list of chunks ---- */

static shared_chunk *chunk_at(shared_chunks *s, hga_id slot) { return &s->chunk[s->order[slot]]; }

/* Inserts a new chunk at a slot, before the one that is there. */
static shared_chunk *insert_chunk(shared_chunks *s, hga_id slot)
{
    memmove(s->order + slot + 1, s->order + slot, (size_t)(s->n_chunks - slot) * sizeof *s->order);
    s->order[slot] = (uint16_t)s->n_chunks++;
    return chunk_at(s, slot);
}

/* Finds or inserts the chunk that begins at source position `begin`, after the group's last one at *slot, which becomes
   its slot. */
static shared_chunk *find_chunk(shared_chunks *s, const hga_segment *segment, int64_t begin, hga_id *slot)
{
    for (hga_id i = *slot + 1; i < s->n_chunks; i++) {
        shared_chunk *c = chunk_at(s, i);
        if (c->begin != begin || c->segment->weight != segment->weight) continue;
        *slot = i;
        return c;
    }
    shared_chunk *c = insert_chunk(s, ++*slot);
    *c = (shared_chunk){.segment = segment, .begin = begin, .first = -1, .last = -1};
    return c;
}

/* Appends a part for one more group to the chunk. */
static shared_part *add_part(shared_chunks *s, shared_chunk *c, row_group *g)
{
    hga_id i = s->n_parts++;
    if (c->first < 0)
        c->first = i;
    else
        s->part[c->last].next = i;
    c->last = i;
    s->part[i] = (shared_part){.group = g, .next = -1};
    return &s->part[i];
}

/* Bit mask, from bit `inside` on, of the columns [i, i + n) of a run that some row has. */
static uint64_t bits_of_columns(const run *r, hga_id i, hga_id n, hga_id inside)
{
    uint64_t columns = 0;
    for (hga_id c = 0; c < n; c++) columns |= (uint64_t)(r->rows[i + c] != 0) << (inside + c);
    return columns;
}

/* Cuts a run at the beginnings of chunks, and adds each range to its chunk as a part of the group's. */
void share_run(tile_chooser *t, row_group *g, const run *r, hga_id *slot)
{
    hga_id inside = index_inside(t, r);
    for (hga_id i = 0, n; i < r->n; i += n, inside = 0) {
        n = (hga_id)least(r->n - i, KERNEL_CHUNK - inside);
        uint64_t columns = bits_of_columns(r, i, n, inside);
        if (!columns) continue;
        shared_chunk *c = find_chunk(t->shared, r->row_band.segment, r->src + i - inside, slot);
        shared_part *part = add_part(t->shared, c, g);
        c->columns |= columns, part->columns = columns;
        memcpy(part->rows + inside, r->rows + i, (size_t)n * sizeof *r->rows);
        g->n_shared++;
    }
}

/* ---- as tiles ---- */

static hga_id first_of(uint64_t columns) { return (hga_id)__builtin_ctzll(columns); }
static hga_id end_of(uint64_t columns) { return KERNEL_CHUNK - (hga_id)__builtin_clzll(columns); }
static hga_id first_accumulator(hga_id column) { return column / SUM_ACCUMULATORS * SUM_ACCUMULATORS; }

/* Writes columns [from, end) of the chunk. A column that no part has must not be read and may not be written yet: it is
   replaced by one that is present. */
static void lay_some_columns(const tile_chooser *t, const shared_chunk *s, hga_id from, hga_id end, edge_chunk *out)
{
    hga_id some = first_of(s->columns);
    put_columns(t, out, s->segment, 0, end - from, s->begin + from, 0, 0);
    for (hga_id e = from; e < end; e++) {
        if (s->columns >> e & 1) some = e;
        out->src[e - from] = reader_source(t->reader, s->begin + some);
    }
    out->n = end - from;
}

/* Makes a chunk with all of its parts, from the first column to the last that some group has. */
static void lay_chunk(tile_chooser *t, const shared_chunk *s)
{
    tile_chunk *c = open_chunk(t, PANEL_GROUPS);
    hga_id from = first_accumulator(first_of(s->columns)), end = end_of(s->columns);
    lay_some_columns(t, s, from, end, &c->columns);
    c->n_parts = 0;
    for (hga_id i = s->first; i >= 0; i = t->shared->part[i].next) {
        const shared_part *part = &t->shared->part[i];
        hga_id first = first_accumulator(first_of(part->columns)), last = end_of(part->columns);
        memcpy(c->rows[c->n_parts], part->rows + from, (size_t)(end - from) * sizeof *part->rows);
        c->part[c->n_parts++] = (tile_part){.group = part->group,
                                            .first = first - from,
                                            .last = last - from,
                                            .full = columns_are_full(part->rows + first, last - first, part->group)};
    }
    close_chunk(t);
}

void lay_shared(tile_chooser *t)
{
    forget_twins(t->batch);
    for (hga_id i = 0; i < t->shared->n_chunks; i++) lay_chunk(t, chunk_at(t->shared, i));
}
