/* rank_rows.c: the rows of a field that a rank has, that it gives back, and that it sends. */
#include "rank_division.h"

int rank_gives_back(const hga_plan *plan, hga_id f)
{
    hga_binding of = plan->program.field[f].binding;
    return of == HGA_IO_OUT || (of == HGA_IO_USER && program_writes_given(&plan->program, f));
}

void division_want_sent(const hga_plan *plan, slice *s, hga_id batch)
{
    const struct rank_plan *r = plan->share.ranks;
    const rank_batch *b = &r->traffic.batch[batch];
    for (const rank_message *m = r->traffic.message + b->send; m < r->traffic.message + b->send + b->n_send; m++)
        for (const rank_part *p = r->traffic.part + m->part; p < r->traffic.part + m->part + m->n_parts; p++)
            p->field ? slice_want_nodes(s, p->field, p->first, p->n)
                     : slice_want_pieces(plan, s, p->stage, p->first, p->n);
}
