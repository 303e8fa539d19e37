/* rows.c: rows by kind. */
#include "rows.h"

static hga_id count_sides(const hga_nodes *n, int other)
{
    hga_id count = 0;
    for (hga_id i = 0; i < n->n; i++) count += !n->side || n->side[i] != other;
    return count;
}

static hga_id count_rows(const hga_nodes *n, hga_rows rows)
{
    switch (rows) {
    case HGA_ROWS_QUERIES: return n->n_queries;
    case HGA_ROWS_KEYS: return n->n_keys;
    case HGA_ROWS_NODES: return n->n;
    case HGA_ROWS_QUERY_SIDE: return count_sides(n, HGA_SIDE_KEY);
    case HGA_ROWS_KEY_SIDE: return count_sides(n, HGA_SIDE_QUERY);
    case HGA_ROWS_ABOVE: return n->n - n->level_ptr[1];
    }
    return 0;
}

const hga_field *bound_field(const hga_program *p, hga_binding binding)
{
    for (hga_id i = 1; i <= p->n_fields; i++)
        if (p->field[i].binding == binding) return &p->field[i];
    return NULL;
}

hga_id bound_rows(const hga_graph *g, const hga_program *p, hga_binding binding, hga_rows otherwise)
{
    hga_nodes n = hga_graph_nodes(g);
    const hga_field *f = bound_field(p, binding);
    return count_rows(&n, f ? f->io : otherwise);
}
