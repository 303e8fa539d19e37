/* rank_stage.c: the tensors that a rank's stages use instead of the caller's; its memory in a workspace. */
#include "bindings.h"
#include "carve.h"
#include "number_types.h"
#include "plan.h"
#include "rank_memory.h"
#include "workspace.h"
#include "workspace_base.h"

/* ---- memory ---- */

/* Carves the rank's memory, itself at the front; returns the bytes in all. */
static int64_t carve_memory(const hga_plan *plan, void *memory)
{
    const struct rank_plan *r = plan->share.ranks;
    carver arena = {.base = memory};
    rank_memory *x = carve(&arena, 1, sizeof *x), none;
    if (!x) x = &none;
    *x = (rank_memory){.sent = carve(&arena, r->traffic.bytes_out, 1),
                       .received = carve(&arena, r->traffic.bytes_in, 1)};
    x->packet = carve(&arena, r->traffic.n_messages, sizeof *x->packet);
    x->call = carve(&arena, 1, sizeof *x->call);
    x->merged = carve(&arena, r->n_splits, sizeof *x->merged);
    return arena.used;
}

int64_t rank_memory_bytes(const hga_plan *plan) { return carve_memory(plan, NULL); }

/* ---- the caller's rows ---- */

static int64_t row_floats(const field_storage *h) { return (int64_t)h->heads * h->columns; }

/* Copies the tensor's rows to a copy, or back. */
static void copy_staged(const kernel_table *kernels, const field_storage *h, const hga_tensor *input, float *copy,
                        int in)
{
    for (hga_id row = 0; row < h->input_n; row++)
        for (hga_id head = 0; head < h->heads; head++, copy += h->columns) {
            void *at = tensor_at(input, h->heads, h->columns, row, head);
            if (in)
                numbers_read(kernels, input->dtype, at, h->columns, copy);
            else
                numbers_write(kernels, input->dtype, copy, h->columns, at);
        }
}

/* Is the tensor of 16 bits? */
static int is_copied(const hga_plan *plan, hga_id f, const hga_io *io)
{
    return plan->program.field[f].binding != HGA_INTERNAL && program_tensor(&plan->program, io, f)->dtype != HGA_F32;
}

/* Widens tensors of 16 bits into spare memory of the workspace, and points *io to the tensors that the stages use. */
hga_status rank_stage(const hga_plan *plan, hga_workspace *workspace, const hga_io **io)
{
    hga_status st = HGA_OK;
    int64_t floats = 0;
    float *copy;
    rank_memory *x = memory_of(workspace);
    carve_memory(plan, x), x->staged = **io;
    for (hga_id f = 1; f <= plan->program.n_fields; f++)
        if (is_copied(plan, f, *io)) floats += plan->fields.storage[f].input_n * row_floats(&plan->fields.storage[f]);
    HGA_TRY(workspace_spare(workspace, floats * (int64_t)sizeof *copy, (void **)&copy));
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        if (!is_copied(plan, f, *io)) continue;
        copy_staged(plan->machine.kernels, &plan->fields.storage[f], program_tensor(&plan->program, *io, f), copy, 1);
        *(hga_tensor *)program_tensor(&plan->program, &x->staged, f) =
            (hga_tensor){.data = copy, .rows = plan->fields.storage[f].input_n};
        x->copied |= 1u << f;
        copy += plan->fields.storage[f].input_n * row_floats(&plan->fields.storage[f]);
    }
    *io = &x->staged;
done:
    return st;
}

void rank_give_back(const hga_plan *plan, const hga_workspace *workspace, const hga_io *io)
{
    const rank_memory *x = memory_of(workspace);
    for (hga_id f = 1; f <= plan->program.n_fields; f++)
        if (rank_gives_back(plan, f) && x->copied >> f & 1u)
            copy_staged(plan->machine.kernels, &plan->fields.storage[f], program_tensor(&plan->program, io, f),
                        program_tensor(&plan->program, &x->staged, f)->data, 0);
}
