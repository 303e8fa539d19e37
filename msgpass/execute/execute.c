/* execute.c: executes a plan, in this process alone or on ranks. */
#include "execution.h"
#include "plan.h"
#include "thread_binding.h"

hga_status hga_plan_execute(const hga_plan *plan, hga_workspace *workspace, const hga_io *io)
{
    if (!plan || !workspace || !io)
        return plan_failed(plan, hga_fail(HGA_EINVAL, "no %s", !plan ? "plan" : !workspace ? "workspace" : "tensors"));
    hga_status st = execution_begin(plan, workspace, io);
    if (st) return plan_failed(plan, st);
    const plan_wing *wing = plan->share.wing;
    HGA_TRY(wing ? wing->execution->run(plan, workspace, io, 1) : execution_run(plan, workspace));
    wing ? execution_forget(workspace) : execution_end(plan, workspace, io);
    binding_say(plan);
done:
    if (st) execution_forget(workspace);
    return plan_failed(plan, st);
}
