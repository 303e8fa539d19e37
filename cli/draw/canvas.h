/* canvas.h: what a plot is drawn on. Lengths are pixels, y goes down. */
#ifndef CLI_CANVAS_H
#define CLI_CANVAS_H

#include <stdint.h>

/* The page and the ink change places in the dark; colours stay. */
typedef enum paint_kind { PAINT_COLOUR, PAINT_PAGE, PAINT_INK } paint_kind;

typedef struct paint {
    paint_kind kind;
    uint32_t rgb; /* of a colour */
    double opacity;
    int edged; /* a thin line of page around it */
} paint;

typedef enum text_anchor { TEXT_START, TEXT_MIDDLE, TEXT_END } text_anchor;

typedef struct text_style {
    double size;
    text_anchor anchor;
    int upwards; /* read from bottom to top */
    double opacity;
} text_style;

typedef struct canvas canvas;
struct canvas {
    /* Everything between begin and end of a group is the picture's data, not its frame. */
    void (*group)(canvas *c, int begin);
    void (*rect)(canvas *c, double x, double y, double w, double h, paint p);
    /* y is the baseline; upwards: x is. */
    void (*text)(canvas *c, double x, double y, text_style s, const char *text);
};

#endif
