/* attend_rows.c: attention row by row, one pass over a row's edges, nothing stored per edge. It equals its plain
   version in plain.c. */
#include "attend.h"
#include "attend_rest.h"
#include "attend_row.h"
#include "attend_solvers.h"
#include "carve.h"
#include "dropout.h"
#include "plan.h"
#include "scores.h"
#include "splits.h"
#include "stages.h"

#include <math.h>
#include <string.h>

static void load_row_queries(worker *w, const row_job *job)
{
    const hga_stage *s = stage_of(w, job->stage);
    const bound_field *q = read_field(w, s, s->query);
    hga_id dim = w->plan->shape.dim, padded_dim = padded(dim);
    const float *row = bound_row(q, job->v);
    ptrdiff_t stride = bound_head(q, job->v);
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++)
        w->plan->machine.kernels->scale(dim, w->workspace->scores.scale_2, row + h * stride,
                                        w->rows.row.query + h * padded_dim);
}

/* The row's queries, rounded to bfloat16. */
static void load_bf16_queries(worker *w, const row_job *job)
{
    const hga_stage *s = stage_of(w, job->stage);
    const bound_field *q = read_field(w, s, s->query);
    const kernel_table *k = w->plan->machine.kernels;
    hga_id dim = w->plan->shape.dim, padded_dim = padded(dim);
    const float *row = bound_row(q, job->v);
    ptrdiff_t stride = bound_head(q, job->v);
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++) {
        k->narrow(dim, row + h * stride, w->rows.row.query16 + h * dim);
        k->widen(1, &(const uint16_t *){w->rows.row.query16 + h * dim}, dim, w->rows.row.query + h * padded_dim, 0);
        k->scale(dim, w->workspace->scores.scale_2, w->rows.row.query + h * padded_dim,
                 w->rows.row.query + h * padded_dim);
    }
}

/* With one column, the heads are contiguous. */
static hga_id query_width(const worker *w)
{
    hga_id dim = w->plan->shape.dim;
    return scores_are_sums(w->plan) && dim == 1 ? 1 : padded(dim);
}

void load_additive(const worker *w)
{
    const float *input = w->io->additive.data;
    const hga_id dim = w->plan->shape.dim, width = query_width(w);
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++)
        for (hga_id j = 0; j < dim; j++)
            w->rows.row.additive[h * width + j] = (input ? input[h * dim + j] : 1) * w->workspace->scores.scale_2;
}

kernel_additive additive_of(const worker *w, hga_id head)
{
    const float *a = scores_are_sums(w->plan) ? w->rows.row.additive + head * query_width(w) : NULL;
    return (kernel_additive){a, w->plan->program.negative_slope};
}

/* With additive scores the scale is applied to the vector. */
static void load_sums(worker *w, const row_job *job)
{
    const hga_stage *s = stage_of(w, job->stage);
    const bound_field *q = read_field(w, s, s->query);
    const float *row = bound_row(q, job->v);
    const hga_id dim = w->plan->shape.dim, width = query_width(w);
    const ptrdiff_t stride = bound_head(q, job->v);
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++)
        for (hga_id j = 0; j < dim; j++) w->rows.row.query[h * width + j] = row[h * stride + j];
    load_additive(w);
}

void attend_load(worker *w, const row_job *job)
{
    (scores_are_sums(w->plan) ? load_sums : w->plan->fields.bf16_rows ? load_bf16_queries : load_row_queries)(w, job);
}

static void attend_nothing(worker *w)
{
    const hga_shape *shape = &w->plan->shape;
    memset(w->rows.row.acc, 0, (size_t)(shape->n_heads * padded(shape->dim_v)) * sizeof *w->rows.row.acc);
    for (hga_id h = 0; h < shape->n_heads; h++) w->rows.row.greatest[h] = -INFINITY, w->rows.row.sum[h] = 0;
}

/* Initializes a row's states: empty, or from its output where the stage continues from that. */
void attend_start(worker *w, const row_job *job)
{
    const hga_stage *s = stage_of(w, job->stage);
    const hga_shape *shape = &w->plan->shape;
    hga_id padded_dim = padded(shape->dim_v);
    attend_nothing(w);
    if (!kind_starts_from_out(w->plan->stage[job->stage].kind)) return;
    const bound_field *out = field(w, s->out);
    const float *lse = bound_lse(out, job->v), *row = bound_row(out, job->v);
    for (hga_id h = 0; h < shape->n_heads; h++) {
        if (lse[h] == -INFINITY) continue;
        w->rows.row.greatest[h] = lse[h] * KERNEL_LOG2E, w->rows.row.sum[h] = 1;
        memcpy(w->rows.row.acc + h * padded_dim, row + h * bound_head(out, job->v), (size_t)shape->dim_v * sizeof *row);
    }
}

/* For far sources: rows of the chunk plus the lookahead edges; 0 for others. */
static hga_id known_rows(const worker *w) { return w->reader.far ? w->chunk.n + w->chunk.more : 0; }

static void attend_bf16(worker *w, const row_job *job)
{
    const hga_shape *shape = &w->plan->shape;
    const hga_stage *s = stage_of(w, job->stage);
    w->plan->machine.kernels->attend_heads_bf16(&(kernel_heads){
        .n = w->chunk.n,
        .heads = shape->n_heads,
        .dim = shape->dim,
        .dim_v = shape->dim_v,
        .share = shape->n_heads / shape->n_kv_heads,
        .bf16.q = w->rows.row.query16,
        .terms.scale = w->workspace->scores.scale_2,
        .terms.cap = w->workspace->scores.cap_2,
        .q_head = shape->dim,
        .known = known_rows(w),
        .bf16.k = w->rows.at.k16,
        .bf16.v = w->rows.at.v16,
        .columns.k_head = read_field(w, s, s->key)->bf16.head,
        .columns.v_head = read_field(w, s, s->value)->bf16.head,
        .terms.bias = w->rows.row.base,
        .drop_mask = drops_weights(w) ? w->rows.row.drop_mask : NULL,
        .states.greatest = w->rows.row.greatest,
        .states.sum = w->rows.row.sum,
        .states.acc = w->rows.row.acc,
        .states.head = padded(shape->dim_v),
        .sigmoid = w->rows.row.sigmoid,
    });
}

/* Widens the bfloat16 keys and values of a key/value head into w->at.k and w->at.v. */
static void widen_head(worker *w, const row_job *job, hga_id kv)
{
    const hga_shape *shape = &w->plan->shape;
    const hga_stage *s = stage_of(w, job->stage);
    const ptrdiff_t k = kv * read_field(w, s, s->key)->bf16.head, v = kv * read_field(w, s, s->value)->bf16.head;
    hga_id n = w->chunk.n;
    for (hga_id e = 0; e < n; e++) {
        w->rows.at.k16_head[e] = w->rows.at.k16[e] + k, w->rows.at.v16_head[e] = w->rows.at.v16[e] + v;
        w->rows.at.k[e] = w->tiles.packed_key + e * padded(shape->dim),
        w->rows.at.v[e] = w->tiles.packed_value + e * padded(shape->dim_v);
    }
    w->plan->machine.kernels->widen(n, w->rows.at.k16_head, shape->dim, w->tiles.packed_key, padded(shape->dim));
    w->plan->machine.kernels->widen(n, w->rows.at.v16_head, shape->dim_v, w->tiles.packed_value, padded(shape->dim_v));
}

/* Whether the hardware is expected to prefetch the row's keys and values, as far as it has been read. */
static int is_near(const worker *w)
{
    const hga_shape *s = &w->plan->shape;
    const int64_t row = (int64_t)s->n_kv_heads * (s->dim + s->dim_v) * (int64_t)sizeof(float);
    return (w->chunk.number + w->chunk.n) * row <= w->plan->machine.tuning.is.near_sources && !w->reader.far;
}

/* Arguments of edges first .. first + n - 1 of the chunk, for all heads at once; their sources are in w->at.k and
   w->at.v; `known` as in kernel_heads. */
static kernel_heads heads_of(const worker *w, hga_id first, hga_id n, hga_id known, const chunk_heads *at)
{
    const hga_shape *shape = &w->plan->shape;
    return (kernel_heads){
        .n = n,
        .heads = shape->n_heads,
        .dim = shape->dim,
        .dim_v = shape->dim_v,
        .share = shape->n_heads / shape->n_kv_heads,
        .q = w->rows.row.query,
        .q_head = query_width(w),
        .additive = additive_of(w, 0),
        .columns.k = w->rows.at.k + first,
        .columns.v = w->rows.at.v + first,
        .known = known,
        .near = is_near(w),
        .columns.k_head = at->k_stride,
        .columns.v_head = at->v_stride,
        .terms.r = w->io->rel_key.data ? w->rows.at.r + first : NULL,
        .terms.cap = w->workspace->scores.cap_2,
        .terms.bias = w->rows.row.base + first,
        .drop_mask = drops_weights(w) ? w->rows.row.drop_mask + (ptrdiff_t)first * shape->n_heads : NULL,
        .states.greatest = w->rows.row.greatest,
        .states.sum = w->rows.row.sum,
        .states.acc = w->rows.row.acc,
        .states.head = padded(shape->dim_v),
        .sigmoid = sigmoids_from(w->rows.row.sigmoid, first),
    };
}

/* Prefetches keys of later sources: no hardware prefetcher foresees them once keys are packed. */
static void send_keys(const worker *w, hga_id first, hga_id n)
{
    const edge_chunk *c = &w->chunk;
    hga_id columns = w->plan->shape.n_kv_heads * w->plan->shape.dim, end = first + 2 * n;
    if (end > c->n + c->more) end = c->n + c->more;
    for (hga_id e = first + n; e < end && (e < c->n || w->reader.far); e++)
        for (hga_id j = 0; j < columns; j += LINE_FLOATS) __builtin_prefetch(w->rows.at.k[e] + j);
}

/* Writes the row of the chunk's edge e plus the edge's own row of a table, heads contiguous. */
static void add_own_row(const worker *w, const row_job *job, const bound_field *x, const float *from,
                        hga_call_table which, hga_id e, float *to)
{
    const float *more = edge_row(w, job->v, which, e);
    const ptrdiff_t head = bound_head(x, w->chunk.src[e]);
    const hga_id together = head == x->columns ? x->heads : 1, columns = together * x->columns;
    for (hga_id h = 0; h < x->heads; h += together, more += columns, to += columns)
        w->plan->machine.kernels->blend(columns, 1, from + h * head, 1, more, to);
}

/* Packs the values of the chunk's edges plus the edges' own. */
static void add_to_values(worker *w, const row_job *job, chunk_heads *at)
{
    const bound_field *value = read_field(w, stage_of(w, job->stage), stage_of(w, job->stage)->value);
    float *to = w->rows.edges.value;
    for (hga_id e = 0; e < w->chunk.n; e++, to += (ptrdiff_t)value->heads * value->columns) {
        add_own_row(w, job, value, w->rows.at.v[e], HGA_TABLE_EDGE_VALUE, e, to);
        w->rows.at.v[e] = to;
    }
    at->same_v = 1, at->v_stride = value->columns;
}

/* Packs the keys of edges first .. first + n - 1 of the chunk contiguously. */
static void pack_keys(worker *w, const row_job *job, hga_id first, hga_id n)
{
    const hga_stage *s = stage_of(w, job->stage);
    const bound_field *key = read_field(w, s, s->key);
    const ptrdiff_t columns = (ptrdiff_t)key->heads * key->columns;
    if (!adds_edge_keys(w, job->stage)) {
        pack_sources(w, key, first, n, w->rows.at.k + first, w->rows.mixed_key);
        return;
    }
    send_keys(w, first, n);
    for (hga_id e = 0; e < n; e++) {
        float *to = w->rows.edges.key + e * columns;
        add_own_row(w, job, key, w->rows.at.k[first + e], HGA_TABLE_EDGE_KEY, first + e, to);
        w->rows.at.k[first + e] = to;
    }
}

/* Packs what has no common head stride (the caller's rows among the workspace's) and keys with terms of edges, as many
   edges at a time as the kernel takes, so that the layout of the caller's tensors does not change the bits. */
static void run_packed_heads(worker *w, const row_job *job, const chunk_heads *at, heads_runner run)
{
    const hga_stage *s = stage_of(w, job->stage);
    const bound_field *key = read_field(w, s, s->key), *value = read_field(w, s, s->value);
    chunk_heads packed = *at;
    for (hga_id e = 0, n; e < w->chunk.n; e += n) {
        n = w->chunk.n - e < KERNEL_HEAD_EDGES ? w->chunk.n - e : KERNEL_HEAD_EDGES;
        if (!at->same_k || adds_edge_keys(w, job->stage)) pack_keys(w, job, e, n), packed.k_stride = key->columns;
        if (!at->same_v)
            pack_sources(w, value, e, n, w->rows.at.v + e, w->rows.mixed_value), packed.v_stride = value->columns;
        kernel_heads heads = heads_of(w, e, n, 0, &packed);
        run(w, &heads, e, job);
    }
}

void run_all_heads(worker *w, const row_job *job, const chunk_heads *at, heads_runner run)
{
    if (!at->same_k || !at->same_v || adds_edge_keys(w, job->stage)) {
        run_packed_heads(w, job, at, run);
        return;
    }
    kernel_heads heads = heads_of(w, 0, w->chunk.n, known_rows(w), at);
    run(w, &heads, 0, job);
}

static void attend_all_heads(worker *w, kernel_heads *heads, hga_id first, const row_job *job)
{
    (void)first, (void)job;
    w->plan->machine.kernels->attend_heads(heads);
}

/* The chunk's keys and values: to at.k and at.v, or to at.k16 and at.v16 in bfloat16. */
static chunk_heads find_operands(worker *w, const row_job *job)
{
    const hga_stage *s = stage_of(w, job->stage);
    const bound_field *key = read_field(w, s, s->key), *value = read_field(w, s, s->value);
    const edge_chunk *c = &w->chunk;
    chunk_heads at = {.same_k = 1, .same_v = 1};
    if (w->plan->fields.bf16_rows) {
        for (hga_id e = 0; e < c->n + c->more; e++)
            w->rows.at.k16[e] = bound_bf16(key, c->src[e]), w->rows.at.v16[e] = bound_bf16(value, c->src[e]);
    } else {
        find_sources(c, key, w->rows.at.k, &at.same_k, &at.k_stride);
        find_sources(c, value, w->rows.at.v, &at.same_v, &at.v_stride);
        for (hga_id e = c->n; e < c->n + c->more; e++)
            w->rows.at.k[e] = bound_row(key, c->src[e]), w->rows.at.v[e] = bound_row(value, c->src[e]);
    }
    return at;
}

/* Packs key/value head kv of the chunk's keys plus the edges' own keys into w->at.k_head. */
static void add_to_head(worker *w, const row_job *job, hga_id kv, const float *const *k, ptrdiff_t offset)
{
    const hga_id dim = w->plan->shape.dim;
    float *to = w->tiles.packed_key;
    for (hga_id e = 0; e < w->chunk.n; e++, to += padded(dim)) {
        const float *more = edge_row(w, job->v, HGA_TABLE_EDGE_KEY, e) + (ptrdiff_t)kv * dim;
        w->plan->machine.kernels->blend(dim, 1, k[e] + offset, 1, more, to);
        w->rows.at.k_head[e] = to;
    }
}

/* Arguments of one head, whose biases are in w->row.bias. */
kernel_chunk attend_part(worker *w, const row_job *job, const chunk_heads *at, hga_id h)
{
    const hga_stage *s = stage_of(w, job->stage);
    const hga_shape *shape = &w->plan->shape;
    const edge_chunk *c = &w->chunk;
    hga_id kv = kv_head(shape, h);
    int first = h % (shape->n_heads / shape->n_kv_heads) == 0, own_k = !at->same_k;
    ptrdiff_t offset = own_k ? 0 : kv * at->k_stride;
    if (w->plan->fields.bf16_rows && first) widen_head(w, job, kv);
    if (!at->same_k && (first || !adds_edge_keys(w, job->stage)))
        move_to_head(c, read_field(w, s, s->key), w->rows.at.k, kv, w->rows.at.k_head);
    if (!at->same_v) move_to_head(c, read_field(w, s, s->value), w->rows.at.v, kv, w->rows.at.v_head);
    if (adds_edge_keys(w, job->stage)) {
        if (first) add_to_head(w, job, kv, own_k ? w->rows.at.k_head : w->rows.at.k, offset);
        own_k = 1, offset = 0;
    }
    return (kernel_chunk){
        .n = c->n,
        .dim = shape->dim,
        .dim_v = shape->dim_v,
        .q = w->rows.row.query + h * query_width(w),
        .additive = additive_of(w, h),
        .k = own_k ? w->rows.at.k_head : w->rows.at.k,
        .v = at->same_v ? w->rows.at.v : w->rows.at.v_head,
        .k_offset = offset,
        .v_offset = at->same_v ? kv * at->v_stride : 0,
        .terms.r = w->io->rel_key.data ? w->rows.at.r : NULL,
        .terms.cap = w->workspace->scores.cap_2,
        .terms.bias = w->rows.row.bias,
        .sigmoid = w->rows.row.sigmoid,
    };
}

static void attend_head(worker *w, const row_job *job, const chunk_heads *at, hga_id h)
{
    const hga_shape *shape = &w->plan->shape;
    kernel_chunk part = attend_part(w, job, at, h);
    part.drop_mask = drops_weights(w) ? w->rows.row.drop_mask + h : NULL, part.drop_mask_step = shape->n_heads;
    kernel_state state = {w->rows.row.greatest[h], w->rows.row.sum[h], w->rows.row.acc + h * padded(shape->dim_v)};
    w->plan->machine.kernels->attend(&part, &state);
    w->rows.row.greatest[h] = state.greatest, w->rows.row.sum[h] = state.sum;
}

chunk_heads attend_open(worker *w, const row_job *job)
{
    const edge_chunk *c = &w->chunk;
    chunk_heads at = find_operands(w, job);
    if (w->io->rel_key.data)
        for (hga_id e = 0; e < c->n; e++)
            w->rows.at.r[e] = w->io->rel_key.data + (ptrdiff_t)c->type[e] * w->plan->shape.dim;
    if (job->stage == w->plan->bias_stage && w->workspace->call_has & (CALL_HAS_EDGE_BIASES | CALL_HAS_OF_EDGES))
        reader_ranks(&w->reader, job->v, c, w->rows.row.rank);
    if (adds_edge_values(w, job->stage)) add_to_values(w, job, &at);
    score_bases(w, job->stage, job->v, c, w->rows.row.base);
    w->rows.row.sigmoid = sigmoids_of_chunk(w, job->stage, c, w->rows.row.inverse_count);
    return at;
}

/* Attends to a chunk of a row's edges, for all heads at once where the stage and the call allow it, else head by
   head. */
static void attend_chunk(worker *w, const row_job *job)
{
    const hga_shape *shape = &w->plan->shape;
    const edge_chunk *c = &w->chunk;
    chunk_heads at = attend_open(w, job);
    int sums = has_edge_out(w, job->stage, job->v);
    drop_chunk(w, job->v);
    if (applies(w, job->stage, SOLVER_HEADS)) {
        if (w->plan->fields.bf16_rows)
            attend_bf16(w, job);
        else
            run_all_heads(w, job, &at, sums && w->rows.edges.at_once ? attend_and_sum : attend_all_heads);
        return;
    }
    int plain = !(w->workspace->call_has & (CALL_HAS_TYPE_BIASES | CALL_HAS_EDGE_BIASES | CALL_HAS_SLOPES));
    if (plain) memcpy(w->rows.row.bias, w->rows.row.base, (size_t)c->n * sizeof *w->rows.row.bias);
    for (hga_id h = 0; h < shape->n_heads; h++) {
        if (!plain) score_biases(w, job, h);
        attend_head(w, job, &at, h);
    }
}

/* Normalizes the state in acc and stores it in the row's output, or in the split's slot. */
static void store_states(worker *w, const row_job *job)
{
    const hga_shape *shape = &w->plan->shape;
    hga_id padded_dim = padded(shape->dim_v);
    const bound_field *out = field(w, stage_of(w, job->stage)->out);
    w->plan->machine.kernels->finish(shape->n_heads, w->rows.row.greatest, w->rows.row.sum, w->rows.row.sum,
                                     w->rows.row.greatest);
    for (hga_id h = 0; h < shape->n_heads; h++) {
        float *to;
        if (job->split >= 0) {
            to = state_of_split(w->plan, w->workspace, job->stage, job->split, h);
            to[padded_dim] = w->rows.row.greatest[h];
        } else {
            to = bound_row(out, job->v) + h * bound_head(out, job->v);
            bound_lse(out, job->v)[h] = w->rows.row.greatest[h];
        }
        w->plan->machine.kernels->scale(shape->dim_v, w->rows.row.sum[h], w->rows.row.acc + h * padded_dim, to);
    }
    if (has_edge_out(w, job->stage, job->v) && w->rows.edges.at_once) edge_sums_scale(w, job);
}

/* Attends chunk by chunk to the row's edges that are not in tiles; folds the state after each cut_edges of them. */
void attend_rest(worker *w, const row_job *job, const uint16_t *done, unsigned done_bits)
{
    hga_pos cut = w->plan->options.cut_edges, left = job->count, in_split = 0;
    hga_id splits = 0;
    edge_cursor c = cursor_start_beyond(&w->reader, job->v, done, done_bits);
    cursor_skip(&c, job->from);
    int loaded = 0;
    for (;;) {
        hga_pos most = left < cut - in_split ? left : cut - in_split;
        cursor_next(&c, most, &w->chunk);
        if (!w->chunk.n) break;
        if (!loaded++) attend_load(w, job);
        if (splits && !in_split) splits++;
        attend_chunk(w, job);
        in_split += w->chunk.n, left -= w->chunk.n;
        if (in_split < cut || left == 0) continue;
        fold_split(w, !splits);
        splits += !splits, in_split = 0;
    }
    if (splits && in_split) fold_split(w, 0);
    if (splits) unfold_splits(w);
    store_states(w, job);
}
