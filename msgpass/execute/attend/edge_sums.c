/* edge_sums.c: where the weighted sums of edge features of a row, or of a split, are stored; and their computation
   during attention, where edges are listed one by one, and few enough to be attended without a cut. */
#include "attend_solvers.h"
#include "attend_row.h"
#include "plan.h"
#include "splits.h"
#include "stage_kernel.h"
#include "stages.h"

#include <math.h>
#include <string.h>

/* ---- storage ---- */

int has_edge_out(const worker *w, hga_id stage, hga_id v)
{
    return w->io->edge_out.data && stage == w->plan->bias_stage && bound_is_io(field(w, stage_of(w, stage)->out), v);
}

float *edge_out_row(const worker *w, hga_id v, hga_id head)
{
    const hga_id out = stage_of(w, w->plan->bias_stage)->out;
    return tensor_at(&w->io->edge_out, w->plan->shape.n_heads, w->io->edge_value.columns,
                     v - w->workspace->field[out].io.first, head);
}

/* Sums of all heads; `head` is the stride. */
typedef struct edge_sums {
    float *at;
    ptrdiff_t head;
} edge_sums;

static edge_sums sums_of(const worker *w, const row_job *job)
{
    const hga_id heads = w->plan->shape.n_heads, columns = w->io->edge_value.columns;
    if (job->split >= 0) return (edge_sums){split_sum(w->plan, w->workspace, job->split, 0), columns};
    float *row = edge_out_row(w, job->v, 0);
    return (edge_sums){row, heads > 1 ? edge_out_row(w, job->v, 1) - row : 0};
}

/* ---- during attention ---- */

static hga_pos edges_of(const worker *w, const row_job *job)
{
    const hga_relation *r = &w->plan->stage[job->stage].relation;
    hga_pos left = r->ptr[job->v + 1] - r->ptr[job->v] - job->from;
    return left < job->count ? left : job->count;
}

static int sums_at_once(const worker *w, const row_job *job)
{
    const hga_relation *r = &w->plan->stage[job->stage].relation;
    int listed = r->ptr && !r->n_blocks && applies(w, job->stage, SOLVER_HEADS) && !w->plan->fields.bf16_rows;
    return listed && edges_of(w, job) <= w->plan->options.cut_edges;
}

void edge_sums_begin(worker *w, const row_job *job)
{
    edge_sums sums = sums_of(w, job);
    w->rows.edges.at_once = sums_at_once(w, job);
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++)
        memset(sums.at + h * sums.head, 0, (size_t)w->io->edge_value.columns * sizeof(float));
}

/* Pointers to the features of n edges of the chunk, from `first` on. */
static void find_features(const worker *w, const row_job *job, hga_id first, hga_id n, const float **x)
{
    for (hga_id e = 0; e < n; e++) x[e] = edge_row(w, job->v, HGA_TABLE_EDGE_VALUE, first + e);
}

void attend_and_sum(worker *w, kernel_heads *heads, hga_id first, const row_job *job)
{
    edge_sums sums = sums_of(w, job);
    const float *x[KERNEL_CHUNK];
    find_features(w, job, first, heads->n, x);
    heads->edge_sums.x = x, heads->edge_sums.features = w->io->edge_value.columns, heads->edge_sums.at = sums.at,
    heads->edge_sums.head = sums.head;
    w->plan->machine.kernels->attend_heads(heads);
}

void edge_sums_scale(const worker *w, const row_job *job)
{
    edge_sums sums = sums_of(w, job);
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++) {
        float *x = sums.at + h * sums.head;
        w->plan->machine.kernels->scale(w->io->edge_value.columns, w->rows.row.sum[h], x, x);
    }
}

void edge_sums_add(const worker *w, const row_job *job)
{
    const float *x[KERNEL_CHUNK];
    edge_sums sums = sums_of(w, job);
    find_features(w, job, 0, w->chunk.n, x);
    w->plan->machine.kernels->sum_heads(w->chunk.n, w->plan->shape.n_heads, x, w->io->edge_value.columns,
                                        w->rows.edges.weight, sums.at, sums.head);
}

/* ---- splits ---- */

float *split_sum(const hga_plan *plan, const hga_workspace *workspace, hga_id split, hga_id head)
{
    return workspace->split_sums.at + ((ptrdiff_t)split * plan->shape.n_heads + head) * workspace->split_sums.columns;
}

void edge_sums_finish(const worker *w, hga_id v, hga_id split)
{
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++)
        memcpy(edge_out_row(w, v, h), split_sum(w->plan, w->workspace, split, h),
               (size_t)w->io->edge_value.columns * sizeof(float));
}
