/* ascii.c: pairs of tokens gathered in cells, a character a cell. */
#include "ascii.h"

#include <stdlib.h>

#include "picture.h"
#include "table.h"

/* Levels above share the last character. */
static const char level_sign[] = "0123456789abcdefghijklmnopqrstuvwxyz";
enum { SIGNS = sizeof level_sign - 1 };

typedef struct canvas {
    picture cells;
    hga_id signs;
    double *pairs; /* [signs][cells], pairs counted with multiplicity */
    int64_t total[SIGNS];
} canvas;

static int64_t cells_of(const canvas *c) { return (int64_t)c->cells.rows * c->cells.columns; }

/* Adds a patch of the pattern to the cells that it touches, under the sign of its level. */
static hga_status paint(const hga_patch *p, void *context)
{
    canvas *c = context;
    hga_id sign = p->source_level < SIGNS ? p->source_level : SIGNS - 1;
    const picture_rect r = {.query = p->query, .n_queries = p->n_queries, .key = p->key, .n_keys = p->n_keys};
    c->total[sign] += (int64_t)p->n_queries * p->n_keys * p->times;
    picture_add_area(&c->cells, &r, (double)p->times, c->pairs + sign * cells_of(c));
    return HGA_OK;
}

/* The sign of the level with the most pairs of the cell; # when pairs, counted with multiplicity, exceed those of
   the cell. */
static char sign_of(const canvas *c, hga_id i, hga_id j)
{
    const double *pairs = c->pairs + (int64_t)i * c->cells.columns + j;
    double sum = 0;
    hga_id most = 0;
    for (hga_id l = 0; l < c->signs; l++) {
        sum += pairs[l * cells_of(c)];
        if (pairs[l * cells_of(c)] > pairs[most * cells_of(c)]) most = l;
    }
    return sum <= 0 ? '.' : sum > picture_cell_area(&c->cells, i, j) ? '#' : level_sign[most];
}

static json_t *lines_of(const canvas *c)
{
    json_t *lines = json_array();
    char line[ASCII_MOST + 1];
    for (hga_id i = 0; i < c->cells.rows; i++) {
        for (hga_id j = 0; j < c->cells.columns; j++) line[j] = sign_of(c, i, j);
        json_array_append_new(lines, json_stringn(line, (size_t)c->cells.columns));
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

/* Counts pairs cell by cell and level by level; a cell shows the level of most. */
int ascii_draw(const hga_graph *g, const hga_program *p, hga_id width, const char *about, json_t **out)
{
    canvas c = {.cells = picture_of(g, width, width)};
    const picture *cells = &c.cells;
    int status = CLI_GOOD;
    *out = NULL;
    c.signs = cells->n_levels < SIGNS ? cells->n_levels : SIGNS;
    TRY(take(cells_of(&c) * c.signs, sizeof *c.pairs, &c.pairs));
    TRY(complain_of(hga_program_pattern(p, g, paint, &c), CLI_DATA, about));
    *out = json_pack("{s:i, s:i, s:i, s:i, s:o, s:o}", "queries", cells->n_queries, "keys", cells->n_keys, "rows",
                     cells->rows, "columns", cells->columns, "lines", lines_of(&c), "legend", legend_of(&c));
    if (!*out) status = complain(CLI_OUTSIDE, "out of memory");
done:
    free(c.pairs);
    return status;
}

void ascii_print(const json_t *drawing)
{
    size_t i;
    json_t *value;
    json_array_foreach(json_object_get(drawing, "lines"), i, value) puts(json_string_value(value));
    printf("\n%lld query tokens down, %lld key tokens across, %lld x %lld cells\n", row_whole(drawing, "queries"),
           row_whole(drawing, "keys"), row_whole(drawing, "rows"), row_whole(drawing, "columns"));
    json_array_foreach(json_object_get(drawing, "legend"), i, value)
        printf("%s  most of what is seen is seen by nodes of level %lld, %lld pairs in all\n",
               json_string_value(json_object_get(value, "sign")), row_whole(value, "level"), row_whole(value, "pairs"));
    printf(".  nothing is seen\n#  seen more than once\n");
}
