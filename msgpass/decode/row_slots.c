/* row_slots.c: recycled rows of a workspace (row_slots.h). For each field, and for the splits of each stage, there are
   arrays of slots, and for each node the slot that it has. Slot 0 belongs to no node: kernels read, and mask away, rows
   of a group of sixteen that a call does not need. The slot freed last is reused first, since it is still in the
   cache. */
#include "row_slots.h"
#include "carve.h"
#include "plan.h"

#include "workspace.h"

#include <string.h>

enum {
    LEAST_CAPACITY = 16,
    PATIENCE = 64 /* calls that need less than a quarter of the capacity, until it is reduced */
};

/* ---- sizes ---- */

static int is_field(hga_id i) { return i < HGA_FIELD_SLOTS; }

/* Number of nodes, or of a stage's splits, that may have slots. */
static hga_id count_owners(const hga_plan *plan, hga_id i)
{
    if (is_field(i)) return i >= 1 && i <= plan->program.n_fields ? plan->nodes.n : 0;
    return i - HGA_FIELD_SLOTS < plan->program.n_stages ? plan->stage[i - HGA_FIELD_SLOTS].n_splits : 0;
}

static void measure(const hga_plan *plan, hga_id i, int64_t floats[SLOT_ARRAYS])
{
    const field_storage *h = &plan->fields.storage[is_field(i) ? i : 0];
    memset(floats, 0, SLOT_ARRAYS * sizeof *floats);
    floats[SLOT_ROW] = is_field(i) ? (int64_t)h->heads * h->columns : split_floats(plan, i - HGA_FIELD_SLOTS);
    if (!is_field(i)) return;
    floats[SLOT_LSE] = h->lse.floats;
    floats[SLOT_ROUNDED] = h->rounded.floats;
}

/* Carves arrays for so many slots from memory, or measures them if that is NULL. Kernels read a little beyond a row's
   end. */
static int64_t lay_out(row_slots *x, hga_id capacity, void *memory)
{
    carver c = {.base = memory};
    x->capacity = capacity, x->memory = memory;
    x->owner = carve(&c, capacity, sizeof *x->owner);
    x->back = carve(&c, capacity, sizeof *x->back);
    x->young = carve(&c, capacity, sizeof *x->young);
    for (int k = 0; k < SLOT_ARRAYS; k++)
        x->part[k] = x->floats[k] ? carve_floats(&c, capacity * x->floats[k] + KERNEL_PAD) : NULL;
    return x->bytes = c.used;
}

/* Moves the owners, with their rows, to the first slots of arrays of another capacity. */
static hga_status change_capacity(const hga_allocator *a, row_slots *x, hga_id capacity)
{
    hga_status st = HGA_OK;
    row_slots new = *x;
    void *memory;
    HGA_TRY(hga_new(a, lay_out(&new, capacity, NULL), 1, &memory));
    lay_out(&new, capacity, memory);
    new.end = 1, new.n_back = 0;
    new.owner[0] = -1;
    if (x->n_young) memcpy(new.young, x->young, (size_t)x->n_young * sizeof *x->young);
    for (hga_id p = 1; p < x->end; p++) {
        if (x->owner[p] < 0) continue;
        new.owner[new.end] = x->owner[p], new.slot[x->owner[p]] = new.end;
        for (int k = 0; k < SLOT_ARRAYS; k++)
            if (x->floats[k])
                memcpy(new.part[k] + new.end * x->floats[k], x->part[k] + p * x->floats[k],
                       (size_t)x->floats[k] * sizeof(float));
        new.end++;
    }
    hga_delete(a, x->memory, x->bytes, 1);
    *x = new;
done:
    return st;
}

/* ---- making ---- */

static int64_t carve_owners(const hga_plan *plan, hga_workspace *workspace, void *memory)
{
    carver c = {.base = memory};
    for (hga_id i = 0; i < N_ROW_SLOTS; i++) {
        hga_id *place = carve(&c, count_owners(plan, i), sizeof *place);
        if (memory) workspace->slots.of[i].slot = place;
    }
    return c.used;
}

/* Bytes of a new workspace's slots. */
static int64_t row_slots_bytes(const hga_plan *plan)
{
    int64_t bytes = carve_owners(plan, NULL, NULL);
    for (hga_id i = 0; i < N_ROW_SLOTS; i++) {
        row_slots x = {0};
        if (!count_owners(plan, i)) continue;
        measure(plan, i, x.floats);
        bytes += lay_out(&x, LEAST_CAPACITY, NULL);
    }
    return bytes;
}

/* Creates the first few slots of all recycled rows. */
static hga_status create(const hga_plan *plan, hga_workspace *workspace)
{
    hga_status st = HGA_OK;
    workspace->slots.owner_bytes = carve_owners(plan, NULL, NULL);
    HGA_TRY(hga_new_zero(&workspace->base.allocator, workspace->slots.owner_bytes, 1, &workspace->slots.owners));
    carve_owners(plan, workspace, workspace->slots.owners);
    workspace->slots.n_cycled = 0;
    for (hga_id i = 0; i < N_ROW_SLOTS; i++) {
        if (!count_owners(plan, i)) continue;
        workspace->slots.cycled[workspace->slots.n_cycled++] = i;
        measure(plan, i, workspace->slots.of[i].floats);
        workspace->slots.of[i].taken_here = topology_domains(plan->machine.topology) > 1;
        HGA_TRY(change_capacity(&workspace->base.allocator, &workspace->slots.of[i], LEAST_CAPACITY));
    }
done:
    return st;
}

/* ---- taking and freeing slots ---- */

/* Where there are several domains, a new row's memory is touched first by the appending thread, and so is near it:
   other threads compute rows of a prompt, but the tokens that come one by one, each of which reads rows of all of it,
   are computed by the appending thread. */
static hga_id new_slot(row_slots *x)
{
    for (int k = 0; x->taken_here && k < SLOT_ARRAYS; k++)
        for (int64_t i = 0; i < x->floats[k]; i += LINE_FLOATS) x->part[k][x->end * x->floats[k] + i] = 0;
    return x->end++;
}

/* Gives the owner a slot; doubles the capacity when all slots are taken. */
static hga_status take(const hga_workspace *workspace, row_slots *x, hga_id owner)
{
    if (x->slot[owner]) return HGA_OK;
    if (!x->n_back && x->end == x->capacity) {
        hga_status st =
            change_capacity(&workspace->base.allocator, x, x->capacity < INT32_MAX / 2 ? 2 * x->capacity : INT32_MAX);
        if (st) return st;
    }
    hga_id p = x->n_back ? x->back[--x->n_back] : new_slot(x);
    x->slot[owner] = p, x->owner[p] = owner, x->young[x->n_young++] = owner;
    return HGA_OK;
}

static void leave(row_slots *x, hga_id owner)
{
    hga_id p = x->slot[owner];
    x->slot[owner] = 0;
    if (p < 0)
        x->borrowed[~p] = (borrowed_row){.owner = -1, .next = x->borrowed_back}, x->borrowed_back = p, x->n_borrowed--;
    else
        x->owner[p] = -1, x->back[x->n_back++] = p;
}

/* Frees all slots; no row of a field is present any more. */
static void leave_all(hga_workspace *workspace)
{
    for (hga_id k = 0; k < workspace->slots.n_cycled; k++) {
        const hga_id i = workspace->slots.cycled[k];
        row_slots *x = &workspace->slots.of[i];
        for (hga_id p = 1; p < x->end; p++) {
            if (x->owner[p] < 0) continue;
            if (is_field(i)) slice_drop_rows(&workspace->sliced.slice, i, x->owner[p], 1);
            x->slot[x->owner[p]] = 0;
        }
        for (hga_id p = 0; p < x->borrowed_end; p++)
            if (x->borrowed[p].owner >= 0) x->slot[x->borrowed[p].owner] = 0;
        x->end = 1, x->n_back = x->n_young = x->n_borrowed = x->borrowed_end = x->borrowed_back = 0;
    }
}

/* ---- for executions ---- */

typedef struct taking {
    const hga_plan *plan;
    hga_workspace *workspace;
    uint64_t storages;
    hga_status st;
} taking;

static void take_nodes(void *context, hga_id first, hga_id last)
{
    taking *t = context;
    for (uint64_t set = t->storages; set; set &= set - 1) {
        hga_id storage = __builtin_ctzll(set);
        for (hga_id v = first; !t->st && v <= last; v++)
            t->st = take(t->workspace, &t->workspace->slots.of[storage % HGA_FIELD_SLOTS], v);
        if (!t->st) slice_note_there(t->plan, &t->workspace->sliced.slice, storage, first, (int64_t)last + 1);
    }
}

/* Takes slots for all rows that run and notes them as present: if an execution fails, the decoder drops all. */
static hga_status take_run(const hga_plan *plan, hga_workspace *workspace)
{
    taking t = {.plan = plan, .workspace = workspace};
    FOR_JOBS(&workspace->sliced.slice, j)
    {
        const slice_job *job = &plan->slices->job[j];
        const phase *ph = &plan->phases.list[job->phase];
        t.storages = job->of.writes;
        FOR_RUNS(&workspace->sliced.slice.run[j], i, end, 0, job->rows)
        {
            for (int64_t k = i; ph->job == JOB_SPLITS && !t.st && k < end; k++)
                t.st = take(workspace, &workspace->slots.of[HGA_FIELD_SLOTS + job->stage], (hga_id)k);
            if (t.storages) slice_own_nodes(plan, ph, (hga_id)i, (hga_id)end, take_nodes, &t);
        }
    }
    return t.st;
}

/* Binds a field with all rows in the workspace. */
static void bind_field(const hga_plan *plan, hga_workspace *workspace, hga_id f)
{
    const field_storage *h = &plan->fields.storage[f];
    const row_slots *p = &workspace->slots.of[f];
    bound_field *x = &workspace->field[f], *rounded = &workspace->field[STORAGE_ROUNDED + f];
    *x = (bound_field){.columns = h->columns,
                       .heads = h->heads,
                       .ws.at = p->part[SLOT_ROW],
                       .ws.slot = p->slot,
                       .ws.borrowed = p->borrowed,
                       .ws.row = p->floats[SLOT_ROW],
                       .ws.head = h->columns,
                       .lse.at = p->part[SLOT_LSE],
                       .lse.slot = p->slot};
    *rounded = *x;
    if (plan->fields.bf16_rows)
        rounded->bf16 = (bound_bf16_rows){.at = (uint16_t *)(void *)p->part[SLOT_ROUNDED],
                                          .slot = p->slot,
                                          .row = 2 * p->floats[SLOT_ROUNDED],
                                          .head = h->columns};
    else
        rounded->ws.at = p->part[SLOT_ROUNDED], rounded->ws.row = p->floats[SLOT_ROUNDED];
}

static hga_status bind(const hga_plan *plan, hga_workspace *workspace)
{
    hga_status st = take_run(plan, workspace);
    for (hga_id f = 1; !st && f <= plan->program.n_fields; f++) bind_field(plan, workspace, f);
    return st;
}

/* ---- for the decoder ---- */

hga_status workspace_take_slot(hga_workspace *workspace, hga_id f, hga_id v, float **row)
{
    hga_status st = take(workspace, &workspace->slots.of[f], v);
    if (!st) *row = workspace_input_row(workspace, f, v);
    return st;
}

int workspace_borrows(const hga_workspace *workspace, hga_id f)
{
    const int64_t *floats = workspace->slots.of[f].floats;
    return !floats[SLOT_LSE] && !floats[SLOT_ROUNDED];
}

/* Borrows the owner's row from other memory: its slot is a number below 0. */
static hga_status take_borrowed(const hga_workspace *workspace, row_slots *x, hga_id owner)
{
    hga_status st = HGA_OK;
    hga_id p = x->borrowed_back;
    if (!p)
        HGA_TRY(hga_grow(&workspace->base.allocator, &x->borrowed, &x->borrowed_capacity, x->borrowed_end,
                         (int64_t)x->borrowed_end + 1, sizeof *x->borrowed));
    if (p)
        x->borrowed_back = x->borrowed[~p].next;
    else
        p = ~x->borrowed_end++;
    x->slot[owner] = p, x->n_borrowed++;
done:
    return st;
}

hga_status workspace_borrow_row(hga_workspace *workspace, hga_id f, hga_id v, float *row)
{
    row_slots *x = &workspace->slots.of[f];
    hga_status st = x->slot[v] ? HGA_OK : take_borrowed(workspace, x, v);
    if (!st) x->borrowed[~x->slot[v]] = (borrowed_row){.row = row, .owner = v};
    return st;
}

float *workspace_input_row(const hga_workspace *workspace, hga_id f, hga_id v)
{
    const row_slots *x = &workspace->slots.of[f];
    if (x->slot[v] < 0) return x->borrowed[~x->slot[v]].row;
    return slot_address(x, SLOT_ROW, v);
}

const float *workspace_row_lse(const hga_workspace *workspace, hga_id f, hga_id v)
{
    return slot_address(&workspace->slots.of[f], SLOT_LSE, v);
}

void workspace_leave_slot(hga_workspace *workspace, hga_id f, hga_id v)
{
    if (!workspace->slots.of[f].slot[v]) return;
    slice_drop_rows(&workspace->sliced.slice, f, v, 1);
    leave(&workspace->slots.of[f], v);
}

/* Reduces the capacity after many calls that used little of it; without memory for the smaller arrays nothing
   changes. */
static void note_use(const hga_allocator *a, row_slots *x, hga_id used)
{
    x->idle = x->capacity > LEAST_CAPACITY && 4 * used < x->capacity ? x->idle + 1 : 0;
    if (x->idle < PATIENCE) return;
    x->idle = 0;
    (void)change_capacity(a, x, 2 * used > LEAST_CAPACITY ? 2 * used : LEAST_CAPACITY);
}

/* Frees the slots taken since the last call, except fields' rows that stay. */
void workspace_settle(hga_workspace *workspace, int (*stays)(const void *context, hga_id f, hga_id v),
                      const void *context)
{
    for (hga_id j = 0; j < workspace->slots.n_cycled; j++) {
        const hga_id i = workspace->slots.cycled[j];
        row_slots *x = &workspace->slots.of[i];
        hga_id used = x->end - x->n_back;
        for (hga_id k = 0; k < x->n_young; k++) {
            hga_id v = x->young[k];
            if (!is_field(i))
                leave(x, v);
            else if (!stays(context, i, v))
                workspace_leave_slot(workspace, i, v);
        }
        x->n_young = 0;
        note_use(&workspace->base.allocator, x, used);
    }
}

int64_t workspace_slot_bytes(const hga_workspace *workspace)
{
    int64_t bytes = workspace->slots.owner_bytes;
    for (hga_id k = 0; k < workspace->slots.n_cycled; k++) {
        const row_slots *x = &workspace->slots.of[workspace->slots.cycled[k]];
        bytes += x->bytes + x->borrowed_capacity * (int64_t)sizeof *x->borrowed;
    }
    return bytes;
}

const struct rows_on_demand slots_on_demand = {row_slots_bytes, create, bind, workspace_take_slot, leave_all};
