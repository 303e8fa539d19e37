/* ranks_plot.h: what a run on several machines would take, as .svg or .png. */
#ifndef CLI_RANKS_PLOT_H
#define CLI_RANKS_PLOT_H

#include <jansson.h>

/* Milliseconds of the busiest rank against the number of ranks, both logarithmic: computing the hierarchy, its
   exchange, and the exchanges beside it. `rows` are explain_ranks' table; `title` says of what. */
int ranks_plot_write(const json_t *rows, const char *title, const char *path);

#endif
