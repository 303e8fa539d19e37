/* choose_tiles.c: which edges of a panel are computed in tiles. Sixteen rows are a group; the columns that enough of
   them share, of whatever segments, are laid side by side into chunks, and those go into a block (block.c computes it).
   A wide segment is passed through once for all groups of the panel, a chunk at a time, so that its keys and values
   come from memory once a panel. What is left of a row (narrow bands, explicit edges) goes through the row kernel, into
   the same states. What goes where depends on the graph and on what the call brings, never on the threads. */
#include "tiles.h"

#include <string.h>

/* A column in a tile costs about as much as this many of its sixteen pairs in the row kernel (measured); a segment with
   fewer edges stays with the rows. */
static const double TILE_SHARE = 0.45;

/* A row that has all of its edges in tiles is spared what the row kernel takes for a row, about as much as for so many
   edges (measured). */
enum { ROW_EDGES = 12 };

/* ---- which columns ---- */

/* The part of a segment that meets a group's rows. Lane r has the columns c in [0, n) with band_first <= c - r <=
   band_last but c - r != hole. */
typedef struct strip {
    const hga_segment *segment;
    hga_id row_first, row_last, n;
    hga_id src; /* position of column 0 */
    int64_t band_first, band_last, hole;
    int64_t type; /* of lane 0 and column 0 */
} strip;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* 0 when nothing of the segment is left. */
static int trim(const hga_segment *s, const tile_group *g, strip *out)
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

/* The lanes that have column c, as bits. */
static unsigned rows_of_column(const strip *x, hga_id c)
{
    int64_t r0 = most(x->row_first, c - x->band_last), r1 = least(x->row_last, c - x->band_first + 1),
            hole = c - x->hole;
    if (r0 >= r1) return 0;
    unsigned rows = ((1u << (r1 - r0)) - 1) << r0;
    return x->segment->has_hole && hole >= r0 && hole < r1 ? rows & ~(1u << hole) : rows;
}

static int64_t strip_edges(const strip *x)
{
    int64_t edges = 0;
    for (hga_id r = x->row_first; r < x->row_last; r++) {
        int64_t c0 = most(0, r + x->band_first), c1 = least(x->n, r + x->band_last + 1), hole = r + x->hole;
        if (c1 > c0) edges += c1 - c0 - (x->segment->has_hole && hole >= c0 && hole < c1);
    }
    return edges;
}

static int pays(const strip *x) { return (double)strip_edges(x) >= TILE_SHARE * KERNEL_TILE * x->n; }

/* ---- columns ---- */

/* Types of a strip's column c, lane by lane. */
static void types_of_column(const strip *x, hga_id c, int32_t *type)
{
    unsigned rows = rows_of_column(x, c);
    for (hga_id r = 0; r < KERNEL_TILE; r++)
        if (rows >> r & 1u)
            type[r] = (int32_t)(x->type + (int64_t)c * x->segment->type_src + (int64_t)r * x->segment->type_dst);
}

/* What column e of the chunk is, whoever has it. */
static void put_column(worker *w, const hga_segment *s, hga_id e, int64_t position, int64_t type)
{
    const hga_id *order = w->reader.r.src_order;
    edge_chunk *c = &w->chunk;
    c->src[e] = order ? order[position] : (hga_id)position;
    c->weight[e] = s->weight;
    c->pos_of[e] = s->pos_of;
    c->type[e] = (int32_t)type; /* of every row, unless types vary */
}

static int all_full(const uint16_t *rows, hga_id n, const tile_group *g)
{
    unsigned all = (1u << g->n_rows) - 1;
    for (hga_id c = 0; c < n; c++)
        if (rows[c] != all) return 0;
    return 1;
}

/* ---- narrow tiles: one group, columns of any segments side by side ---- */

static void close_narrow(worker *w, tile_group *g)
{
    hga_id n = w->chunk.n;
    if (n == 0) return;
    tile_chunk *c = block_chunk(w);
    c->n_parts = 1;
    c->part[0] = (tile_part){.group = g, .last = n, .full = all_full(c->rows[0], n, g)};
    block_add(w);
}

/* The place for the types of the column to come; NULL where nobody asks. */
static int32_t *next_types(worker *w)
{
    if (!has_types(w)) return NULL;
    int32_t *type = pair_types(w, 0, w->chunk.n);
    for (hga_id r = 0; r < KERNEL_TILE; r++) type[r] = -1;
    return type;
}

static void add_column(worker *w, tile_group *g, const hga_segment *s, int64_t position, int64_t type, unsigned rows)
{
    hga_id e = w->chunk.n++;
    put_column(w, s, e, position, type);
    block_chunk(w)->rows[0][e] = (uint16_t)rows;
    if (w->chunk.n == KERNEL_CHUNK) close_narrow(w, g);
}

/* Lay a strip's columns into tiles. */
static void add_strip(worker *w, tile_group *g, const strip *x)
{
    for (hga_id i = 0; i < x->n; i++) {
        unsigned rows = rows_of_column(x, i);
        if (!rows) continue;
        if (has_types(w)) types_of_column(x, i, next_types(w)), w->types_vary |= x->segment->type_dst != 0;
        add_column(w, g, x->segment, x->src + i, x->type + (int64_t)i * x->segment->type_src, rows);
    }
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

/* Rows with many columns: such segments are not laid into runs but passed through by themselves. */
static int is_wide(const worker *w, hga_pos i)
{
    const hga_segment *s = &w->reader.segment[i];
    return least(s->n_src, (int64_t)s->band_last - s->band_first + 1) >= 2 * KERNEL_CHUNK;
}

/* Segments that go into runs and in which the group has rows; without a branch, for they come in no pattern. */
static void list_own(worker *w, const tile_group *g)
{
    hga_pos n = 0;
    for (hga_pos i = 0; i < w->reader.n_segments; i++) {
        w->own[n] = (hga_id)i;
        n += (unsigned)w->narrow[i] >> g->number & 1u;
    }
    w->n_own = n;
}
static const hga_segment *own_segment(const worker *w, hga_pos i) { return &w->reader.segment[w->own[i]]; }

/* Could x stand in one tile column with the run's strips? Not if a pair would be there twice, or if what makes its
   score differs from theirs. */
static int joins(const run *r, const strip *x)
{
    const hga_segment *s = x->segment, *t = r->strip.segment;
    if (s->weight != t->weight || s->pos_of != t->pos_of) return 0;
    if (x->src < r->src || x->src >= r->src + r->n || x->src + x->n > r->src + RUN_COLUMNS) return 0;
    for (hga_id c = 0; c < x->n && x->src + c < r->src + r->n; c++)
        if (r->rows[x->src + c - r->src] & rows_of_column(x, c)) return 0;
    return 1;
}

static void join(run *r, const strip *x)
{
    for (; r->n < x->src + x->n - r->src; r->n++) r->rows[r->n] = 0;
    for (hga_id c = 0; c < x->n; c++) {
        unsigned rows = rows_of_column(x, c);
        r->rows[x->src + c - r->src] = (uint16_t)(r->rows[x->src + c - r->src] | rows);
        r->any |= rows;
    }
    r->edges += strip_edges(x);
    r->n_strips++;
}

/* The run that begins at number `from` or later; 0 when there is none. */
static int next_run(const worker *w, const tile_group *g, hga_pos from, run *r)
{
    strip x = {0};
    r->n_strips = 0;
    for (hga_pos i = from; i < w->n_own; i++) {
        if (!trim(own_segment(w, i), g, &x)) continue;
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

static int run_pays(const worker *w, const run *r)
{
    hga_id saved = w->reader.r.ptr ? 0 : ROW_EDGES * __builtin_popcount(r->any);
    return (double)(r->edges + saved) >= TILE_SHARE * KERNEL_TILE * r->n;
}

static void mark_run(worker *w, const tile_group *g, const run *r)
{
    for (hga_pos i = r->first; i < r->last; i++)
        w->tiled[w->own[i]] = (uint16_t)(w->tiled[w->own[i]] | 1u << g->number);
}

/* Types of all pairs of a run, from the strips that have them. */
static void load_run_types(worker *w, const tile_group *g, const run *r)
{
    strip x;
    for (hga_pos i = r->first; i < r->last; i++) {
        if (!trim(own_segment(w, i), g, &x)) continue;
        for (hga_id c = 0; c < x.n; c++) types_of_column(&x, c, w->run_type + (x.src + c - r->src) * KERNEL_TILE);
    }
}

/* Strips over one another: pairs of one column have the types of different strips. */
static void add_joined(worker *w, tile_group *g, const run *r)
{
    if (has_types(w)) load_run_types(w, g, r);
    for (hga_id i = 0; i < r->n; i++) {
        if (!r->rows[i]) continue;
        int32_t *type = next_types(w);
        for (hga_id lane = 0; type && lane < KERNEL_TILE; lane++)
            if (r->rows[i] >> lane & 1) type[lane] = w->run_type[i * KERNEL_TILE + lane];
        w->types_vary |= type != NULL;
        add_column(w, g, r->strip.segment, r->src + i, 0, r->rows[i]);
    }
}

static void add_run(worker *w, tile_group *g, const run *r)
{
    if (r->n_strips == 1)
        add_strip(w, g, &r->strip);
    else
        add_joined(w, g, r);
}

/* ---- wide segments: all groups of the panel ---- */

typedef struct tile_panel {
    tile_group group[PANEL_GROUPS];
    hga_id n_groups;
} tile_panel;

/* The part of a strip at source positions [src, src + n). */
static int cut_strip(const strip *x, int64_t src, hga_id n, strip *out)
{
    int64_t c0 = most(0, src - x->src), c1 = least(x->n, src + n - x->src);
    if (c0 >= c1) return 0;
    *out = *x;
    out->src = (hga_id)(x->src + c0), out->n = (hga_id)(c1 - c0);
    out->band_first -= c0, out->band_last -= c0, out->hole -= c0;
    out->type += c0 * x->segment->type_src;
    return 1;
}

/* A part for each group that has the strip's columns [at, at + n). */
static void find_parts(worker *w, tile_panel *p, const strip *whole, int64_t at, hga_id n, tile_chunk *out)
{
    strip x;
    out->n_parts = 0;
    for (hga_id g = 0; g < p->n_groups; g++) {
        if (!whole[g].segment || !cut_strip(&whole[g], at, n, &x)) continue;
        uint16_t *rows = out->rows[out->n_parts];
        hga_id first = (hga_id)(x.src - at);
        memset(rows, 0, sizeof out->rows[0]);
        for (hga_id c = 0; c < x.n; c++) rows[first + c] = (uint16_t)rows_of_column(&x, c);
        if (w->types_vary) {
            memset(pair_types(w, out->n_parts, first), -1, (size_t)x.n * KERNEL_TILE * sizeof *w->pair_type);
            for (hga_id c = 0; c < x.n; c++) types_of_column(&x, c, pair_types(w, out->n_parts, first + c));
        }
        out->part[out->n_parts++] = (tile_part){.group = &p->group[g],
                                                .first = first,
                                                .last = first + x.n,
                                                .full = all_full(rows + first, x.n, &p->group[g])};
    }
}

/* A wide segment's columns, a chunk at a time, for all groups that have it in tiles. */
static void lay_segment(worker *w, tile_panel *p, hga_pos i)
{
    const hga_segment *s = &w->reader.segment[i];
    strip whole[PANEL_GROUPS] = {{0}};
    for (hga_id g = 0; g < p->n_groups; g++)
        if ((unsigned)w->tiled[i] >> g & 1u) trim(s, &p->group[g], &whole[g]);
    for (hga_id at = 0, n; at < s->n_src; at += n) {
        n = s->n_src - at < KERNEL_CHUNK ? s->n_src - at : KERNEL_CHUNK;
        w->types_vary = has_types(w) && s->type_dst != 0;
        tile_chunk *c = block_chunk(w);
        find_parts(w, p, whole, (int64_t)s->src + at, n, c);
        if (!c->n_parts) continue;
        for (hga_id e = 0; e < n; e++)
            put_column(w, s, e, (int64_t)s->src + at + e, s->type + (int64_t)(at + e) * s->type_src);
        w->chunk.n = n;
        block_add(w);
    }
    w->types_vary = 0; /* where nobody had the last columns */
}

static int has_explicit(const worker *w, const tile_group *g)
{
    const hga_relation *r = &w->reader.r;
    for (hga_id i = 0; i < g->n_rows && r->ptr; i++)
        if (g->node[i] >= 0 && r->ptr[g->node[i] + 1] > r->ptr[g->node[i]]) return 1;
    return 0;
}

/* Are there edges of the group that are not in tiles (yet)? */
static int has_more(const worker *w, const tile_group *g)
{
    strip x;
    if (w->reader.relation < 0 || has_explicit(w, g)) return 1;
    for (hga_pos i = 0; i < w->reader.n_segments; i++)
        if (!((unsigned)w->tiled[i] >> g->number & 1u) && trim(&w->reader.segment[i], g, &x)) return 1;
    return 0;
}

/* The groups of a panel that have rows of a segment. */
static unsigned groups_of(const tile_panel *p, const hga_segment *s)
{
    const tile_group *end = &p->group[p->n_groups - 1];
    hga_id first = p->group[0].first, begin = s->row > first ? s->row - first : 0;
    int64_t last = least((int64_t)s->row + s->n_rows, (int64_t)end->first + end->n_rows) - 1 - first;
    if (last < begin) return 0;
    return ((2u << last / KERNEL_TILE) - 1) & ~((1u << begin / KERNEL_TILE) - 1);
}

/* Wide segments are laid; who has rows of the others is noted. */
static void lay_wide(worker *w, tile_panel *p)
{
    strip x;
    int some = 0;
    for (hga_pos i = 0; i < w->reader.n_segments; i++) {
        int wide = is_wide(w, i);
        w->tiled[i] = 0, w->narrow[i] = wide ? 0 : (uint16_t)groups_of(p, &w->reader.segment[i]);
        if (!wide) continue;
        for (hga_id g = 0; g < p->n_groups; g++) {
            if (!trim(&w->reader.segment[i], &p->group[g], &x)) continue;
            if (pays(&x))
                w->tiled[i] = (uint16_t)(w->tiled[i] | 1u << g), some = 1;
            else
                p->group[g].rest = 1;
        }
        if (w->tiled[i]) lay_segment(w, p, i);
    }
    for (hga_id g = 0; some && g < p->n_groups; g++)
        p->group[g].complete = p->group[g].tiled && !has_more(w, &p->group[g]);
}

/* ---- a panel of groups ---- */

/* A group's runs, side by side. */
static void lay_narrow(worker *w, tile_group *g)
{
    run r;
    if (g->complete) return;
    block_next_group(w);
    if (w->reader.relation < 0 || has_explicit(w, g)) g->rest = 1;
    list_own(w, g);
    for (hga_pos at = 0; next_run(w, g, at, &r); at = r.last) {
        if (run_pays(w, &r)) {
            mark_run(w, g, &r);
            add_run(w, g, &r);
        } else {
            g->rest = 1;
        }
    }
    close_narrow(w, g);
    g->complete = g->tiled && !g->rest;
}

static void finish_group(worker *w, const tile_group *g)
{
    if (g->stored) return;
    if (g->tiled && !g->rest) {
        store_group(w, g);
        return;
    }
    for (hga_id r = 0; r < g->n_rows; r++) {
        if (g->node[r] < 0) continue;
        row_job job = {.stage = g->stage, .v = g->node[r], .position = g->first + r, .count = INT64_MAX, .piece = -1};
        if (g->tiled)
            take_states(w, g, r);
        else
            attend_start(w, &job);
        attend_rest(w, &job, g->tiled ? w->tiled : NULL, 1u << g->number);
    }
}

void attend_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node)
{
    tile_panel p = {.n_groups = (n + KERNEL_TILE - 1) / KERNEL_TILE};
    for (hga_id g = 0, at = 0; g < p.n_groups; g++, at += KERNEL_TILE)
        p.group[g] = (tile_group){.stage = stage,
                                  .number = g,
                                  .first = first + at,
                                  .n_rows = n - at < KERNEL_TILE ? n - at : KERNEL_TILE,
                                  .node = node + at};
    if (!w->io->edge_bias) {
        block_begin(w, stage);
        lay_wide(w, &p);
        for (hga_id g = 0; g < p.n_groups; g++) lay_narrow(w, &p.group[g]);
        block_run(w);
    }
    for (hga_id g = 0; g < p.n_groups; g++) finish_group(w, &p.group[g]);
}
