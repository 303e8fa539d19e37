/* series_chart.h: points and lines over two logarithmic axes, and their names beside the plot. */
#ifndef CLI_SERIES_CHART_H
#define CLI_SERIES_CHART_H

#include "chart.h"

enum { MOST_SERIES = 160, MOST_POINTS = 128, SERIES_NAME = 128 };

/* Which member of a row an axis shows. Of what is counted each value has a tick. */
typedef struct chart_shown {
    const char *key, *title, *unit;
    double scale;
    int counted;
} chart_shown;

typedef struct series_point {
    double x, y;      /* y 0: on a line of its own below the axis */
    double low, high; /* quartiles of y, 0 without */
    int disturbed;    /* hollow where there is a line */
} series_point;

/* Points, which series_put keeps by ascending x, and the line through them. */
typedef struct series {
    char name[SERIES_NAME]; /* beside the plot, if it has a line or a number; empty: a line without dots */
    paint ink;
    double width; /* of the line; 0: none */
    int dashed, stairs, n;
    int number; /* in its dot and before its name; 0: none */
    series_point at[MOST_POINTS];
    double ring; /* where it overtakes dense: x of a ring around the line, 0 without */
} series;

typedef struct series_chart {
    const char *title;
    chart_shown x, y;
    int shows_title, n;
    series of[MOST_SERIES];
    chart chart;
} series_chart;

/* A point whose x the series has already is left out. */
void series_put(series *s, series_point p);
/* Once all series are there: their axes, with the chart's left upper corner at a place; how many ticks x has. */
int series_chart_fit(series_chart *c, int left, int top);
/* Pixels of all of a chart; what was fitted at 0, 0 as a drawing, which borrows the chart. */
enum { SERIES_CHART_WIDTH = 798, SERIES_CHART_HEIGHT = 440 };
drawing series_chart_drawing(series_chart *c);
void series_chart_draw(FILE *svg, const void *chart);

#endif
