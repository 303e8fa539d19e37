/* plot.h: an attention picture with its title, axes and legend. */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include "drawing.h"
#include "picture.h"

/* Positions and sizes. Made before the picture, since the space decides how many cells it may have. */
typedef struct layout {
    int width, height;            /* of everything */
    int left, top;                /* of the plot itself */
    hga_id max_rows, max_columns; /* cells that fit */
    double cell_width, cell_height, plot_width, plot_height;
} layout;

typedef struct plot_words {
    const char *const *query, *const *key; /* [n_queries], [n_keys]; NULL: tokens have no names */
} plot_words;

/* Kinds of tokens, of the graph that is drawn; n 0: there are none. */
typedef struct plot_kinds {
    hga_kinds of;
    hga_id query_first, key_first; /* nodes */
} plot_kinds;

/* `cell` is the least pixels a cell may have. */
layout layout_start(int width, int cell, hga_id n_queries, hga_id n_keys, const plot_words *words);
/* Fit the plot to the picture that was made, and the legend to so many kinds. */
void layout_finish(const picture *p, int n_kinds, layout *l);

/* What is drawn, and its file's notes: "plot", x y width height, and "tokens", how many query and key tokens. */
typedef struct plot {
    layout layout;
    const picture *picture;
    const char *title;
    plot_words words;
    plot_kinds kinds;
    char place[80], tokens[40];
} plot;

/* The rectangles of a picture alone, those of one look as one element of class levelN. */
void plot_data(FILE *svg, const layout *l, const picture *p);

/* A drawing that borrows the plot. */
drawing plot_drawing(plot *p);

#endif
