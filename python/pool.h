/* pool.h: every plan of the package, with its workspaces and memory. By key, plans are shared by any number of callers,
   or had by one alone, which updates it to its own graph; others are a hierarchy's own. */
#ifndef HGA_PY_POOL_H
#define HGA_PY_POOL_H

#include "memory.h"

/* A plan in the pool, and its workspaces. */
typedef struct hga_py_cached hga_py_cached;

/* For one caller at a time. */
typedef struct hga_py_workspaces {
    hga_id n;                         /* samples at once */
    hga_workspace *const *workspaces; /* [n], of the plan */
    hga_io *ios;                      /* [n], spare */
    hga_grad_io *grads;               /* [n], spare */
} hga_py_workspaces;

/* What is no status of the library's: the plan was updated to another graph since its number was read. */
enum { HGA_PY_TAKEN = 1000 };

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
/* A plan that has no key; the last user's release destroys it, and so does a failure. */
hga_status hga_py_own(hga_plan *plan, hga_py_cached **out);
void hga_py_release(hga_py_cached *cached);
const hga_plan *hga_py_cached_plan(const hga_py_cached *cached);
/* What its tapes end in, and no other plan's; one that is updated gets another. */
int64_t hga_py_cached_number(const hga_py_cached *cached);
/* Updates one without a key to the graph; HGA_PY_TAKEN while somebody has workspaces. A failure changes nothing. */
hga_status hga_py_move(hga_py_cached *cached, const hga_graph *graph);

/* Workspaces for `samples` at once, for one caller at a time; given back when nothing uses them. They fit the largest
   graph that came. HGA_PY_TAKEN where the number is another now; while workspaces are out it stays. */
hga_status hga_py_take_workspaces(hga_py_cached *cached, int64_t number, hga_id samples, hga_py_workspaces **out);
void hga_py_give_workspaces(hga_py_cached *cached, hga_py_workspaces *workspaces);
/* No call comes for a while: workspaces that nobody has are freed. */
void hga_py_rest(hga_py_cached *cached);
/* Memory beside the plan's, which its calls share. */
hga_py_memory *hga_py_cached_memory(const hga_py_cached *cached);

/* How many plans are kept, their bytes, their workspaces, the bytes of these, and those of memory that nobody has. */
typedef struct hga_py_cached_sizes {
    int64_t plans, plan_bytes, workspaces, workspace_bytes, memory_bytes;
} hga_py_cached_sizes;
hga_py_cached_sizes hga_py_cached_one(hga_py_cached *cached);
hga_py_cached_sizes hga_py_cached_all(void);
/* Let go of those that nobody uses. */
void hga_py_forget_cached(void);

#endif
