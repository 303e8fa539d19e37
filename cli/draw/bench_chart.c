/* bench_chart.c: lines and bars of measurements. */
#include "bench_chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chart.h"
#include "palette.h"
#include "table.h"

enum { WIDTH = 798, HEIGHT = 440, LEFT = 64, RIGHT = 300, TOP = 14, BOTTOM = 52, LINE = 15, MOST = 64, NAME = 128 };

static int is_peer(const json_t *row) { return strncmp(row_text(row, "variant"), "peer:", 5) == 0; }

static int is_same_series(const json_t *a, const json_t *b) { return rows_agree(a, b, "variant parameters"); }

/* "bpt k=4", "openblas (dense)" */
static void name_of(const json_t *row, char text[static NAME])
{
    const char *variant = row_text(row, "variant"), *parameters = row_text(row, "parameters");
    if (is_peer(row))
        snprintf(text, NAME, "%.40s (%.80s)", variant + 5, parameters);
    else
        snprintf(text, NAME, "%.40s%s%.80s", variant, *parameters ? " " : "", parameters);
    for (char *at = text; *at; at++)
        if (*at == ':') *at = ' ';
}

/* peers are in ink, as dense attention is, but faint */
static paint paint_of(const json_t *row)
{
    return is_peer(row) ? chart_ink(0.55) : chart_paint(variant_colour(row_text(row, "variant")), 1);
}

static double tokens_of(const json_t *row) { return row_number(row, "tokens"); }

static double ms_of(const json_t *row, const char *key) { return 1e3 * row_number(row, key); }

/* ---- series ---- */

/* The rows of a variant with its parameters, by length, each length once. */
typedef struct series {
    int n, before; /* before: how many series of the variant came first; their lines have one colour */
    const json_t *row[MOST];
} series;

/* In the order of the run. */
typedef struct all_series {
    int n;
    series of[MOST];
} all_series;

/* The series of a row, a new one at need; NULL: there is no room for more. */
static series *series_for(all_series *all, const json_t *row)
{
    int before = 0;
    for (int i = 0; i < all->n; i++) {
        if (is_same_series(all->of[i].row[0], row)) return &all->of[i];
        before += strcmp(row_text(all->of[i].row[0], "variant"), row_text(row, "variant")) == 0;
    }
    if (all->n == MOST) return NULL;
    all->of[all->n] = (series){.before = before};
    return &all->of[all->n++];
}

static void add_row(series *s, const json_t *row)
{
    int at = s->n;
    while (at > 0 && tokens_of(s->row[at - 1]) > tokens_of(row)) at--;
    if (s->n == MOST || (at > 0 && tokens_of(s->row[at - 1]) >= tokens_of(row))) return;
    memmove(&s->row[at + 1], &s->row[at], (size_t)(s->n++ - at) * sizeof *s->row);
    s->row[at] = row;
}

static all_series series_of(const json_t *rows)
{
    all_series all = {.n = 0};
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        series *mine = series_for(&all, row);
        if (mine) add_row(mine, row);
    }
    return all;
}

static const json_t *last_of(const series *s) { return s->row[s->n - 1]; }

/* ---- time against length ---- */

typedef struct time_chart {
    const time_rows *of;
    all_series series;
    chart chart;
} time_chart;

static double x_of(const time_chart *t, const json_t *row) { return chart_x(&t->chart, tokens_of(row)); }

static double y_of(const time_chart *t, const json_t *row) { return chart_y(&t->chart, ms_of(row, "seconds")); }

/* Each number of tokens that was measured gets one tick. */
static void add_lengths(const json_t *rows, chart_axis *x)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        char text[16];
        int known = 0;
        snprintf(text, sizeof text, "%.0f", tokens_of(row));
        for (int t = 0; t < x->n_ticks; t++) known |= strcmp(x->tick[t].label, text) == 0;
        if (!known) chart_add_tick(x, chart_along(x, tokens_of(row)), text);
    }
}

/* 0 when there is nothing to draw */
static int make_time_chart(const time_rows *of, time_chart *out)
{
    const json_t *rows = of->rows;
    double least = INFINITY, most = 0, shortest = INFINITY, longest = 0;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        double ms = ms_of(row, "seconds"), tokens = tokens_of(row);
        if (!(ms > 0) || !(tokens > 0)) return 0;
        double low = ms_of(row, "seconds_q1"); /* 0 in runs of before */
        least = fmin(least, low > 0 ? fmin(low, ms) : ms);
        most = fmax(most, fmax(ms_of(row, "seconds_q3"), ms));
        shortest = fmin(shortest, tokens), longest = fmax(longest, tokens);
    }
    if (!(shortest < longest) || !(least > 0)) return 0;
    *out = (time_chart){of,
                        series_of(rows),
                        {.left = LEFT, .top = TOP, .width = WIDTH - LEFT - RIGHT, .height = HEIGHT - TOP - BOTTOM}};
    chart *c = &out->chart;
    c->x = chart_logs(of->unit, shortest, longest, c->width);
    c->y = chart_logs("milliseconds", least / 1.2, most * 1.2, c->height);
    add_lengths(rows, &c->x);
    chart_add_powers(&c->y);
    return 1;
}

/* One measurement: its dot, its quartiles as a bar, and a text for the pointer; hollow where it was disturbed. */
static void draw_point(const time_chart *t, const json_t *row)
{
    canvas *c = t->chart.canvas;
    char name[NAME], tip[3 * NAME];
    double x = x_of(t, row), low = ms_of(row, "seconds_q1"), high = ms_of(row, "seconds_q3");
    int disturbed = row_is(row, "disturbed");
    name_of(row, name);
    int n = snprintf(tip, sizeof tip, "%s, %.0f %s: %.3g ms", name, tokens_of(row), t->of->unit, ms_of(row, "seconds"));
    if (low > 0) n += snprintf(tip + n, sizeof tip - (size_t)n, ", quartiles %.3g and %.3g", low, high);
    snprintf(tip + n, sizeof tip - (size_t)n, "%s", disturbed ? "; disturbed" : "");
    if (low > 0 && high > low) {
        const look bar = {.line = paint_of(row), .width = 1.2};
        c->lines(c, (const double[2][2]){{x, chart_y(&t->chart, low)}, {x, chart_y(&t->chart, high)}}, 2, &bar);
    }
    look dot = {.fill = paint_of(row), .name = "dot", .tip = tip};
    if (disturbed) dot.fill = chart_page.fill, dot.line = paint_of(row), dot.width = 1.5; /* hollow */
    c->circle(c, x, y_of(t, row), 3, &dot);
}

/* its time at a length between two of its rows, on the line */
static double ms_at(const series *s, double tokens)
{
    int i = 0;
    while (i + 1 < s->n && tokens_of(s->row[i + 1]) < tokens) i++;
    if (i + 1 == s->n) return ms_of(s->row[i], "seconds");
    double share = log(tokens / tokens_of(s->row[i])) / log(tokens_of(s->row[i + 1]) / tokens_of(s->row[i]));
    return pow(ms_of(s->row[i], "seconds"), 1 - share) * pow(ms_of(s->row[i + 1], "seconds"), share);
}

/* A ring where a series overtakes dense attention; none where it is ahead from the shortest length on. */
static void draw_crossover(const time_chart *t, const series *s)
{
    canvas *c = t->chart.canvas;
    char name[NAME], tip[2 * NAME];
    size_t k;
    json_t *found;
    json_array_foreach(t->of->overtakes, k, found)
    {
        double tokens = tokens_of(found);
        if (!is_same_series(found, s->row[0]) || row_is(found, "or_shorter")) continue;
        if (!(tokens > 0)) continue;
        name_of(found, name);
        snprintf(tip, sizeof tip, "%s overtakes dense at about %.0f %s", name, tokens, t->of->unit);
        const look ring = {.line = paint_of(found), .width = 2, .tip = tip};
        c->circle(c, chart_x(&t->chart, tokens), chart_y(&t->chart, ms_at(s, tokens)), 6, &ring);
    }
}

/* A line through a series' measurements in order of tokens, with its points and its crossover. */
static void draw_series(const time_chart *t, const series *s)
{
    canvas *c = t->chart.canvas;
    double at[MOST][2];
    const look line = {.line = paint_of(s->row[0]),
                       .width = strcmp(row_text(s->row[0], "variant"), "dense") == 0 ? 3 : 1.7,
                       .dashed = is_peer(s->row[0]) || s->before > 0};
    for (int i = 0; i < s->n; i++) at[i][0] = x_of(t, s->row[i]), at[i][1] = y_of(t, s->row[i]);
    if (s->n > 1) c->lines(c, (const double(*)[2])at, s->n, &line);
    for (int i = 0; i < s->n; i++) draw_point(t, s->row[i]);
    draw_crossover(t, s);
}

typedef struct label {
    const json_t *row; /* the last of a series */
    double end;
} label;

static int by_end(const void *a, const void *b)
{
    double x = ((const label *)a)->end, y = ((const label *)b)->end;
    return (x > y) - (x < y);
}

/* The names of series right of the chart, in order of where their lines end and moved apart, with leaders. */
static void draw_labels(const time_chart *t)
{
    canvas *c = t->chart.canvas;
    label labels[MOST];
    double y[MOST], x = WIDTH - RIGHT;
    char name[NAME];
    int n = t->series.n;
    for (int i = 0; i < n; i++) {
        const json_t *row = last_of(&t->series.of[i]);
        labels[i] = (label){row, y_of(t, row)};
    }
    qsort(labels, (size_t)n, sizeof *labels, by_end);
    for (int i = 0; i < n; i++) y[i] = labels[i].end;
    chart_move_apart(y, n, LINE, HEIGHT - BOTTOM + 4);
    for (int i = 0; i < n; i++) {
        const look leader = {.line = paint_of(labels[i].row), .width = 1.3};
        double from = x_of(t, labels[i].row) + 4;
        c->lines(c, (const double[3][2]){{from, labels[i].end}, {x + 4, labels[i].end}, {x + 16, y[i]}}, 3, &leader);
        name_of(labels[i].row, name);
        c->text(c, x + 20, y[i] + 4, (text_style){12, TEXT_START, 0, chart_ink(1)}, name);
    }
}

static void draw_time(canvas *c, const void *context)
{
    time_chart t = *(const time_chart *)context;
    t.chart.canvas = c;
    chart_frame(&t.chart);
    for (int i = 0; i < t.series.n; i++) draw_series(&t, &t.series.of[i]);
    draw_labels(&t);
}

void bench_chart_time(FILE *file, const time_rows *of)
{
    time_chart t;
    if (make_time_chart(of, &t)) drawing_put(file, &(drawing){WIDTH, HEIGHT, of->title, {{0}}, draw_time, &t}, "chart");
}

/* ---- the share of peak ---- */

enum { BAR = 26, NAMES = 262, FIGURES = 150 };

/* A bar for each series: the share of peak at its longest length, against a line at all of it. */
static void draw_share(canvas *c, const void *context)
{
    const all_series *s = context;
    double room = WIDTH - NAMES - FIGURES;
    char name[NAME], figure[64];
    for (int i = 0; i < s->n; i++) {
        const json_t *row = last_of(&s->of[i]);
        double y = BAR * i + 4, share = row_number(row, "share_of_peak"), shown = fmax(0, fmin(share, 1));
        const look bar = {.fill = paint_of(row)};
        name_of(row, name);
        c->text(c, NAMES - 10, y + 14, (text_style){12, TEXT_END, 0, chart_ink(1)}, name);
        c->rect(c, NAMES, y, fmax(shown * room, 1), BAR - 7, &bar);
        if (json_is_number(json_object_get(row, "share_of_peak")))
            snprintf(figure, sizeof figure, "%.1f %%, %.0f tokens", 100 * share, tokens_of(row));
        else
            snprintf(figure, sizeof figure, "!, %.0f tokens", tokens_of(row));
        c->text(c, NAMES + shown * room + 8, y + 14, chart_text(TEXT_START), figure);
    }
    const double peak[2][2] = {{NAMES + room + 0.5, 0}, {NAMES + room + 0.5, BAR * s->n}};
    c->lines(c, peak, 2, &chart_frame_line);
}

void bench_chart_share(FILE *file, const json_t *rows)
{
    all_series s = series_of(rows);
    if (s.n == 0 || !json_object_get(s.of[0].row[0], "share_of_peak")) return;
    drawing_put(file,
                &(drawing){WIDTH, BAR * s.n + 4, "Share of the peak at each longest length", {{0}}, draw_share, &s},
                "chart");
}
