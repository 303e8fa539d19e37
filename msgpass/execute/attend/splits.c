/* splits.c: long rows are cut at positions that depend on the row alone: states of cuts are folded in order where one
   thread computes the row; splits that several threads compute are merged two by two. */
#include "splits.h"
#include "carve.h"
#include "plan.h"
#include "stage_kernel.h"
#include "stages.h"

#include <math.h>
#include <string.h>

/* The natural log-sum-exp of a kernel's state; -inf when it is empty. */
static float log_sum(float greatest, float sum)
{
    return sum == 0 ? -INFINITY : greatest * KERNEL_LN2 + logf(sum); /* NaN stays NaN */
}

/* (x, lx) <- the merge of (x, lx) and (y, ly); an empty state changes nothing. States of sigmoids are sums. */
static float merge_state(const hga_plan *plan, hga_id columns, float *x, float lx, const float *y, float ly)
{
    const kernel_table *k = plan->machine.kernels;
    if (ly == -INFINITY) return lx;
    if (weights_are_sigmoids(plan)) {
        k->blend(columns, 1, x, 1, y, x);
        return ly;
    }
    float greatest = lx > ly ? lx : ly, a = expf(lx - greatest), b = expf(ly - greatest), sum = a + b;
    k->blend(columns, a / sum, x, b / sum, y, x);
    return greatest + logf(sum);
}

/* The folded state of the cuts so far: [heads][dim_v padded], and *lse [heads]. */
static float *folded(const worker *w, float **lse)
{
    float *whole = (float *)w->plain.numbers;
    *lse = whole + (ptrdiff_t)w->plan->shape.n_heads * padded(w->plan->shape.dim_v);
    return whole;
}

/* Merges the worker's state into the folded one, or starts that with it; the worker's state becomes empty. */
void fold_split(worker *w, int first)
{
    const hga_shape *shape = &w->plan->shape;
    hga_id padded_dim = padded(shape->dim_v);
    float *whole_lse, *whole = folded(w, &whole_lse);
    for (hga_id h = 0; h < shape->n_heads; h++) {
        float *acc = w->rows.row.acc + h * padded_dim, lse = log_sum(w->rows.row.greatest[h], w->rows.row.sum[h]);
        w->plan->machine.kernels->scale(shape->dim_v, w->rows.row.sum[h] == 0 ? 0 : 1 / w->rows.row.sum[h], acc, acc);
        if (first)
            memcpy(whole + h * padded_dim, acc, (size_t)shape->dim_v * sizeof *acc), whole_lse[h] = lse;
        else
            whole_lse[h] = merge_state(w->plan, shape->dim_v, whole + h * padded_dim, whole_lse[h], acc, lse);
        memset(acc, 0, (size_t)padded_dim * sizeof *acc);
        w->rows.row.greatest[h] = -INFINITY, w->rows.row.sum[h] = 0;
    }
}

void unfold_splits(worker *w)
{
    const hga_shape *shape = &w->plan->shape;
    float *whole_lse, *whole = folded(w, &whole_lse);
    memcpy(w->rows.row.acc, whole, (size_t)(shape->n_heads * padded(shape->dim_v)) * sizeof *whole);
    for (hga_id h = 0; h < shape->n_heads; h++)
        w->rows.row.greatest[h] = whole_lse[h] * KERNEL_LOG2E, w->rows.row.sum[h] = whole_lse[h] == -INFINITY ? 0 : 1;
}

/* ---- splits ---- */

/* Merges split `next` into `split`, with their sums of edge features. */
static void join_states(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id split, hga_id next)
{
    hga_id columns = plan->shape.dim_v, padded_dim = padded(columns);
    for (hga_id h = 0; h < plan->shape.n_heads; h++) {
        float *x = state_of_split(plan, workspace, stage, split, h),
              *y = state_of_split(plan, workspace, stage, next, h);
        if (stage == plan->bias_stage && workspace->split_sums.columns)
            merge_state(plan, workspace->split_sums.columns, split_sum(plan, workspace, split, h), x[padded_dim],
                        split_sum(plan, workspace, next, h), y[padded_dim]);
        x[padded_dim] = merge_state(plan, columns, x, x[padded_dim], y, y[padded_dim]);
    }
}

/* Stores the state that a row's splits were merged to as the row's. */
static void finish_state(worker *w, hga_id stage, hga_id v, hga_id split)
{
    const hga_shape *shape = &w->plan->shape;
    const bound_field *out = field(w, stage_of(w, stage)->out);
    for (hga_id h = 0; h < shape->n_heads; h++) {
        const float *state = state_of_split(w->plan, w->workspace, stage, split, h);
        memcpy(bound_row(out, v) + h * bound_head(out, v), state, (size_t)shape->dim_v * sizeof *state);
        bound_lse(out, v)[h] = state[padded(shape->dim_v)];
    }
    if (has_edge_out(w, stage, v)) edge_sums_finish(w, v, split);
}

/* Copies a split's state to a message, or with `in` from one; returns the message's next byte. */
static char *move_states(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id split, char *parcel,
                         int in)
{
    for (hga_id h = 0; h < plan->shape.n_heads; h++) {
        float *state = state_of_split(plan, workspace, stage, split, h), *lse = state + padded(plan->shape.dim_v);
        size_t bytes = (size_t)plan->shape.dim_v * sizeof *state;
        in ? memcpy(state, parcel, bytes) : memcpy(parcel, state, bytes);
        parcel += bytes;
        in ? memcpy(lse, parcel, sizeof *lse) : memcpy(parcel, lse, sizeof *lse);
        parcel += sizeof *lse;
    }
    return parcel;
}

const split_kernel states_in_splits = {join_states, finish_state, move_states};
