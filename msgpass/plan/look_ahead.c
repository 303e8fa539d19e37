/* look_ahead.c: maps rows of a graph to a longer one, whose levels begin elsewhere. */
#include "look_ahead.h"
#include "stage_plan.h"

_Static_assert((int)PANEL_ROWS <= (int)LONGER_PANEL, "rows that are read from a longer graph have been compared");

rows_ahead look_ahead(const hga_graph *longer, const hga_nodes *nodes, hga_id first, hga_id n)
{
    hga_id l = level_of_node(nodes, first), begin = nodes->level_ptr[l], end = nodes->level_ptr[l + 1];
    if (!longer || !n || first + n != end || (end - begin) % LONGER_ROWS == 0) return (rows_ahead){0, 0};
    const hga_id *level = hga_graph_nodes(longer).level_ptr;
    rows_ahead next = {level[l] + first - begin, n + LONGER_ROWS - (end - begin) % LONGER_ROWS};
    if (next.first + next.n > level[l + 1]) next.n = 0; /* rows without edges */
    return next;
}

hga_id node_here(const hga_graph *longer, const hga_nodes *nodes, hga_id v)
{
    const hga_nodes all = hga_graph_nodes(longer);
    hga_id l = level_of_node(&all, v), inside = v - all.level_ptr[l];
    if (l >= nodes->n_levels) return 0;
    hga_id size = nodes->level_ptr[l + 1] - nodes->level_ptr[l];
    return inside < size ? nodes->level_ptr[l] + inside : 0;
}
