/* choose_tiles.c: which edges of a panel are computed in tiles, as data. Sixteen rows are a group; the columns that
   enough of them share, of whatever segments, are laid side by side into chunks, and those go into a batch. A wide
   segment is passed through once for all groups of the panel, a chunk at a time, so that its keys and values come from
   memory once a panel. What is left of a row (narrow bands, explicit edges) stays with the row. What goes where depends
   on the graph and on whether scores tell types and positions apart, never on the threads; nothing here computes. */
#include "strips.h"

#include <string.h>

/* A row that has all of its edges in tiles is spared what the row kernel takes for a row, about as much as for so many
   edges (measured). */
enum { ROW_EDGES = 12 };

/* ---- chunks and batches ---- */

static void forget_twins(tile_batch *b) { b->twin = b->twin_end = 0, b->own_first = -1; }

/* What has been laid is done with. */
static void hand_over(tile_chooser *t)
{
    if (t->batch->n) t->run(t->context, t->batch);
    t->batch->n = 0;
    forget_twins(t->batch);
}

/* The chunk that is being laid, or a new one. */
static tile_chunk *open_chunk(tile_chooser *t)
{
    if (!t->open && t->batch->n == BATCH_CHUNKS) hand_over(t);
    tile_chunk *c = &t->batch->chunk[t->batch->n];
    if (!t->open) c->columns.n = 0, c->types_vary = 0;
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

/* Has none but groups before this one? A wide segment's chunk may have the group already, where pairs have two edges.
   */
static int is_before(const tile_chunk *c, const row_group *g)
{
    return c->part[c->n_parts - 1].group->number < g->number;
}

/* The chunk being laid has the columns that the group before had: one more part there. */
static int join_twin(const tile_chooser *t, const tile_chunk *c)
{
    tile_batch *b = t->batch;
    tile_chunk *twin = &b->chunk[b->twin];
    if (b->twin == b->twin_end || c->pairs || !is_before(twin, c->part[0].group) ||
        !same_columns(t, &c->columns, &twin->columns)) {
        b->twin = b->twin_end;
        return 0;
    }
    if (b->own_first < 0) b->own_first = b->twin;
    memcpy(twin->rows[twin->n_parts], c->rows[0], sizeof c->rows[0]);
    twin->part[twin->n_parts++] = c->part[0];
    b->twin++;
    return 1;
}

/* The open chunk is full, or its group has no more columns. Of chunks whose pairs differ there is room for one. */
static void close_chunk(tile_chooser *t)
{
    tile_batch *b = t->batch;
    tile_chunk *c = &b->chunk[b->n];
    t->open = 0;
    c->pairs = t->positions || c->types_vary;
    for (hga_id i = 0; i < c->n_parts; i++) c->part[i].group->tiled = 1;
    if (join_twin(t, c)) return;
    if (b->own_first < 0) b->own_first = b->n;
    b->n++;
    if (c->pairs) hand_over(t);
}

/* The chunks to come belong to another group. */
static void next_group(tile_batch *b)
{
    b->twin = b->own_first < 0 ? b->n : b->own_first;
    b->twin_end = b->n, b->own_first = -1;
}

/* What columns [e, e + n) of the chunk are, whoever has them: those at source positions [position, position + n). */
static void put_columns(const tile_chooser *t, edge_chunk *c, const hga_segment *s, hga_id e, hga_id n,
                        int64_t position, int64_t type, int32_t type_step)
{
    const hga_id *order = t->reader->r.src_order;
    for (hga_id i = 0; i < n; i++) c->src[e + i] = order ? order[position + i] : (hga_id)(position + i);
    for (hga_id i = 0; i < n; i++) c->weight[e + i] = s->weight;
    for (hga_id i = 0; i < n; i++) c->pos_of[e + i] = s->pos_of, c->src_pos_of[e + i] = s->src_pos_of;
    for (hga_id i = 0; i < n; i++) c->type[e + i] = (int32_t)(type + (int64_t)i * type_step); /* unless types vary */
}

/* ---- narrow tiles: one group, columns of any segments side by side ---- */

static void close_narrow(tile_chooser *t, row_group *g)
{
    tile_chunk *c = &t->batch->chunk[t->batch->n];
    if (!t->open) return;
    c->n_parts = 1;
    c->part[0] = (tile_part){.group = g, .last = c->columns.n, .full = columns_are_full(c->rows[0], c->columns.n, g)};
    close_chunk(t);
}

/* Types of column e, lane by lane, of part i of the open chunk. */
static int32_t *pair_types(const tile_chooser *t, hga_id i, hga_id e)
{
    return t->batch->pair_type + ((ptrdiff_t)i * KERNEL_CHUNK + e) * KERNEL_TILE;
}

/* ---- runs: narrow strips side by side, or one over the other ---- */

/* Numbers first .. last - 1 of the group's segments, as its rows see them: source positions [src, src + n), and which
   rows have each. Windows that move on by a column every row or two overlap almost wholly: each alone is a thin strip,
   all together are a full tile. */
typedef struct run {
    hga_pos first, last;
    hga_id n_strips, n;
    int64_t src, edges;
    unsigned any; /* rows that have some column */
    strip strip;  /* the first one */
    uint16_t rows[RUN_COLUMNS];
} run;

/* Could some group have many columns of the segment? */
static int may_be_wide(const hga_segment *s)
{
    return least(s->n_src, (int64_t)s->band_last - s->band_first + 1) >= 2 * KERNEL_CHUNK;
}

/* Segments that go into runs and in which the group has rows; without a branch, for they come in no pattern. */
static void list_own(tile_chooser *t, const row_group *g)
{
    hga_pos n = 0;
    for (hga_pos i = 0; i < t->reader->n_segments; i++) {
        t->own[n] = (hga_id)i;
        n += (unsigned)t->narrow[i] >> g->number & 1u;
    }
    t->n_own = n;
}
static const hga_segment *own_segment(const tile_chooser *t, hga_pos i) { return &t->reader->segment[t->own[i]]; }

/* Has a row of the strip one of the run's columns [at, at + n) already, of which the first is the strip's first? */
static int meets(const run *r, const strip *x, hga_id at, hga_id n)
{
    unsigned seen = 0;
    if (strip_is_whole(x)) {
        for (hga_id c = 0; c < n; c++) seen |= r->rows[at + c];
        return (seen & strip_lanes(x)) != 0;
    }
    for (hga_id c = 0; c < n; c++) seen |= r->rows[at + c] & rows_of_column(x, c);
    return seen != 0;
}

/* Could x stand in one tile column with the run's strips? Not if a pair would be there twice, or if what makes its
   score differs from theirs. */
static int joins(const run *r, const strip *x)
{
    const hga_segment *s = x->segment, *t = r->strip.segment;
    if (s->weight != t->weight || s->pos_of != t->pos_of || s->src_pos_of != t->src_pos_of) return 0;
    if (x->src < r->src || x->src >= r->src + r->n || x->src + x->n > r->src + RUN_COLUMNS) return 0;
    hga_id at = (hga_id)(x->src - r->src);
    return !meets(r, x, at, (hga_id)least(x->n, r->n - at));
}

static void join(run *r, const strip *x)
{
    hga_id at = (hga_id)(x->src - r->src);
    for (; r->n < at + x->n; r->n++) r->rows[r->n] = 0;
    if (strip_is_whole(x)) {
        unsigned rows = strip_lanes(x);
        for (hga_id c = 0; c < x->n; c++) r->rows[at + c] = (uint16_t)(r->rows[at + c] | rows);
        r->any |= rows;
    } else {
        for (hga_id c = 0; c < x->n; c++) {
            unsigned rows = rows_of_column(x, c);
            r->rows[at + c] = (uint16_t)(r->rows[at + c] | rows);
            r->any |= rows;
        }
    }
    r->edges += strip_edges(x);
    r->n_strips++;
}

/* The run that begins at number `from` or later; 0 when there is none. */
static int next_run(const tile_chooser *t, const row_group *g, hga_pos from, run *r)
{
    strip x = {0};
    r->n_strips = 0;
    for (hga_pos i = from; i < t->n_own; i++) {
        if (!strip_trim(own_segment(t, i), g, &x)) continue;
        if (r->n_strips && !joins(r, &x)) break;
        if (!r->n_strips) {
            r->first = i, r->strip = x;
            r->src = x.src, r->n = 0, r->edges = 0, r->any = 0;
        }
        join(r, &x);
        r->last = i + 1;
    }
    return r->n_strips > 0;
}

/* The rows that are there stand for sixteen: a level's last group, of which there is one, goes the way that it would go
   with more rows behind it. */
static int run_pays(const tile_chooser *t, const row_group *g, const run *r)
{
    hga_id saved = t->reader->r.ptr ? 0 : ROW_EDGES * __builtin_popcount(r->any);
    return (double)(r->edges + saved) >= TILE_SHARE * g->n_rows * r->n;
}

static void mark_run(tile_chooser *t, const row_group *g, const run *r)
{
    for (hga_pos i = r->first; i < r->last; i++)
        t->tiled[t->own[i]] = (uint16_t)(t->tiled[t->own[i]] | 1u << g->number);
}

/* Types of all pairs of a run, from the strips that have them; -1 without an edge. */
static void load_run_types(tile_chooser *t, const row_group *g, const run *r)
{
    strip x;
    memset(t->run_type, -1, (size_t)r->n * KERNEL_TILE * sizeof *t->run_type);
    for (hga_pos i = r->first; i < r->last; i++) {
        if (!strip_trim(own_segment(t, i), g, &x)) continue;
        for (hga_id c = 0; c < x.n; c++) strip_types(&x, c, t->run_type + (x.src + c - r->src) * KERNEL_TILE);
    }
}

/* Columns [i, end) of a run, each of which some row has. Of strips over one another pairs of one column have the types
   of different strips. */
static void add_columns(tile_chooser *t, row_group *g, const run *r, hga_id i, hga_id end)
{
    const hga_segment *s = r->strip.segment;
    const int joined = r->n_strips > 1;
    for (hga_id n; i < end; i += n) {
        tile_chunk *c = open_chunk(t);
        hga_id e = c->columns.n;
        n = (hga_id)least(end - i, KERNEL_CHUNK - e);
        if (t->types) {
            memcpy(pair_types(t, 0, e), t->run_type + i * KERNEL_TILE, (size_t)n * KERNEL_TILE * sizeof *t->run_type);
            c->types_vary |= joined || s->type_dst != 0;
        }
        put_columns(t, &c->columns, s, e, n, r->src + i, joined ? 0 : r->strip.type + (int64_t)i * s->type_src,
                    joined ? 0 : s->type_src);
        memcpy(c->rows[0] + e, r->rows + i, (size_t)n * sizeof *r->rows);
        if ((c->columns.n += n) == KERNEL_CHUNK) close_narrow(t, g);
    }
}

static void add_run(tile_chooser *t, row_group *g, const run *r)
{
    if (t->types) load_run_types(t, g, r);
    for (hga_id i = 0, end; i < r->n; i = end + 1) {
        for (end = i; end < r->n && r->rows[end]; end++) {}
        add_columns(t, g, r, i, end);
    }
}

/* ---- wide segments: all groups of the panel ---- */

/* A part for each group that has the strip's columns [at, at + n). */
static void find_parts(const tile_chooser *t, row_panel *p, const strip *whole, int64_t at, hga_id n, tile_chunk *out)
{
    strip x;
    out->n_parts = 0;
    for (hga_id g = 0; g < p->n_groups; g++) {
        if (!whole[g].segment || !strip_cut(&whole[g], at, n, &x)) continue;
        uint16_t *rows = out->rows[out->n_parts];
        hga_id first = (hga_id)(x.src - at);
        memset(rows, 0, sizeof out->rows[0]);
        for (hga_id c = 0; c < x.n; c++) rows[first + c] = (uint16_t)rows_of_column(&x, c);
        if (out->types_vary) {
            int32_t *types = pair_types(t, out->n_parts, first);
            memset(types, -1, (size_t)x.n * KERNEL_TILE * sizeof *types);
            for (hga_id c = 0; c < x.n; c++) strip_types(&x, c, types + (ptrdiff_t)c * KERNEL_TILE);
        }
        out->part[out->n_parts++] = (tile_part){.group = &p->group[g],
                                                .first = first,
                                                .last = first + x.n,
                                                .full = columns_are_full(rows + first, x.n, &p->group[g])};
    }
}

/* Columns of the chunk that begins at column `at` of a segment: chunks begin at multiples of KERNEL_CHUNK inside the
   block's instance, wherever the panel's rows begin to see it. */
static hga_id chunk_columns(const hga_segment *s, hga_id at)
{
    hga_id n = KERNEL_CHUNK - (s->src_inside + at) % KERNEL_CHUNK;
    return s->n_src - at < n ? s->n_src - at : n;
}

/* A wide segment's columns, a chunk at a time, for all groups that have it in tiles. */
static void lay_segment(tile_chooser *t, row_panel *p, hga_pos i)
{
    const hga_segment *s = &t->reader->segment[i];
    strip whole[PANEL_GROUPS] = {{0}};
    for (hga_id g = 0; g < p->n_groups; g++)
        if ((unsigned)t->tiled[i] >> g & 1u) strip_trim(s, &p->group[g], &whole[g]);
    for (hga_id at = 0, n; at < s->n_src; at += n) {
        n = chunk_columns(s, at);
        tile_chunk *c = open_chunk(t);
        c->types_vary = t->types && s->type_dst != 0;
        find_parts(t, p, whole, (int64_t)s->src + at, n, c);
        if (!c->n_parts) continue; /* nobody has the columns: it is the next one's chunk */
        put_columns(t, &c->columns, s, 0, n, (int64_t)s->src + at, s->type + (int64_t)at * s->type_src, s->type_src);
        c->columns.n = n;
        close_chunk(t);
    }
    t->open = 0;
}

static int has_explicit(const tile_chooser *t, const row_group *g)
{
    const hga_relation *r = &t->reader->r;
    for (hga_id i = 0; i < g->n_rows && r->ptr; i++)
        if (g->node[i] >= 0 && r->ptr[g->node[i] + 1] > r->ptr[g->node[i]]) return 1;
    return 0;
}

/* Are there edges of the group that are not in tiles (yet)? */
static int has_more(const tile_chooser *t, const row_group *g)
{
    strip x;
    if (t->reader->relation < 0 || has_explicit(t, g)) return 1;
    for (hga_pos i = 0; i < t->reader->n_segments; i++)
        if (!((unsigned)t->tiled[i] >> g->number & 1u) && strip_trim(&t->reader->segment[i], g, &x)) return 1;
    return 0;
}

/* The groups of a panel that have rows of a segment. */
static unsigned groups_of(const row_panel *p, const hga_segment *s)
{
    const row_group *end = &p->group[p->n_groups - 1];
    hga_id first = p->group[0].first, begin = s->row > first ? s->row - first : 0;
    int64_t last = least((int64_t)s->row + s->n_rows, (int64_t)end->first + end->n_rows) - 1 - first;
    if (last < begin) return 0;
    return ((2u << last / KERNEL_TILE) - 1) & ~((1u << begin / KERNEL_TILE) - 1);
}

/* The groups that have many columns of segment i, and not as a narrow strip: in tiles, or row by row. */
static void find_wide(tile_chooser *t, row_panel *p, hga_pos i)
{
    const hga_segment *s = &t->reader->segment[i];
    strip x;
    for (hga_id g = 0; g < p->n_groups && may_be_wide(s); g++) {
        unsigned bit = 1u << g;
        if (!(t->narrow[i] & bit) || !strip_trim(s, &p->group[g], &x) || !strip_is_wide(&x)) continue;
        t->narrow[i] = (uint16_t)(t->narrow[i] & ~bit);
        if (strip_pays(&x))
            t->tiled[i] = (uint16_t)(t->tiled[i] | bit);
        else
            p->group[g].rest = 1;
    }
}

/* Wide strips are laid; who has rows of the others is noted. */
static void lay_wide(tile_chooser *t, row_panel *p)
{
    int some = 0;
    for (hga_pos i = 0; i < t->reader->n_segments; i++) {
        t->tiled[i] = 0, t->narrow[i] = (uint16_t)groups_of(p, &t->reader->segment[i]);
        find_wide(t, p, i);
        if (t->tiled[i]) lay_segment(t, p, i), some = 1;
    }
    for (hga_id g = 0; some && g < p->n_groups; g++)
        p->group[g].complete = p->group[g].tiled && !has_more(t, &p->group[g]);
}

/* ---- families: a few rows with the same few columns ---- */

/* Has each row edges of one narrow segment at most, and would a tile be mostly empty? */
static int has_families(const tile_chooser *t, const row_group *g)
{
    unsigned seen = 0;
    int64_t edges = 0, columns = 0, end = 0;
    strip x;
    if (!t->run_family || g->tiled || g->rest) return 0;
    for (hga_pos i = 0; i < t->n_own; i++) {
        if (!strip_trim(own_segment(t, i), g, &x)) continue;
        if (x.n > KERNEL_FAMILY || seen & strip_lanes(&x)) return 0;
        seen |= strip_lanes(&x), edges += strip_edges(&x);
        columns += most(x.src + x.n - most(x.src, end), 0), end = most(end, x.src + x.n);
    }
    return edges > 0 && (double)edges < FAMILY_SHARE * (double)(g->n_rows * columns);
}

static void hand_over_families(const tile_chooser *t, row_group *g)
{
    strip x;
    for (hga_pos i = 0; i < t->n_own; i++) {
        if (!strip_trim(own_segment(t, i), g, &x)) continue;
        g->in_families |= strip_lanes(&x);
        t->run_family(t->context, g, &x);
    }
}

/* ---- a panel of groups ---- */

/* A group's runs, side by side. */
static void lay_narrow(tile_chooser *t, row_group *g)
{
    run r;
    if (g->complete) return;
    next_group(t->batch);
    if (t->reader->relation < 0 || has_explicit(t, g)) g->rest = 1;
    list_own(t, g);
    if (has_families(t, g)) {
        hand_over_families(t, g);
        return;
    }
    for (hga_pos at = 0; next_run(t, g, at, &r); at = r.last) {
        if (run_pays(t, g, &r)) {
            mark_run(t, g, &r);
            add_run(t, g, &r);
        } else {
            g->rest = 1;
        }
    }
    close_narrow(t, g);
    g->complete = g->tiled && !g->rest;
}

void choose_tiles(tile_chooser *t, row_panel *p)
{
    t->batch->n = 0, t->batch->pair_type = t->pair_type, t->open = 0;
    forget_twins(t->batch);
    lay_wide(t, p);
    for (hga_id g = 0; g < p->n_groups; g++) lay_narrow(t, &p->group[g]);
    hand_over(t);
}
