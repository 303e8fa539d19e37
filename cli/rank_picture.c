/* rank_picture.c: the block map as rectangles. */
#include "rank_picture.h"

#include <math.h>
#include <stdio.h>

#include "chart.h"
#include "drawing.h"
#include "palette.h"

enum { SIDE = 720, LEFT = 84, TOP = 60, RIGHT = 24, BELOW = 104 };
static const double least_room = 9; /* pixels a digit needs */

typedef struct rank_drawing {
    const rank_map *map;
    const char *title;
} rank_drawing;

static double share_of(const rank_block *b) { return (double)b->rank / (b->rows < b->columns ? b->rows : b->columns); }

static int digits(hga_id n) { return n < 10 ? 1 : 1 + digits(n / 10); }

static void draw_rank(canvas *c, const rank_block *b, double x, double y, double width, double height)
{
    char text[16];
    double size = fmin(fmin(width / (digits(b->rank) + 1) * 1.6, height * 0.6), 28);
    uint32_t rgb = share_of(b) > 0.5 ? 0xffffff : 0x10233f;
    if (size < least_room) return;
    snprintf(text, sizeof text, "%d", b->rank);
    c->text(c, x + width / 2, y + height / 2 + size * 0.35, (text_style){size, TEXT_MIDDLE, 0, {PAINT_COLOUR, rgb, 1}},
            text);
}

static void draw_block(canvas *c, const rank_map *m, const rank_block *b)
{
    char tip[128];
    double unit = (double)SIDE / m->n, x = LEFT + b->column * unit, y = TOP + b->row * unit, width = b->columns * unit,
           height = b->rows * unit;
    snprintf(tip, sizeof tip, "queries %d to %d, keys %d to %d: rank %d", b->row, b->row + b->rows - 1, b->column,
             b->column + b->columns - 1, b->rank);
    const look block = {.fill = {PAINT_COLOUR, rank_colour(share_of(b)), 1},
                        .line = {PAINT_COLOUR, 0xffffff, 1},
                        .width = fmin(1.5, 0.1 * SIDE * m->block / m->n),
                        .name = "block",
                        .tip = tip};
    c->rect(c, x, y, width, height, &block);
    draw_rank(c, b, x, y, width, height);
}

static void draw_legend(canvas *c)
{
    double y = TOP + SIDE + 64;
    for (int i = 0; i <= 10; i++) {
        const look shade = {.fill = {PAINT_COLOUR, rank_colour(i / 10.0), 1}};
        c->rect(c, LEFT + 20 * i, y, 20, 14, &shade);
    }
    c->text(c, LEFT + 232, y + 12, chart_text(TEXT_START), "rank as a share of the block's side: 0 to 1");
}

static chart_axis axis_of(const char *title, hga_id n)
{
    char text[16];
    chart_axis a = {.title = title, .length = SIDE};
    int64_t step = chart_step(n, 12);
    for (int64_t i = 0; i < n; i += step) {
        snprintf(text, sizeof text, "%d", (hga_id)i);
        chart_add_tick(&a, (double)i * SIDE / n, text);
    }
    return a;
}

static void draw(canvas *c, const void *context)
{
    const rank_drawing *d = context;
    const rank_map *m = d->map;
    chart frame = {.canvas = c, .left = LEFT, .top = TOP, .width = SIDE, .height = SIDE, .downwards = 1};
    frame.x = axis_of("key", m->n), frame.y = axis_of("query", m->n);
    c->text(c, LEFT, 36, (text_style){15, TEXT_START, 0, chart_ink(1)}, d->title);
    for (int64_t i = 0; i < m->n_blocks; i++) draw_block(c, m, &m->blocks[i]);
    chart_frame(&frame);
    draw_legend(c);
}

int rank_picture_write(const rank_map *m, const char *title, const char *path)
{
    rank_drawing d = {m, title};
    return drawing_write(&(drawing){LEFT + SIDE + RIGHT, TOP + SIDE + BELOW, title, {{0}}, draw, &d}, path);
}
