/* view_weights.h: what every edge of a graph weighs, for the page. */
#ifndef CLI_VIEW_WEIGHTS_H
#define CLI_VIEW_WEIGHTS_H

#include "row_weights.h"
#include "view_data.h"

/* head -1: all of them. More weights than a page holds are refused, by number. Release with view_weights_clear. */
int view_weigh(const weighing *by, const graph_file *f, const char *path, hga_id head, int quiet, view_weights *out);
void view_weights_clear(view_weights *w);

#endif
