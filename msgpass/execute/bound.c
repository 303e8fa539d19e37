/* bound.c: binds a plan's storage to this call's addresses. The caller's tensors are checked here, each by itself and
   for overlap with the others: a call's, and those of a batch's samples. */
#include "attend_solvers.h"
#include "bindings.h"
#include "call_check.h"
#include "carve.h"
#include "call_lists.h"
#include "call_tensors.h"
#include "execution.h"
#include "slice_run.h"
#include "tape.h"
#include "call.h"
#include "plan.h"
#include "regions.h"
#include "workspace.h"

#include <math.h>

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

/* The caller's tensor of a field; written where a stage writes rows that are the caller's input. */
static call_tensor field_of_call(const hga_plan *plan, const hga_io *io, hga_id f)
{
    call_tensor x = tensor_of_field(plan, f, program_tensor(&plan->program, io, f), "the tensor of field");
    x.is = TENSOR_IS_NEEDED | (program_writes_input(&plan->program, f) ? TENSOR_IS_WRITTEN : 0);
    return x;
}

static hga_status check_field(const hga_plan *plan, const hga_io *io, hga_id f)
{
    const call_tensor x = field_of_call(plan, io, f);
    if (plan->program.field[f].binding == HGA_INTERNAL) return HGA_OK;
    if (!x.tensor)
        return hga_fail(HGA_EPROGRAM, "field %s: at most %d tensors of the user's", x.name, HGA_MAX_USER_TENSORS);
    return call_tensor_check(plan, &x);
}

/* What a call writes for each row of the output: rows, log-sum-exps, sums of edges' features. */
typedef struct call_outputs {
    call_tensor of[3];
} call_outputs;

static call_outputs outputs_of_call(const hga_plan *plan, const hga_io *io)
{
    const hga_id columns = plan->fields.storage[program_bound(&plan->program, HGA_IO_OUT)].columns;
    call_outputs x = {{tensor_of_output(plan, &io->out, "the output", columns),
                       tensor_of_output(plan, &io->lse, "the log-sum-exp", 1),
                       tensor_of_output(plan, &io->edge_out, "edge_out", io->edge_value.columns)}};
    x.of[0].is = TENSOR_IS_WRITTEN;
    x.of[1].is = TENSOR_IS_WRITTEN | TENSOR_IS_FLOAT32;
    x.of[2].is = TENSOR_IS_WRITTEN | TENSOR_IS_FLOAT32 | TENSOR_IS_UNFOLDED;
    return x;
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
    return call_adds_edge_values(io) ? check_added_values(plan, io) : HGA_OK;
}

static hga_status check_ranks(const hga_plan *plan, const hga_io *io)
{
    if (!plan_is_shared(plan) || !(io->edge_key.data || io->edge_value.data)) return HGA_OK;
    return hga_fail(HGA_EUNSUPPORTED, "%s on ranks", io->edge_key.data ? "edge_key" : "edge_value");
}

/* Checks the call's arguments other than the fields' tensors: tables, edge features, log-sum-exps, a tape. */
static hga_status check_tables(const hga_plan *plan, const hga_io *io)
{
    const call_outputs outputs = outputs_of_call(plan, io);
    hga_status st = plan_check_call(plan, io);
    if (!st) st = check_edge_out(plan, io);
    if (!st) st = check_ranks(plan, io);
    if (!st && io->lse.data && !plan->program.has_lse)
        st = hga_fail(HGA_EUNSUPPORTED, "this program's output has no log-sum-exp");
    for (int i = 1; i < 3 && !st; i++) st = call_tensor_check(plan, &outputs.of[i]);
    if (st) return st;
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

static hga_status add_tensor(call_arrays *c, const call_tensor *t)
{
    io_array a;
    hga_status st = call_tensor_array(t, &a);
    if (!st) add_array(c, &a, (t->is & TENSOR_IS_WRITTEN) != 0);
    return st;
}

/* Adds the output's rows from the first requested to the last. */
static hga_status add_outputs(const hga_plan *plan, const hga_io *io, hga_workspace *workspace)
{
    hga_status st = HGA_OK;
    call_outputs outputs = outputs_of_call(plan, io);
    const hga_interval *begin = workspace->request.rows.interval, *end = begin + workspace->request.rows.n - 1;
    for (int i = 0; i < 3 && !st; i++) {
        call_tensor *t = &outputs.of[i];
        t->first = begin->first, t->rows = end->first + end->n - t->first;
        st = add_tensor(&workspace->arrays, t);
    }
    return st;
}

/* Adds the tape, which is written, and the tables. */
static void add_blocks(const hga_plan *plan, const hga_io *io, call_arrays *c)
{
    io_array a = array_of_block("the tape", "", io->tape, hga_plan_tape_bytes(plan));
    add_array(c, &a, 1);
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        a = call_table_array(plan, io, t, io->table[t].data, "");
        add_array(c, &a, 0);
    }
}

/* Lists the arrays of a call and compares each written one with all others. */
hga_status arrays_find(const hga_plan *plan, const hga_io *io, hga_workspace *workspace)
{
    call_arrays *c = &workspace->arrays;
    hga_status st = HGA_OK;
    c->n = 0;
    HGA_TRY(add_outputs(plan, io, workspace));
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        const call_tensor x = field_of_call(plan, io, f);
        if (x.tensor && plan->program.field[f].binding != HGA_IO_OUT) HGA_TRY(add_tensor(c, &x));
    }
    add_blocks(plan, io, c);
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
