/* workspace.c: functions of a workspace that do not depend on executions; and the size of a tape. */
#include "carve.h"
#include "tape.h"
#include "workspace_base.h"

static workspace_base *base_of(hga_workspace *workspace) { return (workspace_base *)(void *)workspace; }

/* Memory for one call at a time, which the workspace retains for the next; its contents are not preserved. */
hga_status workspace_spare(hga_workspace *of, int64_t bytes, void **out)
{
    workspace_base *workspace = base_of(of);
    enum { LINE = LINE_FLOATS * sizeof(float) };
    hga_status st = HGA_OK;
    *out = NULL;
    if (bytes + LINE > workspace->spare_bytes) {
        hga_delete(&workspace->allocator, workspace->spare, workspace->spare_bytes, 1);
        workspace->spare = NULL, workspace->spare_bytes = 0;
        HGA_TRY(hga_new(&workspace->allocator, bytes + LINE, 1, &workspace->spare));
        workspace->spare_bytes = bytes + LINE;
    }
    *out = workspace->spare + (LINE - (uintptr_t)workspace->spare % LINE) % LINE;
done:
    return st;
}

int workspace_is_of(const hga_workspace *workspace, const hga_plan *plan)
{
    return ((const workspace_base *)(const void *)workspace)->identity == plan->version.identity;
}

int workspace_enlist(hga_workspace *workspace, int listed)
{
    workspace_base *base = base_of(workspace);
    int before = base->listed;
    base->listed = listed;
    return before;
}

workspace_home *workspace_home_of(hga_workspace *workspace) { return &base_of(workspace)->home; }

workspace_cache *workspace_cache_of(hga_workspace *workspace) { return &base_of(workspace)->cache; }

void workspace_forget(hga_workspace *workspace)
{
    workspace_cache *cache = workspace_cache_of(workspace);
    if (cache->what) cache->drop(cache->what);
    *cache = (workspace_cache){0};
}

int64_t hga_plan_tape_bytes(const hga_plan *plan)
{
    if (!plan->options.gradient) return 0;
    return (int64_t)sizeof(tape_header) + tape_lses(plan) * (int64_t)sizeof(float);
}
