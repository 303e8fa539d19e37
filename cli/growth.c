/* growth.c: measuring prefixes, crossovers, and their chart. */
#include "growth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "html.h"
#include "measure.h"

enum { SHORTEST = 256, SHORTEST_OF_SHORT = 8 };
static const double prefix_seconds = 0.1; /* of repeats, for one variant and length */

/* ---- lengths ---- */

int growth_start(hga_id words, growth *out)
{
    *out = (growth){0};
    hga_id least = words >= 2 * SHORTEST ? SHORTEST : SHORTEST_OF_SHORT, down[MAX_LENGTHS];
    int n = 0;
    for (hga_id m = words; n < MAX_LENGTHS && (n == 0 || m >= least); m /= 2) down[n++] = m;
    for (int i = 0; i < n; i++) out->length[i] = down[n - 1 - i];
    out->n_lengths = n;
    while (contenders[out->n_contenders].name) out->n_contenders++;
    return take((int64_t)out->n_contenders * MAX_LENGTHS, sizeof *out->seconds, &out->seconds);
}

void growth_clear(growth *g)
{
    free(g->seconds);
    *g = (growth){0};
}

static double *time_of(const growth *g, size_t i, int length) { return &g->seconds[i * MAX_LENGTHS + (size_t)length]; }

void growth_set_last(growth *g, size_t i, double seconds) { *time_of(g, i, g->n_lengths - 1) = seconds; }

/* ---- measuring ---- */

static int time_contender(const growth_text *t, const scene *s, const contender *c, double *seconds)
{
    hga_graph *g = NULL;
    hga_program p;
    hga_plan *plan = NULL;
    cast in = {0};
    measurement m;
    int status = CLI_GOOD;
    TRY(c->build(s, c->causal, &g, &p));
    job j = {g, &p, t->shape, t->options, c->name};
    TRY(measure_plan(&j, &plan, &m));
    TRY(cast_make(s, g, &p, NULL, t->shape.dim, &in));
    TRY(measure_execution(&j, plan, &in.io, prefix_seconds, &m));
    *seconds = m.seconds;
done:
    cast_clear(&in);
    hga_plan_destroy(plan);
    hga_graph_destroy(g);
    return status;
}

int growth_measure(const growth_text *t, growth *g, progress *bar)
{
    scene s = {0};
    int status = CLI_GOOD;
    for (int l = 0; l + 1 < g->n_lengths; l++) {
        progress_show((double)l / g->n_lengths, bar);
        TRY(scene_make(t->name, t->text, t->bytes, g->length[l], t->shape.n_heads, t->shape.dim, t->seed, &s));
        for (size_t i = 0; contenders[i].name; i++) TRY(time_contender(t, &s, &contenders[i], time_of(g, i, l)));
        scene_clear(&s);
    }
done:
    scene_clear(&s);
    return status;
}

/* ---- crossovers ---- */

/* The contender that is dense attention with the same mask. */
static size_t dense_of(size_t i)
{
    size_t dense = 0;
    while (contenders[dense].causal != contenders[i].causal) dense++;
    return dense;
}

/* log of the variant's time over dense's */
static double behind(const growth *g, size_t i, int l) { return log(*time_of(g, i, l) / *time_of(g, dense_of(i), l)); }

double growth_crossover(const growth *g, size_t i, int *at_once)
{
    int l = g->n_lengths - 1;
    *at_once = 0;
    if (behind(g, i, l) >= 0) return 0;
    while (l > 0 && behind(g, i, l - 1) < 0) l--;
    if (l == 0) {
        *at_once = 1;
        return g->length[0];
    }
    double x0 = log(g->length[l - 1]), x1 = log(g->length[l]), y0 = behind(g, i, l - 1), y1 = behind(g, i, l);
    return exp(x0 + (x1 - x0) * y0 / (y0 - y1));
}

/* ---- the chart: both axes logarithmic ---- */

enum { WIDTH = 640, HEIGHT = 400, LEFT = 58, RIGHT = 208, TOP = 14, BOTTOM = 44, LINE = 15, MAX_LABELS = 32 };

typedef struct chart {
    double x0, x1, y0, y1; /* logarithms of lengths and of milliseconds */
} chart;

static double at_x(const chart *c, double length)
{
    return LEFT + (log(length) - c->x0) / (c->x1 - c->x0) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const chart *c, double ms)
{
    return HEIGHT - BOTTOM - (log(ms) - c->y0) / (c->y1 - c->y0) * (HEIGHT - TOP - BOTTOM);
}

static chart chart_of(const growth *g, int causal)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; contenders[i].name; i++)
        for (int l = 0; l < g->n_lengths; l++) {
            double ms = 1e3 * *time_of(g, i, l);
            if (contenders[i].causal != causal || !(ms > 0)) continue;
            least = fmin(least, ms), most = fmax(most, ms);
        }
    return (chart){log(g->length[0]), log(g->length[g->n_lengths - 1]), log(least / 1.2), log(most * 1.2)};
}

static void draw_axes(FILE *file, const chart *c, const growth *g)
{
    for (int l = 0; l < g->n_lengths; l++) {
        double x = at_x(c, g->length[l]);
        fprintf(file,
                "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/><text x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"middle\">%d</text>\n",
                x, x, TOP, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 17, g->length[l]);
    }
    for (double ms = pow(10, ceil(c->y0 / log(10))); log(ms) <= c->y1; ms *= 10) {
        double y = at_y(c, ms);
        fprintf(file,
                "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%g</text>\n",
                LEFT, WIDTH - RIGHT, y, y, LEFT - 7, y + 4, ms);
    }
    fprintf(file,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">words</text><text x=\"14\" y=\"%d\" text-anchor=\"middle\" "
            "transform=\"rotate(-90 14 "
            "%d)\">milliseconds</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, (TOP + HEIGHT - BOTTOM) / 2, (TOP + HEIGHT - BOTTOM) / 2);
}

static void draw_line(FILE *file, const chart *c, const growth *g, size_t i, int colour)
{
    fprintf(file, "<polyline class=\"line c%d\" points=\"", colour);
    for (int l = 0; l < g->n_lengths; l++)
        fprintf(file, "%.1f,%.1f ", at_x(c, g->length[l]), at_y(c, 1e3 * *time_of(g, i, l)));
    fputs("\"/>", file);
    for (int l = 0; l < g->n_lengths; l++)
        fprintf(file, "<circle class=\"dot c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>", colour, at_x(c, g->length[l]),
                at_y(c, 1e3 * *time_of(g, i, l)));
    fputc('\n', file);
}

/* dense's time at a length between two measured ones, on its line */
static double dense_at(const growth *g, size_t dense, double length)
{
    int l = 0;
    while (l + 2 < g->n_lengths && g->length[l + 1] < length) l++;
    double x = log(length / g->length[l]) / log((double)g->length[l + 1] / g->length[l]);
    return exp(log(*time_of(g, dense, l)) * (1 - x) + log(*time_of(g, dense, l + 1)) * x);
}

static void draw_crossover(FILE *file, const chart *c, const growth *g, size_t i, int colour)
{
    int at_once;
    double length = growth_crossover(g, i, &at_once);
    if (length <= 0 || at_once || i == dense_of(i)) return;
    fprintf(file,
            "<circle class=\"cross c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"><title>%s %s overtakes dense at about %.0f "
            "words</title></circle>\n",
            colour, at_x(c, length), at_y(c, 1e3 * dense_at(g, dense_of(i), length)), contenders[i].name,
            contenders[i].parameters, length);
}

/* ---- names at the lines' ends, moved apart where they would touch ---- */

typedef struct label {
    size_t contender;
    int colour;
    double end, y;
} label;

static int by_end(const void *a, const void *b)
{
    double x = ((const label *)a)->end, y = ((const label *)b)->end;
    return (x > y) - (x < y);
}

static void move_apart(label *labels, int n)
{
    qsort(labels, (size_t)n, sizeof *labels, by_end);
    for (int i = 0; i < n; i++)
        labels[i].y = i && labels[i].end < labels[i - 1].y + LINE ? labels[i - 1].y + LINE : labels[i].end;
    double floor = HEIGHT - BOTTOM + 4;
    for (int i = n - 1; i >= 0 && labels[i].y > floor; i--, floor -= LINE) labels[i].y = floor;
}

/* "hsa, the text's tree": the mask is the chart's, so its parameter is not said again */
static void put_label_name(FILE *file, const contender *c)
{
    char text[96];
    snprintf(text, sizeof text, "%s%s%s", c->name, *c->parameters ? " " : "", c->parameters);
    char *mask = strstr(text, " causal=1");
    if (mask) *mask = 0;
    html_text(file, text);
}

static void draw_labels(FILE *file, label *labels, int n)
{
    move_apart(labels, n);
    for (int i = 0; i < n; i++) {
        double x = WIDTH - RIGHT;
        fprintf(file,
                "<path class=\"leader c%d\" d=\"M%.1f %.1fL%.1f %.1f\"/><text class=\"name\" x=\"%.1f\" y=\"%.1f\">",
                labels[i].colour, x + 4, labels[i].end, x + 16, labels[i].y, x + 20, labels[i].y + 4);
        put_label_name(file, &contenders[labels[i].contender]);
        fputs("</text>\n", file);
    }
}

void growth_draw(FILE *file, const growth *g, int causal)
{
    if (g->n_lengths < 2) return;
    chart c = chart_of(g, causal);
    label labels[MAX_LABELS];
    int n = 0;
    fprintf(file,
            "<svg class=\"chart\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Milliseconds against words, both "
            "logarithmic%s\">\n",
            WIDTH, HEIGHT, causal ? ", causal" : "");
    draw_axes(file, &c, g);
    for (size_t i = 0; contenders[i].name && n < MAX_LABELS; i++) {
        if (contenders[i].causal != causal) continue;
        draw_line(file, &c, g, i, n);
        draw_crossover(file, &c, g, i, n);
        labels[n] = (label){i, n, at_y(&c, 1e3 * *time_of(g, i, g->n_lengths - 1)), 0};
        n++;
    }
    draw_labels(file, labels, n);
    fputs("</svg>\n", file);
}
