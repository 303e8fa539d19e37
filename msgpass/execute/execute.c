/* execute.c: the call: a plan is executed, by this process alone or with others. */
#include "execute.h"
#include "ranks.h"

hga_status hga_plan_execute(const hga_plan *plan, hga_workspace *workspace, const hga_io *io)
{
    if (!plan || !workspace || !io)
        return plan_failed(plan, hga_fail(HGA_EINVAL, "no %s", !plan ? "plan" : !workspace ? "workspace" : "tensors"));
    if (plan->ranks) return rank_execute(plan, workspace, io);
    hga_status st = execution_begin(plan, workspace, io);
    if (st) return st;
    HGA_TRY(execution_run(plan, workspace));
    execution_end(plan, workspace, io);
    binding_say(plan);
done:
    if (st) execution_forget(workspace);
    return st;
}

hga_status hga_attention(const hga_graph *g, const hga_program *p, const hga_shape *shape, const hga_options *options,
                         const hga_io *io)
{
    hga_status st = HGA_OK;
    hga_plan *plan = NULL;
    hga_workspace *workspace = NULL;
    if (!io)
        return ranks_failed(options && options->ranks ? options->ranks->exchange : NULL,
                            hga_fail(HGA_EINVAL, "no tensors"));
    HGA_TRY(hga_plan_create(g, p, shape, options, &plan));
    HGA_TRY(hga_workspace_create(plan, &workspace));
    HGA_TRY(hga_plan_execute(plan, workspace, io));
done:
    hga_workspace_destroy(workspace);
    hga_plan_destroy(plan);
    return st;
}
