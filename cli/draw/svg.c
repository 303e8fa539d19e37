/* svg.c: SVG that changes to dark colours where its reader prefers them. */
#include <stdio.h>
#include <string.h>

#include "complain.h"
#include "drawing.h"
#include "html.h"
#include "outfile.h"

/* at most two decimals, none where they are zero */
static void put_number(FILE *file, double value)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%.2f", value);
    while (text[length - 1] == '0') length--;
    if (text[length - 1] == '.') length--;
    fwrite(text, 1, (size_t)length, file);
}

static void number(FILE *file, const char *name, double value)
{
    fprintf(file, " %s=\"", name);
    put_number(file, value);
    fputc('"', file);
}

static void quoted(FILE *file, const char *name, const char *value)
{
    fprintf(file, " %s=\"", name);
    html_text(file, value);
    fputc('"', file);
}

void svg_group(FILE *file, int begin)
{
    fputs(begin ? "<g class=\"data\" shape-rendering=\"crispEdges\">\n" : "</g>\n", file);
}

/* Page and ink are classes, so that the style can change them; colours are attributes. */
static void put_look(FILE *file, const look *l)
{
    static const char *const fill[PAINT_INK + 1] = {"", "", "page", "ink"}, *const line[PAINT_INK + 1] = {
                                                                                "", "", "page-line", "ink-line"};
    const char *classes[] = {l->name ? l->name : "", fill[l->fill.kind], line[l->line.kind]};
    int n = 0;
    for (int i = 0; i < 3; i++)
        if (*classes[i]) fprintf(file, "%s%s", n++ ? " " : " class=\"", classes[i]);
    if (n) fputc('"', file);
    if (l->fill.kind == PAINT_COLOUR) fprintf(file, " fill=\"#%06x\"", (unsigned)l->fill.rgb);
    if (l->fill.kind == PAINT_NONE) fputs(" fill=\"none\"", file);
    if (l->fill.kind != PAINT_NONE && l->fill.opacity < 1) number(file, "fill-opacity", l->fill.opacity);
    if (l->line.kind == PAINT_NONE) return;
    if (l->line.kind == PAINT_COLOUR) fprintf(file, " stroke=\"#%06x\"", (unsigned)l->line.rgb);
    if (l->line.opacity < 1) number(file, "stroke-opacity", l->line.opacity);
    number(file, "stroke-width", l->width);
    if (l->dashed) fputs(" stroke-dasharray=\"4 3\"", file);
}

static void put_end(FILE *file, const look *l, const char *element)
{
    if (!l->tip) {
        fputs("/>\n", file);
        return;
    }
    fputs("><title>", file);
    html_text(file, l->tip);
    fprintf(file, "</title></%s>\n", element);
}

void svg_rect(FILE *file, double x, double y, double w, double h, const look *l)
{
    fputs("<rect", file);
    number(file, "x", x), number(file, "y", y), number(file, "width", w), number(file, "height", h);
    put_look(file, l);
    put_end(file, l, "rect");
}

void svg_circle(FILE *file, double x, double y, double radius, const look *l)
{
    fputs("<circle", file);
    number(file, "cx", x), number(file, "cy", y), number(file, "r", radius);
    put_look(file, l);
    put_end(file, l, "circle");
}

void svg_lines(FILE *file, const double (*at)[2], int n, const look *l)
{
    fputs("<polyline points=\"", file);
    for (int i = 0; i < n; i++) {
        if (i) fputc(' ', file);
        put_number(file, at[i][0]);
        fputc(',', file);
        put_number(file, at[i][1]);
    }
    fputc('"', file);
    put_look(file, l);
    put_end(file, l, "polyline");
}

void svg_begin_boxes(FILE *file, const look *l)
{
    fputs("<path", file);
    put_look(file, l);
    fputs(" d=\"", file);
}

void svg_box(FILE *file, double left, double top, double right, double bottom)
{
    const double at[] = {left, top, right, bottom, left};
    for (int i = 0; i < 5; i++) {
        fputc("M HVH"[i], file);
        put_number(file, at[i]);
    }
    fputc('z', file);
}

void svg_end_boxes(FILE *file) { fputs("\"/>\n", file); }

void svg_text(FILE *file, double x, double y, text_style s, const char *content)
{
    static const char *const anchors[TEXT_END + 1] = {"start", "middle", "end"};
    fputs("<text", file);
    number(file, "x", x), number(file, "y", y), number(file, "font-size", s.size);
    put_look(file, &(look){.fill = s.paint});
    if (s.anchor) fprintf(file, " text-anchor=\"%s\"", anchors[s.anchor]);
    if (s.upwards) fprintf(file, " transform=\"rotate(-90 %.2f %.2f)\"", x, y);
    fputs(">", file);
    html_text(file, content);
    fputs("</text>\n", file);
}

/* The opening tag, notes as data- attributes, and the title; a drawing in a page has a class instead of a size. */
static void put_open(FILE *file, const drawing *d, const char *name)
{
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"hga%s%s\" viewBox=\"0 0 %d %d\" role=\"img\"",
            name ? " " : "", name ? name : "", d->width, d->height);
    if (!name) fprintf(file, " width=\"%d\" height=\"%d\"", d->width, d->height);
    if (d->plot) quoted(file, "data-plot", d->plot);
    if (d->tokens) quoted(file, "data-tokens", d->tokens);
    fputs(">\n<title>", file);
    html_text(file, d->title);
    fputs("</title>\n", file);
}

static const char style[] =
    "<style>\n.hga{font-family:system-ui,sans-serif}\n"
    ".hga .page{fill:#fff}.hga .ink{fill:#1b1f27}.hga .page-line{stroke:#fff}.hga .ink-line{stroke:#1b1f27}\n"
    "@media (prefers-color-scheme:dark){.hga .page{fill:#14171d}.hga .ink{fill:#e6e9ef}.hga "
    ".page-line{stroke:#14171d}.hga .ink-line{stroke:#e6e9ef}}\n</style>\n";

/* name NULL: a document of its own, with its size, style and page */
void drawing_put(FILE *file, const drawing *d, const char *name)
{
    put_open(file, d, name);
    if (!name) {
        fputs(style, file);
        svg_rect(file, 0, 0, d->width, d->height, &(look){.fill = {PAINT_PAGE, 0, 1}});
    }
    d->draw(file, d->context);
    fputs("</svg>\n", file);
}

void svg_put(FILE *file, const void *d)
{
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", file);
    drawing_put(file, d, NULL);
}

static int put_whole(FILE *file, const void *d) { return svg_put(file, d), CLI_GOOD; }

int svg_write(const drawing *d, const char *path) { return outfile_write(path, put_whole, d); }
