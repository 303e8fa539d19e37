/* bench_chart.h: the plots of a benchmark's page. */
#ifndef CLI_BENCH_CHART_H
#define CLI_BENCH_CHART_H

#include <jansson.h>
#include <stdio.h>

/* Time against length, both logarithmic: a line a variant through its medians, a bar over each point's quartiles.
   `rows` are measurements of one setting; nothing where there are fewer than two lengths. */
void bench_chart_time(FILE *file, const json_t *rows);
/* The share of the machine's peak at each variant's longest length, as bars. */
void bench_chart_share(FILE *file, const json_t *rows);

#endif
