/* cached_panels.c: what a workspace caches between gradients of the same plan: the threads' panels, with what they
   found out about the graph, and the memory of their lists. */
#include "fast_attend.h"
#include "panel.h"
#include "plan.h"
#include "workspace_base.h"

typedef struct cached_panels {
    hga_allocator allocator;
    hga_id n;
    struct panel **panel; /* [n] */
} cached_panels;

static void drop_cached(void *what)
{
    cached_panels *x = what;
    hga_allocator a = x->allocator;
    for (hga_id i = 0; x->panel && i < x->n; i++) panel_destroy(&a, x->panel[i]);
    hga_delete(&a, x->panel, x->n, sizeof *x->panel);
    hga_delete(&a, x, 1, sizeof *x);
}

/* Allocates pointers to a panel for each thread that the plan may have, all NULL. */
static hga_status begin_keeping(const hga_plan *plan, workspace_cache *cache)
{
    hga_status st = HGA_OK;
    cached_panels *x = NULL;
    HGA_TRY(hga_new_zero(&plan->memory.user, 1, sizeof *x, &x));
    x->allocator = plan->memory.user, x->n = plan->team.n;
    HGA_TRY(hga_new_zero(&plan->memory.user, x->n, sizeof(struct panel *), &x->panel));
    *cache = (workspace_cache){plan->version.serial, x, drop_cached};
done:
    if (st && x) drop_cached(x);
    return st;
}

/* Creates the panels that do not exist yet. A workspace that served another plan drops that plan's cache first. */
hga_status keep_panels(const hga_plan *plan, hga_workspace *workspace, hga_id n)
{
    hga_status st = HGA_OK;
    workspace_cache *cache = workspace_cache_of(workspace);
    if (cache->what && cache->serial != plan->version.serial) workspace_forget(workspace);
    if (!cache->what) HGA_TRY(begin_keeping(plan, cache));
    cached_panels *x = cache->what;
    for (hga_id i = 0; i < n; i++)
        if (!x->panel[i]) HGA_TRY(panel_create(plan, &x->panel[i]));
done:
    return st;
}

struct panel **cached_panels_of(hga_workspace *workspace)
{
    const cached_panels *x = workspace_cache_of(workspace)->what;
    return x->panel;
}
