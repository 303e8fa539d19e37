/* arrays.c: arrays that a call writes must be disjoint from those that it reads: a row could be read after another was
   written there, and threads read and write concurrently. */
#include "bindings.h"
#include "call.h"
#include "plan.h"
#include "regions.h"
#include "workspace.h"

/* ---- of one call ---- */

static void add_array(call_arrays *c, const io_array *a, int written)
{
    if (a->data) c->array[c->n++] = (call_array){.at = *a, .written = written};
}

static void add_block(call_arrays *c, const char *what, const void *data, int64_t n, size_t size, int written)
{
    io_array a = array_of_block(what, "", data, n * (int64_t)size);
    add_array(c, &a, written);
}

/* Adds the output's rows from the first requested to the last, with their log-sum-exps. */
static hga_status add_output(const hga_plan *plan, const hga_io *io, hga_workspace *workspace)
{
    hga_status st = HGA_OK;
    io_array a;
    hga_id f = program_bound(&plan->program, HGA_IO_OUT), heads = plan->fields.storage[f].heads;
    const hga_interval *begin = workspace->request.rows.interval, *end = begin + workspace->request.rows.n - 1;
    hga_id first = (hga_id)begin->first, n = (hga_id)(end->first + end->n) - first;
    HGA_TRY(array_of_tensor("the output", "", &io->out, first, n, heads, plan->fields.storage[f].columns, &a));
    add_array(&workspace->arrays, &a, 1);
    HGA_TRY(array_of_tensor("the log-sum-exp", "", &io->lse, first, n, heads, 1, &a));
    add_array(&workspace->arrays, &a, 1);
    HGA_TRY(array_of_tensor("edge_out", "", &io->edge_out, first, n, heads, io->edge_value.columns, &a));
    add_array(&workspace->arrays, &a, 1);
    add_block(&workspace->arrays, "the tape", io->tape, hga_plan_tape_bytes(plan), 1, 1);
done:
    return st;
}

/* Adds a tensor other than the output: read, or also written where a stage writes rows that are the caller's input. */
static hga_status add_field(const hga_plan *plan, const hga_io *io, hga_workspace *workspace, hga_id f)
{
    const char *name = plan->program.field[f].name;
    const field_storage *h = &plan->fields.storage[f];
    const hga_tensor *t = program_tensor(&plan->program, io, f);
    io_array a;
    if (!t || plan->program.field[f].binding == HGA_IO_OUT) return HGA_OK;
    hga_status st = array_of_tensor("the tensor of field", name, t, 0, h->input_n, h->heads, h->columns, &a);
    if (!st) add_array(&workspace->arrays, &a, program_writes_input(&plan->program, f) != 0);
    return st;
}

static void add_tables(const hga_plan *plan, const hga_io *io, call_arrays *c)
{
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        add_block(c, call_row(t)->name, io->table[t].data, hga_call_entries(t, &plan->shape, plan->nodes.n, io),
                  sizeof(float), 0);
}

/* Lists the arrays of a call and compares each written one with all others. */
hga_status arrays_find(const hga_plan *plan, const hga_io *io, hga_workspace *workspace)
{
    call_arrays *c = &workspace->arrays;
    hga_status st = HGA_OK;
    c->n = 0;
    HGA_TRY(add_output(plan, io, workspace));
    for (hga_id f = 1; f <= plan->program.n_fields; f++) HGA_TRY(add_field(plan, io, workspace, f));
    add_tables(plan, io, c);
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k <= i; k++)
            if (c->array[i].written || c->array[k].written)
                HGA_TRY(arrays_disjoint(&c->array[k].at, c->array[k].written, &c->array[i].at, c->array[i].written));
done:
    return st;
}

/* ---- of the samples of a batch ---- */

hga_status arrays_of_samples(hga_workspace *const *workspaces, hga_id n, hga_id *sample)
{
    call_array *all = NULL;
    for (hga_id i = 0; i < n; i++)
        for (int k = 0; k < workspaces[i]->arrays.n; k++) all = array_listed(&workspaces[i]->arrays.array[k], i, all);
    return listed_arrays_disjoint(all, sample);
}
