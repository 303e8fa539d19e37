/* bench_chart.c: lines and bars of measurements. */
#include "bench_chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "line_chart.h"
#include "palette.h"
#include "table.h"

static int is_peer(const json_t *row) { return strncmp(row_text(row, "variant"), "peer:", 5) == 0; }

static int is_same_series(const json_t *a, const json_t *b) { return rows_agree(a, b, "variant parameters"); }

/* "bpt k=4", "openblas (dense)" */
static void name_of(const json_t *row, char text[static LINE_NAME])
{
    const char *variant = row_text(row, "variant"), *parameters = row_text(row, "parameters");
    if (is_peer(row))
        snprintf(text, LINE_NAME, "%.40s (%.80s)", variant + 5, parameters);
    else
        snprintf(text, LINE_NAME, "%.40s%s%.80s", variant, *parameters ? " " : "", parameters);
    for (char *at = text; *at; at++)
        if (*at == ':') *at = ' ';
}

/* peers are in ink, as dense attention is, but faint */
static paint paint_of(const json_t *row)
{
    return is_peer(row) ? chart_ink(0.55) : chart_paint(variant_colour(row_text(row, "variant")), 1);
}

static double ms_of(const json_t *row, const char *key) { return 1e3 * row_number(row, key); }

/* ---- series ---- */

/* Each variant with its parameters, in the order of the run: its first row, and its longest. */
typedef struct series {
    int n;
    const json_t *first[MOST_LINES], *last[MOST_LINES];
} series;

/* The series of a row, added if it is new; -1: the capacity is full. */
static int series_for(series *s, const json_t *row)
{
    int i = 0;
    while (i < s->n && !is_same_series(s->first[i], row)) i++;
    if (i == MOST_LINES) return -1;
    if (i == s->n) s->first[s->n] = s->last[s->n] = row, s->n++;
    if (row_number(row, "tokens") > row_number(s->last[i], "tokens")) s->last[i] = row;
    return i;
}

/* ---- time against length ---- */

/* A line in its variant's colour; dashed where an earlier one has it. */
static void start_line(const series *s, int i, chart_line *line)
{
    const char *variant = row_text(s->first[i], "variant");
    name_of(s->first[i], line->name);
    line->ink = paint_of(s->first[i]), line->width = strcmp(variant, "dense") == 0 ? 3 : 1.7;
    line->dashed = is_peer(s->first[i]);
    for (int j = 0; j < i; j++) line->dashed |= strcmp(row_text(s->first[j], "variant"), variant) == 0;
}

/* Rings where a line overtakes dense attention; none where it is ahead from the shortest length on. */
static void add_rings(const series *s, const json_t *overtakes, line_chart *c)
{
    size_t i;
    json_t *found;
    json_array_foreach(overtakes, i, found)
    {
        for (int line = 0; line < s->n; line++)
            if (is_same_series(found, s->first[line]) && !row_is(found, "or_shorter"))
                c->line[line].ring = row_number(found, "tokens");
    }
}

/* The lines of all rows; 0 when there is nothing to draw. */
static int add_lines(const time_rows *of, series *s, line_chart *c)
{
    size_t i;
    json_t *row;
    json_array_foreach(of->rows, i, row)
    {
        line_point p = {row_number(row, "tokens"), ms_of(row, "seconds"), ms_of(row, "seconds_q1"),
                        ms_of(row, "seconds_q3"), row_is(row, "disturbed")};
        int line = series_for(s, row);
        if (!(p.ms > 0) || !(p.x > 0)) return 0;
        if (line >= 0) line_add(&c->line[line], p);
    }
    for (c->n = 0; c->n < s->n; c->n++) start_line(s, c->n, &c->line[c->n]);
    add_rings(s, of->overtakes, c);
    return line_chart_fit(c) > 1;
}

void bench_chart_time(FILE *file, const time_rows *of)
{
    series s = {.n = 0};
    line_chart *c = NULL;
    if (take(1, sizeof *c, &c)) return;
    c->title = of->title, c->unit = of->unit;
    if (add_lines(of, &s, c)) {
        const drawing drawn = line_chart_drawing(c);
        drawing_put(file, &drawn, "chart");
    }
    free(c);
}

/* ---- the share of peak ---- */

enum { WIDTH = 798, BAR = 26, NAMES = 262, FIGURES = 150 };

/* A bar for each series: the share of peak at its longest length, against a line at all of it. */
static void draw_share(FILE *svg, const void *context)
{
    const series *s = context;
    double capacity = WIDTH - NAMES - FIGURES;
    char name[LINE_NAME], figure[64];
    for (int i = 0; i < s->n; i++) {
        const json_t *row = s->last[i];
        double y = BAR * i + 4, share = row_number(row, "share_of_peak"), shown = fmax(0, fmin(share, 1));
        const look bar = {.fill = paint_of(row)};
        name_of(row, name);
        svg_text(svg, NAMES - 10, y + 14, (text_style){12, TEXT_END, 0, chart_ink(1)}, name);
        svg_rect(svg, NAMES, y, fmax(shown * capacity, 1), BAR - 7, &bar);
        if (json_is_number(json_object_get(row, "share_of_peak")))
            snprintf(figure, sizeof figure, "%.1f %%, %.0f tokens", 100 * share, row_number(row, "tokens"));
        else
            snprintf(figure, sizeof figure, "!, %.0f tokens", row_number(row, "tokens"));
        svg_text(svg, NAMES + shown * capacity + 8, y + 14, chart_text(TEXT_START), figure);
    }
    const double peak[2][2] = {{NAMES + capacity + 0.5, 0}, {NAMES + capacity + 0.5, BAR * s->n}};
    svg_lines(svg, peak, 2, &chart_frame_line);
}

/* Draws nothing where rows have no share. */
void bench_chart_share(FILE *file, const json_t *rows)
{
    series s = {.n = 0};
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)(void) series_for(&s, row);
    if (s.n == 0 || !json_object_get(s.first[0], "share_of_peak")) return;
    drawing_put(
        file, &(drawing){WIDTH, BAR * s.n + 4, "Share of the peak at each longest length", NULL, NULL, draw_share, &s},
        "chart");
}
