/* live.c: the plan of a backward pass has the stages that count (hga_program_live). The others have an adjoint of
   zero: another output of the caller's, a state that no stage reads, a mean that a later one overwrites. */
#include "plan.h"
#include "live.h"
#include "solvers.h"

/* Removes the other stages from the plan's program; those that stay move up. */
void keep_live_stages(hga_plan *plan)
{
    uint32_t counting = hga_program_live(&plan->program);
    hga_id n = 0, biased = -1;
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        if (!(counting >> s & 1u)) continue;
        if (s == plan->bias_stage) biased = n;
        plan->program.stage[n] = plan->program.stage[s], plan->stage[n] = plan->stage[s], n++;
    }
    plan->program.n_stages = n, plan->bias_stage = biased;
}

int field_is_used(const hga_program *p, hga_id field)
{
    uint32_t used = 0;
    for (hga_id s = 0; s < p->n_stages; s++) used |= p->stage[s].reads | p->stage[s].writes;
    return (int)(used >> field & 1u);
}
