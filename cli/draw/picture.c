/* picture.c: the pattern's rectangles, or exact sums over cells where there are more tokens than a picture has room
   for. */
#include "picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHADES = 32 };

hga_id cell_start(hga_id i, hga_id n, hga_id cells) { return (hga_id)((int64_t)i * n / cells); }

hga_id cell_of(hga_id token, hga_id n, hga_id cells) { return (hga_id)((((int64_t)token + 1) * cells - 1) / n); }

/* Adds up the shares of all rectangles that meet in a cell. */
int picture_overlaps(const picture *p, unsigned char **mark)
{
    float *covered = NULL;
    int64_t cells = (int64_t)p->rows * p->columns;
    int status = CLI_GOOD;
    *mark = NULL;
    TRY(take(cells, sizeof *covered, &covered));
    TRY(take(cells, 1, mark));
    for (int64_t i = 0; i < p->n_rects && p->coverage.more > 0; i++) {
        const picture_rect *r = &p->rects[i];
        hga_id x0 = cell_of(r->key, p->n_keys, p->columns), y0 = cell_of(r->query, p->n_queries, p->rows);
        hga_id x1 = cell_of(r->key + r->n_keys - 1, p->n_keys, p->columns),
               y1 = cell_of(r->query + r->n_queries - 1, p->n_queries, p->rows);
        for (hga_id y = y0; y <= y1; y++)
            for (hga_id x = x0; x <= x1; x++) covered[(int64_t)y * p->columns + x] += r->value;
    }
    for (int64_t i = 0; i < cells; i++) (*mark)[i] = covered[i] > 1.001f;
done:
    free(covered);
    return status;
}

void picture_clear(picture *p)
{
    free(p->rects);
    free(p->level_pairs);
    *p = (picture){0};
}

/* Makes room for one more element by doubling an array. */
static int grow(void *array, int64_t *room, int64_t used, size_t size)
{
    if (used < *room) return CLI_GOOD;
    int64_t more = *room ? 2 * *room : 1024;
    void *old, *new;
    memcpy(&old, array, sizeof old);
    new = realloc(old, (size_t)more * size);
    if (!new) return complain(CLI_OUTSIDE, "out of memory: %lld rectangles", (long long)more);
    memcpy(array, &new, sizeof new);
    *room = more;
    return CLI_GOOD;
}

static int picture_add(picture *p, picture_rect r)
{
    int status = grow(&p->rects, &p->room, p->n_rects, sizeof r);
    if (status == CLI_GOOD) p->rects[p->n_rects++] = r;
    return status;
}

/* ---- cells to rectangles ---- */

/* What a cell looks like: level and step, 0 for nothing. */
static int32_t *looks_of(const picture *p, const float *value, const hga_id *level, int steps)
{
    int64_t n = (int64_t)p->rows * p->columns;
    int32_t *look = NULL;
    if (take(n, sizeof *look, &look)) return NULL;
    for (int64_t i = 0; i < n; i++) {
        int step = value[i] > 0 ? (int)ceilf(value[i] * (float)steps) : 0;
        if (step > steps) step = steps;
        look[i] = step ? (level ? level[i] : 0) * (steps + 1) + step : 0;
    }
    return look;
}

/* The widest run of equal cells from (r, c), and how far down it goes on; its cells are taken off. */
static void take_rect(const picture *p, int32_t *look, hga_id r, hga_id c, hga_id *height, hga_id *width)
{
    int32_t same = look[(int64_t)r * p->columns + c];
    *width = *height = 1;
    while (c + *width < p->columns && look[(int64_t)r * p->columns + c + *width] == same) ++*width;
    for (int goes_on = 1; goes_on && r + *height < p->rows; *height += goes_on)
        for (hga_id i = 0; goes_on && i < *width; i++)
            goes_on = look[(int64_t)(r + *height) * p->columns + c + i] == same;
    for (hga_id i = 0; i < *height; i++)
        memset(look + (int64_t)(r + i) * p->columns + c, 0, (size_t)*width * sizeof *look);
}

int picture_from_cells(picture *p, const float *value, const hga_id *level, int steps)
{
    int status = CLI_GOOD;
    int32_t *look = looks_of(p, value, level, steps);
    if (!look) return CLI_OUTSIDE;
    for (hga_id r = 0; r < p->rows; r++)
        for (hga_id c = 0; c < p->columns; c++) {
            int32_t this = look[(int64_t)r * p->columns + c];
            hga_id height, width;
            if (!this) continue;
            take_rect(p, look, r, c, &height, &width);
            hga_id query = cell_start(r, p->n_queries, p->rows), key = cell_start(c, p->n_keys, p->columns);
            TRY(picture_add(p, (picture_rect){query, cell_start(r + height, p->n_queries, p->rows) - query, key,
                                              cell_start(c + width, p->n_keys, p->columns) - key, this / (steps + 1),
                                              (float)(this % (steps + 1)) / (float)steps}));
        }
done:
    free(look);
    return status;
}

/* ---- the pattern ---- */

typedef struct strip {
    hga_id query, n_queries, key, n_keys, level;
} strip;

typedef struct drawing {
    picture *out;
    int status;
    double *covered;   /* [cells], pairs of each that are covered */
    double **of_level; /* [n_levels], NULL or [cells] */
    int keeps_strips;  /* some pair is covered twice, so that areas do not add up to what is covered */
    strip *strips;
    int64_t n_strips, room;
    double area, all;
    hga_progress progress;
    void *context;
} drawing;

/* area[cells] += the part of the rectangle in each */
static void add_area(const picture *p, double *area, const strip *s)
{
    hga_id last_query = s->query + s->n_queries, last_key = s->key + s->n_keys;
    hga_id c0 = cell_of(s->key, p->n_keys, p->columns), c1 = cell_of(last_key - 1, p->n_keys, p->columns);
    for (hga_id r = cell_of(s->query, p->n_queries, p->rows), end = cell_of(last_query - 1, p->n_queries, p->rows);
         r <= end; r++) {
        hga_id top = cell_start(r, p->n_queries, p->rows), bottom = cell_start(r + 1, p->n_queries, p->rows);
        double height = (bottom < last_query ? bottom : last_query) - (top > s->query ? top : s->query);
        for (hga_id c = c0; c <= c1; c++) {
            hga_id left = cell_start(c, p->n_keys, p->columns), right = cell_start(c + 1, p->n_keys, p->columns);
            area[(int64_t)r * p->columns + c] +=
                height * ((right < last_key ? right : last_key) - (left > s->key ? left : s->key));
        }
    }
}

static int draw_in_cells(drawing *d, const strip *s)
{
    picture *p = d->out;
    if (!d->of_level[s->level]) {
        int status = take((int64_t)p->rows * p->columns, sizeof **d->of_level, &d->of_level[s->level]);
        if (status) return status;
    }
    add_area(p, d->of_level[s->level], s);
    return CLI_GOOD;
}

static int keep_strip(drawing *d, const strip *s)
{
    int status = grow(&d->strips, &d->room, d->n_strips, sizeof *s);
    if (status == CLI_GOOD) d->strips[d->n_strips++] = *s;
    return status;
}

/* Adds a patch of the pattern as a rectangle or to cells; its level is the higher one of its two ends. */
static hga_status draw_patch(const hga_patch *patch, void *context)
{
    drawing *d = context;
    hga_id level = patch->level > patch->source_level ? patch->level : patch->source_level;
    double area = (double)patch->n_queries * patch->n_keys;
    strip s = {patch->query, patch->n_queries, patch->key, patch->n_keys, level};
    d->area += area;
    if (d->progress) d->progress(d->area < d->all ? d->area / d->all : 1, d->context);
    if (d->out->exact)
        d->status =
            picture_add(d->out, (picture_rect){patch->query, patch->n_queries, patch->key, patch->n_keys, level, 1});
    else
        d->status = draw_in_cells(d, &s);
    if (!d->keeps_strips)
        d->out->level_pairs[level] += area;
    else if (!d->status)
        d->status = keep_strip(d, &s);
    return d->status ? hga_fail(HGA_ENOMEM, "no memory for the picture") : HGA_OK;
}

static int by_level(const void *a, const void *b)
{
    const picture_rect *x = a, *y = b;
    if (x->level != y->level) return x->level > y->level ? -1 : 1;
    if (x->query != y->query) return x->query < y->query ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

/* ---- pairs covered twice count once: a sweep over query rows with the strips that are open there ---- */

static int by_query(const void *a, const void *b)
{
    const strip *x = a, *y = b;
    return (x->query > y->query) - (x->query < y->query);
}

static int by_key(const void *a, const void *b)
{
    const strip *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* A union of strips: into the cells, or (`pairs`) only counted. */
static void add_whole(drawing *d, const strip *whole, double *pairs)
{
    if (whole->n_keys == 0) return;
    if (pairs)
        *pairs += (double)whole->n_queries * whole->n_keys;
    else
        add_area(d->out, d->covered, whole);
}

/* Rows [query, end) have just the open strips: add their union. */
static void add_union(drawing *d, strip *open, int64_t n, hga_id query, hga_id end, double *pairs)
{
    qsort(open, (size_t)n, sizeof *open, by_key);
    strip whole = {query, end - query, 0, 0, 0};
    for (int64_t i = 0; i < n; i++) {
        hga_id from = open[i].key, to = open[i].key + open[i].n_keys, reached = whole.key + whole.n_keys;
        if (whole.n_keys > 0 && from <= reached) {
            if (to > reached) whole.n_keys = to - whole.key;
            continue;
        }
        add_whole(d, &whole, pairs);
        whole.key = from, whole.n_keys = to - from;
    }
    add_whole(d, &whole, pairs);
}

/* The union of n strips by ascending query. */
static int sweep(drawing *d, const strip *strips, int64_t n_strips, double *pairs)
{
    strip *open = NULL;
    int64_t n = 0, next = 0;
    int status = take(n_strips, sizeof *open, &open);
    if (status) return status;
    for (hga_id query = 0; next < n_strips || n > 0;) {
        if (n == 0) query = strips[next].query;
        while (next < n_strips && strips[next].query == query) open[n++] = strips[next++];
        hga_id end = next < n_strips ? strips[next].query : d->out->n_queries;
        for (int64_t i = 0; i < n; i++)
            if (open[i].query + open[i].n_queries < end) end = open[i].query + open[i].n_queries;
        add_union(d, open, n, query, end, pairs);
        int64_t kept = 0;
        for (int64_t i = 0; i < n; i++)
            if (open[i].query + open[i].n_queries > end) open[kept++] = open[i];
        n = kept, query = end;
    }
    free(open);
    return CLI_GOOD;
}

/* What each level covers, a pair once however many relations give it. */
static int count_levels(drawing *d)
{
    strip *of_level = NULL;
    int status = take(d->n_strips, sizeof *of_level, &of_level);
    for (hga_id l = 0; l < d->out->n_levels && !status; l++) {
        int64_t n = 0;
        for (int64_t i = 0; i < d->n_strips; i++)
            if (d->strips[i].level == l) of_level[n++] = d->strips[i];
        status = sweep(d, of_level, n, &d->out->level_pairs[l]);
    }
    free(of_level);
    return status;
}

/* What is covered: the areas themselves while no pair is covered twice. */
static int add_covered(drawing *d)
{
    int64_t cells = (int64_t)d->out->rows * d->out->columns;
    if (d->keeps_strips) return sweep(d, d->strips, d->n_strips, NULL);
    for (hga_id l = 0; l < d->out->n_levels; l++)
        for (int64_t i = 0; d->of_level[l] && i < cells; i++) d->covered[i] += d->of_level[l][i];
    return CLI_GOOD;
}

/* Each cell shows how much of it is covered, in the colour of the level that covers most of it. */
static void choose_looks(const drawing *d, float *value, hga_id *level)
{
    const picture *p = d->out;
    for (hga_id r = 0; r < p->rows; r++)
        for (hga_id c = 0; c < p->columns; c++) {
            int64_t i = (int64_t)r * p->columns + c;
            double most = 0, height = cell_start(r + 1, p->n_queries, p->rows) - cell_start(r, p->n_queries, p->rows);
            value[i] =
                (float)(d->covered[i] /
                        (height * (cell_start(c + 1, p->n_keys, p->columns) - cell_start(c, p->n_keys, p->columns))));
            for (hga_id l = 0; l < p->n_levels; l++)
                if (d->of_level[l] && d->of_level[l][i] >= most && d->of_level[l][i] > 0)
                    most = d->of_level[l][i], level[i] = l;
        }
}

/* Turns what was counted in cells into rectangles. */
static int finish_cells(drawing *d)
{
    int64_t cells = (int64_t)d->out->rows * d->out->columns;
    float *value = NULL;
    hga_id *level = NULL;
    int status = CLI_GOOD;
    TRY(take(cells, sizeof *value, &value));
    TRY(take(cells, sizeof *level, &level));
    TRY(add_covered(d));
    choose_looks(d, value, level);
    TRY(picture_from_cells(d->out, value, level, SHADES));
done:
    free(value);
    free(level);
    return status;
}

int picture_pattern(const hga_program *p, const hga_graph *g, hga_id max_rows, hga_id max_columns,
                    hga_progress progress, void *context, picture *out)
{
    hga_nodes n = hga_graph_nodes(g);
    int status = CLI_GOOD;
    *out = (picture){.n_queries = n.n_queries, .n_keys = n.n_keys, .n_levels = n.n_levels};
    out->exact = n.n_queries <= max_rows && n.n_keys <= max_columns;
    out->rows = n.n_queries < max_rows ? n.n_queries : max_rows;
    out->columns = n.n_keys < max_columns ? n.n_keys : max_columns;
    drawing d = {.out = out, .progress = progress, .context = context, .all = (double)n.n_queries * n.n_keys};
    TRY(take(n.n_levels, sizeof *out->level_pairs, &out->level_pairs));
    TRY(take(n.n_levels, sizeof *d.of_level, &d.of_level));
    if (!out->exact) TRY(take((int64_t)out->rows * out->columns, sizeof *d.covered, &d.covered));
    TRY(complain_of(hga_program_coverage(p, g, 0, &out->coverage), CLI_DATA, "the pattern"));
    d.keeps_strips = out->coverage.more > 0;
    hga_status st = hga_program_pattern(p, g, draw_patch, &d);
    TRY(d.status);
    TRY(complain_of(st, CLI_DATA, "the pattern"));
    if (d.n_strips) qsort(d.strips, (size_t)d.n_strips, sizeof *d.strips, by_query);
    if (d.keeps_strips) TRY(count_levels(&d));
    if (out->exact && out->n_rects) qsort(out->rects, (size_t)out->n_rects, sizeof *out->rects, by_level);
    if (!out->exact) TRY(finish_cells(&d));
done:
    for (hga_id l = 0; d.of_level && l < n.n_levels; l++) free(d.of_level[l]);
    free(d.of_level);
    free(d.covered);
    free(d.strips);
    if (status) picture_clear(out);
    return status;
}

hga_id picture_levels(const picture *p)
{
    hga_id n = p->n_levels;
    while (n > 1 && p->level_pairs[n - 1] <= 0) n--;
    return n;
}
