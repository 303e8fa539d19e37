/* call_lists.h: lists of the graph for calls that have slopes or biases of edges (call_lists.c). */
#ifndef HGA_PLAN_EDGE_TABLES_H
#define HGA_PLAN_EDGE_TABLES_H

#include "hga_plan.h"

/* Checks a call's tables. HGA_EINVAL: a table has other rows than the graph has types or edges, or numbers too large
   for dropout's draws. */
hga_status plan_check_call(const hga_plan *plan, const hga_io *io);
/* Checks plain tables, and makes the lists that the call needs; HGA_ENOMEM, or the error of hga_graph_positions. */
hga_status plan_make_call_lists(const hga_plan *plan, const hga_io *io);
/* Prefix sum of in-degrees, [nodes + 1], in the plan's memory: canonical positions of rows' first edges; *degree grows
   to the widest row's. */
hga_status first_edges_make(const hga_plan *plan, hga_id stage, hga_pos **first, hga_pos *degree);
/* Frees the lists of the plan's cache. */
void call_lists_clear(const hga_plan *plan);

#endif
