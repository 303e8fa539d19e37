/* worker.c: a thread's scratch for computing rows, allocated once per workspace so that executing allocates nothing.
   One list of arrays first measures the memory, then carves it. */
#include "carve.h"
#include "edge_biases.h"
#include "least.h"
#include "plan.h"
#include "workspace.h"

#include <string.h>

/* ---- the arrays ---- */

enum { LINE = LINE_FLOATS * sizeof(float) };

/* Scalars that a kernel takes at once: many, so that vectors do not wait for each other; few enough for the first
   cache. */
enum { LANES = 1024 };

/* Bytes of one aggregate of a user function. */
static int64_t aggregate_bytes(const hga_plan *plan)
{
    int64_t bytes = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        bytes = most(bytes, (int64_t)plan->program.stage[s].udf.state_bytes);
    return (bytes + 63) / 64 * 64;
}

static int64_t count_types(const hga_plan *plan)
{
    int64_t n = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++) n = most(n, plan->stage[s].relation.n_types);
    return n;
}

/* Whether the field has rows in the caller's tensor and in the workspace, of several heads. */
static int is_mixed(const hga_plan *plan, hga_id f)
{
    const field_storage *h = &plan->fields.storage[f];
    return h->heads > 1 && h->io_n > 0 && h->rows.n > 0 && !h->rounded.n;
}

/* Whether a chunk's keys or values may be in both. */
static int chunks_mix(const hga_plan *plan)
{
    int mix = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        if (kind_attends(plan->stage[s].kind))
            mix |= is_mixed(plan, plan->program.stage[s].key) || is_mixed(plan, plan->program.stage[s].value);
    return mix && !plan->fields.bf16_rows;
}

/* Carves arrays of numbers for rows, some with padding that is read before it is written. */
static void lay_out_rows(worker_rows *x, const hga_plan *plan, carver *c)
{
    const hga_shape *s = &plan->shape;
    const int drops = plan->options.dropout > 0;
    const int64_t heads = s->n_heads, width = most(padded(s->dim), padded(s->dim_v)), queries = heads * padded(s->dim);
    const int64_t mixed = x->mixes ? KERNEL_CHUNK * (int64_t)s->n_kv_heads : 0;
    x->row.query = carve(c, queries, sizeof(float));
    x->row.additive = carve(c, scores_are_sums(plan) ? queries : 0, sizeof(float));
    x->row.query16 = carve(c, plan->fields.bf16_rows ? queries : 0, sizeof(uint16_t));
    x->row.acc = carve(c, heads * width, sizeof(float));
    x->row.bias = carve(c, KERNEL_CHUNK + KERNEL_PAD, sizeof(float));
    x->row.base = carve(c, KERNEL_CHUNK + KERNEL_PAD, sizeof(float));
    x->row.inverse_count = carve(c, weights_are_sigmoids(plan) ? KERNEL_CHUNK + KERNEL_PAD : 0, sizeof(float));
    x->row.drop_mask = carve(c, drops ? DROPPED_PAIRS * heads + KERNEL_PAD : 0, sizeof(float));
    x->row.greatest = carve(c, padded(s->n_heads), sizeof(float));
    x->row.sum = carve(c, padded(s->n_heads), sizeof(float));
    x->lanes = (hga_id)most(LANES, padded(s->n_heads));
    for (int i = 0; i < 4; i++) x->scalars[i] = carve(c, x->lanes, sizeof(float));
    x->mixed_key = carve(c, mixed * s->dim, sizeof(float));
    x->mixed_value = carve(c, mixed * s->dim_v, sizeof(float));
}

/* The same for tiles. */
static void lay_out_tiles(worker_tiles *x, const hga_plan *plan, carver *c)
{
    const hga_shape *s = &plan->shape;
    const int64_t heads = s->n_heads, key = padded(s->dim), value = padded(s->dim_v);
    const int64_t rows =
        (heads + heads / s->n_kv_heads) * PANEL_ROWS; /* of each head, and of a key's heads once more */
    const int64_t draws = plan->options.dropout > 0 ? BATCH_CHUNKS * PANEL_GROUPS * 8 * KERNEL_CHUNK : 0;
    x->tile.query = carve(c, rows * key, sizeof(float));
    x->tile.acc = carve(c, rows * value, sizeof(float));
    x->tile.greatest = carve(c, rows, sizeof(float));
    x->tile.sum = carve(c, rows, sizeof(float));
    x->tile.pair_bias = carve(c, 2 * KERNEL_CHUNK * KERNEL_TILE, sizeof(float));
    x->tile.drop_mask = carve(c, draws, sizeof *x->tile.drop_mask);
    x->tile.pair_base = carve(c, PANEL_GROUPS * KERNEL_CHUNK * KERNEL_TILE, sizeof(float));
    x->packed_key = carve(c, KERNEL_CHUNK * key, sizeof(float));
    x->packed_value = carve(c, KERNEL_CHUNK * value, sizeof(float));
    x->tile.type_score = carve(c, KERNEL_CHUNK * KERNEL_TILE * KERNEL_TILE, sizeof(float));
}

/* The same for panels that run head by head. */
static void lay_out_wide(wide_scratch *x, const hga_shape *s, carver *c)
{
    x->key = carve(c, x->capacity * (int64_t)padded(s->dim), sizeof(float));
    x->value = carve(c, x->capacity * (int64_t)padded(s->dim_v), sizeof(float));
    x->base = carve(c, x->capacity, sizeof(float));
    x->at = carve(c, x->capacity, sizeof(float));
    x->inverse_count = carve(c, x->capacity, sizeof(float));
}

/* The same for states and windows of panels that run by columns. */
static void lay_out_states(column_rows *x, const hga_shape *s, carver *c)
{
    const int64_t states = x->visits.capacity ? COLUMN_ROWS * (int64_t)(s->n_heads / s->n_kv_heads) : 0;
    x->visits.touched = carve(c, x->visits.words, sizeof *x->visits.touched);
    x->state = carve(c, states * (padded(s->dim_v) + KERNEL_PAD), sizeof *x->state);
}

/* All arrays of numbers, which the worker's thread clears. */
static void lay_out_numbers(worker *w, const hga_plan *plan, carver *c)
{
    const hga_shape *s = &plan->shape;
    const int64_t heads = s->n_heads, width = most(padded(s->dim), padded(s->dim_v));
    lay_out_rows(&w->rows, plan, c), lay_out_tiles(&w->tiles, plan, c);
    lay_out_wide(&w->wide.columns, s, c), lay_out_states(&w->columns, s, c);
    w->plain.numbers = carve(c, most(2 * w->plain.bytes, (2 * heads * width + heads) * (int64_t)sizeof(float)), 1);
}

/* Carves the arrays of panels that run by columns. */
static void lay_out_columns(column_rows *x, carver *c)
{
    window_visits *v = &x->visits;
    const int64_t windows = (int64_t)v->words * 64, rows = v->capacity ? COLUMN_ROWS : 0;
    v->visit = carve(c, v->capacity, sizeof *v->visit);
    v->first = carve(c, windows, sizeof *v->first);
    v->last = carve(c, windows, sizeof *v->last);
    x->node = carve(c, rows, sizeof *x->node);
    x->position = carve(c, rows, sizeof *x->position);
    x->alone = carve(c, rows, sizeof *x->alone);
}

/* Carves lists, which are written before they are read; those of types where some relation has them. */
static void lay_out_lists(worker *w, int bf16_rows, carver *c)
{
    enum { PAIRS = PANEL_GROUPS * KERNEL_CHUNK * KERNEL_TILE };
    row_reader *r = &w->reader;
    w->tiles.tile.type_list = carve(c, w->memory.types ? PAIRS : 0, sizeof *w->tiles.tile.type_list);
    w->tiles.tile.type_pick = carve(c, w->memory.types ? PAIRS : 0, sizeof *w->tiles.tile.type_pick);
    w->tiles.tile.type_many = carve(c, w->memory.types ? PAIRS / KERNEL_TILE : 0, sizeof *w->tiles.tile.type_many);
    w->tiles.tile.type_index = carve(c, w->memory.types, sizeof(int32_t));
    w->tiles.tile.operand = carve(c, BATCH_CHUNKS, sizeof *w->tiles.tile.operand);
    w->tiles.chooser.pair_type = carve(c, w->memory.types ? PAIRS : 0, sizeof(int32_t));
    w->tiles.chooser.run_type = carve(c, w->memory.types ? RUN_COLUMNS * KERNEL_TILE : 0, sizeof(int32_t));
    w->tiles.chooser.batch = carve(c, 1, sizeof *w->tiles.chooser.batch);
    w->tiles.chooser.shared = carve(c, 1, sizeof *w->tiles.chooser.shared);
    w->tiles.chooser.seen.tiled = carve(c, r->segments.capacity, sizeof *w->tiles.chooser.seen.tiled);
    w->tiles.chooser.seen.narrow = carve(c, r->segments.capacity, sizeof *w->tiles.chooser.seen.narrow);
    w->tiles.chooser.seen.own = carve(c, r->segments.capacity + 1, sizeof *w->tiles.chooser.seen.own);
    w->wide.columns.key_at = carve(c, w->wide.columns.capacity, sizeof *w->wide.columns.key_at);
    w->wide.columns.value_at = carve(c, w->wide.columns.capacity, sizeof *w->wide.columns.value_at);
    w->wide.columns.key16_at = carve(c, bf16_rows ? w->wide.columns.capacity : 0, sizeof *w->wide.columns.key16_at);
    lay_out_columns(&w->columns, c);
    r->segments.at = carve(c, r->segments.capacity, sizeof *r->segments.at);
    r->segments.found = carve(c, r->segments.capacity, sizeof *r->segments.found);
    r->segments.key = carve(c, r->segments.capacity, sizeof *r->segments.key);
    r->list = carve(c, r->list_capacity, sizeof *r->list);
}

/* Carves the arrays of one whole row: its edges, and scores and weights of all heads. */
static void lay_out_whole(whole_row *row, int64_t edges, hga_id heads, carver *c)
{
    row->score = carve(c, heads * edges, sizeof *row->score);
    row->count = carve(c, edges, sizeof *row->count);
    row->src = carve(c, edges, sizeof *row->src);
    row->type = carve(c, edges, sizeof *row->type);
    row->slot = carve(c, edges + KERNEL_PAD, sizeof *row->slot);
    row->have = carve(c, heads, sizeof *row->have);
    row->weight = carve_floats(c, heads * edges + KERNEL_PAD), row->slope = carve_floats(c, edges + KERNEL_PAD);
    row->value = carve(c, heads * edges, sizeof *row->value);
}

/* Carves the edges and scratch of a plain row, where a stage has such. */
static void lay_out_plain(worker *w, const hga_plan *plan, carver *c)
{
    hga_id columns = widest_columns(&plan->shape);
    w->plain.edges.capacity = plan->most.plain_edges;
    if (plan->most.plain_edges < 0) return;
    w->plain.edges.own = carve(c, plan->most.plain_edges, sizeof *w->plain.edges.own);
    void *buffer = carve(c, plain_scratch_bytes(plan->most.plain_edges, columns), 1);
    if (buffer) w->plain.scratch = plain_scratch_at(buffer, plan->most.plain_edges, columns);
    if (rows_are_whole(plan)) lay_out_whole(&w->rows.whole, plan->most.plain_edges, plan->shape.n_heads, c);
}

/* Capacity for visits of rows to windows of columns: of some panels, or of one row at least. */
static int64_t visits_capacity(const hga_plan *plan)
{
    const int64_t panels = PANELS_TOGETHER * plan->most.visits, one = plan->windows.n;
    return !panels ? 0 : panels < MOST_VISITS ? most(panels, one) : most(MOST_VISITS, one);
}

/* Carves all of a worker's arrays; returns their bytes. */
static int64_t lay_out_arrays(worker *w, const hga_plan *plan, char *memory)
{
    carver c = {.base = memory};
    w->plain.bytes = aggregate_bytes(plan);
    w->memory.types = count_types(plan), w->rows.mixes = chunks_mix(plan);
    w->reader.segments.capacity = plan->most.segments, w->reader.list_capacity = plan->most.listed;
    w->wide.columns.capacity = plan->most.wide_columns;
    w->columns.visits.capacity = visits_capacity(plan);
    w->columns.visits.words = w->columns.visits.capacity ? plan->windows.n / 64 + 1 : 0;
    lay_out_numbers(w, plan, &c);
    w->memory.numbers = c.used;
    lay_out_lists(w, plan->fields.bf16_rows, &c);
    lay_out_plain(w, plan, &c);
    return c.used;
}

/* ---- workers ---- */

/* Includes the distance of the first whole cache line from the memory's begin. */
static int64_t worker_bytes(const hga_plan *plan)
{
    worker w = {0};
    return lay_out_arrays(&w, plan, NULL) + LINE;
}

int64_t workers_bytes(const hga_plan *plan) { return plan->team.n * ((int64_t)sizeof(worker) + worker_bytes(plan)); }

/* Allocates without touching: pages belong to the thread that writes them first. */
static hga_status create_worker(const hga_plan *plan, const hga_allocator *a, worker *w)
{
    w->plan = plan, w->reading = -1;
    w->memory.bytes = worker_bytes(plan);
    hga_status st = hga_new(a, w->memory.bytes, 1, &w->memory.at);
    if (st) return st;
    lay_out_arrays(w, plan, w->memory.at + (LINE - (uintptr_t)w->memory.at % LINE) % LINE);
    return HGA_OK;
}

void worker_begin(worker *w)
{
    if (w->memory.begun) return;
    memset((char *)w->rows.row.query, 0, (size_t)w->memory.numbers);
    for (int64_t i = 0; i < w->memory.types; i++) w->tiles.tile.type_index[i] = -1;
    w->memory.begun = 1;
}

int workers_fit(const hga_plan *plan, const hga_workspace *workspace)
{
    const worker *w = &workspace->team.worker[0]; /* all workers have the same capacities */
    return w->wide.columns.capacity >= plan->most.wide_columns && w->reader.segments.capacity >= plan->most.segments &&
           w->reader.list_capacity >= plan->most.listed && w->memory.types >= count_types(plan) &&
           w->columns.visits.capacity >= visits_capacity(plan) &&
           (!visits_capacity(plan) || w->columns.visits.words >= plan->windows.n / 64 + 1) &&
           w->rows.mixes >= chunks_mix(plan) && w->plain.edges.capacity >= plan->most.plain_edges;
}

hga_status workers_create(const hga_plan *plan, hga_id n, hga_workspace *workspace)
{
    const hga_allocator *a = &workspace->base.allocator;
    hga_status st = hga_new_zero(a, n, sizeof *workspace->team.worker, &workspace->team.worker);
    if (st) return st;
    workspace->team.n = n;
    for (hga_id t = 0; !st && t < n; t++) st = create_worker(plan, a, &workspace->team.worker[t]);
    return st;
}

static void drop_edge_scratch(worker *w, const hga_allocator *a)
{
    hga_delete(a, w->rows.edges.key, w->rows.edges.capacity, sizeof *w->rows.edges.key);
    w->rows.edges = (edge_scratch){0};
}

/* Allocates memory for keys plus terms of edges, and for a chunk's weights, unless the worker has it already. */
static hga_status take_edge_scratch(const hga_plan *plan, worker *w, const hga_allocator *a)
{
    const hga_shape *s = &plan->shape;
    int64_t keys = KERNEL_HEAD_EDGES * (int64_t)s->n_kv_heads * s->dim + KERNEL_PAD,
            values = KERNEL_CHUNK * (int64_t)s->n_kv_heads * s->dim_v + KERNEL_PAD,
            weights = KERNEL_CHUNK * (int64_t)s->n_heads + KERNEL_PAD, all = keys + values + weights;
    if (w->rows.edges.capacity == all) return HGA_OK;
    drop_edge_scratch(w, a);
    hga_status st = hga_new_zero(a, all, sizeof *w->rows.edges.key, &w->rows.edges.key);
    if (!st) w->rows.edges.value = w->rows.edges.key + keys, w->rows.edges.weight = w->rows.edges.value + values;
    if (!st) w->rows.edges.capacity = all;
    return st;
}

static void drop_split_sums(hga_workspace *workspace)
{
    hga_delete(&workspace->base.allocator, workspace->split_sums.at, workspace->split_sums.capacity, sizeof(float));
    workspace->split_sums.at = NULL, workspace->split_sums.capacity = 0;
}

static hga_status take_split_sums(const hga_plan *plan, const hga_io *io, hga_workspace *workspace)
{
    int64_t n = (int64_t)plan->stage[plan->bias_stage].n_splits * plan->shape.n_heads * io->edge_value.columns;
    if (n <= workspace->split_sums.capacity) return HGA_OK;
    drop_split_sums(workspace);
    hga_status st = hga_new(&workspace->base.allocator, n, sizeof(float), &workspace->split_sums.at);
    if (!st) workspace->split_sums.capacity = n;
    return st;
}

/* Allocates scratch for the call's tables of edges, where a worker has none from an earlier call. */
hga_status workers_make_call_scratch(const hga_plan *plan, const hga_io *io, hga_workspace *workspace)
{
    const hga_allocator *a = &workspace->base.allocator;
    hga_status st = io->edge_value.data ? take_split_sums(plan, io, workspace) : HGA_OK;
    for (hga_id t = 0; !st && t < workspace->team.n; t++) {
        worker *w = &workspace->team.worker[t];
        if (plan->stage[plan->bias_stage].relation.n_blocks)
            st = reader_rank_capacity(&w->reader, plan->cache->lists.degree, a);
        if (!st && (io->edge_key.data || io->edge_value.data)) st = take_edge_scratch(plan, w, a);
        if (!st && io->edge_bias.data && !w->tiles.tile.edges)
            st = hga_new(a, 1, sizeof *w->tiles.tile.edges, &w->tiles.tile.edges);
    }
    return st;
}

/* Frees each worker's memory, with that of readers and edge scratch. */
void workers_destroy(hga_workspace *workspace)
{
    const hga_allocator *a = &workspace->base.allocator;
    drop_split_sums(workspace);
    for (hga_id t = 0; t < workspace->team.n; t++) {
        reader_unrank(&workspace->team.worker[t].reader, a);
        drop_edge_scratch(&workspace->team.worker[t], a);
        hga_delete(a, workspace->team.worker[t].tiles.tile.edges, 1, sizeof(pair_edges));
        hga_delete(a, workspace->team.worker[t].memory.at, workspace->team.worker[t].memory.bytes, 1);
    }
    hga_delete(a, workspace->team.worker, workspace->team.n, sizeof *workspace->team.worker);
}

/* Calls `look` with a worker outside any call, to find what only the graph decides. */
hga_status worker_look(const hga_plan *plan, hga_status (*look)(worker *w, void *context), void *context)
{
    static const hga_io none = {0};
    hga_workspace workspace = {.base.allocator = plan->memory.user};
    hga_status st = HGA_OK;
    HGA_TRY(workers_create(plan, 1, &workspace));
    worker *w = &workspace.team.worker[0];
    w->workspace = &workspace, w->io = &none;
    worker_begin(w);
    HGA_TRY(look(w, context));
done:
    workers_destroy(&workspace);
    return st;
}

void worker_take_heads(worker *w, hga_id kv_first, hga_id kv_end)
{
    hga_id share = w->plan->shape.n_heads / w->plan->shape.n_kv_heads;
    w->heads.kv_first = kv_first, w->heads.kv_end = kv_end;
    w->heads.first = kv_first * share, w->heads.end = kv_end * share;
}
