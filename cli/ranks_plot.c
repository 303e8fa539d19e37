/* ranks_plot.c: milliseconds against ranks, a line for each way. */
#include "ranks_plot.h"

#include <stdio.h>
#include <string.h>

#include "chart.h"
#include "explain_ranks.h"

enum { WIDTH = 760, HEIGHT = 440, LEFT = 72, RIGHT = 250, TOP = 52, BOTTOM = 56 };

/* A line: a figure of the rows of one way. */
typedef struct line_of {
    const char *way, *key, *name;
    uint32_t rgb; /* 0: ink */
    int dashed;
} line_of;

static const line_of lines[] = {
    {"halo", "compute_seconds", "computing, the busiest rank", 0x2f6db5, 0},
    {"halo", "exchange_seconds", "its exchange", 0xc8553d, 0},
    {"dense, ring", "exchange_seconds", "exchange of dense, ring", 0, 1},
    {"dense, heads", "exchange_seconds", "exchange of dense, heads", 0x6b8e23, 1},
    {"routed, all-to-all", "exchange_seconds", "exchange of routed, all-to-all", 0x8a6bbf, 1},
};
enum { N_LINES = sizeof lines / sizeof *lines };

/* Points that have a logarithm: one rank exchanges nothing. */
typedef struct points {
    int n;
    double ranks[MAX_RANK_COUNTS], ms[MAX_RANK_COUNTS];
} points;

typedef struct ranks_plot {
    points line[N_LINES];
    const char *title;
} ranks_plot;

/* The milliseconds of one way by ranks, of rows that have any. */
static points points_of(const json_t *rows, const line_of *l)
{
    points p = {0};
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        double ms = 1e3 * json_number_value(json_object_get(row, l->key));
        if (strcmp(json_string_value(json_object_get(row, "way")), l->way) != 0 || !(ms > 0)) continue;
        if (p.n == MAX_RANK_COUNTS) break;
        p.ranks[p.n] = (double)json_integer_value(json_object_get(row, "ranks")), p.ms[p.n++] = ms;
    }
    return p;
}

/* A tick at each number of ranks that was asked for. */
static chart_axis ranks_axis(const points *p, double length)
{
    chart_axis a = chart_fitted("ranks", p->ranks, p->n, length);
    a.n_ticks = 0;
    for (int i = 0; i < p->n; i++) {
        char text[16];
        snprintf(text, sizeof text, "%.0f", p->ranks[i]);
        chart_add_tick(&a, chart_along(&a, p->ranks[i]), text);
    }
    return a;
}

/* Both axes are logarithmic and fit all lines. */
static chart chart_of(const ranks_plot *d)
{
    chart c = {.left = LEFT, .top = TOP, .width = WIDTH - LEFT - RIGHT, .height = HEIGHT - TOP - BOTTOM};
    double all[N_LINES * MAX_RANK_COUNTS];
    int n = 0;
    for (int i = 0; i < N_LINES; i++)
        for (int k = 0; k < d->line[i].n; k++) all[n++] = d->line[i].ms[k];
    c.x = ranks_axis(&d->line[0], c.width);
    c.y = chart_fitted("milliseconds", all, n, c.height);
    return c;
}

/* A line through its points, with a dot and a text for the pointer at each. */
static void draw_line(const chart *c, const line_of *l, const points *p)
{
    const paint ink = chart_paint(l->rgb, 1);
    const look line = {.line = ink, .width = l->dashed ? 1.5 : 2.5, .dashed = l->dashed};
    double at[MAX_RANK_COUNTS][2];
    char tip[128];
    for (int i = 0; i < p->n; i++) at[i][0] = chart_x(c, p->ranks[i]), at[i][1] = chart_y(c, p->ms[i]);
    c->canvas->lines(c->canvas, (const double(*)[2])at, p->n, &line);
    for (int i = 0; i < p->n; i++) {
        snprintf(tip, sizeof tip, "%s: %.0f ranks, %.3g ms", l->name, p->ranks[i], p->ms[i]);
        c->canvas->circle(c->canvas, at[i][0], at[i][1], 3, &(look){.fill = ink, .name = "dot", .tip = tip});
    }
}

/* The chart, and right of it the name of each line that has points. */
static void draw(canvas *on, const void *context)
{
    const ranks_plot *d = context;
    chart c = chart_of(d);
    double y = TOP + 8;
    c.canvas = on;
    on->text(on, LEFT, 30, (text_style){15, TEXT_START, 0, chart_ink(1)}, d->title);
    chart_frame(&c);
    for (int i = 0; i < N_LINES; i++) {
        if (d->line[i].n == 0) continue;
        const look sample = {.fill = chart_paint(lines[i].rgb, 1)};
        draw_line(&c, &lines[i], &d->line[i]);
        y = chart_entry(on, WIDTH - RIGHT + 20, y, &sample, lines[i].name);
    }
}

int ranks_plot_write(const json_t *rows, const char *title, const char *path)
{
    ranks_plot d = {.title = title};
    for (int i = 0; i < N_LINES; i++) d.line[i] = points_of(rows, &lines[i]);
    return drawing_write(&(drawing){WIDTH, HEIGHT, title, {{0}}, draw, &d}, path);
}
