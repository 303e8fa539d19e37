/* ranks_plot.c: milliseconds against ranks, a line for each way. */
#include "ranks_plot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "line_chart.h"
#include "table.h"

/* A line: a figure of the rows of one way. */
static const struct line_of {
    const char *way, *key, *name;
    uint32_t rgb; /* 0: ink */
    int dashed;
} lines[] = {
    {"halo", "compute_seconds", "computing, the busiest rank", 0x2f6db5, 0},
    {"halo", "exchange_seconds", "its exchange", 0xc8553d, 0},
    {"dense, ring", "exchange_seconds", "exchange of dense, ring", 0, 1},
    {"dense, heads", "exchange_seconds", "exchange of dense, heads", 0x6b8e23, 1},
    {"routed, all-to-all", "exchange_seconds", "exchange of routed, all-to-all", 0x8a6bbf, 1},
};

/* The milliseconds of one way by ranks, of rows that have any: one rank exchanges nothing. */
static void add_line(const json_t *rows, const struct line_of *l, line_chart *c)
{
    chart_line *line = &c->line[c->n];
    size_t i;
    json_t *row;
    line->ink = chart_paint(l->rgb, 1), line->dashed = l->dashed, line->width = l->dashed ? 1.5 : 2.5;
    snprintf(line->name, sizeof line->name, "%s", l->name);
    json_array_foreach(rows, i, row)
    {
        double ms = 1e3 * row_number(row, l->key);
        if (strcmp(row_text(row, "way"), l->way) == 0 && ms > 0)
            line_add(line, (line_point){.x = row_number(row, "ranks"), .ms = ms});
    }
    c->n += line->n > 0;
}

int ranks_plot_write(const json_t *rows, const char *title, const char *path)
{
    line_chart *c = NULL;
    int status = take(1, sizeof *c, &c);
    if (status) return status;
    c->title = title, c->unit = "ranks", c->shows_title = 1;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) add_line(rows, &lines[i], c);
    line_chart_fit(c);
    const drawing drawn = line_chart_drawing(c);
    status = drawing_write(&drawn, path);
    free(c);
    return status;
}
