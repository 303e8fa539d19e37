/* rank_stage.c: what a rank's stages are given in place of the caller's tensors; its memory in a workspace. */
#include "bindings.h"
#include "execute.h"
#include "ranks.h"

/* ---- memory ---- */

static rank_room carve_room(const hga_plan *plan, void *memory)
{
    const struct rank_plan *r = plan->ranks;
    carver room = {.base = memory};
    rank_room x = {0};
    x.sent = carve(&room, r->bytes_out, 1);
    x.received = carve(&room, r->bytes_in, 1);
    x.packet = carve(&room, r->n_messages, sizeof *x.packet);
    x.call = carve(&room, 1, sizeof *x.call);
    x.merged = carve(&room, r->n_limbs, sizeof *x.merged);
    x.bytes = room.used;
    return x;
}

int64_t rank_bytes(const hga_plan *plan) { return plan->ranks ? carve_room(plan, NULL).bytes : 0; }

hga_status rank_create(const hga_plan *plan, hga_workspace *workspace)
{
    workspace->rank_bytes = rank_bytes(plan);
    return hga_new(&workspace->base.allocator, workspace->rank_bytes, 1, &workspace->rank_memory);
}

void rank_destroy(hga_workspace *workspace)
{
    hga_delete(&workspace->base.allocator, workspace->rank_memory, workspace->rank_bytes, 1);
    hga_delete(&workspace->base.allocator, workspace->rank_copy, workspace->rank_copy_room,
               sizeof *workspace->rank_copy);
}

/* ---- the caller's rows ---- */

static int64_t row_floats(const field_storage *h) { return (int64_t)h->heads * h->columns; }

/* The tensor's rows to a copy, or back. */
static void move_rows(const field_storage *h, const hga_tensor *given, float *copy, int in)
{
    for (hga_id row = 0; row < h->given_n; row++)
        for (hga_id head = 0; head < h->heads; head++, copy += h->columns) {
            void *at = tensor_at(given, h->heads, h->columns, row, head);
            if (in)
                numbers_read(given->dtype, at, h->columns, copy);
            else
                numbers_write(given->dtype, copy, h->columns, at);
        }
}

static hga_tensor *staged_tensor(const hga_plan *plan, hga_workspace *workspace, hga_id f)
{
    return (hga_tensor *)program_tensor(&plan->program, &workspace->staged, f);
}

void rank_bind(const hga_plan *plan, hga_id f, bound_field *x)
{
    const struct rank_plan *r = plan->ranks;
    rank_rows at = {0};
    if (!r || !rank_rows_next(plan, f, &at)) {
        if (r) x->io_n = 0;
        return;
    }
    hga_id first = at.first, n = at.n;
    if (rank_rows_next(plan, f, &at))
        x->io_slot = r->number + x->io_first, x->io_base = r->number[first];
    else
        x->io_first = first, x->io_n = n;
}

/* Is the tensor of 16 bits? */
static int is_copied(const hga_plan *plan, hga_id f, const hga_io *io)
{
    return plan->program.field[f].binding != HGA_INTERNAL && program_tensor(&plan->program, io, f)->dtype != HGA_F32;
}

hga_status rank_stage(const hga_plan *plan, hga_workspace *workspace, const hga_io **io)
{
    hga_status st = HGA_OK;
    int64_t floats = 0;
    if (!plan->ranks) return HGA_OK;
    workspace->rank = carve_room(plan, workspace->rank_memory);
    workspace->staged = **io;
    for (hga_id f = 1; f <= plan->program.n_fields; f++)
        if (is_copied(plan, f, *io)) floats += plan->storage[f].given_n * row_floats(&plan->storage[f]);
    HGA_TRY(hga_grow(&workspace->base.allocator, &workspace->rank_copy, &workspace->rank_copy_room, 0, floats,
                     sizeof *workspace->rank_copy));
    float *copy = workspace->rank_copy;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        if (!is_copied(plan, f, *io)) continue;
        move_rows(&plan->storage[f], program_tensor(&plan->program, *io, f), copy, 1);
        *staged_tensor(plan, workspace, f) = (hga_tensor){.data = copy, .rows = plan->storage[f].given_n};
        workspace->rank.copied |= 1u << f;
        copy += plan->storage[f].given_n * row_floats(&plan->storage[f]);
    }
    *io = &workspace->staged;
done:
    return st;
}

void rank_give_back(const hga_plan *plan, const hga_workspace *workspace, const hga_io *io)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++)
        if (rank_gives_back(plan, f) && workspace->rank.copied >> f & 1u)
            move_rows(&plan->storage[f], program_tensor(&plan->program, io, f),
                      program_tensor(&plan->program, &workspace->staged, f)->data, 0);
}
