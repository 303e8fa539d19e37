/* pool.h: plans by key, with their workspaces, for all calls of a kind: shared by any number of callers, or had by one
   alone, which updates it to its own graph. */
#ifndef HGA_PY_POOL_H
#define HGA_PY_POOL_H

#include "calls.h"

/* A plan in the pool, and its workspaces. */
typedef struct hga_py_cached hga_py_cached;

/* How a plan is made, borrowed. A key is of plans that are shared, or of plans that callers have alone. */
typedef struct hga_py_maker {
    int64_t key[2]; /* equal for equal kinds, that is for all that a plan is made of, but the graph of one had alone */
    hga_status (*make)(const void *of, hga_plan **out);
    const void *of;
} hga_py_maker;

/* The plan of that key, found or made, until it is released. Any thread may call. */
hga_status hga_py_share(const hga_py_maker *maker, hga_py_cached **out);
/* A plan of that key that nobody else uses until it is released, updated to the graph. */
hga_status hga_py_borrow(const hga_py_maker *maker, const hga_graph *graph, hga_py_cached **out);
void hga_py_release(hga_py_cached *cached);
const hga_plan *hga_py_cached_plan(const hga_py_cached *cached);
/* What its tapes end in, and no other plan's. */
int64_t hga_py_cached_number(const hga_py_cached *cached);
/* Workspaces for `samples` at once, for one caller at a time; given back when nothing uses them. They fit the largest
   graph that came. */
hga_status hga_py_take_workspaces(hga_py_cached *cached, hga_id samples, hga_py_workspaces **out);
void hga_py_give_workspaces(hga_py_cached *cached, hga_py_workspaces *workspaces);

/* Memory beside the plan's, at a multiple of 64 bytes, until it is given back; what was given back is taken again. */
hga_status hga_py_take_memory(hga_py_cached *cached, int64_t bytes, void **out);
void hga_py_give_memory(hga_py_cached *cached, void *memory);

/* How many plans are kept, their bytes, their workspaces, and the bytes of these. */
typedef struct hga_py_cached_sizes {
    int64_t plans, plan_bytes, workspaces, workspace_bytes;
} hga_py_cached_sizes;
hga_py_cached_sizes hga_py_cached_all(void);
/* Let go of those that nobody uses. */
void hga_py_forget_cached(void);

#endif
