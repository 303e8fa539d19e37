/* plot.c: title, frame, axes, legend; the data in between. */
#include "plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "palette.h"
#include "strokes.h"

enum { LEGEND = 190, LEFT = 68, WORDS = 112, TOP = 66, BOTTOM = 56, RIGHT = 24, WORD_CELL = 10, WORD_CHARACTERS = 14 };

static const paint page = {PAINT_PAGE, 0, 1, 0}, ink = {PAINT_INK, 0, 0.55, 0};

static const text_style plain = {12, TEXT_START, 0, 0.75}, plain_middle = {12, TEXT_MIDDLE, 0, 0.75},
                        plain_end = {12, TEXT_END, 0, 0.75};

/* ---- layout ---- */

layout layout_start(int width, int cell, hga_id n_queries, hga_id n_keys, const plot_words *words)
{
    int named = words->key && WORD_CELL * n_keys <= width - WORDS - LEGEND - RIGHT;
    layout l = {.width = width, .left = named ? WORDS : LEFT, .top = TOP};
    int room = width - l.left - LEGEND - RIGHT;
    double shape = (double)n_queries / n_keys;
    shape = shape < 0.2 ? 0.2 : shape > 2 ? 2 : shape;
    l.plot_width = room, l.plot_height = room * shape;
    l.max_columns = room / cell;
    l.max_rows = (hga_id)(l.plot_height / cell);
    return l;
}

/* Whole pixels while that wastes little room; below, edges go to the nearest pixel. */
static double cell_size(double room, hga_id cells)
{
    double size = room / cells;
    return size >= 8 ? floor(size) : size;
}

void layout_finish(const picture *p, layout *l)
{
    l->cell_width = cell_size(l->plot_width, p->columns);
    l->cell_height = p->n_queries == p->n_keys ? l->cell_width : cell_size(l->plot_height, p->rows);
    l->plot_width = l->cell_width * p->columns;
    l->plot_height = l->cell_height * p->rows;
    int least = TOP + 22 * (p->n_levels + 4) + BOTTOM;
    l->height = l->top + (int)l->plot_height + (l->left == WORDS ? WORDS : BOTTOM);
    if (l->height < least) l->height = least;
}

const char *short_word(const char *word, char text[static 80])
{
    const char *at = word;
    for (int i = 0; i < WORD_CHARACTERS && *at; i++) next_character(&at);
    if (!*at) return word;
    snprintf(text, 80, "%.*s..", (int)(at - word), word);
    return text;
}

/* ---- axes ---- */

/* The place of a token's first edge, in pixels. Tokens of one cell share its width evenly. */
static double along(hga_id token, hga_id n, hga_id cells, double cell)
{
    if (token >= n) return cells * cell;
    hga_id c = cell_of(token, n, cells), start = cell_start(c, n, cells), end = cell_start(c + 1, n, cells);
    return (c + (double)(token - start) / (end - start)) * cell;
}

/* 1, 2 or 5 times a power of ten: at most about `most` of them up to n. */
static hga_id tick_step(hga_id n, int most)
{
    int64_t step = 1;
    for (int i = 0; n / step > most; i++) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    return (hga_id)step;
}

static int shows_words(const picture *p, const layout *l, const plot_words *w)
{
    return l->left == WORDS && w->key && w->query && p->columns == p->n_keys && p->rows == p->n_queries &&
           l->cell_width >= WORD_CELL && l->cell_height >= WORD_CELL;
}

static void draw_words(canvas *c, const layout *l, const picture *p, const plot_words *w)
{
    char text[80];
    double size = fmin(12, l->cell_width - 1);
    for (hga_id i = 0; i < p->n_queries; i++)
        c->text(c, l->left - 6, l->top + (i + 0.5) * l->cell_height + size * 0.35,
                (text_style){size, TEXT_END, 0, 0.85}, short_word(w->query[i], text));
    for (hga_id i = 0; i < p->n_keys; i++)
        c->text(c, l->left + (i + 0.5) * l->cell_width + size * 0.35, l->top + l->plot_height + 6,
                (text_style){size, TEXT_END, 1, 0.85}, short_word(w->key[i], text));
}

static void draw_ticks(canvas *c, const layout *l, const picture *p)
{
    char text[16];
    hga_id step = tick_step(p->n_keys, (int)(l->plot_width / 60) + 1);
    for (int64_t i = 0; i < p->n_keys; i += step) {
        double x =
            l->left + along((hga_id)i, p->n_keys, p->columns, l->cell_width) + (p->exact ? l->cell_width / 2 : 0);
        c->rect(c, floor(x), l->top + l->plot_height + 1, 1, 5, ink);
        snprintf(text, sizeof text, "%d", (hga_id)i);
        c->text(c, x, l->top + l->plot_height + 19, plain_middle, text);
    }
    step = tick_step(p->n_queries, (int)(l->plot_height / 45) + 1);
    for (int64_t i = 0; i < p->n_queries; i += step) {
        double y =
            l->top + along((hga_id)i, p->n_queries, p->rows, l->cell_height) + (p->exact ? l->cell_height / 2 : 0);
        c->rect(c, l->left - 6, floor(y), 5, 1, ink);
        snprintf(text, sizeof text, "%d", (hga_id)i);
        c->text(c, l->left - 9, y + 4, plain_end, text);
    }
}

static void draw_axes(canvas *c, const layout *l, const picture *p, const plot_words *w)
{
    double x = l->left - 1, y = l->top - 1, width = l->plot_width + 2, height = l->plot_height + 2;
    c->rect(c, x, y, width, 1, ink), c->rect(c, x, y + height - 1, width, 1, ink);
    c->rect(c, x, y, 1, height, ink), c->rect(c, x + width - 1, y, 1, height, ink);
    if (shows_words(p, l, w)) {
        draw_words(c, l, p, w);
        return;
    }
    draw_ticks(c, l, p);
    c->text(c, l->left + l->plot_width / 2, l->top + l->plot_height + 40, plain_middle, "key token");
    c->text(c, 16, l->top + l->plot_height / 2, (text_style){12, TEXT_MIDDLE, 1, 0.75}, "query token");
}

/* ---- data ---- */

/* levels up to the highest that is seen share the colours */
static hga_id shown_levels(const picture *p)
{
    hga_id n = p->n_levels;
    while (n > 1 && p->level_pairs[n - 1] <= 0) n--;
    return n;
}

static paint paint_of(const picture *p, const picture_rect *r, int edged)
{
    if (p->is_weights) return (paint){PAINT_COLOUR, weight_colour((double)r->value), 1, 0};
    return (paint){PAINT_COLOUR, level_colour(r->level, shown_levels(p)), share_opacity((double)r->value), edged};
}

static void draw_data(canvas *c, const layout *l, const picture *p)
{
    int edged = p->exact && !p->is_weights && l->cell_width >= 5 && l->cell_height >= 5;
    c->group(c, 1);
    if (p->is_weights)
        c->rect(c, l->left, l->top, l->plot_width, l->plot_height, (paint){PAINT_COLOUR, weight_colour(0), 1, 0});
    for (int64_t i = 0; i < p->n_rects; i++) {
        const picture_rect *r = &p->rects[i];
        double x = along(r->key, p->n_keys, p->columns, l->cell_width),
               y = along(r->query, p->n_queries, p->rows, l->cell_height);
        double right = along(r->key + r->n_keys, p->n_keys, p->columns, l->cell_width),
               bottom = along(r->query + r->n_queries, p->n_queries, p->rows, l->cell_height);
        if (p->exact && !p->is_weights) c->rect(c, l->left + x, l->top + y, right - x, bottom - y, page);
        c->rect(c, l->left + x, l->top + y, right - x, bottom - y, paint_of(p, r, edged));
    }
    c->group(c, 0);
}

/* ---- legend ---- */

typedef struct legend {
    canvas *c;
    double x, y;
} legend;

static void heading(legend *g, const char *text)
{
    g->c->text(g->c, g->x, g->y + 11, (text_style){12, TEXT_START, 0, 0.75}, text);
    g->y += 22;
}

static void entry(legend *g, paint p, const char *text)
{
    if (p.kind == PAINT_PAGE) {
        g->c->rect(g->c, g->x, g->y, 16, 14, ink);
        g->c->rect(g->c, g->x + 1, g->y + 1, 14, 12, page);
    } else
        g->c->rect(g->c, g->x, g->y, 16, 14, p);
    g->c->text(g->c, g->x + 24, g->y + 11, plain, text);
    g->y += 22;
}

static double percent(double part, double all) { return all > 0 ? 100 * part / all : 0; }

static void draw_levels(legend *g, const picture *p)
{
    char text[80];
    double pairs = (double)p->coverage.pairs;
    heading(g, "level: share of all pairs");
    for (hga_id l = 0; l < p->n_levels; l++) {
        if (p->level_pairs[l] <= 0) continue;
        snprintf(text, sizeof text, "%d: %.3g %%", l, percent(p->level_pairs[l], pairs));
        entry(g, (paint){PAINT_COLOUR, level_colour(l, shown_levels(p)), 1, 0}, text);
    }
    if (p->coverage.none > 0) {
        snprintf(text, sizeof text, "not covered: %.3g %%", percent((double)p->coverage.none, pairs));
        entry(g, page, text);
    }
    if (p->coverage.more > 0) {
        snprintf(text, sizeof text, "more than once: %.3g %%", percent((double)p->coverage.more, pairs));
        g->c->text(g->c, g->x + 24, g->y + 11, plain, text);
        g->y += 22;
    }
}

static void draw_shades(legend *g)
{
    char text[80];
    g->y += 8;
    heading(g, "share of a cell covered");
    for (int i = 0; i <= 4; i += 2) {
        double share = i == 0 ? 0.01 : i / 4.0;
        snprintf(text, sizeof text, i == 0 ? "little" : "%.0f %%", 100 * share);
        entry(g, (paint){PAINT_COLOUR, level_colour(0, 2), share_opacity(share), 0}, text);
    }
}

static void draw_weight_ramp(legend *g, const picture *p)
{
    enum { STEPS = 48, STEP = 4 };
    char text[40];
    heading(g, p->exact ? "weight" : "weight of a cell");
    for (int i = 0; i < STEPS; i++)
        g->c->rect(g->c, g->x, g->y + i * STEP, 18, STEP,
                   (paint){PAINT_COLOUR, weight_colour(1 - (i + 0.5) / STEPS), 1, 0});
    for (int i = 0; i <= p->decades; i++) {
        snprintf(text, sizeof text, i == p->decades ? "%.2g and less" : "%.2g", p->largest * pow(10, -i));
        g->c->text(g->c, g->x + 26, g->y + (double)i * STEPS * STEP / p->decades + 4, plain, text);
    }
    g->y += STEPS * STEP + 22;
}

static void draw_legend(canvas *c, const layout *l, const picture *p)
{
    legend g = {c, l->left + l->plot_width + 26, l->top};
    if (p->is_weights) {
        draw_weight_ramp(&g, p);
        return;
    }
    draw_levels(&g, p);
    if (!p->exact) draw_shades(&g);
}

/* ---- everything ---- */

static void draw_title(canvas *c, const layout *l, const picture *p, const char *title)
{
    char text[160];
    int used = p->n_queries == p->n_keys
                   ? snprintf(text, sizeof text, "%d tokens", p->n_keys)
                   : snprintf(text, sizeof text, "%d query and %d key tokens", p->n_queries, p->n_keys);
    if (!p->exact) {
        double query = (double)p->n_queries / p->rows, key = (double)p->n_keys / p->columns;
        snprintf(text + used, sizeof text - (size_t)used, "; a cell is %.4g x %.4g of them, everything counted", query,
                 key);
    }
    c->text(c, l->left, 28, (text_style){17, TEXT_START, 0, 1}, title);
    c->text(c, l->left, 50, plain, text);
}

void plot_draw(canvas *c, const layout *l, const picture *p, const char *title, const plot_words *words)
{
    c->rect(c, 0, 0, l->width, l->height, page);
    draw_title(c, l, p, title);
    draw_data(c, l, p);
    draw_axes(c, l, p, words);
    draw_legend(c, l, p);
}
