/* stage_table.c: the one place that says which function a stage gets. */
#include "execute.h"

const stage_kernel *plan_kernel(const hga_plan *plan, hga_id stage)
{
    stage_kind kind = plan->stage[stage].kind;
    const stage_kernel *fused = &fused_stages[kind];
    return (fused->row || fused->panel) && !plan->options.generic ? fused : &generic_stages[kind];
}
