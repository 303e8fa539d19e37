/* chart.c: scales and frames. */
#include "chart.h"

#include <math.h>
#include <stdio.h>

enum { LABEL = 12 };

/* ---- inks ---- */

const look chart_page = {.fill = {PAINT_PAGE, 0, 1}};
const look chart_frame_line = {.line = {PAINT_INK, 0, 0.55}, .width = 1};
const look chart_grid_line = {.line = {PAINT_INK, 0, 0.13}, .width = 1};

paint chart_ink(double opacity) { return chart_paint(0, opacity); }

paint chart_paint(uint32_t rgb, double opacity) { return (paint){rgb ? PAINT_COLOUR : PAINT_INK, rgb, opacity}; }

text_style chart_text(text_anchor anchor) { return (text_style){LABEL, anchor, 0, chart_ink(0.75)}; }

/* ---- axes ---- */

chart_axis chart_logs(const char *title, double least, double most, double length)
{
    return (chart_axis){.title = title, .low = log(least), .high = log(most), .length = length, .grid = 1};
}

double chart_along(const chart_axis *a, double value) { return (log(value) - a->low) / (a->high - a->low) * a->length; }

void chart_add_tick(chart_axis *a, double at, const char *label)
{
    if (a->n_ticks == MAX_TICKS) return;
    chart_tick *t = &a->tick[a->n_ticks++];
    t->at = at;
    snprintf(t->label, sizeof t->label, "%s", label);
}

/* a tick at factor * 10^e for every e that the axis has */
static void add_powers_of(chart_axis *a, double factor)
{
    const double rounding = 1e-9;
    for (double e = floor(a->low / log(10)) - 1; e <= ceil(a->high / log(10)); e++) {
        double value = factor * pow(10, e);
        char label[16];
        if (log(value) < a->low - rounding || log(value) > a->high + rounding) continue;
        snprintf(label, sizeof label, "%g", value);
        chart_add_tick(a, chart_along(a, value), label);
    }
}

void chart_add_powers(chart_axis *a)
{
    add_powers_of(a, 1);
    if (a->n_ticks < 3) add_powers_of(a, 2), add_powers_of(a, 5);
}

/* ---- the plot ---- */

double chart_x(const chart *c, double value) { return c->left + chart_along(&c->x, value); }

double chart_y(const chart *c, double value) { return c->top + c->height - c->foot - chart_along(&c->y, value); }

/* lines of one pixel lie on whole pixels */
static double sharp(double x) { return floor(x) + 0.5; }

/* A tick outside of the frame, or a line through it where the axis has a grid. */
static void draw_tick(const chart *c, const chart_axis *a, const double tick[2][2], const double line[2][2])
{
    svg_lines(c->svg, a->grid ? line : tick, 2, a->grid ? &chart_grid_line : &chart_frame_line);
}

/* Ticks and their labels below the frame. */
static void draw_ticks_of_x(const chart *c)
{
    const double top = c->top, bottom = c->top + c->height;
    for (int i = 0; i < c->x.n_ticks; i++) {
        double x = c->left + c->x.tick[i].at, at = sharp(x);
        draw_tick(c, &c->x, (const double[2][2]){{at, bottom + 1}, {at, bottom + 6}},
                  (const double[2][2]){{at, top}, {at, bottom}});
        svg_text(c->svg, x, bottom + 19, chart_text(TEXT_MIDDLE), c->x.tick[i].label);
    }
}

/* Ticks and their labels left of the frame. */
static void draw_ticks_of_y(const chart *c)
{
    const double left = c->left, right = c->left + c->width;
    for (int i = 0; i < c->y.n_ticks; i++) {
        double from = c->y.tick[i].at, y = c->downwards ? c->top + from : c->top + c->height - c->foot - from;
        draw_tick(c, &c->y, (const double[2][2]){{left - 6, sharp(y)}, {left - 1, sharp(y)}},
                  (const double[2][2]){{left, sharp(y)}, {right, sharp(y)}});
        svg_text(c->svg, left - 9, y + 4, chart_text(TEXT_END), c->y.tick[i].label);
    }
}

void chart_frame(const chart *c)
{
    text_style upwards = chart_text(TEXT_MIDDLE);
    upwards.upwards = 1;
    draw_ticks_of_x(c);
    draw_ticks_of_y(c);
    svg_rect(c->svg, c->left - 0.5, c->top - 0.5, c->width + 1, c->height + 1, &chart_frame_line);
    if (c->x.title)
        svg_text(c->svg, c->left + c->width / 2, c->top + c->height + 40, chart_text(TEXT_MIDDLE), c->x.title);
    if (c->y.title) svg_text(c->svg, c->left - 52, c->top + c->height / 2, upwards, c->y.title);
}
