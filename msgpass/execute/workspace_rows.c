/* workspace_rows.c: rows that stay in a workspace: read, written, dropped; and fields that are cached for study. */
#include "plan.h"
#include "stages.h"
#include "needed_rows.h"
#include "workspace.h"

#include <string.h>

/* Checks that rows outlive executions, the arguments, and that there is data to copy. */
static hga_status check_rows_stay(const hga_plan *plan, hga_workspace *workspace, hga_id f, hga_id first, hga_id n,
                                  hga_rows_action action, const float *data)
{
    if (!plan || !workspace) return hga_fail(HGA_EINVAL, "no %s", plan ? "workspace" : "plan");
    if (!rows_stay(plan) || plan_is_shared(plan))
        return hga_fail(HGA_EUNSUPPORTED,
                        "the plan was made without HGA_ROWS_THAT_STAY: rows do not outlive an execution");
    if ((unsigned)action > HGA_ROWS_DROP) return hga_fail(HGA_EINVAL, "%d is nothing to do with rows", (int)action);
    if (f == 0 && action == HGA_ROWS_DROP && first == 0 && n == 0) return HGA_OK;
    if (f < 1 || f > plan->program.n_fields)
        return hga_fail(HGA_EINVAL, "field %d of %d does not exist", f, plan->program.n_fields);
    if (first < 0 || n < 0 || first > plan->nodes.n - n)
        return hga_fail(HGA_EINVAL, "rows %d + %d leave the %d nodes", first, n, plan->nodes.n);
    if (!data && n > 0 && action != HGA_ROWS_DROP) return hga_fail(HGA_EINVAL, "rows %d + %d have no data", first, n);
    return HGA_OK;
}

/* Checks that the field has the row in the workspace, and for HGA_ROWS_GET that it is present. */
static hga_status check_stored_row(const hga_plan *plan, const hga_workspace *workspace, hga_id f, hga_id v,
                                   hga_rows_action action)
{
    const char *name = plan->program.field[f].name;
    const row_bits *there = &workspace->sliced.slice.there[f];
    if (!program_row(&plan->nodes, plan->program.field[f].rows, v))
        return hga_fail(HGA_EINVAL, "field %s does not exist on node %d", name, v);
    if (slice_is_input(plan, f, v) || !there->n)
        return hga_fail(HGA_EINVAL, "node %d's row of field %s is your tensor's", v, name);
    if (action == HGA_ROWS_GET && !bits_have(there, v))
        return hga_fail(HGA_EINVAL, "node %d's row of field %s is not there", v, name);
    return HGA_OK;
}

/* Address of node v's row of a field; lse_at: of its log-sum-exps. */
static float *workspace_row(const hga_plan *plan, const hga_workspace *workspace, hga_id f, hga_id v)
{
    const area *x = &plan->fields.storage[f].rows;
    if (plan->fields.on_demand) return slot_address(&workspace->slots.of[f], SLOT_ROW, v);
    return workspace->memory.rows + x->at + (int64_t)(v - x->first) * x->floats;
}
static float *lse_at(const hga_plan *plan, const hga_workspace *workspace, hga_id f, hga_id v)
{
    const area *x = &plan->fields.storage[f].lse;
    if (plan->fields.on_demand) return slot_address(&workspace->slots.of[f], SLOT_LSE, v);
    return workspace->memory.rows + x->at + (int64_t)(v - x->first) * x->floats;
}

/* Copies node v's row; of a state each head with its log-sum-exp. */
static float *move_row(const hga_plan *plan, const hga_workspace *workspace, hga_id f, hga_id v, int in, float *data)
{
    const field_storage *h = &plan->fields.storage[f];
    int is_state = plan->program.field[f].width == HGA_WIDTH_STATE;
    float *row = workspace_row(plan, workspace, f, v), *lse = is_state ? lse_at(plan, workspace, f, v) : NULL;
    const hga_id parts = is_state ? h->heads : 1, columns = h->columns * (is_state ? 1 : h->heads);
    const size_t bytes = (size_t)columns * sizeof *row;
    for (hga_id head = 0; head < parts; head++, row += columns) {
        in ? memcpy(row, data, bytes) : memcpy(data, row, bytes);
        data += columns;
        if (is_state && in) lse[head] = *data;
        if (is_state && !in) *data = lse[head];
        data += is_state;
    }
    return data;
}

/* Drops the rows that a token from `end` on has changed. */
void workspace_forget_later(const hga_plan *plan, hga_workspace *workspace, int32_t *const *latest, hga_id end)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        if (!workspace->sliced.slice.there[f].n) continue;
        FOR_RUNS(&workspace->sliced.slice.needed[f], i, last, 0, plan->nodes.n)
        {
            for (int64_t v = i; v < last; v++)
                if (latest[f][v] >= end) slice_drop_rows(&workspace->sliced.slice, f, (hga_id)v, 1);
        }
    }
}

static void drop_all(const hga_plan *plan, hga_workspace *workspace)
{
    if (plan->fields.on_demand) plan->fields.on_demand->leave_all(workspace);
    for (hga_id f = 1; !plan->fields.on_demand && f <= plan->program.n_fields; f++)
        slice_drop_rows(&workspace->sliced.slice, f, 0, plan->nodes.n);
}

static hga_status put_row(const hga_plan *plan, hga_workspace *workspace, hga_id f, hga_id v, float **data)
{
    float *row;
    hga_status st = plan->fields.on_demand ? plan->fields.on_demand->take(workspace, f, v, &row) : HGA_OK;
    if (!st) *data = move_row(plan, workspace, f, v, 1, *data);
    return st;
}

hga_status hga_workspace_rows(const hga_plan *plan, hga_workspace *workspace, hga_id field, hga_id first, hga_id n,
                              hga_rows_action action, float *data)
{
    hga_status st = HGA_OK;
    HGA_TRY(check_rows_stay(plan, workspace, field, first, n, action, data));
    HGA_TRY(workspace_fit(plan, workspace));
    if (field == 0) drop_all(plan, workspace);
    for (hga_id v = first; field && v < first + n; v++) HGA_TRY(check_stored_row(plan, workspace, field, v, action));
    if (field && action != HGA_ROWS_GET) slice_drop_rows(&workspace->sliced.slice, field, first, n);
    for (hga_id v = first; action == HGA_ROWS_PUT && v < first + n; v++)
        HGA_TRY(put_row(plan, workspace, field, v, &data));
    for (hga_id v = first; action == HGA_ROWS_GET && v < first + n; v++)
        data = move_row(plan, workspace, field, v, 0, data);
    if (action == HGA_ROWS_PUT)
        bits_put_run(&workspace->sliced.slice.there[field], first, (int64_t)first + n, &no_bits);
done:
    return st;
}

/* ---- cached fields ---- */

/* Node v's values after an execution: the copy where they were the caller's. */
static int is_cached(const field_storage *h, hga_id v) { return v >= h->io_first && v - h->io_first < h->copy_n; }
static const float *cached_row(const field_storage *h, const hga_workspace *workspace, const bound_field *x, hga_id v)
{
    if (!is_cached(h, v)) return bound_row(x, v);
    return workspace->memory.rows + h->copy_at + (ptrdiff_t)(v - h->io_first) * x->heads * x->columns;
}
static ptrdiff_t cached_head(const field_storage *h, const bound_field *x, hga_id v)
{
    return is_cached(h, v) ? x->columns : bound_head(x, v);
}

hga_status hga_workspace_field(const hga_plan *plan, const hga_workspace *workspace, hga_id f, hga_id first, hga_id n,
                               float *out)
{
    if (f < 1 || f > plan->program.n_fields)
        return hga_fail(HGA_EINVAL, "field %d of %d does not exist", f, plan->program.n_fields);
    if (first < 0 || n < 0 || first > plan->nodes.n - n)
        return hga_fail(HGA_EINVAL, "rows %d + %d leave the %d nodes", first, n, plan->nodes.n);
    const hga_field *field = &plan->program.field[f];
    const field_storage *stored = &plan->fields.storage[f];
    if (!plan->options.keep_fields)
        return hga_fail(HGA_EUNSUPPORTED, "field %s was not kept; option keep_fields = 1 keeps every field",
                        field->name);
    const bound_field *x = &workspace->field[f];
    if (workspace->base.identity != plan->version.identity)
        return hga_fail(HGA_EINVAL, "the workspace belongs to another plan");
    if (!x->heads || workspace->base.serial != plan->version.serial)
        return hga_fail(HGA_EINVAL, "nothing has been executed in the workspace");
    int is_state = field->width == HGA_WIDTH_STATE;
    for (hga_id v = first; v < first + n; v++) {
        if (!program_row(&plan->nodes, field->rows, v))
            return hga_fail(HGA_EINVAL, "field %s does not exist on node %d", field->name, v);
        for (hga_id h = 0; h < x->heads; h++) {
            memcpy(out, cached_row(stored, workspace, x, v) + h * cached_head(stored, x, v),
                   (size_t)x->columns * sizeof *out);
            if (storage_is_rounded(plan, f)) plan->machine.kernels->round_bf16(x->columns, out, out);
            out += x->columns;
            if (is_state) *out++ = bound_lse(x, v)[h];
        }
    }
    return HGA_OK;
}
