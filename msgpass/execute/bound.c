/* bound.c: binds a plan's storage to this call's addresses. The caller's tensors are checked here, each by itself and
   for overlap with the others: a call's, and those of a batch's samples. */
#include "attend_solvers.h"
#include "bindings.h"
#include "call_check.h"
#include "carve.h"
#include "call_lists.h"
#include "execution.h"
#include "slice_run.h"
#include "tape.h"
#include "call.h"
#include "plan.h"
#include "regions.h"
#include "workspace.h"

#include <math.h>

/* Checks the tensor's dtype, and that its address is a multiple of the dtype's size. */
static hga_status check_numbers(const hga_tensor *t, const char *what)
{
    size_t size = t->dtype == HGA_F32 ? _Alignof(float) : _Alignof(uint16_t);
    if ((unsigned)t->dtype > HGA_BF16)
        return hga_fail(HGA_EUNSUPPORTED, "the tensor of field %s has dtype %d, not float32, float16 or bfloat16", what,
                        (int)t->dtype);
    size_t beyond = (size_t)((uintptr_t)t->data % size);
    if (beyond)
        return hga_fail(HGA_EINVAL, "the tensor of field %s starts %zu bytes past a multiple of %zu", what, beyond,
                        size);
    return HGA_OK;
}

static hga_status check_floats(const hga_tensor *t, const char *what)
{
    if (t->dtype == HGA_F32) return check_numbers(t, what);
    return hga_fail(HGA_EUNSUPPORTED, "the tensor of field %s has dtype %d, not float32", what, (int)t->dtype);
}

/* Checks that the caller's tensor has a row for each of the nodes. */
static hga_status check_has_rows(const hga_tensor *t, const char *what, hga_id needed)
{
    if (t->rows >= needed) return HGA_OK;
    return hga_fail(HGA_EINVAL, "the tensor of field %s has %lld rows, the program needs %d", what, (long long)t->rows,
                    needed);
}

/* Whether the stage does not soon read again the rows that it writes. A descent reads nodes with children, and tokens
   once all subtrees are done, if at all. */
static int leaves_rows_alone(const hga_plan *plan, hga_id stage, const bound_field *x)
{
    stage_kind kind = plan->stage[stage].kind;
    int tokens = x->io.first + x->io.n <= plan->nodes.level_ptr[1];
    return kind_attends(kind) || (kind == KIND_DESCEND && tokens);
}

/* Whether the caller's tensor is an output of one stage only, which does not read its rows again, with many rows of
   whole cache lines. */
static int is_streamed(const hga_plan *plan, hga_id f, const bound_field *x)
{
    hga_id stages = 0, leaving = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        const hga_stage *stage = &plan->program.stage[s];
        stages += ((stage->reads | stage->writes) >> f & 1u) != 0;
        leaving += stage->out == f && leaves_rows_alone(plan, s, x);
    }
    int whole = (uintptr_t)x->io.at % (LINE_FLOATS * sizeof *x->io.at) == 0 && x->io.row % LINE_FLOATS == 0 &&
                x->io.step % LINE_FLOATS == 0 && x->io.head % LINE_FLOATS == 0 && x->columns % LINE_FLOATS == 0;
    return stages == 1 && leaving == 1 && whole && storage_is_large(plan, f);
}

/* Checks that the caller's tensor of a field is present, has a row for each of its nodes, and has a known dtype. */
static hga_status check_field(const hga_plan *plan, const hga_io *io, hga_id f)
{
    const char *what = plan->program.field[f].name;
    const hga_tensor *t = program_tensor(&plan->program, io, f);
    if (plan->program.field[f].binding == HGA_INTERNAL) return HGA_OK;
    if (!t) return hga_fail(HGA_EPROGRAM, "field %s: at most %d tensors of the user's", what, HGA_MAX_USER_TENSORS);
    if (!t->data && plan->fields.storage[f].input_n > 0)
        return hga_fail(HGA_EINVAL, "the tensor of field %s is missing", what);
    if (t->fold && plan_is_shared(plan))
        return hga_fail(HGA_EUNSUPPORTED, "the tensor of field %s is folded, on ranks", what);
    hga_status st = check_has_rows(t, what, plan->fields.storage[f].input_n);
    return st ? st : check_numbers(t, what);
}

/* Limits a field to the rows that the caller's tensor holds on this rank. */
static void bind_own(const hga_plan *plan, hga_id f, bound_field *x)
{
    rows_here at = {0};
    if (!rows_here_next(plan, f, &at)) {
        x->io.n = 0;
        return;
    }
    hga_id first = at.first, n = at.n;
    if (rows_here_next(plan, f, &at))
        x->io.slot = plan->share.number + x->io.first, x->io.base = plan->share.number[first];
    else
        x->io.first = first, x->io.n = n;
}

static int reads_unrounded(const hga_plan *plan, hga_id f)
{
    int reads = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        const hga_stage *stage = &plan->program.stage[s];
        reads |= (stage->reads >> f & 1u) && !reads_rounded(stage);
    }
    return reads;
}

/* Whether stages read keys or values of bfloat16 where they lie: all of the caller's rows rounded, and no others. */
static int is_read_in_place(const hga_plan *plan, const hga_tensor *t, hga_id f)
{
    const field_storage *h = &plan->fields.storage[f];
    int same_rows = h->rounded.n > 0 && h->rounded.n == h->io_n && h->rounded.first == h->io_first;
    return t && t->dtype == HGA_BF16 && same_rows && plan->fields.bf16_rows && !plan->fields.on_demand &&
           !plan->options.keep_fields && !plan_is_shared(plan) && !program_writes_input(&plan->program, f) &&
           !reads_unrounded(plan, f);
}

/* Binds a field's rows: in the workspace, in the caller's tensor, or in a widened copy of it. */
static hga_status bind_field(const hga_plan *plan, const hga_io *io, hga_workspace *workspace, hga_id f)
{
    const field_storage *h = &plan->fields.storage[f];
    bound_field *x = &workspace->field[f];
    const hga_tensor *t = program_tensor(&plan->program, io, f);
    *x = (bound_field){.io.first = h->io_first, .io.n = h->io_n, .columns = h->columns, .heads = h->heads};
    x->ws.at = workspace->memory.rows ? workspace->memory.rows + h->rows.at : NULL;
    x->ws.first = h->rows.first, x->ws.slot = h->rows.slot, x->ws.head = h->columns, x->ws.row = h->rows.floats;
    x->lse.at = workspace->memory.rows ? workspace->memory.rows + h->lse.at : NULL;
    x->lse.first = h->lse.first, x->lse.slot = h->lse.slot;
    if (plan->program.field[f].binding == HGA_INTERNAL) return HGA_OK;
    x->io.at = t->data;
    row_layout layout = tensor_layout(t, h->heads, h->columns);
    x->io.head = layout.head, x->io.row = layout.row, x->io.step = layout.step, x->io.fold = (hga_id)layout.fold;
    if (is_read_in_place(plan, t, f)) {
        x->bf16 = (bound_bf16_rows){.at = t->data,
                                    .row = x->io.row,
                                    .head = x->io.head,
                                    .step = x->io.step,
                                    .fold = x->io.fold,
                                    .first = x->io.first,
                                    .is_io = 1};
    } else if (t->dtype != HGA_F32) {
        hga_status st = sixteen_open(workspace, f, t);
        if (st) return st;
        x->io.at = workspace->widened[f].values, x->io.head = h->columns, x->io.row = (ptrdiff_t)h->columns * h->heads;
        x->io.fold = 0;
    }
    bind_own(plan, f, x);
    x->io.streams = plan->program.field[f].binding == HGA_IO_OUT && t->dtype == HGA_F32 && is_streamed(plan, f, x);
    return HGA_OK;
}

/* Binds an alias to its host's rows; its log-sum-exps are its own. */
static void bind_alias(const hga_plan *plan, hga_workspace *workspace, hga_id f)
{
    bound_field *x = &workspace->field[f];
    const alias_rows *aliases = &plan->fields.storage[f].aliases;
    if (aliases->n) {
        const bound_field *host = &workspace->field[aliases->host];
        x->io.at = host->io.at, x->io.row = host->io.row, x->io.head = host->io.head;
        x->io.fold = host->io.fold, x->io.step = host->io.step;
        x->io.first = aliases->first, x->io.n = aliases->n, x->io.slot = aliases->row, x->io.base = 0;
    }
    if (!plan->fields.storage[f].host) return;
    bound_field rows = workspace->field[plan->fields.storage[f].host];
    rows.io.streams = 0;
    rows.lse.at = x->lse.at, rows.lse.first = x->lse.first, rows.lse.slot = x->lse.slot;
    *x = rows;
}

/* Binds the field's rounded rows. */
static void bind_rounded(const hga_plan *plan, hga_workspace *workspace, hga_id f)
{
    const area *a = &plan->fields.storage[f].rounded;
    bound_field *x = &workspace->field[STORAGE_ROUNDED + f];
    if (!a->n) return;
    *x = workspace->field[f];
    if (x->bf16.is_io) return;
    if (plan->fields.bf16_rows) {
        x->bf16 = (bound_bf16_rows){.at = (uint16_t *)(void *)(workspace->memory.rows + a->at),
                                    .slot = a->slot,
                                    .row = 2 * a->floats,
                                    .head = x->columns,
                                    .first = a->first};
        return;
    }
    x->io.n = 0, x->ws.at = workspace->memory.rows + a->at;
    x->ws.first = a->first, x->ws.slot = a->slot, x->ws.head = x->columns, x->ws.row = a->floats;
}

/* Why the output's weights have no sum of edge features; NULL: they have one. */
static const char *refuse_edge_out(const hga_plan *plan, const hga_io *io)
{
    const hga_program *p = &plan->program;
    const hga_id out = program_bound(p, HGA_IO_OUT);
    for (hga_id s = 0; s < p->n_stages; s++)
        if ((p->stage[s].writes >> out & 1u) != (s == p->n_stages - 1))
            return "the output is not the last stage's alone";
    if (plan->bias_stage != p->n_stages - 1 || plan->stage[plan->bias_stage].kind != KIND_ATTEND)
        return "the last stage is not the only one that attends";
    if (program_normaliser(p) != HGA_NORMALISER_SOFTMAX) return "weights are not those of softmax";
    return io->sink.data ? "sinks" : NULL;
}

/* Without edge_out a row of edge_value is as a row of values. */
static hga_status check_added_values(const hga_plan *plan, const hga_io *io)
{
    const int64_t columns = (int64_t)plan->shape.n_kv_heads * plan->shape.dim_v;
    if (io->edge_value.columns != columns)
        return hga_fail(HGA_EINVAL, "edge_value is given, but no edge_out, and its %d columns are not a value's %lld",
                        io->edge_value.columns, (long long)columns);
    return plan->fields.bf16_rows ? hga_fail(HGA_EUNSUPPORTED, "edge_value without edge_out: precision is bf16")
                                  : HGA_OK;
}

/* edge_value is there, and edge_out unless it is added to values, in a program whose weights sum up edge features. */
static hga_status check_edge_out(const hga_plan *plan, const hga_io *io)
{
    if (!io->edge_out.data && !io->edge_value.data) return HGA_OK;
    if (!io->edge_value.data) return hga_fail(HGA_EINVAL, "edge_out is given, but no edge_value");
    const char *why = refuse_edge_out(plan, io);
    if (why) return hga_fail(HGA_EUNSUPPORTED, "edge_value: %s", why);
    if (call_adds_edge_values(io)) return check_added_values(plan, io);
    if (io->edge_out.fold) return hga_fail(HGA_EUNSUPPORTED, "edge_out is folded");
    hga_status st = check_has_rows(&io->edge_out, "edge_out",
                                   plan->fields.storage[program_bound(&plan->program, HGA_IO_OUT)].input_n);
    return st ? st : check_floats(&io->edge_out, "edge_out");
}

static hga_status check_ranks(const hga_plan *plan, const hga_io *io)
{
    if (!plan_is_shared(plan) || !(io->edge_key.data || io->edge_value.data)) return HGA_OK;
    return hga_fail(HGA_EUNSUPPORTED, "%s on ranks", io->edge_key.data ? "edge_key" : "edge_value");
}

/* Checks the call's arguments other than the fields' tensors: tables, edge features, log-sum-exps, a tape. */
static hga_status check_tables(const hga_plan *plan, const hga_io *io)
{
    const hga_program *p = &plan->program;
    hga_status st = plan_check_call(plan, io);
    if (!st) st = check_edge_out(plan, io);
    if (!st) st = check_ranks(plan, io);
    if (st) return st;
    if (io->lse.data && !p->has_lse) return hga_fail(HGA_EUNSUPPORTED, "this program's output has no log-sum-exp");
    if (io->lse.data) {
        st = check_has_rows(&io->lse, "lse", plan->fields.storage[program_bound(p, HGA_IO_OUT)].input_n);
        if (!st) st = check_floats(&io->lse, "lse");
        if (!st && io->lse.fold && plan_is_shared(plan)) st = hga_fail(HGA_EUNSUPPORTED, "the lse is folded, on ranks");
        if (st) return st;
    }
    if (io->tape && !plan->options.gradient)
        return hga_fail(HGA_EINVAL, "a tape is given, but the plan was made without options.gradient");
    if ((uintptr_t)io->tape % _Alignof(tape_header))
        return hga_fail(HGA_EINVAL, "the tape does not start at a multiple of %zu bytes", _Alignof(tape_header));
    return HGA_OK;
}

/* Makes the lists that this call needs; the first such call allocates them. */
static hga_status set_tables(const hga_plan *plan, const hga_io *io, hga_workspace *workspace)
{
    hga_status st = plan_make_call_lists(plan, io);
    return st || !call_has_edges(io) ? st : workers_make_call_scratch(plan, io, workspace);
}

/* Checks and binds the caller's tensors. */
static hga_status bind_tensors(const hga_plan *plan, const hga_io *io, hga_workspace *workspace)
{
    hga_status st = HGA_OK;
    for (hga_id f = 1; !st && f <= plan->program.n_fields; f++) st = check_field(plan, io, f);
    if (!st) st = arrays_find(plan, io, workspace);
    if (!st && plan_is_shared(plan)) st = plan->share.wing->execution->stage(plan, workspace, &workspace->staged);
    io = workspace->staged;
    for (hga_id f = 1; !st && f <= plan->program.n_fields; f++) st = bind_field(plan, io, workspace, f);
    for (hga_id f = 1; !st && f <= plan->program.n_fields; f++) bind_alias(plan, workspace, f);
    for (hga_id f = 1; !st && f <= plan->program.n_fields; f++) bind_rounded(plan, workspace, f);
    return st;
}

/* Checks the whole call, chooses its solvers, and binds its tensors and numbers. */
hga_status fields_bind(const hga_plan *plan, const hga_io *io, hga_workspace *workspace)
{
    hga_status st = hga_check_reserved("hga_io", io->reserved, sizeof io->reserved);
    if (!st) st = call_check_tables(&plan->program, &plan->shape, plan->nodes.n, io);
    if (!st) st = check_tables(plan, io);
    if (!st) st = set_tables(plan, io, workspace);
    workspace->staged = io, workspace->split_sums.columns = io->edge_out.data ? io->edge_value.columns : 0;
    if (!st) st = slice_bind(plan, io, workspace);
    if (!st) solvers_open(plan, call_features(&plan->program, io), workspace->sliced.on, workspace);
    if (!st)
        st = plan->fields.on_demand ? plan->fields.on_demand->bind(plan, workspace) : bind_tensors(plan, io, workspace);
    workspace->scores.sink = st ? NULL : io->sink.data, workspace->scores.slopes = st ? NULL : io->slopes.data;
    workspace->scores.cap_2 = st ? 0 : call_number(HGA_TABLE_SOFTCAP, &plan->program, io) * KERNEL_LOG2E;
    workspace->scores.sigmoid_bias_2 = 0;
    if (!st && weights_are_sigmoids(plan))
        workspace->scores.sigmoid_bias_2 = call_number(HGA_TABLE_NORMALISER_BIAS, &plan->program, io) * KERNEL_LOG2E;
    for (hga_id f = 1; workspace->scores.sink && f <= plan->program.n_fields; f++) workspace->field[f].io.streams = 0;
    workspace->scores.scale = semantics_scale(&plan->program, &plan->shape, io);
    workspace->scores.scale_2 = workspace->scores.scale * KERNEL_LOG2E;
    return st;
}

/* ---- overlap of one call's arrays ---- */

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

/* ---- overlap of the samples of a batch ---- */

hga_status arrays_of_samples(hga_workspace *const *workspaces, hga_id n, hga_id *sample)
{
    call_array *all = NULL;
    for (hga_id i = 0; i < n; i++)
        for (int k = 0; k < workspaces[i]->arrays.n; k++) all = array_listed(&workspaces[i]->arrays.array[k], i, all);
    return listed_arrays_disjoint(all, sample);
}
