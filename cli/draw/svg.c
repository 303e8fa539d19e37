/* svg.c: a canvas that writes SVG. */
#include "svg.h"

#include "html.h"
#include "outfile.h"

typedef struct svg {
    canvas canvas;
    FILE *file;
} svg;

/* at most two decimals, none where they are zero */
static void number(FILE *file, const char *name, double value)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%.2f", value);
    while (text[length - 1] == '0') length--;
    if (text[length - 1] == '.') length--;
    fprintf(file, " %s=\"%.*s\"", name, length, text);
}

static void group(canvas *c, int begin)
{
    FILE *file = ((svg *)c)->file;
    fputs(begin ? "<g class=\"data\" shape-rendering=\"crispEdges\">\n" : "</g>\n", file);
}

static void rect(canvas *c, double x, double y, double w, double h, paint p)
{
    FILE *file = ((svg *)c)->file;
    fputs("<rect", file);
    number(file, "x", x), number(file, "y", y), number(file, "width", w), number(file, "height", h);
    if (p.kind == PAINT_COLOUR)
        fprintf(file, " fill=\"#%06x\"", (unsigned)p.rgb);
    else
        fprintf(file, " class=\"%s\"", p.kind == PAINT_PAGE ? "page" : "ink");
    if (p.opacity < 1) number(file, "fill-opacity", p.opacity);
    if (p.edged) fputs(" stroke-width=\"1\" class=\"edged\"", file);
    fputs("/>\n", file);
}

static void text(canvas *c, double x, double y, text_style s, const char *content)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    FILE *file = ((svg *)c)->file;
    fputs("<text class=\"ink\"", file);
    number(file, "x", x), number(file, "y", y), number(file, "font-size", s.size), number(file, "opacity", s.opacity);
    if (s.anchor) fprintf(file, " text-anchor=\"%s\"", anchors[s.anchor]);
    if (s.upwards) fprintf(file, " transform=\"rotate(-90 %.2f %.2f)\"", x, y);
    fputs(">", file);
    html_text(file, content);
    fputs("</text>\n", file);
}

void svg_put(FILE *file, const layout *l, const picture *p, const char *title, const plot_words *words)
{
    svg s = {{group, rect, text}, file};
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"hga\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "role=\"img\"",
            l->width, l->height, l->width, l->height);
    fprintf(file, " data-plot=\"%d %d %.0f %.0f\" data-tokens=\"%d %d\">\n<title>", l->left, l->top, l->plot_width,
            l->plot_height, p->n_queries, p->n_keys);
    html_text(file, title);
    fputs("</title>\n<style>\n.hga{font-family:system-ui,sans-serif}\n.hga .page{fill:#fff}.hga .ink{fill:#1b1f27}.hga "
          ".edged{stroke:#fff}\n"
          "@media (prefers-color-scheme:dark){.hga .page{fill:#14171d}.hga .ink{fill:#e6e9ef}.hga "
          ".edged{stroke:#14171d}}\n</style>\n",
          file);
    plot_draw(&s.canvas, l, p, title, words);
    fputs("</svg>\n", file);
}

int svg_write(const char *path, const layout *l, const picture *p, const char *title, const plot_words *words)
{
    outfile out = {0};
    int status = CLI_GOOD;
    TRY(outfile_open(path, &out));
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", out.file);
    svg_put(out.file, l, p, title, words);
    TRY(outfile_keep(&out));
done:
    outfile_drop(&out);
    return status;
}
