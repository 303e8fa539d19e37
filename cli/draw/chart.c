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

int64_t chart_step(int64_t n, int most)
{
    int64_t step = 1;
    for (int i = 0; n / step > most; i++) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    return step;
}

/* ---- the plot ---- */

double chart_x(const chart *c, double value) { return c->left + chart_along(&c->x, value); }

double chart_y(const chart *c, double value) { return c->top + c->height - c->foot - chart_along(&c->y, value); }

static void draw_line(FILE *svg, double x, double y, double x2, double y2, const look *l)
{
    const double at[2][2] = {{x, y}, {x2, y2}};
    svg_lines(svg, at, 2, l);
}

/* lines of one pixel lie on whole pixels */
static double sharp(double x) { return floor(x) + 0.5; }

/* Ticks below the frame, or lines through it where the axis has a grid, and their labels. */
static void draw_ticks_of_x(const chart *c)
{
    double bottom = c->top + c->height;
    for (int i = 0; i < c->x.n_ticks; i++) {
        double x = c->left + c->x.tick[i].at;
        if (c->x.grid)
            draw_line(c->svg, sharp(x), c->top, sharp(x), bottom, &chart_grid_line);
        else
            draw_line(c->svg, sharp(x), bottom + 1, sharp(x), bottom + 6, &chart_frame_line);
        svg_text(c->svg, x, bottom + 19, chart_text(TEXT_MIDDLE), c->x.tick[i].label);
    }
}

/* Ticks left of the frame, or lines through it where the axis has a grid, and their labels. */
static void draw_ticks_of_y(const chart *c)
{
    for (int i = 0; i < c->y.n_ticks; i++) {
        double at = c->y.tick[i].at, y = c->downwards ? c->top + at : c->top + c->height - c->foot - at;
        if (c->y.grid)
            draw_line(c->svg, c->left, sharp(y), c->left + c->width, sharp(y), &chart_grid_line);
        else
            draw_line(c->svg, c->left - 6, sharp(y), c->left - 1, sharp(y), &chart_frame_line);
        svg_text(c->svg, c->left - 9, y + 4, chart_text(TEXT_END), c->y.tick[i].label);
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
