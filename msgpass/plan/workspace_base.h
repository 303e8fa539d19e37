/* workspace_base.h: the members of a workspace that folders other than execute/ may use (workspace.c). */
#ifndef HGA_PLAN_WORKSPACE_BASE_H
#define HGA_PLAN_WORKSPACE_BASE_H

#include "hga_plan.h"

/* The thread that had the workspace first in a batch, -1; the one for which it is in the current batch; and whether a
   thread has taken it. */
typedef struct workspace_home {
    hga_id first, home;
    int taken;
} workspace_home;

/* An object about the plan of that serial that a caller caches in a workspace, until the workspace is destroyed or
   forgets it (workspace_forget). */
typedef struct workspace_cache {
    uint64_t serial;
    void *what; /* NULL: nothing */
    void (*drop)(void *what);
} workspace_cache;

/* The beginning of a workspace, which all folders may use. */
typedef struct workspace_base {
    uint64_t identity, serial; /* the plan's */
    hga_allocator allocator;
    int listed; /* in the current batch */
    workspace_home home;
    workspace_cache cache;
    char *spare; /* see workspace_spare */
    int64_t spare_bytes;
} workspace_base;

/* Scratch of a workspace for callers that need more than an execution: grown on demand, freed with the workspace,
   aligned to a cache line; contents are as the last user left them. */
hga_status workspace_spare(hga_workspace *workspace, int64_t bytes, void **out);
/* Whether the workspace was made for the plan. */
int workspace_is_of(const hga_workspace *workspace, const hga_plan *plan);
/* Lists the workspace in the current batch, or removes it; returns whether it was listed. */
int workspace_enlist(hga_workspace *workspace, int listed);
/* The thread that computes it in a batch; readable and writable. */
workspace_home *workspace_home_of(hga_workspace *workspace);
/* The object cached in the workspace; readable and writable. */
workspace_cache *workspace_cache_of(hga_workspace *workspace);
/* Drops the cached object. */
void workspace_forget(hga_workspace *workspace);

#endif
