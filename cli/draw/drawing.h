/* drawing.h: a picture that can be drawn on any canvas, and the files and pages it goes to. */
#ifndef CLI_DRAWING_H
#define CLI_DRAWING_H

#include <stdio.h>

#include "canvas.h"

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
