/* png.c: a canvas of pixels, and libpng to write them (the only file that includes it). */
#include "png_file.h"

#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "outfile.h"
#include "strokes.h"

static const uint32_t page_colour = 0xffffff, ink_colour = 0x1b1f27;

typedef struct pixels {
    canvas canvas;
    int width, height;
    unsigned char *rgb;
} pixels;

/* ---- drawing ---- */

static void blend(pixels *c, int x, int y, uint32_t rgb, double opacity)
{
    if (x < 0 || y < 0 || x >= c->width || y >= c->height) return;
    unsigned char *at = c->rgb + 3 * ((int64_t)y * c->width + x);
    for (int i = 0; i < 3; i++) {
        double over = rgb >> (16 - 8 * i) & 255;
        at[i] = (unsigned char)(at[i] + (over - at[i]) * opacity + 0.5);
    }
}

static void group(canvas *c, int begin)
{
    (void)c;
    (void)begin;
}

/* to whole pixels; an edge of page is left out at the right and below */
static void rect(canvas *base, double x, double y, double w, double h, paint p)
{
    pixels *c = (pixels *)base;
    uint32_t rgb = p.kind == PAINT_COLOUR ? p.rgb : p.kind == PAINT_PAGE ? page_colour : ink_colour;
    int right = (int)lround(x + w) - p.edged, bottom = (int)lround(y + h) - p.edged;
    for (int j = (int)lround(y); j < bottom; j++)
        for (int i = (int)lround(x); i < right; i++) blend(c, i, j, rgb, p.opacity);
}

static double distance(double x, double y, double ax, double ay, double bx, double by)
{
    double dx = bx - ax, dy = by - ay, length = dx * dx + dy * dy,
           t = length > 0 ? ((x - ax) * dx + (y - ay) * dy) / length : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return hypot(x - ax - t * dx, y - ay - t * dy);
}

/* how a letter's units become pixels */
typedef struct lettering {
    double x, y, across, down, pen; /* of the baseline's left end; pixels a unit; half the width of a line */
    int upwards;
    double opacity;
} lettering;

static void to_pixels(const lettering *s, double ux, double uy, double *x, double *y)
{
    double along = ux * s->across, below = (uy - 6) * s->down;
    *x = s->upwards ? s->x + below : s->x + along;
    *y = s->upwards ? s->y - along : s->y + below;
}

/* a letter's pixels get the nearest of its lines, so that lines that meet do not darken each other */
static void draw_letter(pixels *c, const lettering *s, const char *lines)
{
    double x0, y0, x1, y1;
    to_pixels(s, -1, s->upwards ? 9 : -1, &x1, &y1), to_pixels(s, 5, s->upwards ? -1 : 9, &x0, &y0);
    int left = (int)floor(fmin(x0, x1)), right = (int)ceil(fmax(x0, x1)), top = (int)floor(fmin(y0, y1)),
        bottom = (int)ceil(fmax(y0, y1));
    for (int y = top; y <= bottom; y++)
        for (int x = left; x <= right; x++) {
            double nearest = 1e9;
            for (const char *l = lines; l[0] && l[2]; l += l[2] == ' ' ? 3 : 2) {
                if (l[2] == ' ') continue;
                to_pixels(s, l[0] - '0', l[1] - '0', &x0, &y0), to_pixels(s, l[2] - '0', l[3] - '0', &x1, &y1);
                nearest = fmin(nearest, distance(x + 0.5, y + 0.5, x0, y0, x1, y1));
            }
            double cover = s->pen + 0.5 - nearest;
            if (cover > 0) blend(c, x, y, ink_colour, s->opacity * (cover < 1 ? cover : 1));
        }
}

static void text(canvas *base, double x, double y, text_style style, const char *content)
{
    lettering s = {x, y, style.size * 0.098, style.size * 0.118, style.size * 0.048, style.upwards, style.opacity};
    double advance = LETTER_ADVANCE * s.across, length = -1.4 * s.across;
    for (const char *at = content; *at; length += advance) next_character(&at);
    double back = style.anchor == TEXT_MIDDLE ? length / 2 : style.anchor == TEXT_END ? length : 0;
    if (s.upwards)
        s.y += back;
    else
        s.x -= back;
    while (*content) {
        draw_letter((pixels *)base, &s, letter_lines(next_character(&content)));
        if (s.upwards)
            s.y -= advance;
        else
            s.x += advance;
    }
}

/* ---- the file ---- */

/* libpng reports by a long jump unless told otherwise: nothing is allocated between here and there that must be given
   back */
static int put_image(FILE *file, const pixels *c, png_text *notes, int n_notes, png_structp png, png_infop info)
{
    if (setjmp(png_jmpbuf(png))) return complain(CLI_OUTSIDE, "the picture cannot be written");
    png_init_io(png, file);
    png_set_IHDR(png, info, (png_uint_32)c->width, (png_uint_32)c->height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_text(png, info, notes, n_notes);
    png_write_info(png, info);
    for (int y = 0; y < c->height; y++) png_write_row(png, c->rgb + 3 * (int64_t)y * c->width);
    png_write_end(png, info);
    return CLI_GOOD;
}

static void ignore(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void stop(png_structp png, png_const_charp message)
{
    (void)message;
    png_longjmp(png, 1);
}

static int write_image(const char *path, const pixels *c, png_text *notes, int n_notes)
{
    outfile out = {0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, stop, ignore);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    int status = CLI_GOOD;
    if (!info) TRY(complain(CLI_OUTSIDE, "%s: out of memory", path));
    TRY(outfile_open(path, &out));
    TRY(put_image(out.file, c, notes, n_notes, png, info));
    TRY(outfile_keep(&out));
done:
    outfile_drop(&out);
    png_destroy_write_struct(&png, &info);
    return status;
}

static png_text note(char *key, char *value)
{
    return (png_text){
        .compression = PNG_TEXT_COMPRESSION_NONE, .key = key, .text = value, .text_length = strlen(value)};
}

int png_write_plot(const char *path, const layout *l, const picture *p, const char *title, const plot_words *words)
{
    char plot_key[] = "hga:plot", tokens_key[] = "hga:tokens", place[80], tokens[40];
    pixels c = {{group, rect, text}, l->width, l->height, NULL};
    int status = CLI_GOOD;
    snprintf(place, sizeof place, "%d %d %.0f %.0f", l->left, l->top, l->plot_width, l->plot_height);
    snprintf(tokens, sizeof tokens, "%d %d", p->n_queries, p->n_keys);
    TRY(take((int64_t)l->width * l->height, 3, &c.rgb));
    plot_draw(&c.canvas, l, p, title, words);
    png_text notes[] = {note(plot_key, place), note(tokens_key, tokens)};
    TRY(write_image(path, &c, notes, 2));
done:
    free(c.rgb);
    return status;
}
