/* growth_chart.h: time against length, drawn. */
#ifndef CLI_GROWTH_CHART_H
#define CLI_GROWTH_CHART_H

#include <stdio.h>

#include "growth.h"

/* The contenders without or with the causal mask, as an <svg> inside a page. */
void growth_chart_put(FILE *file, const growth *g, int causal);

#endif
