/* plot.c: title, frame, axes, legend; the data in between. */
#include "plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chart.h"
#include "palette.h"
#include "terminal.h"

enum { LEGEND = 190, LEFT = 68, WORDS = 112, TOP = 66, BOTTOM = 56, RIGHT = 24, WORD_CELL = 10, WORD_CHARACTERS = 14 };

/* ---- layout ---- */

/* A plot's height follows the tokens' shape, within limits; its left margin is wide where keys have words. */
layout layout_start(int width, int cell, hga_id n_queries, hga_id n_keys, const plot_words *words)
{
    int named = words->key && WORD_CELL * n_keys <= width - WORDS - LEGEND - RIGHT;
    layout l = {.width = width, .left = named ? WORDS : LEFT, .top = TOP};
    int capacity = width - l.left - LEGEND - RIGHT;
    double shape = (double)n_queries / n_keys;
    shape = shape < 0.2 ? 0.2 : shape > 2 ? 2 : shape;
    l.plot_width = capacity, l.plot_height = capacity * shape;
    l.max_columns = capacity / cell;
    l.max_rows = (hga_id)(l.plot_height / cell);
    return l;
}

/* Whole pixels if that wastes little; below, edges are at the nearest pixel. */
static double cell_size(double capacity, hga_id cells)
{
    double size = capacity / cells;
    return size >= 8 ? floor(size) : size;
}

void layout_finish(const picture *p, int n_kinds, layout *l)
{
    l->cell_width = cell_size(l->plot_width, p->columns);
    l->cell_height = p->n_queries == p->n_keys ? l->cell_width : cell_size(l->plot_height, p->rows);
    l->plot_width = l->cell_width * p->columns;
    l->plot_height = l->cell_height * p->rows;
    int least = TOP + 22 * (p->n_levels + 4 + (n_kinds ? n_kinds + 1 : 0)) + BOTTOM;
    l->height = l->top + (int)l->plot_height + (l->left == WORDS ? WORDS : BOTTOM);
    if (l->height < least) l->height = least;
}

/* ---- axes ---- */

/* The position of a token's first edge, in pixels. Tokens of one cell divide its width evenly. */
static double along(hga_id token, hga_id n, hga_id cells, double cell)
{
    if (token >= n) return cells * cell;
    hga_id c = cell_of(token, n, cells), start = cell_start(c, n, cells), end = cell_start(c + 1, n, cells);
    return (c + (double)(token - start) / (end - start)) * cell;
}

static int shows_words(const picture *p, const layout *l, const plot_words *w)
{
    return l->left == WORDS && w->key && w->query && p->columns == p->n_keys && p->rows == p->n_queries &&
           l->cell_width >= WORD_CELL && l->cell_height >= WORD_CELL;
}

/* The first characters, and ".." if that is not all; a character counts one however wide it is. */
static const char *shortened(const char *text, char buffer[static 80])
{
    const char *c = text;
    for (int i = 0; i < WORD_CHARACTERS && *c; i++) {
        size_t n = utf8_bytes(c);
        c += n ? n : 1;
    }
    if (*c) snprintf(buffer, 80, "%.*s..", (int)(c - text), text);
    return *c ? buffer : text;
}

/* The words of all query tokens beside the plot, and of all key tokens below it, upwards. */
static void draw_words(FILE *svg, const layout *l, const picture *p, const plot_words *w)
{
    char text[80];
    double size = fmin(12, l->cell_width - 1);
    text_style beside = {size, TEXT_END, 0, chart_ink(0.85)}, below = {size, TEXT_END, 1, chart_ink(0.85)};
    for (hga_id i = 0; i < p->n_queries; i++)
        svg_text(svg, l->left - 6, l->top + (i + 0.5) * l->cell_height + size * 0.35, beside,
                 shortened(w->query[i], text));
    for (hga_id i = 0; i < p->n_keys; i++)
        svg_text(svg, l->left + (i + 0.5) * l->cell_width + size * 0.35, l->top + l->plot_height + 6, below,
                 shortened(w->key[i], text));
}

/* 1, 2 or 5 times a power of ten: the step that makes about `most` ticks up to n. */
static int64_t tick_step(int64_t n, int most)
{
    int64_t step = 1;
    for (int i = 0; n / step > most; i++) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    return step;
}

/* an axis of n tokens in cells: ticks at whole numbers of them, in the middle of a token's cell where it has one */
static chart_axis axis_of_tokens(const char *title, hga_id n, hga_id cells, double cell, int exact, int most)
{
    char text[16];
    chart_axis a = {.title = title, .length = cells * cell};
    int64_t step = tick_step(n, most);
    for (int64_t i = 0; i < n; i += step) {
        snprintf(text, sizeof text, "%d", (hga_id)i);
        chart_add_tick(&a, along((hga_id)i, n, cells, cell) + (exact ? cell / 2 : 0), text);
    }
    return a;
}

/* The frame, with words of tokens on its axes if they fit, else with ticks. */
static void draw_axes(FILE *svg, const layout *l, const picture *p, const plot_words *w)
{
    chart frame = {
        .svg = svg, .left = l->left, .top = l->top, .width = l->plot_width, .height = l->plot_height, .downwards = 1};
    int named = shows_words(p, l, w);
    if (!named) {
        frame.x = axis_of_tokens("key token", p->n_keys, p->columns, l->cell_width, p->exact,
                                 (int)fmin(l->plot_width / 60 + 1, MAX_TICKS - 1));
        frame.y = axis_of_tokens("query token", p->n_queries, p->rows, l->cell_height, p->exact,
                                 (int)fmin(l->plot_height / 45 + 1, MAX_TICKS - 1));
    }
    chart_frame(&frame);
    if (named) draw_words(svg, l, p, w);
}

/* ---- data ---- */

static look colour(uint32_t rgb, double opacity) { return (look){.fill = {PAINT_COLOUR, rgb, opacity}}; }

static look look_of(const picture *p, const picture_rect *r, int edged)
{
    if (p->is_weights) return colour(weight_colour((double)r->value), 1);
    look l = colour(level_colour(r->level, picture_levels(p)), share_opacity((double)r->value));
    if (edged) l.line = (paint){PAINT_PAGE, 0, 1}, l.width = 1;
    return l;
}

/* Beside the plot: the rows in which some pair is seen more than once. */
static void draw_overlaps(FILE *svg, const layout *l, const picture *p)
{
    const look dark = {.fill = chart_ink(0.9), .name = "twice"};
    unsigned char *mark = NULL;
    if (p->is_weights || p->coverage.more <= 0 || picture_overlaps(p, &mark)) return;
    for (hga_id y = 0, end; y < p->rows; y = end + 1) {
        for (end = y; end < p->rows && memchr(mark + (int64_t)end * p->columns, 1, (size_t)p->columns); end++) continue;
        if (end > y)
            svg_rect(svg, l->left + l->plot_width + 5, l->top + y * l->cell_height, 4, (end - y) * l->cell_height,
                     &dark);
    }
    free(mark);
}

/* Runs of tokens of one kind from `first` on, beside an axis. */
static void draw_kinds(FILE *svg, const layout *l, const plot_kinds *k, hga_id first, hga_id n, hga_id cells, int down)
{
    enum { BESIDE = 5, WIDE = 4 };
    const int32_t *of = k->of.of + first;
    const double cell = down ? l->cell_height : l->cell_width;
    for (hga_id i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && of[end] == of[i];) end++;
        if (of[i] < 0) continue;
        const double from = along(i, n, cells, cell), length = along(end, n, cells, cell) - from;
        const look shown = {.fill = {PAINT_COLOUR, kind_colour(of[i]), 1}, .name = "kind"};
        if (down)
            svg_rect(svg, l->left - BESIDE, l->top + from, WIDE, length, &shown);
        else
            svg_rect(svg, l->left + from, l->top - BESIDE, length, WIDE, &shown);
    }
}

void plot_data(FILE *svg, const layout *l, const picture *p)
{
    int edged = p->exact && !p->is_weights && l->cell_width >= 5 && l->cell_height >= 5;
    const look darkest = colour(weight_colour(0), 1);
    svg_group(svg, 1);
    if (p->is_weights) svg_rect(svg, l->left, l->top, l->plot_width, l->plot_height, &darkest);
    for (int64_t i = 0; i < p->n_rects; i++) {
        const picture_rect *r = &p->rects[i];
        char level[16];
        look shown = look_of(p, r, edged);
        double x = along(r->key, p->n_keys, p->columns, l->cell_width),
               y = along(r->query, p->n_queries, p->rows, l->cell_height);
        double right = along(r->key + r->n_keys, p->n_keys, p->columns, l->cell_width),
               bottom = along(r->query + r->n_queries, p->n_queries, p->rows, l->cell_height);
        snprintf(level, sizeof level, "level%d", r->level);
        if (!p->is_weights) shown.name = level;
        if (i == 0 || !picture_alike(r, r - 1)) svg_begin_boxes(svg, &shown);
        svg_box(svg, l->left + x, l->top + y, l->left + right, l->top + bottom);
        if (i + 1 == p->n_rects || !picture_alike(r, r + 1)) svg_end_boxes(svg);
    }
    svg_group(svg, 0);
}

/* ---- legend ---- */

typedef struct legend {
    FILE *svg;
    double x, y;
} legend;

static void heading(legend *g, const char *text)
{
    svg_text(g->svg, g->x, g->y + 11, chart_text(TEXT_START), text);
    g->y += 22;
}

/* A legend entry: a square sample, and what it means. */
static void entry(legend *g, look sample, const char *text)
{
    svg_rect(g->svg, g->x, g->y, 16, 14, &sample);
    svg_text(g->svg, g->x + 24, g->y + 11, chart_text(TEXT_START), text);
    g->y += 22;
}

static double percent(double part, double all) { return all > 0 ? 100 * part / all : 0; }

/* The colour and share of each level, and which pairs are covered more than once or not at all. */
static void draw_levels(legend *g, const picture *p)
{
    const look blank = {.fill = {PAINT_PAGE, 0, 1}, .line = chart_ink(0.55), .width = 1}, nothing = {0},
               dark = {.fill = chart_ink(0.9)};
    char text[80];
    double pairs = (double)p->coverage.pairs;
    double seen = 0;
    int twice = p->coverage.more > 0;
    for (hga_id l = 0; l < p->n_levels; l++) seen += p->level_pairs[l];
    heading(g, twice ? "level: share of what is seen" : "level: share of all pairs");
    for (hga_id l = 0; l < p->n_levels; l++) {
        if (p->level_pairs[l] <= 0) continue;
        snprintf(text, sizeof text, "%d: %.3g %%", l, percent(p->level_pairs[l], twice ? seen : pairs));
        entry(g, colour(level_colour(l, picture_levels(p)), 1), text);
    }
    if (twice) {
        g->y += 8;
        heading(g, "of all pairs");
        snprintf(text, sizeof text, "once: %.3g %%", percent((double)p->coverage.once, pairs));
        entry(g, nothing, text);
        snprintf(text, sizeof text, "more than once: %.3g %%", percent((double)p->coverage.more, pairs));
        entry(g, dark, text);
    }
    if (p->coverage.none > 0) {
        snprintf(text, sizeof text, "not covered: %.3g %%", percent((double)p->coverage.none, pairs));
        entry(g, blank, text);
    }
}

/* What lighter and darker cells mean where a cell is more than one pair. */
static void draw_shades(legend *g)
{
    char text[80];
    g->y += 8;
    heading(g, "share of a cell covered");
    for (int i = 0; i <= 4; i += 2) {
        double share = i == 0 ? 0.01 : i / 4.0;
        snprintf(text, sizeof text, i == 0 ? "little" : "%.0f %%", 100 * share);
        entry(g, colour(level_colour(0, 2), share_opacity(share)), text);
    }
}

/* The colours of weights, with a number at each power of ten. */
static void draw_weight_ramp(legend *g, const picture *p)
{
    enum { STEPS = 48, STEP = 4 };
    char text[40];
    heading(g, p->exact ? "weight" : "weight of a cell");
    for (int i = 0; i < STEPS; i++) {
        const look shade = colour(weight_colour(1 - (i + 0.5) / STEPS), 1);
        svg_rect(g->svg, g->x, g->y + i * STEP, 18, STEP, &shade);
    }
    for (int i = 0; i <= p->decades; i++) {
        snprintf(text, sizeof text, i == p->decades ? "%.2g and less" : "%.2g", p->largest * pow(10, -i));
        svg_text(g->svg, g->x + 26, g->y + (double)i * STEPS * STEP / p->decades + 4, chart_text(TEXT_START), text);
    }
    g->y += STEPS * STEP + 22;
}

static void list_kinds(legend *g, const hga_kinds *kinds)
{
    if (!kinds->n) return;
    g->y += 8;
    heading(g, "kinds of tokens");
    for (int32_t k = 0; k < kinds->n; k++) entry(g, colour(kind_colour(k), 1), kinds->name[k]);
}

/* What colours mean: weights, or levels and how much of a cell is covered; and the kinds of tokens. */
static void draw_legend(FILE *svg, const layout *l, const picture *p, const hga_kinds *kinds)
{
    legend g = {svg, l->left + l->plot_width + 26, l->top};
    if (p->is_weights) {
        draw_weight_ramp(&g, p);
    } else {
        draw_levels(&g, p);
        if (!p->exact) draw_shades(&g);
    }
    list_kinds(&g, kinds);
}

/* ---- all of it ---- */

/* The title, and below it how many tokens there are and how many a cell has. */
static void draw_title(FILE *svg, const layout *l, const picture *p, const char *title)
{
    char text[160];
    int used = p->n_queries == p->n_keys
                   ? snprintf(text, sizeof text, "%d token%s", p->n_keys, p->n_keys == 1 ? "" : "s")
                   : snprintf(text, sizeof text, "%d query and %d key tokens", p->n_queries, p->n_keys);
    if (!p->exact) {
        double query = (double)p->n_queries / p->rows, key = (double)p->n_keys / p->columns;
        snprintf(text + used, sizeof text - (size_t)used, "; a cell is %.4g x %.4g of them, everything counted", query,
                 key);
    }
    svg_text(svg, l->left, 28, (text_style){17, TEXT_START, 0, chart_ink(1)}, title);
    svg_text(svg, l->left, 50, chart_text(TEXT_START), text);
}

/* The plot's layers, the lowest first; kinds of nodes are bars beside the axes. */
static void draw(FILE *svg, const void *context)
{
    const plot *p = context;
    draw_title(svg, &p->layout, p->picture, p->title);
    plot_data(svg, &p->layout, p->picture);
    draw_axes(svg, &p->layout, p->picture, &p->words);
    draw_overlaps(svg, &p->layout, p->picture);
    draw_legend(svg, &p->layout, p->picture, &p->kinds.of);
    if (!p->kinds.of.n) return;
    draw_kinds(svg, &p->layout, &p->kinds, p->kinds.query_first, p->picture->n_queries, p->picture->rows, 1);
    draw_kinds(svg, &p->layout, &p->kinds, p->kinds.key_first, p->picture->n_keys, p->picture->columns, 0);
}

drawing plot_drawing(plot *p)
{
    const layout *l = &p->layout;
    snprintf(p->place, sizeof p->place, "%d %d %.0f %.0f", l->left, l->top, l->plot_width, l->plot_height);
    snprintf(p->tokens, sizeof p->tokens, "%d %d", p->picture->n_queries, p->picture->n_keys);
    return (drawing){l->width, l->height, p->title, p->place, p->tokens, draw, p};
}
