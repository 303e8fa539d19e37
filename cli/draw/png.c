/* png.c: a drawing as pixels, which librsvg paints of its SVG (the only file that includes it). */
#include <librsvg/rsvg.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "drawing.h"
#include "html.h"
#include "outfile.h"

/* The drawing's text. librsvg ends the process if memory runs out, so what it needs is allocated here first, as a
   test. */
static int take_text(const drawing *d, char **text)
{
    enum { BYTES_PER_LETTER = 4 };
    char *buffer = NULL;
    MUST(html_keep(svg_put, d, text));
    int status = take(BYTES_PER_LETTER * (int64_t)strlen(*text), 1, &buffer);
    free(buffer);
    if (status) free(*text);
    return status;
}

/* Paints the drawing, however long one of its attributes is. */
static int paint_image(const drawing *d, const char *path, cairo_surface_t *image)
{
    const RsvgRectangle all = {0, 0, d->width, d->height};
    char *text = NULL;
    GError *error = NULL;
    MUST(take_text(d, &text));
    GInputStream *stream = g_memory_input_stream_new_from_data(text, -1, free);
    RsvgHandle *svg = rsvg_handle_new_from_stream_sync(stream, NULL, RSVG_HANDLE_FLAG_UNLIMITED, NULL, &error);
    cairo_t *cairo = cairo_create(image);
    int painted = svg && rsvg_handle_render_document(svg, cairo, &all, &error);
    int status = painted ? CLI_GOOD : complain(CLI_OUTSIDE, "%s: librsvg: %s", path, error->message);
    cairo_destroy(cairo);
    g_clear_object(&svg);
    g_object_unref(stream);
    g_clear_error(&error);
    return status;
}

static cairo_status_t put_bytes(void *file, const unsigned char *bytes, unsigned n)
{
    return fwrite(bytes, 1, n, file) == n ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

/* Writes the pixels to a file that appears only when it is complete. */
int png_write(const drawing *d, const char *path)
{
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, d->width, d->height);
    outfile out = {0};
    int status = CLI_GOOD;
    cairo_status_t st = cairo_surface_status(image); /* librsvg would report it in its own words, too */
    if (st) TRY(complain(CLI_OUTSIDE, "%s: cairo: %s", path, cairo_status_to_string(st)));
    TRY(paint_image(d, path, image));
    TRY(outfile_open(path, &out));
    st = cairo_surface_write_to_png_stream(image, put_bytes, out.file);
    TRY(outfile_flush(&out)); /* which reports why */
    if (st) TRY(complain(CLI_OUTSIDE, "%s: cairo: %s", path, cairo_status_to_string(st)));
    TRY(outfile_keep(&out));
done:
    outfile_drop(&out);
    cairo_surface_destroy(image);
    return status;
}
