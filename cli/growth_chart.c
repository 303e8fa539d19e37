/* growth_chart.c: milliseconds against words, both logarithmic, with a name at each line's end. */
#include "growth_chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chart.h"
#include "drawing.h"
#include "palette.h"

enum { WIDTH = 720, HEIGHT = 420, LEFT = 64, RIGHT = 300, TOP = 14, BOTTOM = 52, LINE = 15, MOST = 32 };

typedef struct growth_chart {
    const growth *growth;
    int causal;
    chart chart;
} growth_chart;

/* ---- scales ---- */

static chart chart_of(const growth *g, int causal)
{
    double least = INFINITY, most = 0;
    chart c = {.left = LEFT, .top = TOP, .width = WIDTH - LEFT - RIGHT, .height = HEIGHT - TOP - BOTTOM};
    for (size_t i = 0; contenders[i].name; i++)
        for (int l = 0; l < g->n_lengths; l++) {
            double ms = 1e3 * *growth_time(g, i, l);
            if (contenders[i].causal != causal || !(ms > 0)) continue;
            least = fmin(least, ms), most = fmax(most, ms);
        }
    c.x = chart_logs("words", g->length[0], g->length[g->n_lengths - 1], c.width);
    c.y = chart_logs("milliseconds", least / 1.2, most * 1.2, c.height);
    for (int l = 0; l < g->n_lengths; l++) {
        char text[16];
        snprintf(text, sizeof text, "%d", g->length[l]);
        chart_add_tick(&c.x, chart_along(&c.x, g->length[l]), text);
    }
    chart_add_powers(&c.y);
    return c;
}

static double x_of(const growth_chart *d, int l) { return chart_x(&d->chart, d->growth->length[l]); }

static double y_of(const growth_chart *d, size_t i, int l)
{
    return chart_y(&d->chart, 1e3 * *growth_time(d->growth, i, l));
}

/* ---- lines ---- */

/* how many contenders before this one are of its variant and mask: their lines have one colour */
static int before_of(size_t i)
{
    int n = 0;
    for (size_t j = 0; j < i; j++)
        n += contenders[j].causal == contenders[i].causal && strcmp(contenders[j].name, contenders[i].name) == 0;
    return n;
}

static paint paint_of(size_t i)
{
    uint32_t rgb = variant_colour(contenders[i].name);
    return rgb ? (paint){PAINT_COLOUR, rgb, 1} : chart_ink(1);
}

/* "hsa, the text's tree": the mask is the chart's, so its parameter is not said again */
static void name_of(size_t i, char text[static 96])
{
    const contender *c = &contenders[i];
    snprintf(text, 96, "%s%s%s", c->name, *c->parameters ? " " : "", c->parameters);
    char *mask = strstr(text, " causal=1");
    if (mask) *mask = 0;
}

static void draw_line(const growth_chart *d, size_t i)
{
    canvas *c = d->chart.canvas;
    double at[MAX_LENGTHS][2];
    char name[96], tip[160];
    const look line = {.line = paint_of(i), .width = i == growth_dense(i) ? 3 : 1.7, .dashed = before_of(i) > 0};
    for (int l = 0; l < d->growth->n_lengths; l++) at[l][0] = x_of(d, l), at[l][1] = y_of(d, i, l);
    c->lines(c, (const double(*)[2])at, d->growth->n_lengths, &line);
    name_of(i, name);
    for (int l = 0; l < d->growth->n_lengths; l++) {
        snprintf(tip, sizeof tip, "%s: %d words, %.3g ms", name, d->growth->length[l],
                 1e3 * *growth_time(d->growth, i, l));
        const look dot = {.fill = paint_of(i), .name = "dot", .tip = tip};
        c->circle(c, at[l][0], at[l][1], 3, &dot);
    }
}

/* dense's time at a length between two measured ones, on its line */
static double dense_at(const growth *g, size_t dense, double length)
{
    int l = 0;
    while (l + 2 < g->n_lengths && g->length[l + 1] < length) l++;
    double x = log(length / g->length[l]) / log((double)g->length[l + 1] / g->length[l]);
    return exp(log(*growth_time(g, dense, l)) * (1 - x) + log(*growth_time(g, dense, l + 1)) * x);
}

/* a ring where a variant overtakes dense attention */
static void draw_crossover(const growth_chart *d, size_t i)
{
    canvas *c = d->chart.canvas;
    int at_once;
    char name[96], tip[160];
    double length = growth_crossover(d->growth, i, &at_once);
    if (length <= 0 || at_once || i == growth_dense(i)) return;
    name_of(i, name);
    snprintf(tip, sizeof tip, "%s overtakes dense at about %.0f words", name, length);
    const look ring = {.line = paint_of(i), .width = 2, .tip = tip};
    c->circle(c, chart_x(&d->chart, length), chart_y(&d->chart, 1e3 * dense_at(d->growth, growth_dense(i), length)), 6,
              &ring);
}

/* ---- names at the lines' ends, moved apart where they would touch ---- */

typedef struct label {
    size_t contender;
    double end;
} label;

static int by_end(const void *a, const void *b)
{
    double x = ((const label *)a)->end, y = ((const label *)b)->end;
    return (x > y) - (x < y);
}

static void draw_labels(const growth_chart *d, label *labels, int n)
{
    canvas *c = d->chart.canvas;
    double x = WIDTH - RIGHT, y[MOST];
    char text[96];
    qsort(labels, (size_t)n, sizeof *labels, by_end);
    for (int i = 0; i < n; i++) y[i] = labels[i].end;
    chart_move_apart(y, n, LINE, HEIGHT - BOTTOM + 4);
    for (int i = 0; i < n; i++) {
        const look leader = {.line = paint_of(labels[i].contender), .width = 1.3};
        c->lines(c, (const double[2][2]){{x + 4, labels[i].end}, {x + 16, y[i]}}, 2, &leader);
        name_of(labels[i].contender, text);
        c->text(c, x + 20, y[i] + 4, (text_style){12, TEXT_START, 0, chart_ink(1)}, text);
    }
}

/* ---- the whole ---- */

static void draw(canvas *c, const void *context)
{
    growth_chart d = *(const growth_chart *)context;
    label labels[MOST];
    int n = 0;
    d.chart.canvas = c;
    chart_frame(&d.chart);
    for (size_t i = 0; contenders[i].name && n < MOST; i++) {
        if (contenders[i].causal != d.causal) continue;
        draw_line(&d, i);
        draw_crossover(&d, i);
        labels[n++] = (label){i, y_of(&d, i, d.growth->n_lengths - 1)};
    }
    draw_labels(&d, labels, n);
}

void growth_chart_put(FILE *file, const growth *g, int causal)
{
    if (g->n_lengths < 2) return;
    growth_chart d = {g, causal, chart_of(g, causal)};
    const char *title = causal ? "Milliseconds against words, both logarithmic, causal"
                               : "Milliseconds against words, both logarithmic";
    drawing_put(file, &(drawing){WIDTH, HEIGHT, title, {{0}}, draw, &d}, "chart");
}
