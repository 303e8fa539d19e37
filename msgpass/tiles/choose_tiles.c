/* choose_tiles.c: chooses which edges of a panel are computed in tiles, as data. Sixteen rows are a group; the columns
   that enough of them share, of any segments, are packed into chunks, and chunks into a batch. A wide segment is
   traversed once for all groups of the panel, a chunk at a time, so that its keys and values are loaded from memory
   once a panel. A row's other edges (narrow bands, explicit edges) are left to the row kernel. The choice depends on
   the graph and on whether scores depend on types and positions, never on the threads; nothing here computes. */
#include "lay.h"
#include "stage_plan.h"
#include "sums.h"

#include <string.h>

/* ---- narrow tiles: one group, columns of any segments ---- */

static void close_narrow(tile_chooser *t, row_group *g)
{
    tile_chunk *c = &t->batch->chunk[t->batch->n];
    if (!t->open) return;
    c->n_parts = 1;
    c->part[0] = (tile_part){.group = g, .last = c->columns.n, .full = columns_are_full(c->rows[0], c->columns.n, g)};
    close_chunk(t);
}

/* Whether all rows of the column have one type, stored in *of. */
static int has_one_type(const int32_t *type, lane_mask rows, int32_t *of)
{
    const int32_t one = type[__builtin_ctz(rows)];
    int32_t differ = 0;
    for (hga_id r = 0; r < KERNEL_TILE; r++) differ |= (type[r] >= 0) & (type[r] != one);
    *of = one;
    return !differ;
}

/* Writes the types of n columns of a run, from i on, to columns e .. of its chunk. */
static void add_types(const tile_chooser *t, const run *r, hga_id i, hga_id n, tile_chunk *c, hga_id e)
{
    for (; n-- > 0; i++, e++) {
        const int32_t *type = t->run_type + (ptrdiff_t)i * KERNEL_TILE;
        if (has_one_type(type, r->rows[i], &c->columns.type[e])) continue;
        memcpy(chunk_pair_types(t, 0, e), type, KERNEL_TILE * sizeof *type);
        c->types_vary |= UINT64_C(1) << e;
    }
}

/* Adds columns [i, end) of a run, each of which has some row, to chunks. */
static void add_columns(tile_chooser *t, row_group *g, const run *r, hga_id i, hga_id end)
{
    const hga_segment *s = r->row_band.segment;
    const int joined = r->n_row_bands > 1;
    for (hga_id n; i < end; i += n) {
        tile_chunk *c = open_chunk(t, 1);
        hga_id e = c->columns.n;
        n = (hga_id)least(end - i, KERNEL_CHUNK - e);
        put_columns(t, &c->columns, s, e, n, r->src + i, joined ? 0 : r->row_band.type + (int64_t)i * s->type_src,
                    joined ? 0 : s->type_src);
        if (t->types && !run_types_are_columns(r)) add_types(t, r, i, n, c, e);
        memcpy(c->rows[0] + e, r->rows + i, (size_t)n * sizeof *r->rows);
        if ((c->columns.n += n) == KERNEL_CHUNK) close_narrow(t, g);
    }
}

static void add_run_columns(tile_chooser *t, row_group *g, const run *r)
{
    if (t->types && !run_types_are_columns(r)) load_run_types(t, g, r);
    for (hga_id i = 0, end; i < r->n; i = end + 1) {
        for (end = i; end < r->n && r->rows[end]; end++) {}
        add_columns(t, g, r, i, end);
    }
}

/* ---- wide segments: all groups of the panel ---- */

/* Makes a part for each group whose row band has columns in [at, at + n). */
static void find_parts(const tile_chooser *t, row_panel *p, const row_band *whole, int64_t at, hga_id n,
                       tile_chunk *out)
{
    row_band x;
    out->n_parts = 0;
    for (hga_id g = 0; g < p->n_groups; g++) {
        if (!whole[g].segment || !row_band_cut(&whole[g], at, n, &x)) continue;
        lane_mask *rows = out->rows[out->n_parts];
        hga_id first = (hga_id)(x.src - at);
        memset(rows, 0, sizeof out->rows[0]);
        for (hga_id c = 0; c < x.n; c++) rows[first + c] = (lane_mask)rows_of_column(&x, c);
        if (out->types_vary) {
            int32_t *types = chunk_pair_types(t, out->n_parts, first);
            memset(types, -1, (size_t)x.n * KERNEL_TILE * sizeof *types);
            for (hga_id c = 0; c < x.n; c++) row_band_types(&x, c, types + (ptrdiff_t)c * KERNEL_TILE);
        }
        out->part[out->n_parts++] = (tile_part){.group = &p->group[g],
                                                .first = first,
                                                .last = first + x.n,
                                                .full = columns_are_full(rows + first, x.n, &p->group[g])};
    }
}

/* Number of columns of the chunk that begins at column `at` of a segment: chunks begin at multiples of KERNEL_CHUNK
   inside the block's instance, whichever column the panel's rows see first. */
static hga_id chunk_columns(const hga_segment *s, hga_id at)
{
    hga_id n = KERNEL_CHUNK - (s->src_inside + at) % KERNEL_CHUNK;
    return s->n_src - at < n ? s->n_src - at : n;
}

/* Adds a wide segment's columns, chunk by chunk, for all groups that have it in tiles. */
static void lay_segment(tile_chooser *t, row_panel *p, hga_pos i)
{
    const hga_segment *s = &t->reader->segments.at[i];
    row_band whole[PANEL_GROUPS] = {{0}};
    for (hga_id g = 0; g < p->n_groups; g++)
        if ((unsigned)t->seen.tiled[i] >> g & 1u) row_band_trim(s, &p->group[g], &whole[g]);
    for (hga_id at = 0, n; at < s->n_src && !t->enough; at += n) {
        n = chunk_columns(s, at);
        tile_chunk *c = open_chunk(t, p->n_groups);
        c->types_vary = t->types && s->type_dst ? UINT64_MAX : 0; /* for any of the groups */
        c->odd = (s->src_inside + at) % 2;
        find_parts(t, p, whole, (int64_t)s->src + at, n, c);
        if (!c->n_parts) continue; /* no group has the columns: the next range reuses the chunk */
        put_columns(t, &c->columns, s, 0, n, (int64_t)s->src + at, s->type + (int64_t)at * s->type_src, s->type_src);
        c->columns.n = n;
        close_chunk(t);
    }
    t->open = 0;
}

/* Whether the group has edges that are not in tiles (yet). */
static int has_more(const tile_chooser *t, const row_group *g)
{
    row_band x;
    if (t->reader->relation < 0 || has_explicit(t, g)) return 1;
    for (hga_pos i = 0; i < t->reader->segments.n; i++)
        if (!((unsigned)t->seen.tiled[i] >> g->number & 1u) && row_band_trim(&t->reader->segments.at[i], g, &x))
            return 1;
    return 0;
}

/* Mask of the panel's groups that have rows of a segment. */
static unsigned groups_of(const row_panel *p, const hga_segment *s)
{
    const row_group *end = &p->group[p->n_groups - 1];
    hga_id first = p->group[0].first, begin = s->row > first ? s->row - first : 0;
    int64_t last = least((int64_t)s->row + s->n_rows, (int64_t)end->first + end->n_rows) - 1 - first;
    if (last < begin) return 0;
    return ((2u << last / KERNEL_TILE) - 1) & ~((1u << begin / KERNEL_TILE) - 1);
}

/* Whether some group could have many columns of the segment. */
static int may_be_wide(const hga_segment *s)
{
    return least(s->n_src, (int64_t)s->band_last - s->band_first + 1) >= 2 * KERNEL_CHUNK;
}

/* For groups with many columns of segment i in a row band that is not narrow: into tiles where that pays, else row by
   row. */
static void find_wide(tile_chooser *t, row_panel *p, hga_pos i)
{
    const hga_segment *s = &t->reader->segments.at[i];
    row_band x;
    for (hga_id g = 0; g < p->n_groups && may_be_wide(s); g++) {
        unsigned bit = 1u << g;
        if (!(t->seen.narrow[i] & ~t->unranked & bit) || !row_band_trim(s, &p->group[g], &x) || !row_band_is_wide(&x))
            continue;
        t->seen.narrow[i] = (uint16_t)(t->seen.narrow[i] & ~bit);
        if (row_band_pays(&x))
            t->seen.tiled[i] = (uint16_t)(t->seen.tiled[i] | bit);
        else
            p->group[g].rest = 1;
    }
}

/* Adds wide row bands to tiles; marks the groups that have rows of the other segments. */
static void lay_wide(tile_chooser *t, row_panel *p)
{
    int some = 0;
    for (hga_pos i = 0; i < t->reader->segments.n; i++) {
        t->seen.tiled[i] = 0, t->seen.narrow[i] = (uint16_t)groups_of(p, &t->reader->segments.at[i]);
        find_wide(t, p, i);
        if (t->seen.tiled[i]) lay_segment(t, p, i), some = 1;
    }
    for (hga_id g = 0; some && g < p->n_groups; g++)
        p->group[g].complete = p->group[g].tiled && !has_more(t, &p->group[g]);
}

/* ---- families: a few rows with the same few columns ---- */

/* Measures of a group's narrow segments. */
typedef struct family_measures {
    hga_id edges_of[KERNEL_TILE]; /* of each row */
    int64_t edges, columns, all;  /* all: summed over segments, without overlaps merged */
    unsigned seen;                /* rows that have edges */
    int meet;                     /* some row has edges of two segments */
} family_measures;

/* Accumulates a row band; returns whether its columns are few, and its rows' edges so far. */
static int add_row_band(const row_band *x, int64_t *end, family_measures *m)
{
    int few = x->n <= KERNEL_FAMILY;
    m->meet |= (m->seen & row_band_mask(x)) != 0, m->seen |= row_band_mask(x);
    m->columns += most(x->src + x->n - most(x->src, *end), 0), m->all += x->n;
    *end = most(*end, x->src + x->n);
    for (hga_id c = 0; c < x->n && few; c++)
        for (unsigned rows = rows_of_column(x, c); rows; rows &= rows - 1, m->edges++)
            few &= ++m->edges_of[__builtin_ctz(rows)] <= KERNEL_FAMILY;
    return few;
}

/* Whether each row has few edges, all of them narrow, and a tile would be mostly empty. Rows with edges of several
   segments need all of them in one chunk. */
static int has_families(const tile_chooser *t, const row_group *g)
{
    family_measures m = {.edges = 0};
    int64_t end = 0;
    row_band x;
    if (!t->run_families || g->laid || g->rest) return 0;
    for (hga_pos i = 0; i < t->seen.n_own; i++) {
        if (!row_band_trim(own_segment(t, i), g, &x)) continue;
        if (!add_row_band(&x, &end, &m) || (t->families_have_types && x.segment->type_dst)) return 0;
    }
    if (m.meet && (m.all > KERNEL_CHUNK || t->query_numbers < SHORT_ROWS_NUMBERS)) return 0;
    return m.edges > 0 && run_as_families((double)m.edges, (double)(g->n_rows * m.columns));
}

/* Adds a row band's requested rows, and the columns that some of these has. */
static void add_family_columns(tile_chooser *t, const row_band *x, unsigned requested)
{
    edge_chunk *c = t->families.columns;
    t->families.all |= row_band_mask(x) & requested;
    for (hga_id i = 0; i < x->n; i++) {
        const unsigned rows = rows_of_column(x, i);
        if (!(rows & requested)) continue;
        put_columns(t, c, x->segment, c->n, 1, (int64_t)x->src + i, x->type + (int64_t)i * x->segment->type_src, 0);
        t->families.type_step[c->n] = x->segment->type_dst, t->families.rows[c->n++] = (lane_mask)rows;
    }
}

static void open_families(tile_chooser *t) { t->families.all = 0, t->families.columns->n = 0; }

static void run_laid_families(tile_chooser *t, row_group *g)
{
    if (t->families.all) t->run_families(t->context, g, &t->families);
    open_families(t);
}

/* Runs a group's families, as many at a time as a chunk holds: together they fill the lanes of a softmax, which one
   family does not. */
static void hand_over_families(tile_chooser *t, row_group *g)
{
    const unsigned requested = requested_mask(g);
    row_band x;
    open_families(t);
    for (hga_pos i = 0; i < t->seen.n_own; i++) {
        if (!row_band_trim(own_segment(t, i), g, &x)) continue;
        g->in_families |= row_band_mask(&x);
        if (t->families.columns->n + x.n > KERNEL_CHUNK) run_laid_families(t, g);
        add_family_columns(t, &x, requested);
    }
    run_laid_families(t, g);
}

/* Chooses for a group: families, runs in tiles of its own or shared ones, or row by row. */
static void lay_narrow(tile_chooser *t, row_group *g)
{
    run r;
    if (g->complete) return;
    next_group(t->batch);
    if (t->reader->relation < 0 || has_explicit(t, g)) g->rest = 1;
    if (t->unranked >> g->number & 1u) {
        g->rest = 1;
        return;
    }
    list_own(t, g);
    if (has_families(t, g)) {
        hand_over_families(t, g);
        return;
    }
    hga_id index = -1;
    for (hga_pos at = 0; next_run(t, g, at, &r); at = r.last) {
        if (run_pays(t, g, &r)) {
            mark_run(t, g, &r);
            if (is_shared_run(t, g, &r))
                share_run(t, g, &r, &index);
            else
                add_run_columns(t, g, &r);
        } else {
            g->rest = 1;
        }
    }
    close_narrow(t, g);
    g->complete = g->tiled && !g->rest && !g->n_shared;
}

/* Groups whose edges have no ranks that segments count, as bits. */
static unsigned find_unranked(const tile_chooser *t, const row_panel *p)
{
    unsigned unranked = 0;
    for (hga_id g = 0; t->ranks && g < p->n_groups; g++)
        unranked |= (unsigned)!reader_counts(t->reader, p->group[g].first, p->group[g].n_rows) << g;
    return unranked;
}

/* Adds wide segments of all groups, then each group's narrow runs, then the chunks that groups share. */
void choose_tiles(tile_chooser *t, row_panel *p)
{
    t->batch->n = t->batch->n_typed = 0, t->batch->pair_type = t->pair_type, t->open = t->enough = 0;
    if (t->strict && t->reader->relation >= 0) {
        choose_strictly(t, p);
        return;
    }
    forget_twins(t->batch);
    t->shared->n_chunks = t->shared->n_parts = 0;
    t->unranked = find_unranked(t, p);
    lay_wide(t, p);
    for (hga_id g = 0; g < p->n_groups; g++) lay_narrow(t, &p->group[g]);
    lay_shared(t);
    for (hga_id g = 0; g < p->n_groups; g++)
        if (p->group[g].n_shared) p->group[g].complete = !p->group[g].rest;
    hand_over(t);
}
