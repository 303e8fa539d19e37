/* drawing.h: a canvas, a picture that can be drawn on any, and the files and pages it goes to. */
#ifndef CLI_DRAWING_H
#define CLI_DRAWING_H

#include <stdint.h>
#include <stdio.h>

/* ---- what is drawn on: a file of SVG, or pixels; lengths are pixels, y goes down ---- */

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

typedef struct canvas canvas;
struct canvas {
    /* Everything between begin and end of a group is the picture's data, not its frame: edges are sharp. */
    void (*group)(canvas *c, int begin);
    void (*rect)(canvas *c, double x, double y, double w, double h, const look *l);
    void (*circle)(canvas *c, double x, double y, double radius, const look *l);
    /* n points joined by straight lines */
    void (*lines)(canvas *c, const double (*at)[2], int n, const look *l);
    /* y is the baseline; upwards: x is. Any text: the canvas escapes what its format needs. */
    void (*text)(canvas *c, double x, double y, text_style s, const char *text);
};

/* ---- what is drawn ---- */

/* What a file says about itself beside its pixels: attribute data-KEY of an .svg, text chunk hga:KEY of a .png. */
typedef struct drawing_note {
    const char *key, *value;
} drawing_note;

enum { MAX_NOTES = 4 };

typedef struct drawing {
    int width, height;
    const char *title;
    drawing_note note[MAX_NOTES]; /* ended by a NULL key where there are fewer */
    void (*draw)(canvas *c, const void *context);
    const void *context;
} drawing;

/* Is the path's suffix one that a drawing can be written to, .svg or .png? Complains about `option` otherwise. */
int drawing_check_path(const char *option, const char *path);
/* To a file of either kind, by its suffix. */
int drawing_write(const drawing *d, const char *path);
/* The <svg> element alone, of the classes "hga NAME" and without a size, for a page whose style knows them. */
void drawing_put(FILE *file, const drawing *d, const char *name);

/* ---- for drawing_write ---- */

int svg_write(const drawing *d, const char *path);
int png_write(const drawing *d, const char *path);

#endif
