/* execute.c: workspaces, and running a plan. One parallel region a call; every thread walks its lists of panels, with a
   barrier between waves. */
#include "stages.h"
#include "ranks.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

int64_t hga_plan_workspace_bytes(const hga_plan *plan)
{
    return plan->workspace_floats * (int64_t)sizeof(float) + workers_bytes(plan) + slices_bytes(plan) +
           rank_bytes(plan) + places_bytes(plan) + (int64_t)sizeof(hga_workspace);
}

int64_t hga_plan_tape_bytes(const hga_plan *plan)
{
    if (!plan->options.gradient) return 0;
    int64_t received = ranks_go_by_rows(plan) ? plan->ranks->bytes_in : 0;
    return (int64_t)sizeof(tape_header) + tape_lses(plan) * (int64_t)sizeof(float) + received;
}

static hga_status workspace_create(const hga_plan *plan, hga_workspace **out)
{
    *out = NULL;
    hga_workspace *workspace = NULL;
    hga_allocator a = plan->given;
    if (!a.allocate && topology_domains(plan->machine) > 1) a = pages_fresh();
    hga_status st = hga_new_zero(&a, 1, sizeof *workspace, &workspace);
    if (st) return st;
    workspace->allocator = a, workspace->dealt.first = -1;
    workspace->identity = plan->identity, workspace->serial = plan->serial;
    workspace->workspace_floats = plan->workspace_floats;
    /* not cleared: pages belong to the thread that writes them first, where they have not been somebody's before */
    HGA_TRY(hga_new(&a, plan->workspace_floats, sizeof *workspace->memory, &workspace->memory));
    workspace->rows = first_line(workspace->memory);
    HGA_TRY(slice_create(plan, workspace));
    HGA_TRY(rank_create(plan, workspace));
    HGA_TRY(places_create(plan, workspace));
    HGA_TRY(workers_create(plan, plan->threads, workspace));
    HGA_TRY(layouts_open(plan, workspace));
done:
    if (st) hga_workspace_destroy(workspace), workspace = NULL;
    *out = workspace;
    return st;
}

hga_status hga_workspace_create(const hga_plan *plan, hga_workspace **out)
{
    return plan_failed(plan, workspace_create(plan, out));
}

void hga_workspace_destroy(hga_workspace *workspace)
{
    if (!workspace) return;
    hga_allocator a = workspace->allocator;
    workers_destroy(workspace);
    sixteen_clear(workspace);
    workspace_forget(workspace);
    hga_delete(&a, workspace->spare, workspace->spare_bytes, 1);
    hga_delete(&a, workspace->memory, workspace->workspace_floats, sizeof *workspace->memory);
    slice_destroy(workspace);
    rank_destroy(workspace);
    places_destroy(workspace);
    hga_delete(&a, workspace, 1, sizeof *workspace);
}

hga_status workspace_spare(hga_workspace *workspace, int64_t bytes, void **out)
{
    enum { LINE = LINE_FLOATS * sizeof(float) };
    hga_status st = HGA_OK;
    *out = NULL;
    if (bytes + LINE > workspace->spare_bytes) {
        hga_delete(&workspace->allocator, workspace->spare, workspace->spare_bytes, 1);
        workspace->spare = NULL, workspace->spare_bytes = 0;
        HGA_TRY(hga_new(&workspace->allocator, bytes + LINE, 1, &workspace->spare));
        workspace->spare_bytes = bytes + LINE;
    }
    *out = workspace->spare + (LINE - (uintptr_t)workspace->spare % LINE) % LINE;
done:
    return st;
}

int workspace_is_of(const hga_workspace *workspace, const hga_plan *plan)
{
    return workspace->identity == plan->identity;
}

int workspace_enlist(hga_workspace *workspace, int listed)
{
    int before = workspace->listed;
    workspace->listed = listed;
    return before;
}

workspace_dealt *workspace_deal(hga_workspace *workspace) { return &workspace->dealt; }

workspace_kept *workspace_keeper(hga_workspace *workspace) { return &workspace->kept; }

void workspace_forget(hga_workspace *workspace)
{
    if (workspace->kept.what) workspace->kept.drop(workspace->kept.what);
    workspace->kept = (workspace_kept){0};
}

/* ---- rows ---- */

static void open_stage(worker *w, hga_id stage)
{
    if (w->reading != stage) reader_open(&w->reader, w->plan, stage);
    w->reading = stage;
}

/* .. of node `first` and all behind it? */
static int has_rows_from(const worker *w, hga_id stage, hga_id first)
{
    hga_id out = w->plan->program.stage[stage].out;
    hga_field_rows rows = out ? w->plan->program.field[out].rows : HGA_ROWS_NODES;
    return rows == HGA_ROWS_NODES || (rows == HGA_ROWS_ABOVE && first >= w->plan->nodes.level_ptr[1]);
}

/* Rows [begin, begin + n) of the relation, or of nodes: NO_ROW where the phase has none of the stage's rows,
   left_out(v) where it has, but this execution does not run it. */
static void list_nodes(const worker *w, const phase *ph, hga_id stage, hga_id begin, hga_id n, hga_id *node)
{
    const stage_plan *s = &w->plan->stage[stage];
    const row_bits *run = rows_to_run(w->workspace, ph, stage);
    const int in_order = !(ph->by_position && s->relation.dst_order);
    if (in_order && !run && !s->n_long && has_rows_from(w, stage, begin)) {
        for (hga_id i = 0; i < n; i++) node[i] = begin + i;
        return;
    }
    for (hga_id i = 0; i < n; i++) {
        hga_id v = ph->by_position ? node_at(s, begin + i) : begin + i;
        int mine = has_row(w, stage, v) && !(s->n_long && long_row_at(s, begin + i));
        node[i] = !mine ? NO_ROW : run && !bits_have(run, begin + i - ph->first) ? left_out(v) : v;
    }
}

/* LEVELS_* stages go by node id: with a destination order their rows are loaded one by one. */
static int goes_by_position(const worker *w, const phase *ph)
{
    return ph->by_position || !w->plan->stage[ph->stage].relation.dst_order;
}

void panel_bounds(const phase *ph, hga_id panel, hga_id *first, hga_id *n)
{
    *first = ph->first + panel * ph->panel;
    *n = *first + ph->panel < ph->first + ph->n ? ph->panel : ph->first + ph->n - *first;
}

/* Behind a panel's n rows those of the longer graph, which are not run. */
static hga_id list_ahead(hga_id n, hga_id all, hga_id *node)
{
    for (; n < all; n++) node[n] = NO_ROW;
    return all;
}

void list_panel(const worker *w, wave_item item, panel_rows *out)
{
    const phase *ph = &w->plan->phase[item.phase];
    panel_bounds(ph, item.panel, &out->first, &out->n);
    list_nodes(w, ph, ph->stage, out->first, out->n, out->node);
    out->n = list_ahead(out->n, w->reader.n, out->node);
}

void load_panel(worker *w, wave_item item)
{
    const phase *ph = &w->plan->phase[item.phase];
    hga_id first, n;
    open_stage(w, ph->stage);
    panel_bounds(ph, item.panel, &first, &n);
    reader_load_panel(&w->reader, first, n);
}

/* Of a panel's rows the groups of sixteen from the first row to the last that this execution runs; 0: there are none.
   */
static int narrow_panel(const worker *w, const phase *ph, hga_id stage, hga_id *begin, hga_id *n)
{
    const row_bits *run = rows_to_run(w->workspace, ph, stage);
    if (!run) return 1;
    int64_t first = *begin - ph->first, end = first + *n, at = bits_next(run, first, end), last = end;
    if (at == end) return 0;
    for (int64_t next = at; next < end; next = bits_next(run, last, end)) last = bits_next_out(run, next, end);
    hga_id skipped = (hga_id)(at - first) / KERNEL_TILE * KERNEL_TILE;
    hga_id groups = (hga_id)(last - first - skipped + KERNEL_TILE - 1) / KERNEL_TILE * KERNEL_TILE;
    *begin += skipped, *n -= skipped;
    if (groups < *n) *n = groups;
    return 1;
}

static void run_panel(worker *w, const phase *ph, hga_id stage, hga_id panel)
{
    const stage_plan *s = &w->plan->stage[stage];
    const stage_kernel *kernel = plan_kernel(w->plan, stage);
    hga_id begin, n;
    hga_id node[PANEL_ROWS];
    open_stage(w, stage);
    w->part_of_tree = ph->part_of_tree;
    panel_bounds(ph, panel, &begin, &n);
    if (!narrow_panel(w, ph, stage, &begin, &n)) return;
    list_nodes(w, ph, stage, begin, n, node);
    const uint32_t *kept = layout_of(w, ph, stage, panel);
    if (kept) {
        attend_kept_panel(w, stage, begin, n, node, kept);
        return;
    }
    if (kernel->panel == attend_panel && run_kin(w, stage, begin, n, node)) return;
    int one_by_one = !goes_by_position(w, ph);
    int loads = stage_is_fused(w->plan, stage); /* plain rows are read one by one */
    if (kernel->panel && !one_by_one) {
        hga_id all = loads ? reader_load_panel(&w->reader, begin, n) : n;
        kernel->panel(w, stage, begin, list_ahead(n, all, node), node);
        return;
    }
    if (!one_by_one && loads) reader_load(&w->reader, begin, n);
    for (hga_id i = 0; i < n; i++) {
        if (node[i] < 0) continue;
        hga_id position = one_by_one ? s->relation.dst_rank[node[i]] : begin + i;
        if (one_by_one && loads) reader_load(&w->reader, position, 1);
        kernel->row(w, &(row_job){.stage = stage, .v = node[i], .position = position, .count = INT64_MAX, .piece = -1});
    }
}

static void run_panels(worker *w, const phase *ph, hga_id panel)
{
    for (hga_id s = ph->stage; s < stages_end(ph); s++) run_panel(w, ph, s, panel);
}

/* Row i of a phase of pieces, of their merging or of a field's nodes. */
static int runs_row(const worker *w, const phase *ph, hga_id i)
{
    const row_bits *run = rows_to_run(w->workspace, ph, ph->stage);
    return !run || bits_have(run, i);
}

static void run_piece(worker *w, const phase *ph, hga_id piece)
{
    const stage_plan *s = &w->plan->stage[ph->stage];
    const long_row *row = long_row_of(s, piece);
    hga_id v = node_at(s, row->position);
    if (!runs_row(w, ph, piece) || !has_row(w, ph->stage, v)) return;
    reader_load(&w->reader, row->position, 1);
    plan_kernel(w->plan, ph->stage)
        ->row(w, &(row_job){.stage = ph->stage,
                            .v = v,
                            .position = row->position,
                            .from = row->cut * (piece - row->first_piece),
                            .count = row->cut,
                            .piece = piece});
}

static void run_merge(worker *w, const phase *ph, hga_id i)
{
    const stage_plan *s = &w->plan->stage[ph->stage];
    const long_row *row = &s->long_row[i];
    hga_id v = node_at(s, row->position);
    if (!runs_row(w, ph, i) || !has_row(w, ph->stage, v)) return;
    pieces_merge(w->plan, w->workspace, ph->stage, row->first_piece, row->first_piece + row->n_pieces);
    plan_kernel(w->plan, ph->stage)->pieces->finish(w, ph->stage, v, row->first_piece);
}

/* The sinks take their part of a row that is whole, see hga_call.h. */
static void pay_sinks(worker *w, const bound_field *x, hga_id v, const float *sink)
{
    float *lse = bound_lse(x, v), *row = bound_row(x, v), *kept = w->scalars[0], *paid = w->scalars[1];
    w->plan->kernels->shares(x->heads, lse, sink, kept, paid, lse);
    for (hga_id h = 0; h < x->heads; h++) {
        float *of_head = row + h * bound_head(x, v);
        if (kept[h] != 1) w->plan->kernels->scale(x->columns, kept[h], of_head, of_head);
    }
}

static void copy_lse(worker *w, hga_id f, hga_id v)
{
    const hga_tensor *t = &w->io->lse;
    const bound_field *x = &w->workspace->field[f];
    hga_id row_of_io = bound_io_number(x, v);
    if (w->workspace->sink) pay_sinks(w, x, v, w->workspace->sink);
    if (w->io->tape)
        memcpy(tape_lse(w->io->tape) + (ptrdiff_t)row_of_io * x->heads, bound_lse(x, v),
               (size_t)x->heads * sizeof(float));
    if (!t->data) return;
    ptrdiff_t head = t->head_stride ? t->head_stride : 1, row = t->row_stride ? t->row_stride : x->heads;
    float *to = (float *)t->data + row_of_io * row;
    for (hga_id h = 0; h < x->heads; h++) to[h * head] = bound_lse(x, v)[h];
}

/* The jobs on nodes of one field. */
static void run_nodes(worker *w, const phase *ph, hga_id panel)
{
    void (*each)(worker *, hga_id, hga_id) = ph->job == JOB_ROUND ? round_row : copy_lse;
    if (ph->job == JOB_LSE && !w->io->lse.data && !w->io->tape && !w->workspace->sink) return;
    hga_id begin = ph->first + panel * ph->panel,
           end = begin + ph->panel < ph->first + ph->n ? begin + ph->panel : ph->first + ph->n;
    for (hga_id v = begin; v < end; v++)
        if (runs_row(w, ph, v - ph->first)) each(w, ph->stage, v);
}

/* The heads of an item. */
static void open_heads(worker *w, wave_item item)
{
    int64_t parts = head_parts(&w->plan->phase[item.phase]), n = w->plan->shape.n_kv_heads;
    worker_take_heads(w, (hga_id)(n * item.head_part / parts), (hga_id)(n * (item.head_part + 1) / parts));
}

static void run_item(worker *w, wave_item item)
{
    const phase *ph = &w->plan->phase[item.phase];
    if (ph->job < JOB_MERGE) open_stage(w, ph->stage);
    switch (ph->job) {
    case JOB_ROWS: run_panels(w, ph, item.panel); break;
    case JOB_PIECES: run_piece(w, ph, item.panel); break;
    case JOB_MERGE: run_merge(w, ph, item.panel); break;
    default: run_nodes(w, ph, item.panel); break;
    }
}

/* Items [first, end) of the plan's order, in so far as the execution runs them. */
static void run_items(worker *w, int64_t first, int64_t end)
{
    const wave_item *item = w->plan->waves.item;
    for (int64_t i = first, done; i < end; i += done) {
        open_heads(w, item[i]);
        done = run_wide(w, &item[i], end - i);
        for (int64_t j = i + 1; j < i + done; j++)
            if (item[j].phase != item[i].phase) run_item(w, item[j]);
        if (!done) done = run_pieces(w, &item[i], end - i);
        if (!done) run_item(w, item[i]), done = 1;
        find_coming(w, i, end);
    }
    w->coming.n = 0;
}

/* Items of a slice, one behind the other, and the number of each in the plan's order; and of what comes behind them. */
typedef struct some_items {
    int64_t n, number[KERNEL_TILE + 1];
    wave_item item[KERNEL_TILE];
} some_items;

/* From number i on: pieces as many as may go together, of others one. */
static void list_some_items(const worker *w, int64_t i, int64_t end, some_items *x)
{
    const row_bits *items = &w->workspace->slice.items;
    const wave_item *item = w->plan->waves.item;
    const hga_id most = w->plan->phase[item[i].phase].job == JOB_PIECES ? KERNEL_TILE : 1;
    for (x->n = 0; x->n < most && i < end; i = bits_next(items, i + 1, end))
        x->number[x->n] = i, x->item[x->n++] = item[i];
    x->number[x->n] = i;
}

static void run_some_items(worker *w, int64_t first, int64_t end)
{
    some_items x;
    for (int64_t i = bits_next(&w->workspace->slice.items, first, end), done; i < end; i = x.number[done]) {
        list_some_items(w, i, end, &x);
        open_heads(w, x.item[0]);
        done = run_pieces(w, x.item, x.n);
        if (!done) run_item(w, x.item[0]), done = 1;
    }
}

/* What thread t was given of a wave. */
static void run_share(worker *w, hga_id wave, hga_id t)
{
    const int64_t *ptr = w->plan->waves.ptr + (int64_t)wave * w->plan->threads + t;
    w->workspace->sliced ? run_some_items(w, ptr[0], ptr[1]) : run_items(w, ptr[0], ptr[1]);
}

/* ---- threads ---- */

void execution_run_alone(const hga_plan *plan, hga_workspace *workspace)
{
    int sixteen = sixteen_has(workspace);
    worker_begin(&workspace->workers[0]);
    for (hga_id t = 0; sixteen && t < plan->threads; t++) sixteen_widen(plan, workspace, t);
    if (workspace->sliced) run_some_items(&workspace->workers[0], 0, plan->waves.n_items);
    for (hga_id wave = 0; wave < plan->waves.n && !workspace->sliced; wave++)
        for (hga_id t = 0; t < plan->threads; t++) run_share(&workspace->workers[0], wave, t);
    for (hga_id t = 0; sixteen && t < plan->threads; t++) sixteen_narrow(plan, workspace, t);
}

/* OpenMP may grant fewer threads than asked for: then each takes several shares. Shares decide who computes, never
   what. */
void execution_run_together(const hga_plan *plan, hga_workspace *workspace, hga_id me, hga_id n)
{
    worker *w = &workspace->workers[me];
    int sixteen = sixteen_has(workspace);
    worker_begin(w);
    for (hga_id t = me; sixteen && t < plan->threads; t += n) sixteen_widen(plan, workspace, t);
    for (hga_id wave = 0; wave < plan->waves.n; wave++) {
        if (wave > 0 || sixteen) {
#pragma omp barrier
        }
        for (hga_id t = me; t < plan->threads; t += n) run_share(w, wave, t);
    }
    if (sixteen) {
#pragma omp barrier
        for (hga_id t = me; t < plan->threads; t += n) sixteen_narrow(plan, workspace, t);
    }
}

int execution_is_alone(const hga_plan *plan) { return threads_allowed(plan->threads) == 1; }

static void run_in_parallel(const hga_plan *plan, hga_workspace *workspace)
{
#pragma omp parallel num_threads(plan->threads)
    {
        hga_id me = (hga_id)omp_get_thread_num();
        binding old;
        binding_take(plan, &old);
        execution_run_together(plan, workspace, me, (hga_id)omp_get_num_threads());
        topology_unbind(&old);
    }
}

static void run_here(const hga_plan *plan, hga_workspace *workspace)
{
    binding old;
    binding_take_alone(plan, &old);
    execution_run_alone(plan, workspace);
    topology_unbind(&old);
}

/* A workspace made before an update still serves when everything in it is large enough. */
hga_status workspace_fit(const hga_plan *plan, hga_workspace *workspace)
{
    if (workspace->identity != plan->identity) return hga_fail(HGA_EINVAL, "the workspace belongs to another plan");
    if (workspace->serial == plan->serial) return HGA_OK;
    if (workspace->workspace_floats < plan->workspace_floats || !slice_fits(plan, workspace) ||
        workspace->rank_bytes < rank_bytes(plan) || !workers_fit(plan, workspace))
        return hga_fail(HGA_EINVAL, "the plan has outgrown the workspace: it now takes %lld bytes",
                        (long long)hga_plan_workspace_bytes(plan));
    workspace->serial = plan->serial, workspace->layouts = NULL;
    slice_renew(plan, workspace);
    return HGA_OK;
}

/* What the caller's tensors hold now, for hga_workspace_field: later they are none of ours. */
static void keep_io_rows(const hga_plan *plan, hga_workspace *workspace)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        const bound_field *x = &workspace->field[f];
        if (!plan->storage[f].kept_n) continue;
        float *to = workspace->rows + plan->storage[f].kept_at;
        for (hga_id i = 0; i < plan->storage[f].kept_n; i++)
            for (hga_id h = 0; h < x->heads; h++, to += x->columns)
                memcpy(to, x->io + i * x->io_row + h * x->io_head, (size_t)x->columns * sizeof *to);
    }
}

/* What was there is gone, whatever happens; and of rows that are not asked for nothing will be. */
static void begin_tape(const hga_plan *plan, const hga_workspace *workspace, const hga_io *io)
{
    *(tape_header *)io->tape = (tape_header){.magic = 0};
    for (int64_t i = 0; !workspace->asked.all && i < tape_lses(plan); i++) tape_lse(io->tape)[i] = -INFINITY;
}

void tape_end(const hga_plan *plan, const hga_workspace *workspace, const hga_io *io)
{
    *(tape_header *)io->tape = (tape_header){.magic = TAPE_MAGIC,
                                             .identity = plan->identity,
                                             .serial = plan->serial,
                                             .asked = ranges_stamp(&workspace->asked)};
}

hga_status execution_begin(const hga_plan *plan, hga_workspace *workspace, const hga_io *io)
{
    hga_status st = workspace_fit(plan, workspace);
    if (st) return st;
    st = fields_bind(plan, io, workspace);
    if (!st) st = layouts_learn_types(plan, workspace, io);
    if (st) execution_forget(workspace);
    if (!st && io->tape) begin_tape(plan, workspace, io);
    for (hga_id t = 0; !st && t < workspace->n_workers; t++) {
        worker *w = &workspace->workers[t];
        w->plan = plan, w->workspace = workspace, w->io = plan->ranks ? &workspace->staged : io;
        w->reading = -1;
    }
    return st;
}

void execution_forget(hga_workspace *workspace)
{
    memset(workspace->field, 0, sizeof workspace->field);
    sixteen_forget(workspace);
}

void execution_end(const hga_plan *plan, hga_workspace *workspace, const hga_io *io)
{
    if (plan->slices && workspace->sliced && !plan->rows_by_need) slice_end(plan, &workspace->slice);
    keep_io_rows(plan, workspace);
    sixteen_forget(workspace);
    if (io->tape) tape_end(plan, workspace, io);
}

hga_status execution_run(const hga_plan *plan, hga_workspace *workspace)
{
    if (plan->waves.alone || execution_is_alone(plan) || slice_is_small(plan, workspace)) {
        run_here(plan, workspace);
        return HGA_OK;
    }
    hga_status st = threads_prepare(plan->threads);
    if (!st) run_in_parallel(plan, workspace);
    return st;
}

hga_status hga_plan_execute(const hga_plan *plan, hga_workspace *workspace, const hga_io *io)
{
    if (!plan || !workspace || !io)
        return plan_failed(plan, hga_fail(HGA_EINVAL, "no %s", !plan ? "plan" : !workspace ? "workspace" : "tensors"));
    if (plan->ranks) return rank_execute(plan, workspace, io);
    hga_status st = execution_begin(plan, workspace, io);
    if (st) return st;
    HGA_TRY(execution_run(plan, workspace));
    execution_end(plan, workspace, io);
    binding_say(plan);
done:
    if (st) execution_forget(workspace);
    return st;
}

/* Node v's values after an execution: the copy where they were the caller's. */
static int is_kept(const field_storage *h, hga_id v) { return v >= h->io_first && v - h->io_first < h->kept_n; }
static const float *kept_row(const field_storage *h, const hga_workspace *workspace, const bound_field *x, hga_id v)
{
    if (!is_kept(h, v)) return bound_row(x, v);
    return workspace->rows + h->kept_at + (ptrdiff_t)(v - h->io_first) * x->heads * x->columns;
}
static ptrdiff_t kept_head(const field_storage *h, const bound_field *x, hga_id v)
{
    return is_kept(h, v) ? x->columns : bound_head(x, v);
}

hga_status hga_workspace_field(const hga_plan *plan, const hga_workspace *workspace, hga_id f, hga_id first, hga_id n,
                               float *out)
{
    if (f < 1 || f > plan->program.n_fields)
        return hga_fail(HGA_EINVAL, "field %d of %d does not exist", f, plan->program.n_fields);
    if (first < 0 || n < 0 || first > plan->nodes.n - n)
        return hga_fail(HGA_EINVAL, "rows %d + %d leave the %d nodes", first, n, plan->nodes.n);
    const hga_field *field = &plan->program.field[f];
    const field_storage *stored = &plan->storage[f];
    if (!plan->options.keep_fields)
        return hga_fail(HGA_EUNSUPPORTED, "field %s was not kept; option keep_fields = 1 keeps every field",
                        field->name);
    const bound_field *x = &workspace->field[f];
    if (workspace->identity != plan->identity) return hga_fail(HGA_EINVAL, "the workspace belongs to another plan");
    if (!x->heads || workspace->serial != plan->serial)
        return hga_fail(HGA_EINVAL, "nothing has been executed in the workspace");
    int is_state = field->width == HGA_WIDTH_STATE;
    for (hga_id v = first; v < first + n; v++) {
        if (!program_row(&plan->nodes, field->rows, v))
            return hga_fail(HGA_EINVAL, "field %s does not exist on node %d", field->name, v);
        for (hga_id h = 0; h < x->heads; h++) {
            memcpy(out, kept_row(stored, workspace, x, v) + h * kept_head(stored, x, v),
                   (size_t)x->columns * sizeof *out);
            if (storage_is_rounded(plan, f)) plan->kernels->round_bf16(x->columns, out, out); /* its rows may not be */
            out += x->columns;
            if (is_state) *out++ = bound_lse(x, v)[h];
        }
    }
    return HGA_OK;
}

hga_status hga_attention(const hga_graph *g, const hga_program *p, const hga_shape *shape, const hga_options *options,
                         const hga_io *io)
{
    hga_status st = HGA_OK;
    hga_plan *plan = NULL;
    hga_workspace *workspace = NULL;
    if (!io)
        return ranks_failed(options && options->ranks ? options->ranks->exchange : NULL,
                            hga_fail(HGA_EINVAL, "no tensors"));
    HGA_TRY(hga_plan_create(g, p, shape, options, &plan));
    HGA_TRY(hga_workspace_create(plan, &workspace));
    HGA_TRY(hga_plan_execute(plan, workspace, io));
done:
    hga_workspace_destroy(workspace);
    hga_plan_destroy(plan);
    return st;
}
