/* canvas.h: what every picture is drawn on: a file of SVG, or pixels. Lengths are pixels, y goes down. */
#ifndef CLI_CANVAS_H
#define CLI_CANVAS_H

#include <stdint.h>

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

#endif
