/* picture.c: the pattern's rectangles, or exact sums over cells if there are more tokens than cells. */
#include "picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHADES = 32 };

hga_id cell_start(hga_id i, hga_id n, hga_id cells) { return (hga_id)((int64_t)i * n / cells); }

hga_id cell_of(hga_id token, hga_id n, hga_id cells) { return (hga_id)((((int64_t)token + 1) * cells - 1) / n); }

picture picture_of(const hga_graph *g, hga_id max_rows, hga_id max_columns)
{
    hga_nodes n = hga_graph_nodes(g);
    return (picture){.n_queries = n.n_queries,
                     .n_keys = n.n_keys,
                     .n_levels = n.n_levels,
                     .exact = n.n_queries <= max_rows && n.n_keys <= max_columns,
                     .rows = n.n_queries < max_rows ? n.n_queries : max_rows,
                     .columns = n.n_keys < max_columns ? n.n_keys : max_columns};
}

/* tokens of [first, first + n) in cell i */
static hga_id inside(hga_id i, hga_id all, hga_id cells, hga_id first, hga_id n)
{
    hga_id from = cell_start(i, all, cells), to = cell_start(i + 1, all, cells);
    return (to < first + n ? to : first + n) - (from > first ? from : first);
}

double picture_cell_area(const picture *p, hga_id row, hga_id column)
{
    return (double)inside(row, p->n_queries, p->rows, 0, p->n_queries) *
           inside(column, p->n_keys, p->columns, 0, p->n_keys);
}

void picture_add_area(const picture *p, const picture_rect *r, double times, double *area)
{
    hga_id first = cell_of(r->key, p->n_keys, p->columns),
           last = cell_of(r->key + r->n_keys - 1, p->n_keys, p->columns),
           top = cell_of(r->query, p->n_queries, p->rows),
           bottom = cell_of(r->query + r->n_queries - 1, p->n_queries, p->rows);
    for (hga_id y = top; y <= bottom; y++) {
        double height = times * inside(y, p->n_queries, p->rows, r->query, r->n_queries);
        for (hga_id x = first; x <= last; x++)
            area[(int64_t)y * p->columns + x] += height * inside(x, p->n_keys, p->columns, r->key, r->n_keys);
    }
}

/* Adds up the shares of all rectangles that overlap a cell. */
int picture_overlaps(const picture *p, unsigned char **mark)
{
    double *area = NULL;
    int64_t cells = (int64_t)p->rows * p->columns;
    int status = CLI_GOOD;
    *mark = NULL;
    TRY(take(cells, sizeof *area, &area));
    TRY(take(cells, 1, mark));
    for (int64_t i = 0; i < p->n_rects; i++) picture_add_area(p, &p->rects[i], (double)p->rects[i].value, area);
    for (int64_t i = 0; i < cells; i++)
        (*mark)[i] = area[i] > 1.001 * picture_cell_area(p, (hga_id)(i / p->columns), (hga_id)(i % p->columns));
done:
    free(area);
    return status;
}

void picture_clear(picture *p)
{
    free(p->rects);
    free(p->level_pairs);
    *p = (picture){0};
}

static int picture_add(picture *p, picture_rect r)
{
    if (p->n_rects == p->capacity) {
        int64_t capacity = p->capacity ? 2 * p->capacity : 1024;
        picture_rect *more = realloc(p->rects, (size_t)capacity * sizeof *more);
        if (!more) return complain(CLI_OUTSIDE, "out of memory: %lld rectangles", (long long)capacity);
        p->rects = more, p->capacity = capacity;
    }
    p->rects[p->n_rects++] = r;
    return CLI_GOOD;
}

int picture_alike(const picture_rect *a, const picture_rect *b) { return a->level == b->level && a->value == b->value; }

static int by_look(const void *a, const void *b)
{
    const picture_rect *x = a, *y = b;
    if (x->level != y->level) return x->level > y->level ? -1 : 1;
    if (x->value < y->value || x->value > y->value) return x->value < y->value ? -1 : 1;
    if (x->query != y->query) return x->query < y->query ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

static void sort_rects(picture *p, int (*order)(const void *, const void *))
{
    if (p->n_rects) qsort(p->rects, (size_t)p->n_rects, sizeof *p->rects, order);
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

/* Finds the widest run of equal cells from (r, c), and how many rows down it continues; clears its cells. */
static void take_rect(const picture *p, int32_t *look, hga_id r, hga_id c, hga_id *height, hga_id *width)
{
    int32_t same = look[(int64_t)r * p->columns + c];
    *width = *height = 1;
    while (c + *width < p->columns && look[(int64_t)r * p->columns + c + *width] == same) ++*width;
    for (int is_same = 1; is_same && r + *height < p->rows; *height += is_same)
        for (hga_id i = 0; is_same && i < *width; i++)
            is_same = look[(int64_t)(r + *height) * p->columns + c + i] == same;
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
    sort_rects(p, by_look);
done:
    free(look);
    return status;
}

/* ---- the pattern ---- */

typedef struct drawing {
    picture *out; /* its rectangles are the pattern's where those are needed, in cells only for a sweep over them */
    int status;
    double *covered;   /* [cells], pairs of each that are covered */
    double **of_level; /* [n_levels], NULL or [cells] */
    int sweeps;        /* some pair is covered twice, so that areas do not add up to what is covered */
    double area, all;
    progress *bar;
} drawing;

static int draw_in_cells(drawing *d, const picture_rect *r)
{
    picture *p = d->out;
    int status = CLI_GOOD;
    if (!d->of_level[r->level])
        status = take((int64_t)p->rows * p->columns, sizeof **d->of_level, &d->of_level[r->level]);
    if (!status) picture_add_area(p, r, 1, d->of_level[r->level]);
    return status;
}

/* Adds a patch of the pattern as a rectangle or to cells; its level is the higher one of its two ends. */
static hga_status draw_patch(const hga_patch *patch, void *context)
{
    drawing *d = context;
    hga_id level = patch->level > patch->source_level ? patch->level : patch->source_level;
    double area = (double)patch->n_queries * patch->n_keys;
    picture_rect r = {patch->query, patch->n_queries, patch->key, patch->n_keys, level, 1};
    d->area += area;
    if (d->bar) progress_show(fmin(d->area / d->all, 1), d->bar);
    if (d->out->exact || d->sweeps) d->status = picture_add(d->out, r);
    if (!d->out->exact && !d->status) d->status = draw_in_cells(d, &r);
    if (!d->sweeps) d->out->level_pairs[level] += area;
    return d->status ? hga_fail(HGA_ENOMEM, "no memory for the picture") : HGA_OK;
}

/* ---- pairs covered twice count once: a sweep over query rows with the rectangles that are open there ---- */

static int by_query(const void *a, const void *b)
{
    const picture_rect *x = a, *y = b;
    return (x->query > y->query) - (x->query < y->query);
}

static int by_key(const void *a, const void *b)
{
    const picture_rect *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* Adds a union of rectangles to the cells, or (`pairs`) only counts it. */
static void add_whole(drawing *d, const picture_rect *whole, double *pairs)
{
    if (whole->n_keys == 0) return;
    if (pairs)
        *pairs += (double)whole->n_queries * whole->n_keys;
    else
        picture_add_area(d->out, whole, 1, d->covered);
}

/* Adds the union of the open rectangles, which are those of rows [query, end). */
static void add_union(drawing *d, picture_rect *open, int64_t n, hga_id query, hga_id end, double *pairs)
{
    qsort(open, (size_t)n, sizeof *open, by_key);
    picture_rect whole = {.query = query, .n_queries = end - query};
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

/* Adds the union of the picture's rectangles, which are by ascending query, of one level or (-1) of all. */
static int sweep(drawing *d, hga_id level, double *pairs)
{
    const picture_rect *rects = d->out->rects;
    const int64_t n_rects = d->out->n_rects;
    picture_rect *open = NULL;
    int64_t n = 0, next = 0;
    int status = take(n_rects, sizeof *open, &open);
    if (status) return status;
    for (hga_id query = 0; next < n_rects || n > 0;) {
        if (n == 0) query = rects[next].query;
        for (; next < n_rects && rects[next].query == query; next++)
            if (level < 0 || rects[next].level == level) open[n++] = rects[next];
        hga_id end = next < n_rects ? rects[next].query : d->out->n_queries;
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

/* Adds what is covered: the areas themselves while no pair is covered twice. */
static int add_covered(drawing *d)
{
    int64_t cells = (int64_t)d->out->rows * d->out->columns;
    if (d->sweeps) return sweep(d, -1, NULL);
    for (hga_id l = 0; l < d->out->n_levels; l++)
        for (int64_t i = 0; d->of_level[l] && i < cells; i++) d->covered[i] += d->of_level[l][i];
    return CLI_GOOD;
}

/* Each cell shows how much of it is covered, in the colour of the level that covers most of it. */
static void choose_looks(const drawing *d, float *value, hga_id *level)
{
    const picture *p = d->out;
    for (int64_t i = 0; i < (int64_t)p->rows * p->columns; i++) {
        double most = 0;
        value[i] = (float)(d->covered[i] / picture_cell_area(p, (hga_id)(i / p->columns), (hga_id)(i % p->columns)));
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
    d->out->n_rects = 0;
    TRY(picture_from_cells(d->out, value, level, SHADES));
done:
    free(value);
    free(level);
    return status;
}

/* Rectangles where cells are tokens, else counts of pairs cell by cell. */
int picture_pattern(const hga_program *p, const hga_graph *g, hga_id max_rows, hga_id max_columns, progress *bar,
                    picture *out)
{
    int status = CLI_GOOD;
    *out = picture_of(g, max_rows, max_columns);
    drawing d = {.out = out, .bar = bar, .all = (double)out->n_queries * out->n_keys};
    TRY(take(out->n_levels, sizeof *out->level_pairs, &out->level_pairs));
    TRY(take(out->n_levels, sizeof *d.of_level, &d.of_level));
    if (!out->exact) TRY(take((int64_t)out->rows * out->columns, sizeof *d.covered, &d.covered));
    TRY(complain_of(hga_program_coverage(p, g, 0, &out->coverage), CLI_DATA, "the pattern"));
    d.sweeps = out->coverage.more > 0;
    hga_status st = hga_program_pattern(p, g, draw_patch, &d);
    TRY(d.status);
    TRY(complain_of(st, CLI_DATA, "the pattern"));
    if (d.sweeps) sort_rects(out, by_query);
    for (hga_id l = 0; l < out->n_levels && d.sweeps; l++) TRY(sweep(&d, l, &out->level_pairs[l]));
    if (out->exact) sort_rects(out, by_look);
    if (!out->exact) TRY(finish_cells(&d));
done:
    for (hga_id l = 0; d.of_level && l < out->n_levels; l++) free(d.of_level[l]);
    free(d.of_level);
    free(d.covered);
    if (status) picture_clear(out);
    return status;
}

hga_id picture_levels(const picture *p)
{
    hga_id n = p->n_levels;
    while (n > 1 && p->level_pairs[n - 1] <= 0) n--;
    return n;
}
