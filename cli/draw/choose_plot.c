/* choose_plot.c: two scatter plots. */
#include "choose_plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chart.h"
#include "palette.h"

enum { WIDTH = 560, HEIGHT = 420, LEFT = 80, TOP = 70, GAP = 100, FOOT = 60, ZERO_CAPACITY = 40, KEY_LINE = 16 };
static const double label_size = 11;

/* ---- free areas for the numbers of dots ---- */

enum { MAX_LABELS = 1024, LABEL_HEIGHT = 13 };

typedef struct box {
    double x, y, width, height;
} box;

typedef struct area {
    box inside, taken[MAX_LABELS];
    int n_taken;
} area;

/* The width in pixels that a label needs, roughly. */
static double width_of(const char *text, double size)
{
    double width = 0;
    for (; *text; text++) width += (*text & 0xC0) != 0x80 ? 0.58 * size : 0;
    return width;
}

static int overlap(const box *a, const box *b)
{
    return a->x < b->x + b->width && b->x < a->x + a->width && a->y < b->y + b->height && b->y < a->y + a->height;
}

static int fits(const area *r, const box *b)
{
    const box *in = &r->inside;
    if (b->x < in->x || b->x + b->width > in->x + in->width || b->y < in->y || b->y + b->height > in->y + in->height)
        return 0;
    for (int i = 0; i < r->n_taken; i++)
        if (overlap(b, &r->taken[i])) return 0;
    return 1;
}

/* Reserves this box. */
static void take_box(area *r, box b)
{
    if (r->n_taken < MAX_LABELS) r->taken[r->n_taken++] = b;
}

/* Finds a free box for the number of a point, so near that no line has to lead to it: above, below, beside, a little
   farther up and down; 0 when there is none. */
static int find_area(area *r, double x, double y, double width, box *out)
{
    static const double at[][2] = {{0, -1}, {0, 1}, {1, 0},  {-1, 0},
                                   {0, -2}, {0, 2}, {0, -3}, {0, 3}}; /* right, down */
    if (r->n_taken == MAX_LABELS) return 0;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        const double aside = at[i][0] * (8 + width / 2),
                     down = at[i][1] * LABEL_HEIGHT + (at[i][1] > 0) - (at[i][1] < 0);
        *out = (box){x - width / 2 + aside, y - LABEL_HEIGHT / 2.0 + down, width, LABEL_HEIGHT};
        if (fits(r, out)) return 1;
    }
    return 0;
}

/* ---- panels ---- */

typedef struct panel {
    chart chart;
    area area;
    int cost;
} panel;

typedef struct choose_plot {
    plot_point *point;
    int n;
    const char *title;
    panel panel[N_COSTS];
} choose_plot;

/* ---- parts ---- */

static double x_of(const panel *p, const plot_point *q) { return chart_x(&p->chart, q->cost[p->cost]); }

/* an error of 0 has no logarithm: its dot is below the axis */
static double y_of(const panel *p, const plot_point *q)
{
    return q->error > 0 ? chart_y(&p->chart, q->error) : p->chart.top + HEIGHT - ZERO_CAPACITY / 4.0;
}

static int drawn(const plot_point *q) { return isfinite(q->error); }

static double radius(const panel *p, const plot_point *q) { return q->front[p->cost] ? 5 : 3.5; }

static paint paint_of(const char *variant, double opacity) { return chart_paint(variant_colour(variant), opacity); }

/* the front from cheap to dear, as stairs: the least error for each cost */
static void draw_front(const panel *p, const plot_point *point, int n)
{
    const look stairs = {.line = chart_ink(0.8), .width = 1, .dashed = 1};
    double step[3][2] = {{0}};
    int begun = 0;
    for (int i = 0; i < n; i++) {
        const plot_point *q = &point[i];
        if (!q->front[p->cost]) continue;
        step[2][0] = x_of(p, q), step[2][1] = y_of(p, q);
        step[1][0] = step[2][0], step[1][1] = step[0][1];
        if (begun) svg_lines(p->chart.svg, (const double(*)[2])step, 3, &stairs);
        step[0][0] = step[2][0], step[0][1] = step[2][1], begun = 1;
    }
}

/* A candidate's dot, darker and outlined on the front, with its numbers as a tooltip. */
static void draw_point(const panel *p, const plot_point *q)
{
    char tip[256];
    int best = q->front[p->cost];
    if (!drawn(q)) return;
    snprintf(tip, sizeof tip, "%s %s: error %.4g, %.4g %s", q->variant, q->parameters, q->error, q->cost[p->cost],
             p->cost == COST_TIME ? "ms" : "GFLOP");
    look l = {.fill = paint_of(q->variant, best ? 1 : 0.55), .name = best ? "best" : "point", .tip = tip};
    if (best) l.line = chart_ink(1), l.width = 1;
    svg_circle(p->chart.svg, x_of(p, q), y_of(p, q), radius(p, q), &l);
}

/* ---- numbers ---- */

/* no number over a point */
static void take_plot(panel *p, const plot_point *q)
{
    double r = radius(p, q) + 1;
    if (drawn(q)) take_box(&p->area, (box){x_of(p, q) - r, y_of(p, q) - r, 2 * r, 2 * r});
}

/* The number of a candidate on the front, if there is a free area near its dot; else none. */
static void draw_number(panel *p, const plot_point *q, int number)
{
    FILE *svg = p->chart.svg;
    char text[16];
    box b;
    snprintf(text, sizeof text, "%d", number);
    if (!find_area(&p->area, x_of(p, q), y_of(p, q), width_of(text, label_size), &b)) return;
    take_box(&p->area, b);
    svg_rect(svg, b.x, b.y, b.width, b.height, &chart_page); /* over the stairs */
    svg_text(svg, b.x + b.width / 2, b.y + 11, (text_style){label_size, TEXT_MIDDLE, 0, paint_of(q->variant, 1)}, text);
}

/* ---- the key: what the numbers stand for ---- */

static void name_of(const plot_point *q, size_t n, char text[])
{
    snprintf(text, n, "%s%s%s", q->variant, *q->parameters ? " " : "", q->parameters);
}

/* How many columns the key has, and how many are on the front. */
static int key_columns(const plot_point *point, int n, int cost, int *on_front)
{
    char text[192];
    int columns = 2;
    *on_front = 0;
    for (int i = 0; i < n; i++) {
        if (!point[i].front[cost]) continue;
        name_of(&point[i], sizeof text, text);
        if (width_of(text, label_size) > WIDTH / 2 - 14) columns = 1;
        ++*on_front;
    }
    return columns;
}

static int key_lines(const plot_point *point, int n, int cost)
{
    int on_front, columns = key_columns(point, n, cost, &on_front);
    return (on_front + columns - 1) / columns;
}

/* The front's candidates by their numbers below the plot, column after column. */
static void draw_key(const panel *p, const plot_point *point, int n)
{
    int on_front, number = 0, columns = key_columns(point, n, p->cost, &on_front);
    const int lines = (on_front + columns - 1) / columns;
    for (int i = 0; i < n; i++) {
        char text[192], digits[16];
        if (!point[i].front[p->cost]) continue;
        const double x = p->chart.left + number / lines * (WIDTH / columns),
                     y = p->chart.top + HEIGHT + FOOT + number % lines * KEY_LINE;
        snprintf(digits, sizeof digits, "%d", ++number);
        name_of(&point[i], sizeof text, text);
        const paint ink = paint_of(point[i].variant, 1);
        svg_text(p->chart.svg, x + 16, y + 8, (text_style){label_size, TEXT_END, 0, ink}, digits);
        svg_text(p->chart.svg, x + 24, y + 8, (text_style){label_size, TEXT_START, 0, ink}, text);
    }
}

/* ---- all of it ---- */

static int is_beaten(const plot_point *p, const plot_point *by, int cost)
{
    return by->error <= p->error && by->cost[cost] <= p->cost[cost] &&
           (by->error < p->error || by->cost[cost] < p->cost[cost]);
}

void choose_plot_mark(plot_point *point, int n, int cost)
{
    for (int i = 0; i < n; i++) {
        point[i].front[cost] = isfinite(point[i].error);
        for (int j = 0; j < n; j++)
            if (is_beaten(&point[i], &point[j], cost)) point[i].front[cost] = 0;
    }
}

static int compare(const plot_point *a, const plot_point *b, int cost)
{
    return (a->cost[cost] > b->cost[cost]) - (a->cost[cost] < b->cost[cost]);
}

static int by_time(const void *a, const void *b) { return compare(a, b, COST_TIME); }
static int by_flops(const void *a, const void *b) { return compare(a, b, COST_FLOPS); }

/* An axis for the positive ones of all points' errors, or, from 0 on, of one of their costs. */
static chart_axis fit_axis(const choose_plot *all, int cost, const char *title, double length)
{
    const double margin = 1.25;
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < all->n; i++) {
        const double x = cost < 0 ? all->point[i].error : all->point[i].cost[cost];
        if (x > 0 && isfinite(x)) low = fmin(low, x), high = fmax(high, x);
    }
    if (!(low <= high)) low = high = 1;
    if (high < 4 * low) low /= 2, high *= 2; /* a tick at least, or two */
    chart_axis a = chart_logs(title, low / margin, high * margin, length);
    chart_add_powers(&a);
    return a;
}

/* The scales, from all points. */
static void panel_make(choose_plot *all, int cost, double top)
{
    const double left = LEFT + cost * (WIDTH + GAP);
    const char *title = cost == COST_TIME ? "milliseconds of an execution" : "GFLOP of an execution";
    panel *p = &all->panel[cost];
    *p = (panel){.cost = cost, .area.inside = {left, top, WIDTH, HEIGHT}};
    p->chart = (chart){.left = left, .top = top, .width = WIDTH, .height = HEIGHT, .foot = ZERO_CAPACITY};
    p->chart.x = fit_axis(all, cost, title, WIDTH);
    p->chart.y = fit_axis(all, -1, "error: relative L2", HEIGHT - ZERO_CAPACITY);
    chart_add_tick(&p->chart.y, ZERO_CAPACITY / 4.0 - ZERO_CAPACITY, "0");
}

/* Error against one of the costs: the front, its numbers, the dots over both, and the key. */
static void draw_panel(FILE *svg, const choose_plot *all, int cost)
{
    panel p = all->panel[cost];
    p.chart.svg = svg;
    qsort(all->point, (size_t)all->n, sizeof *all->point, cost == COST_TIME ? by_time : by_flops);
    chart_frame(&p.chart);
    draw_front(&p, all->point, all->n);
    for (int i = 0; i < all->n; i++) take_plot(&p, &all->point[i]);
    for (int i = 0, number = 0; i < all->n; i++)
        if (all->point[i].front[cost]) draw_number(&p, &all->point[i], ++number);
    for (int i = 0; i < all->n; i++) draw_point(&p, &all->point[i]); /* no number hides one */
    draw_key(&p, all->point, all->n);
}

static int seen_before(const plot_point *point, int i)
{
    for (int j = 0; j < i; j++)
        if (strcmp(point[j].variant, point[i].variant) == 0) return 1;
    return 0;
}

/* A dot and a name for each variant, in one line. */
static void draw_legend(FILE *svg, const choose_plot *all)
{
    double x = LEFT;
    for (int i = 0; i < all->n; i++) {
        const char *variant = all->point[i].variant;
        if (seen_before(all->point, i)) continue;
        const look sample = {.fill = paint_of(variant, 1)};
        svg_circle(svg, x + 5, 50, 5, &sample);
        svg_text(svg, x + 15, 54, chart_text(TEXT_START), variant);
        x += 36 + width_of(variant, 12);
    }
}

static void draw(FILE *svg, const void *context)
{
    const choose_plot *all = context;
    svg_text(svg, LEFT, 28, (text_style){17, TEXT_START, 0, chart_ink(1)}, all->title);
    draw_legend(svg, all);
    for (int cost = 0; cost < N_COSTS; cost++) draw_panel(svg, all, cost);
}

int choose_plot_write(plot_point *point, int n, const char *title, const char *path)
{
    choose_plot all = {.point = point, .n = n, .title = title};
    for (int cost = 0; cost < N_COSTS; cost++) panel_make(&all, cost, TOP);
    const int lines[] = {key_lines(point, n, COST_TIME), key_lines(point, n, COST_FLOPS)};
    const int foot = FOOT + KEY_LINE * (lines[0] > lines[1] ? lines[0] : lines[1]);
    return drawing_write(&(drawing){LEFT + 2 * WIDTH + GAP + 20, TOP + HEIGHT + foot, title, NULL, NULL, draw, &all},
                         path);
}

/* ---- inside a page ---- */

static void draw_times(FILE *svg, const void *context) { draw_panel(svg, context, COST_TIME); }

void choose_plot_put(FILE *file, plot_point *point, int n, const char *title, const char *name)
{
    enum { PAGE_TOP = 12 }; /* no legend above it */
    choose_plot all = {.point = point, .n = n, .title = title};
    choose_plot_mark(point, n, COST_TIME);
    panel_make(&all, COST_TIME, PAGE_TOP);
    const int foot = FOOT + KEY_LINE * key_lines(point, n, COST_TIME);
    drawing_put(file, &(drawing){LEFT + WIDTH + 20, PAGE_TOP + HEIGHT + foot, title, NULL, NULL, draw_times, &all},
                name);
}
