/* choose_plot.h: error against cost, as .svg or .png. */
#ifndef CLI_CHOOSE_PLOT_H
#define CLI_CHOOSE_PLOT_H

#include <stdio.h>

#include "complain.h"

enum { COST_TIME, COST_FLOPS, N_COSTS };

typedef struct plot_point {
    const char *variant, *parameters;
    double error, cost[N_COSTS]; /* costs are above 0; an error that is no number is not drawn */
    int front[N_COSTS];
} plot_point;

/* Which points are in front: their error is a number, and nothing is both as near and as cheap, and better in one. */
void choose_plot_mark(plot_point *point, int n, int cost);

/* Sorts the points; two panels, log by log, fronts joined and labelled, errors of 0 on a line of their own below. */
int choose_plot_write(plot_point *point, int n, const char *title, const char *path);
/* The panel of time alone as an <svg> inside a page, of class "hga NAME"; the front is found here. */
void choose_plot_put(FILE *file, plot_point *point, int n, const char *title, const char *name);

#endif
