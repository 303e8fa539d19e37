/* chart.c: scales, frames, labels. */
#include "chart.h"

#include <math.h>
#include <stdio.h>

enum { LABEL = 12, LABEL_HEIGHT = 13 };

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

chart_axis chart_fitted(const char *title, const double *x, int n, double length)
{
    const double margin = 1.25;
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < n; i++)
        if (x[i] > 0 && isfinite(x[i])) low = fmin(low, x[i]), high = fmax(high, x[i]);
    if (!(low <= high)) low = high = 1;
    if (high < 4 * low) low /= 2, high *= 2; /* a tick at least, or two */
    chart_axis a = chart_logs(title, low / margin, high * margin, length);
    chart_add_powers(&a);
    return a;
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

static void draw_line(canvas *c, double x, double y, double x2, double y2, const look *l)
{
    const double at[2][2] = {{x, y}, {x2, y2}};
    c->lines(c, at, 2, l);
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
            draw_line(c->canvas, sharp(x), c->top, sharp(x), bottom, &chart_grid_line);
        else
            draw_line(c->canvas, sharp(x), bottom + 1, sharp(x), bottom + 6, &chart_frame_line);
        c->canvas->text(c->canvas, x, bottom + 19, chart_text(TEXT_MIDDLE), c->x.tick[i].label);
    }
}

/* Ticks left of the frame, or lines through it where the axis has a grid, and their labels. */
static void draw_ticks_of_y(const chart *c)
{
    for (int i = 0; i < c->y.n_ticks; i++) {
        double at = c->y.tick[i].at, y = c->downwards ? c->top + at : c->top + c->height - c->foot - at;
        if (c->y.grid)
            draw_line(c->canvas, c->left, sharp(y), c->left + c->width, sharp(y), &chart_grid_line);
        else
            draw_line(c->canvas, c->left - 6, sharp(y), c->left - 1, sharp(y), &chart_frame_line);
        c->canvas->text(c->canvas, c->left - 9, y + 4, chart_text(TEXT_END), c->y.tick[i].label);
    }
}

void chart_frame(const chart *c)
{
    text_style upwards = chart_text(TEXT_MIDDLE);
    upwards.upwards = 1;
    draw_ticks_of_x(c);
    draw_ticks_of_y(c);
    c->canvas->rect(c->canvas, c->left - 0.5, c->top - 0.5, c->width + 1, c->height + 1, &chart_frame_line);
    if (c->x.title)
        c->canvas->text(c->canvas, c->left + c->width / 2, c->top + c->height + 40, chart_text(TEXT_MIDDLE),
                        c->x.title);
    if (c->y.title) c->canvas->text(c->canvas, c->left - 52, c->top + c->height / 2, upwards, c->y.title);
}

double chart_entry(canvas *c, double x, double y, const look *sample, const char *text)
{
    c->rect(c, x, y, 16, 14, sample);
    c->text(c, x + 24, y + 11, chart_text(TEXT_START), text);
    return y + 22;
}

/* ---- labels ---- */

double chart_width(const char *text, double size)
{
    double width = 0;
    for (; *text; text++) width += (*text & 0xC0) != 0x80 ? 0.58 * size : 0;
    return width;
}

static int overlap(const chart_box *a, const chart_box *b)
{
    return a->x < b->x + b->width && b->x < a->x + a->width && a->y < b->y + b->height && b->y < a->y + a->height;
}

static int fits(const chart_room *r, const chart_box *b)
{
    const chart_box *in = &r->inside;
    if (b->x < in->x || b->x + b->width > in->x + in->width || b->y < in->y || b->y + b->height > in->y + in->height)
        return 0;
    for (int i = 0; i < r->n_taken; i++)
        if (overlap(b, &r->taken[i])) return 0;
    return 1;
}

void chart_take(chart_room *r, chart_box b)
{
    if (r->n_taken < MAX_LABELS) r->taken[r->n_taken++] = b;
}

int chart_find_room(chart_room *r, double x, double y, double width, chart_box *out)
{
    const double side[3] = {x + 9, x - 9 - width, x - width / 2};
    if (r->n_taken == MAX_LABELS) return 0;
    for (int row = 0; row < 50; row++)
        for (int i = 0; i < (row == 0 ? 2 : 3); i++) {
            double down = (row + 1) / 2 * (row % 2 ? -LABEL_HEIGHT : LABEL_HEIGHT);
            *out = (chart_box){side[i], y - 7 + down, width, LABEL_HEIGHT};
            if (fits(r, out)) return 1;
        }
    return 0;
}

void chart_move_apart(double *y, int n, double apart, double end)
{
    for (int i = 1; i < n; i++) y[i] = fmax(y[i], y[i - 1] + apart);
    for (int i = n - 1; i >= 0 && y[i] > end; i--, end -= apart) y[i] = end;
}
