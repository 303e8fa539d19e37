/* series_chart.c: points, lines, and names beside where they end. */
#include "series_chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEFT = 64, RIGHT = 300, TOP = 14, TITLE = 38, HEIGHT = 374, ZERO = 40, LABEL_GAP = 15 };

void series_put(series *s, series_point p)
{
    int at = s->n;
    while (at > 0 && s->at[at - 1].x > p.x) at--;
    if (s->n == MOST_POINTS || (at > 0 && s->at[at - 1].x >= p.x)) return;
    memmove(&s->at[at + 1], &s->at[at], (size_t)(s->n++ - at) * sizeof p);
    s->at[at] = p;
}

/* ---- axes ---- */

/* Each x that a series has gets one tick. */
static void add_ticks(const series *s, chart_axis *x)
{
    for (int i = 0; i < s->n; i++) {
        char text[16];
        int known = 0;
        snprintf(text, sizeof text, "%.0f", s->at[i].x);
        for (int t = 0; t < x->n_ticks; t++) known |= strcmp(x->tick[t].label, text) == 0;
        if (!known) chart_add_tick(x, chart_along(x, s->at[i].x), text);
    }
}

/* With a margin, which is wide enough for a tick at least where all values are close together. */
static chart_axis axis_of(const chart_shown *of, double least, double most, double length)
{
    if (!(least <= most)) least = most = 1;
    const double margin = of->counted && least < most ? 1 : !of->counted && most < 2 * least ? 2.5 : 1.2;
    return chart_logs(of->title, least / margin, most * margin, length);
}

int series_chart_fit(series_chart *c, int left, int top)
{
    double least = INFINITY, most = 0, shortest = INFINITY, longest = 0;
    int zero = 0;
    for (int i = 0; i < c->n; i++)
        for (const series_point *p = c->of[i].at; p < c->of[i].at + c->of[i].n; p++) {
            shortest = fmin(shortest, p->x), longest = fmax(longest, p->x), zero |= p->y <= 0;
            if (p->y > 0) least = fmin(least, p->low > 0 ? fmin(p->low, p->y) : p->y);
            most = fmax(most, fmax(p->high, p->y));
        }
    c->chart = (chart){.left = left + LEFT, .top = top + TOP + (c->shows_title ? TITLE : 0), .height = HEIGHT};
    c->chart.width = SERIES_CHART_WIDTH - LEFT - RIGHT, c->chart.foot = zero ? ZERO : 0;
    c->chart.x = axis_of(&c->x, shortest, longest, c->chart.width);
    c->chart.y = axis_of(&c->y, least, most, HEIGHT - c->chart.foot);
    for (int i = 0; c->x.counted && i < c->n; i++) add_ticks(&c->of[i], &c->chart.x);
    if (!c->x.counted) chart_add_powers(&c->chart.x);
    chart_add_powers(&c->chart.y);
    if (zero) chart_add_tick(&c->chart.y, ZERO / 4.0 - ZERO, "0");
    return c->chart.x.n_ticks;
}

static double y_of(const chart *on, double y) { return y > 0 ? chart_y(on, y) : on->top + HEIGHT - ZERO / 4.0; }

/* ---- points ---- */

/* The dot of a number, which is in it. */
static void draw_number(FILE *svg, double x, double y, const series *s, const char *tip)
{
    char text[16];
    snprintf(text, sizeof text, "%d", s->number);
    const look dot = {.fill = s->ink, .line = chart_page.fill, .width = 1, .name = tip ? "best" : NULL, .tip = tip};
    svg_circle(svg, x, y, 7, &dot);
    svg_text(svg, x, y + 3, (text_style){9, TEXT_MIDDLE, 0, chart_page.fill}, text);
}

/* One measurement: its dot, its quartiles as a bar, and a tooltip; hollow if it was disturbed. */
static void draw_point(const chart *on, const series_chart *c, const series *s, const series_point *p)
{
    char tip[3 * SERIES_NAME];
    const double x = chart_x(on, p->x), y = y_of(on, p->y);
    const int is_hollow = p->disturbed && s->width > 0;
    int n = snprintf(tip, sizeof tip, c->x.counted ? "%s, %.0f %s: %.3g %s" : "%s: %.3g %s, %.3g %s", s->name, p->x,
                     c->x.unit, p->y, c->y.unit);
    if (p->low > 0) n += snprintf(tip + n, sizeof tip - (size_t)n, ", quartiles %.3g and %.3g", p->low, p->high);
    snprintf(tip + n, sizeof tip - (size_t)n, "%s", is_hollow ? "; disturbed" : "");
    if (p->low > 0 && p->high > p->low) {
        const look bar = {.line = s->ink, .width = 1.2};
        svg_lines(on->svg, (const double[2][2]){{x, chart_y(on, p->low)}, {x, chart_y(on, p->high)}}, 2, &bar);
    }
    look dot = {.fill = s->ink, .name = s->width > 0 ? "dot" : "point", .tip = tip};
    if (is_hollow) dot.fill = chart_page.fill, dot.line = s->ink, dot.width = 1.5;
    if (s->number)
        draw_number(on->svg, x, y, s, tip);
    else
        svg_circle(on->svg, x, y, s->width > 0 ? 3 : 3.5, &dot);
}

/* ---- lines ---- */

/* The line's y at x, between two of its points. */
static double y_at(const series *s, double x)
{
    const series_point *p = s->at;
    while (p + 1 < s->at + s->n && p[1].x < x) p++;
    if (p + 1 == s->at + s->n) return p->y;
    double share = log(x / p[0].x) / log(p[1].x / p[0].x);
    return pow(p[0].y, 1 - share) * pow(p[1].y, share);
}

static void draw_ring(const chart *on, const series_chart *c, const series *s)
{
    char tip[2 * SERIES_NAME];
    snprintf(tip, sizeof tip, "%s overtakes dense at about %.0f %s", s->name, s->ring, c->x.unit);
    const look ring = {.line = s->ink, .width = 2, .tip = tip};
    svg_circle(on->svg, chart_x(on, s->ring), chart_y(on, y_at(s, s->ring)), 6, &ring);
}

static look look_of(const series *s) { return (look){.line = s->ink, .width = s->width, .dashed = s->dashed}; }

/* The line through a series' points, straight or in stairs, and its dots. */
static void draw_series(const chart *on, const series_chart *c, const series *s)
{
    double at[2 * MOST_POINTS][2];
    int n = 0;
    const look line = look_of(s);
    for (int i = 0; i < s->n; i++, n++) {
        at[n][0] = chart_x(on, s->at[i].x), at[n][1] = y_of(on, s->at[i].y);
        if (!i || !s->stairs) continue;
        memcpy(at[n + 1], at[n], sizeof at[n]), at[n][1] = at[n - 1][1], n++;
    }
    if (n > 1 && s->width > 0) svg_lines(on->svg, (const double(*)[2])at, n, &line);
    for (int i = 0; *s->name && i < s->n; i++) draw_point(on, c, s, &s->at[i]);
    if (s->ring > 0) draw_ring(on, c, s);
}

/* ---- names ---- */

typedef struct label {
    const series *of;
    double end; /* where the series ends */
} label;

static int by_end(const void *a, const void *b)
{
    double x = ((const label *)a)->end, y = ((const label *)b)->end;
    return (x > y) - (x < y);
}

/* Moves ascending positions down and then up until they are LABEL_GAP from each other and none is beyond `end`. */
static void spread(double *y, int n, double end)
{
    for (int i = 1; i < n; i++) y[i] = fmax(y[i], y[i - 1] + LABEL_GAP);
    for (int i = n - 1; i >= 0 && y[i] > end; i--, end -= LABEL_GAP) y[i] = end;
}

/* The names of series right of the chart, in order of where they end and moved apart, each behind a sample of its line
   or its number: leaders of many lines that end together would be a thicket. */
static void draw_labels(const chart *on, const series_chart *c)
{
    label labels[MOST_SERIES];
    double y[MOST_SERIES], x = on->left + on->width;
    int n = 0;
    for (const series *s = c->of; s < c->of + c->n; s++)
        if (*s->name && (s->width > 0 || s->number)) labels[n++] = (label){s, y_of(on, s->at[s->n - 1].y)};
    qsort(labels, (size_t)n, sizeof *labels, by_end);
    for (int i = 0; i < n; i++) y[i] = labels[i].end;
    spread(y, n, on->top + HEIGHT + 4);
    for (int i = 0; i < n; i++) {
        const series *of = labels[i].of;
        const look sample = look_of(of);
        if (of->number)
            draw_number(on->svg, x + 23, y[i], of, NULL);
        else
            svg_lines(on->svg, (const double[2][2]){{x + 10, y[i]}, {x + 30, y[i]}}, 2, &sample);
        svg_text(on->svg, x + 36, y[i] + 4, (text_style){12, TEXT_START, 0, chart_ink(1)}, of->name);
    }
}

void series_chart_draw(FILE *svg, const void *context)
{
    const series_chart *c = context;
    chart frame = c->chart;
    frame.svg = svg;
    if (c->shows_title) svg_text(svg, LEFT, 30, (text_style){15, TEXT_START, 0, chart_ink(1)}, c->title);
    chart_frame(&frame);
    for (int i = 0; i < c->n; i++) draw_series(&frame, c, &c->of[i]);
    draw_labels(&frame, c);
}

drawing series_chart_drawing(series_chart *c)
{
    const int height = SERIES_CHART_HEIGHT + (c->shows_title ? TITLE : 0);
    return (drawing){SERIES_CHART_WIDTH, height, c->title, NULL, NULL, series_chart_draw, c};
}
