/* svg.h: a plot as .svg, which changes to dark colours where its reader prefers them. */
#ifndef CLI_SVG_H
#define CLI_SVG_H

#include <stdio.h>

#include "plot.h"

int svg_write(const char *path, const layout *l, const picture *p, const char *title, const plot_words *words);
/* The <svg> element alone, for a page that has others; to an open file. */
void svg_put(FILE *file, const layout *l, const picture *p, const char *title, const plot_words *words);

#endif
