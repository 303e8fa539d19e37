/* line_chart.h: lines over one logarithmic axis of lengths and one of milliseconds. */
#ifndef CLI_LINE_CHART_H
#define CLI_LINE_CHART_H

#include "chart.h"

enum { MOST_LINES = 64, MOST_POINTS = 64, LINE_NAME = 128 };

typedef struct line_point {
    double x, ms, low, high; /* quartiles, 0 without */
    int disturbed;           /* hollow */
} line_point;

/* A line through its points, which line_add keeps by ascending x. */
typedef struct chart_line {
    char name[LINE_NAME];
    paint ink;
    double width;
    int dashed, n;
    line_point at[MOST_POINTS];
    double ring; /* where it overtakes dense: x of a ring around the line, 0 without */
} chart_line;

typedef struct line_chart {
    const char *title, *unit; /* what x counts */
    int shows_title, n;
    chart_line line[MOST_LINES];
    chart chart;
} line_chart;

/* A point whose x the line has already is left out. */
void line_add(chart_line *l, line_point p);
/* Once all lines are there: their axes, with a tick at each x; how many these are. */
int line_chart_fit(line_chart *c);
/* A drawing that borrows the chart: each line in its ink with a dot and a bar over its quartiles at each point, and its
   name where it ends. */
drawing line_chart_drawing(line_chart *c);

#endif
