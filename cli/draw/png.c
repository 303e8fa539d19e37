/* png.c: a canvas of pixels, drawn and written by cairo (the only file that includes it). */
#include <cairo.h>
#include <math.h>
#include <stdlib.h>

#include "complain.h"
#include "drawing.h"
#include "html.h"
#include "outfile.h"

static const uint32_t page_colour = 0xffffff, ink_colour = 0x1b1f27;

typedef struct pixels {
    canvas canvas;
    cairo_t *cairo;
    int sharp; /* inside a group of data */
} pixels;

/* ---- drawing ---- */

static void use(cairo_t *c, paint p)
{
    uint32_t rgb = p.kind == PAINT_COLOUR ? p.rgb : p.kind == PAINT_PAGE ? page_colour : ink_colour;
    cairo_set_source_rgba(c, (rgb >> 16 & 255) / 255.0, (rgb >> 8 & 255) / 255.0, (rgb & 255) / 255.0, p.opacity);
}

/* fill and outline the path that was made */
static void show(cairo_t *c, const look *l)
{
    static const double dashes[] = {4, 3};
    if (l->fill.kind != PAINT_NONE) use(c, l->fill), cairo_fill_preserve(c);
    if (l->line.kind != PAINT_NONE) {
        cairo_set_line_width(c, l->width);
        cairo_set_dash(c, dashes, l->dashed ? 2 : 0, 0);
        use(c, l->line), cairo_stroke_preserve(c);
    }
    cairo_new_path(c);
}

static void group(canvas *base, int begin)
{
    pixels *p = (pixels *)base;
    p->sharp = begin;
    cairo_set_antialias(p->cairo, begin ? CAIRO_ANTIALIAS_NONE : CAIRO_ANTIALIAS_GRAY);
}

/* Data goes to whole pixels; a line around it is left out at the right and below, so that neighbours share one. */
static void rect_of_data(cairo_t *c, double x, double y, double w, double h, const look *l)
{
    int edged = l->line.kind != PAINT_NONE;
    double left = round(x), top = round(y), wide = round(x + w) - left - edged, high = round(y + h) - top - edged;
    if (wide <= 0 || high <= 0) return;
    cairo_rectangle(c, left, top, wide, high);
    show(c, &(look){.fill = l->fill});
}

static void rect(canvas *base, double x, double y, double w, double h, const look *l)
{
    pixels *p = (pixels *)base;
    if (p->sharp) {
        rect_of_data(p->cairo, x, y, w, h, l);
        return;
    }
    cairo_rectangle(p->cairo, x, y, w, h);
    show(p->cairo, l);
}

static void circle(canvas *base, double x, double y, double radius, const look *l)
{
    cairo_t *c = ((pixels *)base)->cairo;
    cairo_new_sub_path(c);
    cairo_arc(c, x, y, radius, 0, 6.283185307179586);
    show(c, l);
}

static void lines(canvas *base, const double (*at)[2], int n, const look *l)
{
    cairo_t *c = ((pixels *)base)->cairo;
    for (int i = 0; i < n; i++) cairo_line_to(c, at[i][0], at[i][1]);
    show(c, l);
}

static void text(canvas *base, double x, double y, text_style s, const char *content)
{
    static const double back[] = {0, 0.5, 1};
    cairo_t *c = ((pixels *)base)->cairo;
    cairo_text_extents_t size;
    char *clean = html_clean(content);
    if (!clean) return; /* the context is out of memory, too, and says so in the end */
    cairo_save(c);
    cairo_set_font_size(c, s.size);
    cairo_text_extents(c, clean, &size);
    cairo_move_to(c, x, y);
    if (s.upwards) cairo_rotate(c, -1.5707963267948966);
    cairo_rel_move_to(c, -back[s.anchor] * size.x_advance, 0);
    use(c, s.paint);
    cairo_show_text(c, clean);
    cairo_restore(c);
    cairo_new_path(c);
    free(clean);
}

/* ---- the file ---- */

/* A .png on its way: the notes go behind its first chunk, the sizes. */
typedef struct noted {
    FILE *file;
    const drawing *of;
    unsigned at; /* bytes of the head that are written */
} noted;

enum { HEAD = 8 + 12 + 13 };

static uint32_t crc_of(const char *bytes, int n)
{
    uint32_t crc = ~0u;
    for (int i = 0; i < n; i++) {
        crc ^= (unsigned char)bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void put_word(FILE *file, uint32_t word)
{
    for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(word >> shift & 255), file);
}

/* A chunk of text, "hga:KEY". */
static void put_note(FILE *file, const drawing_note *note)
{
    char chunk[200];
    int n = snprintf(chunk, sizeof chunk, "tEXthga:%.31s%c%.127s", note->key, 0, note->value);
    put_word(file, (uint32_t)n - 4);
    fwrite(chunk, 1, (size_t)n, file);
    put_word(file, crc_of(chunk, n));
}

static cairo_status_t put_bytes(void *context, const unsigned char *bytes, unsigned n)
{
    noted *o = context;
    unsigned head = n < HEAD - o->at ? n : HEAD - o->at;
    fwrite(bytes, 1, head, o->file);
    o->at += head;
    for (int i = 0; head && o->at == HEAD && i < MAX_NOTES && o->of->note[i].key; i++)
        put_note(o->file, &o->of->note[i]);
    fwrite(bytes + head, 1, n - head, o->file);
    return ferror(o->file) ? CAIRO_STATUS_WRITE_ERROR : CAIRO_STATUS_SUCCESS;
}

/* Writes the pixels and the notes to a file that appears only when it is complete. */
static int write_image(const drawing *d, const char *path, cairo_surface_t *image)
{
    outfile out = {0};
    int status = CLI_GOOD;
    TRY(outfile_open(path, &out));
    cairo_status_t st = cairo_surface_write_to_png_stream(image, put_bytes, &(noted){out.file, d, 0});
    TRY(outfile_flush(&out)); /* which says why */
    if (st) TRY(complain(CLI_OUTSIDE, "%s: cairo: %s", path, cairo_status_to_string(st)));
    TRY(outfile_keep(&out));
done:
    outfile_drop(&out);
    return status;
}

int png_write(const drawing *d, const char *path)
{
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, d->width, d->height);
    pixels p = {{group, rect, circle, lines, text}, cairo_create(image), 0};
    int status = CLI_GOOD;
    cairo_select_font_face(p.cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    rect(&p.canvas, 0, 0, d->width, d->height, &(look){.fill = {PAINT_PAGE, 0, 1}});
    d->draw(&p.canvas, d->context);
    if (cairo_status(p.cairo))
        TRY(complain(CLI_OUTSIDE, "%s: cairo: %s", path, cairo_status_to_string(cairo_status(p.cairo))));
    TRY(write_image(d, path, image));
done:
    cairo_destroy(p.cairo);
    cairo_surface_destroy(image);
    return status;
}
