/* row_charts.h: charts of the rows of measurements, as tables and --json have them. */
#ifndef CLI_ROW_CHARTS_H
#define CLI_ROW_CHARTS_H

#include <jansson.h>
#include <stdio.h>

#include "series_chart.h"

extern const chart_shown chart_milliseconds;

/* Measurements of one setting, `unit` what lengths count; and where lines have rings: bench_overtakes, or NULL. */
typedef struct time_rows {
    const json_t *rows, *overtakes;
    const char *unit, *title;
} time_rows;

/* Time against length, both logarithmic: a line a variant through its medians, a bar over each point's quartiles, a
   ring where it overtakes dense attention. Nothing where there are fewer than two lengths. */
void chart_put_times(FILE *file, const time_rows *t);
/* The share of the machine's peak at each variant's longest length, as bars. */
void chart_put_shares(FILE *file, const json_t *rows);

/* Sets front_time and front_flops in each row, and front, which names them: its error is a number, and nothing is both
   as near to dense attention and as cheap, and better in one. */
void chart_mark_fronts(json_t *rows);
/* Error against time of rows that are marked: the front is joined, numbered and named. Errors of 0 are on a line of
   their own below. */
void chart_put_errors(FILE *file, const json_t *rows, const char *title);
/* The same and error against FLOP, side by side, as .svg or .png. */
int chart_write_errors(const json_t *rows, const char *title, const char *path);

#endif
