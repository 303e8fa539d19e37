/* fast_orders.c: where a relation has orders of its own, rows of the fields that its stage reads are stored in them,
   not in the order of nodes: then columns that sixteen rows share are contiguous. */
#include "fast_pass.h"

/* The order in which an attending stage takes the field, as indices of nodes; NULL: the order of nodes. */
static const hga_id *order_of(const fast_pass *p, hga_id s, hga_id f)
{
    const hga_stage *stage = &p->program->stage[s];
    int by_row = stage->query == f || stage->out == f, by_column = stage->key == f || stage->value == f;
    if (!kind_attends(p->plan->stage[s].kind) || by_row == by_column) return NULL;
    return by_row ? p->plan->stage[s].relation.dst_rank : p->call->row_ranges[s].rank;
}

/* The order in which all stages that read or write the field take it; NULL: there is none, it is stored in the order
   of nodes. */
static const hga_id *common_order(const fast_pass *p, hga_id f)
{
    const hga_id *order = NULL;
    int n = 0;
    for (hga_id s = 0; s < p->program->n_stages; s++) {
        const hga_stage *stage = &p->program->stage[s];
        if (!((stage->reads | stage->writes) >> f & 1u)) continue;
        const hga_id *its = order_of(p, s, f);
        if (n++ > 0 && its != order) return NULL;
        order = its;
    }
    return order;
}

void plan_orders(fast_pass *p)
{
    for (hga_id f = 1; f <= p->program->n_fields; f++) p->field[f].index = common_order(p, f);
}
