/* chart.h: what every plot is made of: inks, scales, axes with ticks, a frame. */
#ifndef CLI_CHART_H
#define CLI_CHART_H

#include "drawing.h"

enum { MAX_TICKS = 32 };

/* ---- inks ---- */

extern const look chart_page, chart_frame_line, chart_grid_line;
paint chart_ink(double opacity);
/* A colour, or ink for 0, as the palette has it. */
paint chart_paint(uint32_t rgb, double opacity);
/* Text of the plot's frame. */
text_style chart_text(text_anchor anchor);

/* ---- axes ---- */

typedef struct chart_tick {
    double at; /* pixels along the axis */
    char label[16];
} chart_tick;

/* Values between `low` and `high` on `length` pixels; of a logarithmic axis these two are natural logarithms. */
typedef struct chart_axis {
    const char *title;
    double low, high, length;
    int grid; /* ticks are lines through the plot */
    int n_ticks;
    chart_tick tick[MAX_TICKS];
} chart_axis;

/* A logarithmic axis without ticks. */
chart_axis chart_logs(const char *title, double least, double most, double length);
/* Pixels along a logarithmic axis. */
double chart_along(const chart_axis *a, double value);
void chart_add_tick(chart_axis *a, double at, const char *label);
/* A tick at each power of ten within the axis; where that makes fewer than three, at 2 and 5 times one, too. */
void chart_add_powers(chart_axis *a);

/* ---- the plot ---- */

/* The axes cross at the lower left corner; `downwards`: at the upper left, y grows down. */
typedef struct chart {
    FILE *svg;
    double left, top, width, height;
    chart_axis x, y;
    int downwards;
    double foot; /* pixels below the y axis' least value */
} chart;

double chart_x(const chart *c, double value);
double chart_y(const chart *c, double value);
/* Frame, ticks and titles. */
void chart_frame(const chart *c);

#endif
