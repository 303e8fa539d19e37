/* workspace.c: a workspace's life: its memory, and whether it still fits a plan that was updated. */
#include "carve.h"
#include "execution.h"
#include "layouts.h"
#include "plan.h"
#include "slice_run.h"
#include "stages.h"
#include "workspace_base.h"

_Static_assert(offsetof(struct hga_workspace, base) == 0, "a workspace begins with what plan/workspace.c knows of it");

/* Bytes of a workspace of a plan on ranks, besides the others. */
static int64_t shared_bytes(const hga_plan *plan)
{
    return plan_is_shared(plan) ? plan->share.wing->execution->bytes(plan) : 0;
}

int64_t hga_plan_workspace_bytes(const hga_plan *plan)
{
    return plan->most.workspace_floats * (int64_t)sizeof(float) + workers_bytes(plan) + slices_bytes(plan) +
           shared_bytes(plan) + (plan->fields.on_demand ? plan->fields.on_demand->bytes(plan) : 0) +
           (int64_t)sizeof(hga_workspace);
}

/* Allocates the memory of rows, slice and workers, and what plans on ranks have besides. */
static hga_status workspace_create(const hga_plan *plan, hga_workspace **out)
{
    *out = NULL;
    hga_workspace *workspace = NULL;
    hga_allocator a = plan->memory.user;
    if (!a.allocate && topology_domains(plan->machine.topology) > 1) a = pages_fresh();
    hga_status st = hga_new_zero(&a, 1, sizeof *workspace, &workspace);
    if (st) return st;
    workspace->base.allocator = a, workspace->base.home.first = -1;
    workspace->base.identity = plan->version.identity, workspace->base.serial = plan->version.serial;
    meeting_open(&workspace->team.meeting);
    workspace->memory.floats = plan->most.workspace_floats;
    /* not cleared: a fresh page belongs to the thread that writes it first */
    HGA_TRY(hga_new(&a, plan->most.workspace_floats, sizeof *workspace->memory.at, &workspace->memory.at));
    workspace->memory.rows = first_line(workspace->memory.at);
    HGA_TRY(slice_create(plan, workspace));
    workspace->shared.bytes = shared_bytes(plan);
    HGA_TRY(hga_new(&a, workspace->shared.bytes, 1, &workspace->shared.at));
    if (plan->fields.on_demand) HGA_TRY(plan->fields.on_demand->create(plan, workspace));
    HGA_TRY(workers_create(plan, plan->team.n, workspace));
    HGA_TRY(layouts_open(plan, workspace));
done:
    if (st) hga_workspace_destroy(workspace), workspace = NULL;
    *out = workspace;
    return st;
}

hga_status hga_workspace_create(const hga_plan *plan, hga_workspace **out)
{
    *out = NULL;
    if (!plan) return hga_fail(HGA_EINVAL, "no plan");
    return plan_failed(plan, workspace_create(plan, out));
}

static void row_slots_free(const hga_workspace *workspace)
{
    for (const row_slots *x = workspace->slots.of; x < workspace->slots.of + N_ROW_SLOTS; x++) {
        hga_delete(&workspace->base.allocator, x->memory, x->bytes, 1);
        hga_delete(&workspace->base.allocator, x->borrowed, x->borrowed_capacity, sizeof *x->borrowed);
    }
    hga_delete(&workspace->base.allocator, workspace->slots.owners, workspace->slots.owner_bytes, 1);
}

void hga_workspace_destroy(hga_workspace *workspace)
{
    if (!workspace) return;
    hga_allocator a = workspace->base.allocator;
    meeting_close(&workspace->team.meeting);
    workers_destroy(workspace);
    sixteen_clear(workspace);
    workspace_forget(workspace);
    hga_delete(&a, workspace->base.spare, workspace->base.spare_bytes, 1);
    hga_delete(&a, workspace->memory.at, workspace->memory.floats, sizeof *workspace->memory.at);
    slice_destroy(workspace);
    hga_delete(&a, workspace->shared.at, workspace->shared.bytes, 1);
    row_slots_free(workspace);
    hga_delete(&a, workspace, 1, sizeof *workspace);
}

int hga_workspace_fits(const hga_plan *plan, const hga_workspace *workspace)
{
    if (workspace->base.identity != plan->version.identity) return 0;
    if (workspace->base.serial == plan->version.serial) return 1;
    return workspace->memory.floats >= plan->most.workspace_floats && slice_fits(plan, workspace) &&
           workspace->shared.bytes >= shared_bytes(plan) && workers_fit(plan, workspace);
}

/* A workspace follows its plan's updates until these need more memory than it has. */
hga_status workspace_fit(const hga_plan *plan, hga_workspace *workspace)
{
    if (workspace->base.identity != plan->version.identity)
        return hga_fail(HGA_EINVAL, "the workspace belongs to another plan");
    if (workspace->base.serial == plan->version.serial) return HGA_OK;
    if (!hga_workspace_fits(plan, workspace))
        return hga_fail(HGA_EINVAL, "the plan has outgrown the workspace: it now takes %lld bytes",
                        (long long)hga_plan_workspace_bytes(plan));
    workspace->base.serial = plan->version.serial, workspace->layouts = NULL;
    slice_renew(plan, workspace);
    return HGA_OK;
}
