/* drawing.h: shapes as SVG, pictures of them, and the files and pages these go to. */
#ifndef CLI_DRAWING_H
#define CLI_DRAWING_H

#include <stdint.h>
#include <stdio.h>

/* ---- shapes; lengths are pixels, y points down ---- */

/* The page and the ink change places in the dark; colours stay. */
typedef enum paint_kind { PAINT_NONE, PAINT_COLOUR, PAINT_PAGE, PAINT_INK } paint_kind;

typedef struct paint {
    paint_kind kind;
    uint32_t rgb; /* of a colour */
    double opacity;
} paint;

/* How a shape is filled and outlined. `name` is its class in SVG, `tip` what pointing at it tells; both may be NULL. */
typedef struct look {
    paint fill, line;
    double width; /* of the line */
    int dashed;
    const char *name, *tip;
} look;

typedef enum text_anchor { TEXT_START, TEXT_MIDDLE, TEXT_END } text_anchor;

typedef struct text_style {
    double size;
    text_anchor anchor;
    int upwards; /* read from bottom to top */
    paint paint;
} text_style;

/* Everything between begin and end of a group is the picture's data, not its frame: edges are sharp. */
void svg_group(FILE *svg, int begin);
void svg_rect(FILE *svg, double x, double y, double w, double h, const look *l);
void svg_circle(FILE *svg, double x, double y, double radius, const look *l);
/* n points joined by straight lines */
void svg_lines(FILE *svg, const double (*at)[2], int n, const look *l);
/* y is the baseline; upwards: x is. Any text: what needs it is escaped. */
void svg_text(FILE *svg, double x, double y, text_style s, const char *text);
/* Any number of rectangles of one look as one element: begin, each box, end. */
void svg_begin_boxes(FILE *svg, const look *l);
void svg_box(FILE *svg, double left, double top, double right, double bottom);
void svg_end_boxes(FILE *svg);

/* ---- pictures ---- */

typedef struct drawing {
    int width, height;
    const char *title, *plot, *tokens; /* what an .svg says about itself: data-plot, data-tokens; NULL: nothing */
    void (*draw)(FILE *svg, const void *context);
    const void *context;
} drawing;

/* Is the path's suffix one that a drawing can be written to, .svg or .png? Complains about `option` otherwise. */
int drawing_check_path(const char *option, const char *path);
/* To a file of either kind, by its suffix. */
int drawing_write(const drawing *d, const char *path);
/* The <svg> element alone, of classes "hga NAME" that a page's style knows; NULL: with a size and style of its own. */
void drawing_put(FILE *file, const drawing *d, const char *name);

/* The document of an .svg, of a drawing. */
void svg_put(FILE *file, const void *drawing);
int svg_write(const drawing *d, const char *path);
int png_write(const drawing *d, const char *path);

#endif
