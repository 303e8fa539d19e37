/* rowless_columns.c: finds blocks with columns of nodes that have no row of keys or values. Only rows that the stage
   does not compute may have such edges (program_check); but tiles read a block's columns together, whichever rows see
   them. Blocks whose rows are in no panel are skipped. */
#include "plan.h"

typedef struct rowless_search {
    const hga_plan *plan;
    const hga_id *order;
    hga_field_rows rows;
    int found;
} rowless_search;

/* For a range of rows, the first and the last of contiguous nodes suffice. */
static void look_for_rowless_columns(const hga_segments *s, void *context)
{
    rowless_search *x = context;
    const hga_nodes *nodes = &x->plan->nodes;
    for (hga_id i = 0; i < s->count && !x->found; i++) {
        hga_segment one = hga_segments_at(s, i);
        hga_id step = x->order || !program_is_range(x->rows) || one.n_src < 2 ? 1 : one.n_src - 1;
        for (hga_id c = 0; c < one.n_src && !x->found; c += step)
            x->found = !program_row(nodes, x->rows, x->order ? x->order[one.src + c] : one.src + c);
    }
}

/* Whether a block of the stage's panels has a column of a node without a row. */
static int has_rowless_columns(const hga_plan *plan, hga_id stage, hga_field_rows rows)
{
    const hga_stage *s = &plan->program.stage[stage];
    const hga_relation *r = &plan->stage[stage].relation;
    hga_id first = 0, n = plan->nodes.n;
    rowless_search x = {.plan = plan, .order = r->src_order, .rows = rows};
    if (program_rows_within(&plan->nodes, HGA_ROWS_NODES, rows)) return 0;
    if (program_is_range(rows) && program_row_range(&plan->nodes, rows, &first) == plan->nodes.n) return 0;
    first = 0;
    if (!r->dst_order) n = range_of_rows(plan, plan->program.field[s->out].rows, &first);
    hga_graph_visit_segments(plan->graph, s->relation, first, n, look_for_rowless_columns, &x);
    return x.found;
}

void rowless_columns_find(hga_plan *plan)
{
    for (hga_id i = 0; i < plan->program.n_stages; i++) {
        const hga_stage *s = &plan->program.stage[i];
        hga_field_rows key = plan->program.field[s->key].rows, value = plan->program.field[s->value].rows;
        if (!kind_attends(plan->stage[i].kind) || s->relation < 0 || !plan->stage[i].relation.n_blocks) continue;
        plan->stage[i].has_rowless_columns =
            has_rowless_columns(plan, i, key) || (value != key && has_rowless_columns(plan, i, value));
    }
}
