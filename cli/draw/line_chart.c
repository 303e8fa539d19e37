/* line_chart.c: points, lines, and names beside where they end. */
#include "line_chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 798, LEFT = 64, RIGHT = 300, TOP = 14, TITLE = 38, HEIGHT = 374, BOTTOM = 52, LABEL_GAP = 15 };

void line_add(chart_line *l, line_point p)
{
    int at = l->n;
    while (at > 0 && l->at[at - 1].x > p.x) at--;
    if (l->n == MOST_POINTS || (at > 0 && l->at[at - 1].x >= p.x)) return;
    memmove(&l->at[at + 1], &l->at[at], (size_t)(l->n++ - at) * sizeof p);
    l->at[at] = p;
}

/* ---- axes ---- */

/* Each x that a line has gets one tick. */
static void add_ticks(const chart_line *l, chart_axis *x)
{
    for (int i = 0; i < l->n; i++) {
        char text[16];
        int known = 0;
        snprintf(text, sizeof text, "%.0f", l->at[i].x);
        for (int t = 0; t < x->n_ticks; t++) known |= strcmp(x->tick[t].label, text) == 0;
        if (!known) chart_add_tick(x, chart_along(x, l->at[i].x), text);
    }
}

/* Both axes are logarithmic, with a margin around the least and the most of all lines. */
int line_chart_fit(line_chart *c)
{
    double least = INFINITY, most = 0, shortest = INFINITY, longest = 0;
    for (int i = 0; i < c->n; i++)
        for (const line_point *p = c->line[i].at; p < c->line[i].at + c->line[i].n; p++) {
            least = fmin(least, p->low > 0 ? fmin(p->low, p->ms) : p->ms), most = fmax(most, fmax(p->high, p->ms));
            shortest = fmin(shortest, p->x), longest = fmax(longest, p->x);
        }
    if (!(longest > 0)) shortest = longest = least = most = 1;
    const double margin = shortest < longest ? 1 : 1.25;
    const double left = LEFT, top = c->shows_title ? TOP + TITLE : TOP, width = WIDTH - LEFT - RIGHT;
    c->chart = (chart){.left = left, .top = top, .width = width, .height = HEIGHT};
    c->chart.x = chart_logs(c->unit, shortest / margin, longest * margin, width);
    c->chart.y = chart_logs("milliseconds", least / 1.2, most * 1.2, HEIGHT);
    for (int i = 0; i < c->n; i++) add_ticks(&c->line[i], &c->chart.x);
    chart_add_powers(&c->chart.y);
    return c->chart.x.n_ticks;
}

/* ---- lines ---- */

/* One measurement: its dot, its quartiles as a bar, and a tooltip; hollow if it was disturbed. */
static void draw_point(const chart *on, const line_chart *t, const chart_line *l, const line_point *p)
{
    FILE *svg = on->svg;
    char tip[3 * LINE_NAME];
    double x = chart_x(on, p->x);
    int n = snprintf(tip, sizeof tip, "%s, %.0f %s: %.3g ms", l->name, p->x, t->unit, p->ms);
    if (p->low > 0) n += snprintf(tip + n, sizeof tip - (size_t)n, ", quartiles %.3g and %.3g", p->low, p->high);
    snprintf(tip + n, sizeof tip - (size_t)n, "%s", p->disturbed ? "; disturbed" : "");
    if (p->low > 0 && p->high > p->low) {
        const look bar = {.line = l->ink, .width = 1.2};
        svg_lines(svg, (const double[2][2]){{x, chart_y(on, p->low)}, {x, chart_y(on, p->high)}}, 2, &bar);
    }
    look dot = {.fill = l->ink, .name = "dot", .tip = tip};
    if (p->disturbed) dot.fill = chart_page.fill, dot.line = l->ink, dot.width = 1.5;
    svg_circle(svg, x, chart_y(on, p->ms), 3, &dot);
}

/* The line's milliseconds at x, between two of its points. */
static double ms_at(const chart_line *l, double x)
{
    const line_point *p = l->at;
    while (p + 1 < l->at + l->n && p[1].x < x) p++;
    if (p + 1 == l->at + l->n) return p->ms;
    double share = log(x / p[0].x) / log(p[1].x / p[0].x);
    return pow(p[0].ms, 1 - share) * pow(p[1].ms, share);
}

static void draw_ring(const chart *on, const line_chart *t, const chart_line *l)
{
    char tip[2 * LINE_NAME];
    snprintf(tip, sizeof tip, "%s overtakes dense at about %.0f %s", l->name, l->ring, t->unit);
    const look ring = {.line = l->ink, .width = 2, .tip = tip};
    svg_circle(on->svg, chart_x(on, l->ring), chart_y(on, ms_at(l, l->ring)), 6, &ring);
}

static void draw_line(const chart *on, const line_chart *t, const chart_line *l)
{
    double at[MOST_POINTS][2];
    const look line = {.line = l->ink, .width = l->width, .dashed = l->dashed};
    for (int i = 0; i < l->n; i++) at[i][0] = chart_x(on, l->at[i].x), at[i][1] = chart_y(on, l->at[i].ms);
    if (l->n > 1) svg_lines(on->svg, (const double(*)[2])at, l->n, &line);
    for (int i = 0; i < l->n; i++) draw_point(on, t, l, &l->at[i]);
    if (l->ring > 0) draw_ring(on, t, l);
}

/* ---- names ---- */

typedef struct label {
    const chart_line *of;
    double end; /* where the line ends */
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

/* The names of lines right of the chart, in order of where their lines end and moved apart, each behind a sample of its
   line: leaders of many lines that end together would be a thicket. */
static void draw_labels(const chart *on, const line_chart *t)
{
    FILE *svg = on->svg;
    label labels[MOST_LINES];
    double y[MOST_LINES], x = WIDTH - RIGHT;
    for (int i = 0; i < t->n; i++) {
        const line_point *last = &t->line[i].at[t->line[i].n - 1];
        labels[i] = (label){&t->line[i], chart_y(on, last->ms)};
    }
    qsort(labels, (size_t)t->n, sizeof *labels, by_end);
    for (int i = 0; i < t->n; i++) y[i] = labels[i].end;
    spread(y, t->n, on->top + HEIGHT + 4);
    for (int i = 0; i < t->n; i++) {
        const chart_line *of = labels[i].of;
        const look sample = {.line = of->ink, .width = of->width, .dashed = of->dashed};
        svg_lines(svg, (const double[2][2]){{x + 10, y[i]}, {x + 30, y[i]}}, 2, &sample);
        svg_text(svg, x + 36, y[i] + 4, (text_style){12, TEXT_START, 0, chart_ink(1)}, of->name);
    }
}

static void draw(FILE *svg, const void *context)
{
    const line_chart *t = context;
    chart frame = t->chart;
    frame.svg = svg;
    if (t->shows_title) svg_text(svg, LEFT, 30, (text_style){15, TEXT_START, 0, chart_ink(1)}, t->title);
    chart_frame(&frame);
    for (int i = 0; i < t->n; i++) draw_line(&frame, t, &t->line[i]);
    draw_labels(&frame, t);
}

drawing line_chart_drawing(line_chart *c)
{
    return (drawing){WIDTH, (int)c->chart.top + HEIGHT + BOTTOM, c->title, NULL, NULL, draw, c};
}
