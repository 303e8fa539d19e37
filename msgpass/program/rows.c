/* rows.c: rows of the caller's tensors. */
#include "program.h"

hga_id hga_program_field(const hga_program *p, hga_binding binding) { return program_bound(p, binding); }

hga_id program_row_range(const hga_nodes *n, hga_field_rows rows, hga_id *first)
{
    switch (rows) {
    case HGA_ROWS_QUERIES: *first = n->query_first; return n->n_queries;
    case HGA_ROWS_KEYS: *first = n->key_first; return n->n_keys;
    case HGA_ROWS_ABOVE: *first = n->level_ptr[1]; return n->n - n->level_ptr[1];
    default: *first = 0; return n->n;
    }
}

hga_status hga_program_rows(const hga_program *p, const hga_graph *g, hga_id field, hga_id *first, hga_id *n)
{
    if (!p || !g || !first || !n) return hga_fail(HGA_EINVAL, "rows: no %s", !p ? "program" : !g ? "graph" : "result");
    *first = *n = 0;
    if (field < 0 || field > p->n_fields) return hga_fail(HGA_EINVAL, "rows: field %d of %d", field, p->n_fields);
    if (field == 0 || p->field[field].binding == HGA_INTERNAL) return HGA_OK;
    hga_nodes nodes = hga_graph_nodes(g);
    hga_field_rows io = p->field[field].io;
    if (nodes.side && (io == HGA_ROWS_QUERY_SIDE || io == HGA_ROWS_KEY_SIDE))
        return hga_fail(HGA_EPROGRAM, "rows: field '%s' has the nodes of one side, which are no range of nodes",
                        p->field[field].name);
    *n = program_row_range(&nodes, io, first);
    return HGA_OK;
}
