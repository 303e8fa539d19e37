/* bench_chart.h: the plots of a benchmark's page. */
#ifndef CLI_BENCH_CHART_H
#define CLI_BENCH_CHART_H

#include <jansson.h>
#include <stdio.h>

/* Measurements of one setting, `unit` what lengths count; and where lines have rings: bench_overtakes, or NULL. */
typedef struct time_rows {
    const json_t *rows, *overtakes;
    const char *unit, *title;
} time_rows;

/* Time against length, both logarithmic: a line a variant through its medians, a bar over each point's quartiles, a
   ring where it overtakes dense attention. Nothing where there are fewer than two lengths. */
void bench_chart_time(FILE *file, const time_rows *t);
/* The share of the machine's peak at each variant's longest length, as bars. */
void bench_chart_share(FILE *file, const json_t *rows);

#endif
