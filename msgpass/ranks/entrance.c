/* entrance.c: the entry points of callers: a plan is of one process, or several share it. What makes plans, executes
   them and runs backward knows nothing of this folder, but for the functions that are stored in the plan here. */
#include "plan.h"
#include "ranks.h"

hga_status plan_create_with_panels(const hga_graph *g, const hga_program *p, const hga_shape *shape,
                                   const hga_options *options, hga_id panel, hga_plan **out)
{
    const hga_ranks *ranks = options ? options->ranks : NULL;
    hga_status st = plan_make(g, p, shape, options, panel, ranks ? &rank_wing : NULL, out);
    return ranks_failed(ranks ? ranks->exchange : NULL, st);
}

hga_status hga_plan_create(const hga_graph *g, const hga_program *p, const hga_shape *shape, const hga_options *options,
                           hga_plan **out)
{
    return plan_create_with_panels(g, p, shape, options, 0, out);
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
