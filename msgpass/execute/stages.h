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

/* How the heads of a chunk's keys and values lie: at one stride, or at each row's own. */
typedef struct chunk_heads {
    int same_k, same_v;
    ptrdiff_t k_stride, v_stride;
} chunk_heads;

/* attend_rows.c: loads the row's queries. attend_open finds the chunk's keys and values and its score bases;
   attend_part gives the row kernels' arguments for one head, without dropout. */
void attend_load(worker *w, const row_job *job);
/* Computes all heads of the chunk's edges from `first` on, some or all of them. */
typedef void (*heads_runner)(worker *w, kernel_heads *heads, hga_id first, const row_job *job);
void run_all_heads(worker *w, const row_job *job, const chunk_heads *at, heads_runner run);
/* edge_sums.c: sums of edge features of a row, or split, that has them: sets them to 0 before attention; attends and
   sums, where that is possible, and scales them by the state's factor; else adds those of the chunk with weights
   already computed. */
void edge_sums_begin(worker *w, const row_job *job);
void attend_and_sum(worker *w, kernel_heads *heads, hga_id first, const row_job *job);
void edge_sums_scale(const worker *w, const row_job *job);
void edge_sums_add(const worker *w, const row_job *job);

/* Whether every edge of the stage has its own key, added to its source's. */
static inline int adds_edge_keys(const worker *w, hga_id stage)
{
    return w->io->edge_key.data && stage == w->plan->bias_stage;
}
/* The row of a table of edges for edge e of the chunk of row v, whose ranks are in row.rank. */
static inline const float *edge_row(const worker *w, hga_id v, hga_call_table which, hga_id e)
{
    const hga_table *t = &w->io->table[which];
    const hga_shape *s = &w->plan->shape;
    int64_t columns = which == HGA_TABLE_EDGE_KEY ? (int64_t)s->n_kv_heads * s->dim : t->columns;
    return t->data + (w->plan->cache->lists.first_edge[v] + w->rows.row.rank[e]) * columns;
}

chunk_heads attend_open(worker *w, const row_job *job);
kernel_chunk attend_part(worker *w, const row_job *job, const chunk_heads *at, hga_id h);
/* run_equal.c: have rows [first, first + n), nodes, whole sixteens, equal families and nothing else? Then w->equal says
   how, and they run sixteen at a time; with entmax and energies, [16][heads], or NULL. Rows that are left out, as bits,
   are not written. */
typedef struct inside_rows {
    float alpha;
    float *energy[KERNEL_TILE];
    unsigned left_out;
} inside_rows;
int find_equal(worker *w, hga_id stage, hga_id first, hga_id n);
void run_sixteen(worker *w, hga_id stage, hga_id first, const inside_rows *inside);
/* entmax_rows.c; run_inside.c: a panel's rows, as families where these are equal */
void entmax_row(worker *w, const row_job *job);
void inside_row(worker *w, const row_job *job);
void inside_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);
void sum_row(worker *w, const row_job *job);
void sum_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);
/* Splits of rows that are sums (sums.c), and of attended rows (splits.c). */
extern const split_kernel sums_in_splits, states_in_splits;
void spread_row(worker *w, const row_job *job);
void spread_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);
/* energies.c: computes psi of n nodes, but those below 0, from psi and the state's LSE of their children. */
void energies_of_families(worker *w, const bound_field *psi, const bound_field *state, hga_id n, const hga_id *node);
void energy_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);
/* inputs.c: rounds a row of a field to bfloat16, or to its precision in float32, into its rounded row. */
void round_row(worker *w, hga_id field, hga_id v);
/* plain.c: computes a row of any stage, in double. */
void plain_row(worker *w, const row_job *job);
void descend_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);

#endif
