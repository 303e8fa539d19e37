/* stages.h: the fused stage functions, which stage_table.c lists, and what they share. */
#ifndef STAGES_H
#define STAGES_H

#include "carve.h"
#include "plan.h"
#include "stage_kernel.h"

static inline const hga_stage *stage_of(const worker *w, hga_id stage) { return &w->plan->program.stage[stage]; }
static inline const bound_field *field(const worker *w, hga_id f) { return &w->workspace->field[f]; }
/* The field as the stage reads it: its rounded rows, if it reads those. */
static inline const bound_field *read_field(const worker *w, const hga_stage *s, hga_id f)
{
    return field(w, read_storage(w->plan, s, f));
}

/* A split of a long row: a state of each head, [heads][dim_v padded, log-sum-exp, unused], or sums in double: [columns
   of all heads], and the sum of its factors. */
static inline float *split_of(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id split)
{
    if (plan->fields.on_demand) return slot_address(&workspace->slots.of[HGA_FIELD_SLOTS + stage], SLOT_ROW, split);
    return workspace->memory.rows + plan->stage[stage].split_at + split * split_floats(plan, stage);
}

static inline float *state_of_split(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id split,
                                    hga_id head)
{
    return split_of(plan, workspace, stage, split) + (ptrdiff_t)head * (padded(plan->shape.dim_v) + 2);
}

static inline double *sums_of_split(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id split)
{
    return (double *)(void *)split_of(plan, workspace, stage, split);
}

/* Whether a solver (attend_solver_id) may run the stage's rows in this call. */
static inline int applies(const worker *w, hga_id stage, int solver)
{
    return w->workspace->solvers[stage] >> solver & 1;
}

/* Whether the stage writes node v's row. */
static inline int has_row(const worker *w, hga_id stage, hga_id v)
{
    hga_id out = w->plan->program.stage[stage].out;
    return !out || program_row(&w->plan->nodes, w->plan->program.field[out].rows, v);
}
static inline hga_id parent_of(const hga_nodes *nodes, hga_id v) { return nodes->parent ? nodes->parent[v] : -1; }

/* Whether every edge of the stage has its own key, added to its source's. */
static inline int adds_edge_keys(const worker *w, hga_id stage)
{
    return w->io->edge_key.data && stage == w->plan->bias_stage;
}
/* .. or its own value, added to its source's. */
static inline int adds_edge_values(const worker *w, hga_id stage)
{
    return w->io->edge_value.data && !w->io->edge_out.data && stage == w->plan->bias_stage;
}
/* The row of a table of edges for edge e of the chunk of row v, whose ranks are in row.rank. */
static inline const float *edge_row(const worker *w, hga_id v, hga_call_table which, hga_id e)
{
    const hga_table *t = &w->io->table[which];
    const hga_shape *s = &w->plan->shape;
    int64_t columns = which == HGA_TABLE_EDGE_KEY ? (int64_t)s->n_kv_heads * s->dim : t->columns;
    return t->data + (w->plan->cache->lists.first_edge[v] + w->rows.row.rank[e]) * columns;
}

/* Splits of rows that are sums (sums.c), and of attended rows (splits.c). */
extern const split_kernel sums_in_splits, states_in_splits;
/* inputs.c: rounds a row of a field to bfloat16, or to its precision in float32, into its rounded row. */
void round_row(worker *w, hga_id field, hga_id v);
/* plain.c: computes a row of any stage, in double. */
void plain_row(worker *w, const row_job *job);

#endif
