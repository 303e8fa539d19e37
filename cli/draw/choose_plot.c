/* choose_plot.c: two scatter plots. */
#include "choose_plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outfile.h"

enum {
    WIDTH = 560,
    HEIGHT = 420,
    LEFT = 80,
    TOP = 70,
    GAP = 100,
    FOOT = 60,
    ZERO_ROOM = 40,
    LETTER = 6,
    MAX_LABELS = 256
};

/* ---- scales ---- */

/* decades [low, high] on `length` pixels */
typedef struct decades {
    double low, high, length;
} decades;

static double along(const decades *d, double x) { return (log10(x) - d->low) / (d->high - d->low) * d->length; }

/* whole decades around the positive values */
static decades decades_of(const double *x, int n, double length)
{
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < n; i++)
        if (x[i] > 0 && isfinite(x[i])) low = fmin(low, x[i]), high = fmax(high, x[i]);
    if (!(low <= high)) low = high = 1;
    decades d = {floor(log10(low)), ceil(log10(high)), length};
    if (d.high <= d.low) d.high = d.low + 1;
    return d;
}

/* A label's place, so that the next one goes elsewhere. */
typedef struct box {
    double x, y, width, height;
} box;

typedef struct panel {
    FILE *file;
    int cost;
    double left;
    decades across, up;
    box taken[MAX_LABELS];
    int n_taken;
} panel;

static double x_of(const panel *p, const plot_point *q) { return p->left + along(&p->across, q->cost[p->cost]); }

/* an error of 0 has no logarithm */
static double y_of(const panel *p, const plot_point *q)
{
    return q->error > 0 ? TOP + HEIGHT - ZERO_ROOM - along(&p->up, q->error) : TOP + HEIGHT - ZERO_ROOM / 4.0;
}

static int drawn(const plot_point *q) { return isfinite(q->error); }

/* ---- parts ---- */

static const char *colour_of(const char *variant)
{
    static const struct {
        const char *variant, *colour;
    } colours[] = {
        {"dense", "#222222"},
        {"window", "#8c8c8c"},
        {"bpt", "#d1495b"},
        {"hsa", "#2e8b57"},
        {"htransformer", "#1f6fb4"},
        {"treeformer-fine", "#b8791a"},
        {"treeformer-coarse", "#7d4fa8"},
    };
    for (size_t i = 0; i < sizeof colours / sizeof colours[0]; i++)
        if (strcmp(colours[i].variant, variant) == 0) return colours[i].colour;
    return "#000000";
}

static void draw_line(FILE *file, double x, double y, double x2, double y2, const char *class)
{
    fprintf(file, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, x, y, x2, y2);
}

static void draw_grid(const panel *p)
{
    FILE *file = p->file;
    double foot = TOP + HEIGHT - ZERO_ROOM, bottom = TOP + HEIGHT;
    for (double e = p->across.low; e <= p->across.high + 0.5; e++) {
        double x = p->left + along(&p->across, pow(10, e));
        draw_line(file, x, TOP, x, bottom, "grid");
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n", x, bottom + 16, pow(10, e));
    }
    for (double e = p->up.low; e <= p->up.high + 0.5; e++) {
        double y = foot - along(&p->up, pow(10, e));
        draw_line(file, p->left, y, p->left + WIDTH, y, "grid");
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", p->left - 6, y + 4, pow(10, e));
    }
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">0</text>\n", p->left - 6,
            bottom - ZERO_ROOM / 4.0 + 4);
    fprintf(file, "<rect class=\"frame\" x=\"%.1f\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", p->left, TOP, WIDTH,
            HEIGHT);
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"13\">%s</text>\n",
            p->left + WIDTH / 2.0, bottom + 38,
            p->cost == COST_TIME ? "milliseconds of an execution" : "GFLOP of an execution");
    fprintf(file,
            "<text transform=\"translate(%.1f %.1f) rotate(-90)\" text-anchor=\"middle\" font-size=\"13\">error: "
            "relative L2</text>\n",
            p->left - 52, TOP + HEIGHT / 2.0);
}

/* the front from cheap to dear, as stairs: what error is to be had for what cost */
static void draw_front(const panel *p, const plot_point *point, int n)
{
    const char *word = "M";
    double last = 0;
    fprintf(p->file, "<path class=\"front\" d=\"");
    for (int i = 0; i < n; i++) {
        const plot_point *q = &point[i];
        if (!q->front[p->cost]) continue;
        if (*word == 'L') fprintf(p->file, "L%.1f %.1f ", x_of(p, q), last);
        last = y_of(p, q);
        fprintf(p->file, "%s%.1f %.1f ", word, x_of(p, q), last);
        word = "L";
    }
    fprintf(p->file, "\"/>\n");
}

static void draw_point(const panel *p, const plot_point *q)
{
    if (!drawn(q)) return;
    fprintf(p->file,
            "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"%s\"><title>%s %s: error %.4g, %.4g "
            "%s</title></circle>\n",
            q->front[p->cost] ? "best" : "point", x_of(p, q), y_of(p, q), q->front[p->cost] ? "5" : "3.5",
            colour_of(q->variant), q->variant, q->parameters, q->error, q->cost[p->cost],
            p->cost == COST_TIME ? "ms" : "GFLOP");
}

/* ---- labels ---- */

static int overlap(const box *a, const box *b)
{
    return a->x < b->x + b->width && b->x < a->x + a->width && a->y < b->y + b->height && b->y < a->y + a->height;
}

static int fits(const panel *p, const box *b)
{
    if (b->x < p->left || b->x + b->width > p->left + WIDTH || b->y < TOP || b->y + b->height > TOP + HEIGHT) return 0;
    for (int i = 0; i < p->n_taken; i++)
        if (overlap(b, &p->taken[i])) return 0;
    return 1;
}

/* right of the point, left of it, over it, then farther up and down, until nothing is in the way; 0 when something
   always is */
static int place_label(const panel *p, double x, double y, double width, box *out)
{
    const double side[3] = {x + 9, x - 9 - width, x - width / 2};
    for (int row = 0; row < 50; row++)
        for (int i = 0; i < (row == 0 ? 2 : 3); i++) {
            *out = (box){side[i], y - 7 + (row + 1) / 2 * (row % 2 ? -13 : 13), width, 13};
            if (fits(p, out)) return 1;
        }
    return 0;
}

/* no label over the points of the front */
static void take_place(panel *p, const plot_point *q)
{
    if (p->n_taken < MAX_LABELS && q->front[p->cost])
        p->taken[p->n_taken++] = (box){x_of(p, q) - 5, y_of(p, q) - 5, 10, 10};
}

static void draw_label(panel *p, const plot_point *q)
{
    box b;
    double x = x_of(p, q), y = y_of(p, q);
    if (p->n_taken == MAX_LABELS || !q->front[p->cost]) return;
    if (!place_label(p, x, y, (double)(strlen(q->variant) + strlen(q->parameters) + 1) * LETTER, &b)) return;
    p->taken[p->n_taken++] = b;
    const char *anchor = b.x > x ? "start" : b.x + b.width < x ? "end" : "middle";
    double at = b.x > x ? b.x : b.x + b.width < x ? b.x + b.width : x;
    if (fabs(b.y + 7 - y) > 7) draw_line(p->file, x, y, at, b.y + 7, "leader");
    fprintf(p->file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">%s %s</text>\n", at, b.y + 11, anchor,
            colour_of(q->variant), q->variant, q->parameters);
}

/* ---- the whole ---- */

static int by_time(const void *a, const void *b)
{
    double x = ((const plot_point *)a)->cost[COST_TIME], y = ((const plot_point *)b)->cost[COST_TIME];
    return (x > y) - (x < y);
}

static int by_flops(const void *a, const void *b)
{
    double x = ((const plot_point *)a)->cost[COST_FLOPS], y = ((const plot_point *)b)->cost[COST_FLOPS];
    return (x > y) - (x < y);
}

/* points from cheap to dear */
static int draw_panel(FILE *file, const plot_point *point, int n, int cost)
{
    double *x = NULL, *y = NULL;
    int status = CLI_GOOD;
    TRY(take(n, sizeof *x, &x));
    TRY(take(n, sizeof *y, &y));
    for (int i = 0; i < n; i++) x[i] = point[i].cost[cost], y[i] = point[i].error;
    panel p = {.file = file, .cost = cost, .left = LEFT + cost * (WIDTH + GAP)};
    p.across = decades_of(x, n, WIDTH);
    p.up = decades_of(y, n, HEIGHT - ZERO_ROOM);
    draw_grid(&p);
    draw_front(&p, point, n);
    for (int i = 0; i < n; i++) draw_point(&p, &point[i]);
    for (int i = 0; i < n; i++) take_place(&p, &point[i]);
    for (int i = 0; i < n; i++) draw_label(&p, &point[i]);
done:
    free(x);
    free(y);
    return status;
}

static int seen_before(const plot_point *point, int i)
{
    for (int j = 0; j < i; j++)
        if (strcmp(point[j].variant, point[i].variant) == 0) return 1;
    return 0;
}

static void draw_legend(FILE *file, const plot_point *point, int n)
{
    double x = LEFT;
    for (int i = 0; i < n; i++) {
        if (seen_before(point, i)) continue;
        fprintf(
            file,
            "<circle cx=\"%.1f\" cy=\"50\" r=\"5\" fill=\"%s\"/><text x=\"%.1f\" y=\"54\" font-size=\"13\">%s</text>\n",
            x + 5, colour_of(point[i].variant), x + 15, point[i].variant);
        x += 40 + 8 * (double)strlen(point[i].variant);
    }
}

static int draw(FILE *file, plot_point *point, int n, const char *title)
{
    int width = LEFT + 2 * WIDTH + GAP + 20, height = TOP + HEIGHT + FOOT;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" ",
            width, height, width, height);
    fprintf(file,
            "font-size=\"11\" fill=\"#222222\">\n<style>.grid { stroke: #e3e3e3 } .frame { fill: none; stroke: #222222 "
            "} .leader { stroke: "
            "#b0b0b0 } .front { fill: none; stroke: #222222; stroke-dasharray: 3 3 } .point { opacity: 0.55 } .best { "
            "stroke: #222222 "
            "}</style>\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n<text x=\"%d\" y=\"28\" "
            "font-size=\"15\">%s</text>\n",
            width, height, LEFT, title);
    draw_legend(file, point, n);
    qsort(point, (size_t)n, sizeof *point, by_time);
    int status = draw_panel(file, point, n, COST_TIME);
    qsort(point, (size_t)n, sizeof *point, by_flops);
    if (status == CLI_GOOD) status = draw_panel(file, point, n, COST_FLOPS);
    fprintf(file, "</svg>\n");
    return status;
}

int choose_plot_write(plot_point *point, int n, const char *title, const char *path)
{
    outfile out = {0};
    int status = CLI_GOOD;
    TRY(outfile_open(path, &out));
    TRY(draw(out.file, point, n, title));
    TRY(outfile_keep(&out));
done:
    outfile_drop(&out);
    return status;
}
