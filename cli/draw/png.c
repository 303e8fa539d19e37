/* png.c: a canvas of pixels, drawn by cairo, and libpng to write them with their notes (the only file that includes
   either). */
#include <cairo.h>
#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

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

/* libpng reports by a long jump unless told otherwise: nothing is allocated between here and there that must be given
   back. A row is cairo's, four bytes a pixel; libpng leaves out the one that has no use. */
static int put_image(outfile *out, cairo_surface_t *image, png_text *notes, int n_notes, png_structp png,
                     png_infop info)
{
    int width = cairo_image_surface_get_width(image), height = cairo_image_surface_get_height(image),
        stride = cairo_image_surface_get_stride(image);
    unsigned char *rows = cairo_image_surface_get_data(image);
    if (setjmp(png_jmpbuf(png))) {
        int status = outfile_flush(out); /* which says why */
        return status ? status : complain(CLI_OUTSIDE, "%s: the picture cannot be written", out->whole.path);
    }
    png_init_io(png, out->file);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_text(png, info, notes, n_notes);
    png_write_info(png, info);
    png_set_filler(png, 0, __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? PNG_FILLER_AFTER : PNG_FILLER_BEFORE);
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) png_set_bgr(png);
    for (int y = 0; y < height; y++) png_write_row(png, rows + (int64_t)y * stride);
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

/* Writes the pixels and the notes to a file that appears only when it is complete. */
static int write_image(const char *path, cairo_surface_t *image, png_text *notes, int n_notes)
{
    outfile out = {0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, stop, ignore);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    int status = CLI_GOOD;
    if (!info) TRY(complain(CLI_OUTSIDE, "%s: out of memory", path));
    TRY(outfile_open(path, &out));
    TRY(put_image(&out, image, notes, n_notes, png, info));
    TRY(outfile_keep(&out));
done:
    outfile_drop(&out);
    png_destroy_write_struct(&png, &info);
    return status;
}

/* "hga:KEY"; libpng's structs take no const text */
static int write_noted(const drawing *d, const char *path, cairo_surface_t *image)
{
    char key[MAX_NOTES][32], value[MAX_NOTES][128];
    png_text notes[MAX_NOTES] = {{0}};
    int n = 0;
    for (; n < MAX_NOTES && d->note[n].key; n++) {
        snprintf(key[n], sizeof key[n], "hga:%s", d->note[n].key);
        snprintf(value[n], sizeof value[n], "%s", d->note[n].value);
        notes[n] = (png_text){
            .compression = PNG_TEXT_COMPRESSION_NONE, .key = key[n], .text = value[n], .text_length = strlen(value[n])};
    }
    return write_image(path, image, notes, n);
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
    cairo_surface_flush(image);
    TRY(write_noted(d, path, image));
done:
    cairo_destroy(p.cairo);
    cairo_surface_destroy(image);
    return status;
}
