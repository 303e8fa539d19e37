/* ascii.c: pairs of tokens gathered in cells, a character a cell. */
#include "ascii.h"

#include <stdlib.h>
#include <string.h>

/* Levels above share the last character. */
static const char level_sign[] = "0123456789abcdefghijklmnopqrstuvwxyz";
enum { SIGNS = sizeof level_sign - 1 };

typedef struct canvas {
    hga_id rows, columns, n_queries, n_keys, signs;
    int64_t *pairs; /* [rows][columns][signs], ways counted */
    int64_t total[SIGNS];
} canvas;

/* Cell i of `cells` holds the tokens from here to the next cell's. */
static int64_t cell_start(int64_t i, int64_t n, int64_t cells) { return i * n / cells; }
static int64_t cell_of(int64_t token, int64_t n, int64_t cells) { return ((token + 1) * cells - 1) / n; }

/* tokens of [first, first + n) in cell i */
static int64_t inside(int64_t i, int64_t all, int64_t cells, int64_t first, int64_t n)
{
    int64_t lo = cell_start(i, all, cells), hi = cell_start(i + 1, all, cells);
    return (hi < first + n ? hi : first + n) - (lo > first ? lo : first);
}

/* Adds a patch of the pattern to the cells that it touches, under the sign of its level. */
static hga_status paint(const hga_patch *p, void *context)
{
    canvas *c = context;
    hga_id sign = p->source_level < SIGNS ? p->source_level : SIGNS - 1;
    int64_t first = cell_of(p->query, c->n_queries, c->rows),
            last = cell_of((int64_t)p->query + p->n_queries - 1, c->n_queries, c->rows);
    int64_t left = cell_of(p->key, c->n_keys, c->columns),
            right = cell_of((int64_t)p->key + p->n_keys - 1, c->n_keys, c->columns);
    c->total[sign] += (int64_t)p->n_queries * p->n_keys * p->times;
    for (int64_t i = first; i <= last; i++) {
        int64_t queries = inside(i, c->n_queries, c->rows, p->query, p->n_queries) * p->times;
        for (int64_t j = left; j <= right; j++)
            c->pairs[(i * c->columns + j) * c->signs + sign] +=
                queries * inside(j, c->n_keys, c->columns, p->key, p->n_keys);
    }
    return HGA_OK;
}

/* The level with the most pairs of the cell; # when there are more ways than pairs. */
static char sign_of(const canvas *c, int64_t i, int64_t j)
{
    const int64_t *pairs = c->pairs + (i * c->columns + j) * c->signs;
    int64_t area = inside(i, c->n_queries, c->rows, 0, c->n_queries) * inside(j, c->n_keys, c->columns, 0, c->n_keys),
            sum = 0;
    hga_id most = 0;
    for (hga_id l = 0; l < c->signs; l++) {
        sum += pairs[l];
        if (pairs[l] > pairs[most]) most = l;
    }
    return sum == 0 ? '.' : sum > area ? '#' : level_sign[most];
}

static json_t *lines_of(const canvas *c)
{
    json_t *lines = json_array();
    char line[ASCII_MOST + 1];
    for (hga_id i = 0; i < c->rows; i++) {
        for (hga_id j = 0; j < c->columns; j++) line[j] = sign_of(c, i, j);
        json_array_append_new(lines, json_stringn(line, (size_t)c->columns));
    }
    return lines;
}

static json_t *legend_of(const canvas *c)
{
    json_t *legend = json_array();
    for (hga_id l = 0; l < c->signs; l++)
        if (c->total[l])
            json_array_append_new(legend, json_pack("{s:s#, s:i, s:I}", "sign", &level_sign[l], 1, "level", l, "pairs",
                                                    (json_int_t)c->total[l]));
    return legend;
}

int ascii_draw(const hga_graph *g, const hga_program *p, hga_id width, const char *about, json_t **out)
{
    hga_nodes nodes = hga_graph_nodes(g);
    canvas c = {
        .n_queries = nodes.n_queries, .n_keys = nodes.n_keys, .signs = nodes.n_levels < SIGNS ? nodes.n_levels : SIGNS};
    int status = CLI_GOOD;
    *out = NULL;
    c.rows = c.n_queries < width ? c.n_queries : width;
    c.columns = c.n_keys < width ? c.n_keys : width;
    TRY(take((int64_t)c.rows * c.columns * c.signs, sizeof *c.pairs, &c.pairs));
    TRY(complain_of(hga_program_pattern(p, g, paint, &c), CLI_DATA, about));
    *out = json_pack("{s:i, s:i, s:i, s:i, s:o, s:o}", "queries", c.n_queries, "keys", c.n_keys, "rows", c.rows,
                     "columns", c.columns, "lines", lines_of(&c), "legend", legend_of(&c));
    if (!*out) status = complain(CLI_OUTSIDE, "out of memory");
done:
    free(c.pairs);
    return status;
}

static long long number_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

void ascii_print(const json_t *drawing)
{
    size_t i;
    json_t *value;
    json_array_foreach(json_object_get(drawing, "lines"), i, value) puts(json_string_value(value));
    printf("\n%lld query tokens down, %lld key tokens across, %lld x %lld cells\n", number_of(drawing, "queries"),
           number_of(drawing, "keys"), number_of(drawing, "rows"), number_of(drawing, "columns"));
    json_array_foreach(json_object_get(drawing, "legend"), i, value)
        printf("%s  most of what is seen is seen by nodes of level %lld, %lld pairs in all\n",
               json_string_value(json_object_get(value, "sign")), number_of(value, "level"), number_of(value, "pairs"));
    printf(".  nothing is seen\n#  seen more than once\n");
}
