/* fast_threads.h: threads that divide a head by row ranges (fast_threads.c), and what is made once for them
   (fast_solver.c, fast_find.c). */
#ifndef HGA_GRADIENT_FAST_THREADS_H
#define HGA_GRADIENT_FAST_THREADS_H

#include "fast_pass.h"
#include "solvers.h"

/* fast_solver.c: what is made once: where stages are cut, by key/value heads and, where head groups may be query
   heads, by these; when columns are no longer needed; rows of stages that run row by row. */
typedef struct made_fast {
    subtrees trees;            /* n = 0: stage by stage */
    row_ranges *row_ranges[2]; /* [stages] */
    last_uses last_uses;
    row_list *lists;           /* NULL: rows are read for every head */
    int64_t widest, of_biased; /* most edges of a row that is read; where calls have biases of edges */
} made_fast;

/* The most edges of a row that such calls read: of any stage, where biases of edges count them. */
static inline int64_t widest_row(const made_fast *made, const call_needs *needs)
{
    return needs->features & CALL_HAS_EDGE_BIASES ? made->of_biased : made->widest;
}

/* The row ranges of each stage for the call's head groups. */
static inline const row_ranges *row_ranges_for(const made_fast *made, const hga_plan *plan, const call_needs *needs)
{
    return made->row_ranges[needs->head_groups > plan->shape.n_kv_heads];
}

/* Measures a thread's memory, or carves it where the carver has memory. */
void fast_thread_lay_out(const hga_plan *plan, const made_fast *made, const call_needs *needs, fast_thread *l,
                         carver *arena);
/* Starts a thread with its cached panel: zeros its sums of relative keys and tables, and has no chunk of its own. */
void fast_thread_begin(const gradient_call *c, struct panel *cached, fast_thread *l);
typedef hga_status (*row_range_rows)(fast_pass *p, hga_id stage, hga_id first, hga_id end);
/* Runs the row ranges of a stage, in order or in parallel. */
hga_status each_row_range(fast_pass *p, hga_id stage, row_range_rows rows);
/* fast_find.c: finds the tiles of a call's row ranges, of every n_threads-th from range `first` on. */
hga_status fast_find(fast_pass *p, fast_thread *l, hga_id first, hga_id n_threads);

#endif
