/* rows.c: the rows and types that a program reads. */
#include "rows.h"

const hga_field *bound_field(const hga_program *p, hga_binding binding)
{
    hga_id f = hga_program_field(p, binding);
    return f ? &p->field[f] : NULL;
}

/* Programs of plans have no rows of one side, which is all that hga_program_rows refuses. */
hga_id bound_rows(const hga_graph *g, const hga_program *p, hga_binding binding, hga_field_rows otherwise)
{
    hga_nodes nodes = hga_graph_nodes(g);
    hga_id f = hga_program_field(p, binding), first, n = 0;
    if (!f) return otherwise == HGA_ROWS_KEYS ? nodes.n_keys : nodes.n_queries;
    return hga_program_rows(p, g, f, &first, &n) == HGA_OK ? n : 0;
}

int32_t types_read(const hga_graph *g, const hga_program *p, hga_message message)
{
    int32_t most = 0;
    for (hga_id i = 0; i < p->n_stages; i++) {
        hga_id relation = p->stage[i].relation;
        if (p->stage[i].message != message) continue;
        int32_t types = relation >= 0 ? hga_graph_relation(g, relation).n_types : 1;
        if (most < 1 || types > most) most = types > 1 ? types : 1;
    }
    return most;
}

const hga_stage *score_stage(const hga_program *p)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == HGA_SCORE) return &p->stage[i];
    return NULL;
}
