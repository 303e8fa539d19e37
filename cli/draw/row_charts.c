/* row_charts.c: lines, bars and dots of measurements. */
#include "row_charts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "palette.h"
#include "table.h"

const chart_shown chart_milliseconds = {"seconds", "milliseconds", "ms", 1e3, 0};

static int is_peer(const json_t *row) { return strncmp(row_text(row, "variant"), "peer:", 5) == 0; }

/* "bpt k=4", "openblas (dense)" */
static void name_of(const json_t *row, char text[static SERIES_NAME])
{
    const char *variant = row_text(row, "variant"), *parameters = row_text(row, "parameters");
    if (is_peer(row))
        snprintf(text, SERIES_NAME, "%.40s (%.80s)", variant + 5, parameters);
    else
        snprintf(text, SERIES_NAME, "%.40s%s%.80s", variant, *parameters ? " " : "", parameters);
    for (char *at = text; *at; at++)
        if (*at == ':') *at = ' ';
}

/* peers are in ink, as dense attention is, but faint */
static paint paint_of(const json_t *row)
{
    return is_peer(row) ? chart_ink(0.55) : chart_paint(variant_colour(row_text(row, "variant")), 1);
}

/* What the y axis shows of a row, or of a quartile of it, which is 0 where there is none. */
static double y_of(const chart_shown *y, const json_t *row, const char *quartile)
{
    char key[32];
    snprintf(key, sizeof key, "%s%s", y->key, quartile);
    return row_number(row, key) * y->scale;
}

static series_point point_of(const series_chart *c, const json_t *row)
{
    return (series_point){row_number(row, c->x.key) * c->x.scale, y_of(&c->y, row, ""), y_of(&c->y, row, "_q1"),
                          y_of(&c->y, row, "_q3"), row_is(row, "disturbed")};
}

/* ---- time against length ---- */

#define SERIES "variant parameters"

/* Adds a line in a variant's colour through the rows of its parameters; dashed where an earlier one has the colour. 0:
   some have no time. */
static int add_line(const json_t *rows, size_t first, series_chart *c)
{
    const json_t *of = json_array_get(rows, first);
    series *line = &c->of[c->n++];
    size_t i;
    json_t *row;
    name_of(of, line->name);
    line->ink = paint_of(of), line->width = strcmp(row_text(of, "variant"), "dense") == 0 ? 3 : 1.7;
    line->dashed = is_peer(of) || !row_is_first(rows, first, "variant");
    json_array_foreach(rows, i, row)
    {
        const series_point p = point_of(c, row);
        if (!rows_agree(of, row, SERIES)) continue;
        if (!(p.y > 0) || !(p.x > 0)) return 0;
        series_put(line, p);
    }
    return 1;
}

/* The x of a ring, where a variant overtakes dense attention; 0 where it does not, or is ahead from the shortest on. */
static double ring_of(const json_t *row, const json_t *overtakes)
{
    size_t i;
    json_t *found;
    json_array_foreach(overtakes, i, found) if (rows_agree(found, row, SERIES) &&
                                                !row_is(found, "or_shorter")) return row_number(found, "tokens");
    return 0;
}

static void put_chart(FILE *file, series_chart *c)
{
    const drawing drawn = series_chart_drawing(c);
    drawing_put(file, &drawn, "chart");
}

void chart_put_times(FILE *file, const time_rows *of)
{
    series_chart *c = NULL;
    size_t i;
    json_t *row;
    int drawn = 1;
    if (take(1, sizeof *c, &c)) return;
    c->title = of->title, c->x = (chart_shown){"tokens", of->unit, of->unit, 1, 1}, c->y = chart_milliseconds;
    json_array_foreach(of->rows, i, row)
    {
        if (c->n == MOST_SERIES || !row_is_first(of->rows, i, SERIES)) continue;
        drawn &= add_line(of->rows, i, c);
        c->of[c->n - 1].ring = ring_of(row, of->overtakes);
    }
    if (drawn && series_chart_fit(c, 0, 0) > 1) put_chart(file, c);
    free(c);
}

/* ---- the share of peak ---- */

enum { BAR = 26, NAMES = 262, FIGURES = 150 };

/* The row of a variant's longest length, if this is its first row; else NULL. */
static const json_t *longest_of(const json_t *rows, size_t first)
{
    const json_t *of = json_array_get(rows, first), *longest = of;
    size_t i;
    json_t *row;
    if (!row_is_first(rows, first, SERIES)) return NULL;
    json_array_foreach(rows, i, row) if (rows_agree(of, row, SERIES) &&
                                         row_number(row, "tokens") > row_number(longest, "tokens")) longest = row;
    return longest;
}

/* A bar for each variant: the share of peak at its longest length, against a line at all of it. */
static void draw_shares(FILE *svg, const void *rows)
{
    double capacity = SERIES_CHART_WIDTH - NAMES - FIGURES, y = 4;
    char name[SERIES_NAME], figure[64];
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = longest_of(rows, i);
        if (!row) continue;
        double share = row_number(row, "share_of_peak"), shown = fmax(0, fmin(share, 1));
        const look bar = {.fill = paint_of(row)};
        name_of(row, name);
        svg_text(svg, NAMES - 10, y + 14, (text_style){12, TEXT_END, 0, chart_ink(1)}, name);
        svg_rect(svg, NAMES, y, fmax(shown * capacity, 1), BAR - 7, &bar);
        if (json_is_number(json_object_get(row, "share_of_peak")))
            snprintf(figure, sizeof figure, "%.1f %%, %.0f tokens", 100 * share, row_number(row, "tokens"));
        else
            snprintf(figure, sizeof figure, "!, %.0f tokens", row_number(row, "tokens"));
        svg_text(svg, NAMES + shown * capacity + 8, y + 14, chart_text(TEXT_START), figure);
        y += BAR;
    }
    const double peak[2][2] = {{NAMES + capacity + 0.5, 0}, {NAMES + capacity + 0.5, y - 4}};
    svg_lines(svg, peak, 2, &chart_frame_line);
}

/* Draws nothing where rows have no share. */
void chart_put_shares(FILE *file, const json_t *rows)
{
    int n = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) n += row_is_first(rows, i, SERIES);
    if (n == 0 || !json_object_get(json_array_get(rows, 0), "share_of_peak")) return;
    drawing_put(file,
                &(drawing){SERIES_CHART_WIDTH, BAR * n + 4, "Share of the peak at each longest length", NULL, NULL,
                           draw_shares, rows},
                "chart");
}

/* ---- error against cost ---- */

/* What is in front in time, and in FLOP. */
static const struct front {
    const char *member, *word;
    chart_shown cost;
} fronts[] = {{"front_time", "time", {"seconds", "milliseconds of an execution", "ms", 1e3, 0}},
              {"front_flops", "FLOP", {"flops", "GFLOP of an execution", "GFLOP", 1e-9, 0}}};
enum { N_FRONTS = sizeof fronts / sizeof *fronts };

static int has_error(const json_t *row) { return json_is_number(json_object_get(row, "relative_l2")); }

static int is_in_front(const json_t *rows, const json_t *row, const char *cost)
{
    size_t i;
    json_t *by;
    json_array_foreach(rows, i, by)
    {
        const double nearer = row_number(row, "relative_l2") - row_number(by, "relative_l2"),
                     cheaper = row_number(row, cost) - row_number(by, cost);
        if (has_error(by) && nearer >= 0 && cheaper >= 0 && nearer + cheaper > 0) return 0;
    }
    return has_error(row);
}

void chart_mark_fronts(json_t *rows)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        char words[32] = "";
        for (int f = 0; f < N_FRONTS; f++) {
            const int best = is_in_front(rows, row, fronts[f].cost.key);
            if (best) snprintf(words + strlen(words), 16, "%s%s", *words ? " " : "", fronts[f].word);
            json_object_set_new(row, fronts[f].member, json_boolean(best));
        }
        json_object_set_new(row, "front", json_string(words));
    }
}

/* The place of row `at` on the front, from cheap to dear, from 1 on. */
static int number_of(const json_t *rows, size_t at, const struct front *f)
{
    const double cost = row_number(json_array_get(rows, at), f->cost.key);
    int number = 1;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        const double its = row_number(row, f->cost.key);
        number += row_is(row, f->member) && (its < cost || (its <= cost && i < at));
    }
    return number;
}

/* A dot for each row, those on the front over the stairs that join them, and over the others, which are faint. */
static void fill_errors(const json_t *rows, const struct front *f, int left, int top, series_chart *c)
{
    size_t i;
    json_t *row;
    c->x = f->cost, c->y = (chart_shown){"relative_l2", "error: relative L2", "relative L2", 1, 0};
    c->of[c->n++] = (series){.ink = chart_ink(0.8), .width = 1, .dashed = 1, .stairs = 1};
    for (int best = 0; best < 2; best++) json_array_foreach(rows, i, row)
        {
            const series_point p = point_of(c, row);
            if (row_is(row, f->member) != best || !has_error(row) || !(p.x > 0) || c->n == MOST_SERIES) continue;
            series *s = &c->of[c->n++];
            name_of(row, s->name);
            s->ink = chart_paint(variant_colour(row_text(row, "variant")), best ? 1 : 0.55);
            s->number = best ? number_of(rows, i, f) : 0;
            series_put(s, p);
            if (best) series_put(&c->of[0], p);
        }
    series_chart_fit(c, left, top);
}

void chart_put_errors(FILE *file, const json_t *rows, const char *title)
{
    series_chart *c = NULL;
    if (take(1, sizeof *c, &c)) return;
    c->title = title;
    fill_errors(rows, &fronts[0], 0, 0, c);
    put_chart(file, c);
    free(c);
}

typedef struct both_errors {
    const json_t *rows;
    const char *title;
    series_chart *panel; /* [N_FRONTS] */
} both_errors;

/* The title, a dot and a name for each variant in one line, and both panels. */
static void draw_errors(FILE *svg, const void *context)
{
    enum { LEFT = 64 };
    const both_errors *b = context;
    double x = LEFT;
    size_t i;
    json_t *row;
    svg_text(svg, LEFT, 28, (text_style){17, TEXT_START, 0, chart_ink(1)}, b->title);
    json_array_foreach(b->rows, i, row)
    {
        const look sample = {.fill = paint_of(row)};
        if (!row_is_first(b->rows, i, "variant")) continue;
        svg_circle(svg, x + 5, 50, 5, &sample);
        svg_text(svg, x + 15, 54, chart_text(TEXT_START), row_text(row, "variant"));
        x += 36 + 7 * (double)strlen(row_text(row, "variant"));
    }
    for (int f = 0; f < N_FRONTS; f++) series_chart_draw(svg, &b->panel[f]);
}

int chart_write_errors(const json_t *rows, const char *title, const char *path)
{
    enum { HEAD = 56 };
    both_errors b = {.rows = rows, .title = title};
    const drawing drawn = {.width = N_FRONTS * SERIES_CHART_WIDTH,
                           .height = HEAD + SERIES_CHART_HEIGHT,
                           .title = title,
                           .draw = draw_errors,
                           .context = &b};
    MUST(take(N_FRONTS, sizeof *b.panel, &b.panel));
    for (int f = 0; f < N_FRONTS; f++) fill_errors(rows, &fronts[f], f * SERIES_CHART_WIDTH, HEAD, &b.panel[f]);
    const int status = drawing_write(&drawn, path);
    free(b.panel);
    return status;
}
