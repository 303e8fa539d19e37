/* attend_rows.c: attention row by row, one pass over a row's edges, nothing stored per edge; and the table of all fused
   stages. Each equals its plain version in generic.c. */
#include "stages.h"

#include <math.h>
#include <string.h>

/* ---- scores ---- */

static float dot(const float *a, const float *b, hga_id n)
{
    float sum = 0;
    for (hga_id i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

void score_bases(worker *w, hga_id stage, hga_id v)
{
    const hga_stage *s = stage_of(w, stage);
    const edge_chunk *c = &w->chunk;
    hga_id dim = w->plan->shape.pos_dim;
    float mass = 1, log_mass = 0, weight = 1, log_weight = 0;
    for (hga_id e = 0; e < c->n; e++) {
        float base = 0;
        if (s->by_mass) {
            float m = w->plan->nodes.mass[c->src[e]];
            if (m != mass) mass = m, log_mass = logf(m); /* masses come in long runs */
            base += log_mass;
        }
        if (c->weight[e] != weight) weight = c->weight[e], log_weight = logf(weight);
        base += log_weight;
        if (w->io->node_pos && v >= 0) {
            hga_id own = c->pos_of[e] ? c->pos_of[e] - 1 : v;
            base += dot(w->io->node_pos + (ptrdiff_t)own * dim, w->io->node_pos + (ptrdiff_t)c->src[e] * dim, dim);
        }
        w->edge_base[e] = base;
    }
}

static void biases_of_head(worker *w, const row_job *job, hga_id head)
{
    const edge_chunk *c = &w->chunk;
    const hga_io *io = w->io;
    hga_id heads = w->plan->shape.n_heads;
    memcpy(w->bias, w->edge_base, (size_t)c->n * sizeof *w->bias);
    if (io->rel_bias)
        for (hga_id e = 0; e < c->n; e++) w->bias[e] += io->rel_bias[(ptrdiff_t)c->type[e] * heads + head];
    if (io->edge_bias && job->stage == w->plan->bias_stage) {
        hga_pos first = w->plan->stage[job->stage].row_ptr[job->v];
        hga_id columns = io->edge_bias_heads, column = columns == 1 ? 0 : head;
        for (hga_id e = 0; e < c->n; e++) w->bias[e] += io->edge_bias[(first + w->rank[e]) * columns + column];
    }
}

/* ---- addresses ---- */

void find_sources(const edge_chunk *c, const view *x, const float **row, int *same, ptrdiff_t *stride)
{
    int from_io = 0, from_ws = 0;
    for (hga_id e = 0; e < c->n; e++) {
        int io = view_is_io(x, c->src[e]);
        from_io |= io, from_ws |= !io;
        row[e] = view_row(x, c->src[e]);
    }
    *same = !(from_io && from_ws) || x->io_head == x->ws_head;
    *stride = from_io ? x->io_head : x->ws_head;
}

void move_to_head(const edge_chunk *c, const view *x, const float *const *row, hga_id head, const float **out)
{
    for (hga_id e = 0; e < c->n; e++) out[e] = row[e] + head * view_head(x, c->src[e]);
}

/* ---- attend ---- */

static void load_queries(worker *w, const row_job *job)
{
    const view *q = field(w, stage_of(w, job->stage)->query);
    hga_id dim = w->plan->shape.dim, room = padded(dim);
    const float *row = view_row(q, job->v);
    ptrdiff_t stride = view_head(q, job->v);
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++)
        for (hga_id j = 0; j < dim; j++) w->query[h * room + j] = row[h * stride + j] * w->state->scale;
}

/* .. rounded */
static void load_halved_queries(worker *w, const row_job *job)
{
    const view *q = field(w, stage_of(w, job->stage)->query);
    const kernel_table *k = w->plan->kernels;
    hga_id dim = w->plan->shape.dim, room = padded(dim);
    const float *row = view_row(q, job->v);
    ptrdiff_t stride = view_head(q, job->v);
    for (hga_id h = 0; h < w->plan->shape.n_heads; h++) {
        k->narrow(dim, row + h * stride, w->query16 + h * dim);
        k->widen(1, &(const uint16_t *){w->query16 + h * dim}, dim, w->query + h * room, 0);
        k->scale(dim, w->state->scale, w->query + h * room, w->query + h * room);
    }
}

static void attend_nothing(worker *w)
{
    const hga_shape *shape = &w->plan->shape;
    memset(w->acc, 0, (size_t)(shape->n_heads * padded(shape->dim_v)) * sizeof *w->acc);
    for (hga_id h = 0; h < shape->n_heads; h++) w->greatest[h] = -INFINITY, w->sum[h] = 0;
}

void attend_start(worker *w, const row_job *job)
{
    const hga_stage *s = stage_of(w, job->stage);
    const hga_shape *shape = &w->plan->shape;
    hga_id room = padded(shape->dim_v);
    attend_nothing(w);
    if (w->plan->stage[job->stage].kind != KIND_ATTEND_MORE) return;
    const view *out = field(w, s->out);
    const float *lse = view_lse(out, job->v), *row = view_row(out, job->v);
    for (hga_id h = 0; h < shape->n_heads; h++) {
        if (lse[h] == -INFINITY) continue;
        w->greatest[h] = lse[h], w->sum[h] = 1;
        memcpy(w->acc + h * room, row + h * view_head(out, job->v), (size_t)shape->dim_v * sizeof *row);
    }
}

/* With fewer, head by head is faster. */
enum { FEW_HEADS = 3 };

/* Keys and values in bfloat16, for all heads at once .. */
static void attend_halves(worker *w)
{
    const hga_shape *shape = &w->plan->shape;
    w->plan->kernels->attend_heads_bf16(&(kernel_heads){
        .n = w->chunk.n,
        .heads = shape->n_heads,
        .dim = shape->dim,
        .dim_v = shape->dim_v,
        .share = shape->n_heads / shape->n_kv_heads,
        .q16 = w->query16,
        .scale = w->state->scale,
        .q_head = shape->dim,
        .k16 = w->k16,
        .v16 = w->v16,
        .k_head = shape->dim,
        .v_head = shape->dim_v,
        .bias = w->edge_base,
        .greatest = w->greatest,
        .sum = w->sum,
        .acc = w->acc,
        .acc_head = padded(shape->dim_v),
    });
}

/* .. or widened for the heads that share them, which then find them in w->k and w->v. */
static void widen_head(worker *w, hga_id kv)
{
    const hga_shape *shape = &w->plan->shape;
    hga_id n = w->chunk.n;
    for (hga_id e = 0; e < n; e++) {
        w->k16_head[e] = w->k16[e] + kv * shape->dim, w->v16_head[e] = w->v16[e] + kv * shape->dim_v;
        w->k[e] = w->tile_key + e * padded(shape->dim), w->v[e] = w->tile_value + e * padded(shape->dim_v);
    }
    w->plan->kernels->widen(n, w->k16_head, shape->dim, w->tile_key, padded(shape->dim));
    w->plan->kernels->widen(n, w->v16_head, shape->dim_v, w->tile_value, padded(shape->dim_v));
}

/* The chunk, whose sources are in w->k and w->v, for all heads at once. */
static void attend_all_heads(worker *w, ptrdiff_t k_stride, ptrdiff_t v_stride)
{
    const hga_shape *shape = &w->plan->shape;
    w->plan->kernels->attend_heads(&(kernel_heads){
        .n = w->chunk.n,
        .heads = shape->n_heads,
        .dim = shape->dim,
        .dim_v = shape->dim_v,
        .share = shape->n_heads / shape->n_kv_heads,
        .q = w->query,
        .q_head = padded(shape->dim),
        .k = w->k,
        .v = w->v,
        .k_head = k_stride,
        .v_head = v_stride,
        .bias = w->edge_base,
        .greatest = w->greatest,
        .sum = w->sum,
        .acc = w->acc,
        .acc_head = padded(shape->dim_v),
    });
}

/* How the heads of a chunk's keys and values lie: at one stride, or at each row's own. */
typedef struct chunk_heads {
    int same_k, same_v;
    ptrdiff_t k_stride, v_stride;
} chunk_heads;

/* The chunk's keys and values: to w->k and w->v, or to w->k16 and w->v16, which are then widened side by side. */
static chunk_heads find_operands(worker *w, const row_job *job)
{
    const hga_stage *s = stage_of(w, job->stage);
    const view *key = field(w, s->key), *value = field(w, s->value);
    const edge_chunk *c = &w->chunk;
    chunk_heads at = {.same_k = 1, .same_v = 1};
    if (w->plan->halves) {
        for (hga_id e = 0; e < c->n; e++)
            w->k16[e] = view_halves(key, c->src[e]), w->v16[e] = view_halves(value, c->src[e]);
    } else {
        find_sources(c, key, w->k, &at.same_k, &at.k_stride);
        find_sources(c, value, w->v, &at.same_v, &at.v_stride);
    }
    return at;
}

/* One head, whose biases are in w->bias. */
static void attend_head(worker *w, const row_job *job, const chunk_heads *at, hga_id h)
{
    const hga_stage *s = stage_of(w, job->stage);
    const hga_shape *shape = &w->plan->shape;
    const edge_chunk *c = &w->chunk;
    hga_id kv = kv_head(shape, h);
    if (w->plan->halves && h % (shape->n_heads / shape->n_kv_heads) == 0) widen_head(w, kv);
    if (!at->same_k) move_to_head(c, field(w, s->key), w->k, kv, w->k_head);
    if (!at->same_v) move_to_head(c, field(w, s->value), w->v, kv, w->v_head);
    kernel_chunk part = {
        .n = c->n,
        .dim = shape->dim,
        .dim_v = shape->dim_v,
        .q = w->query + h * padded(shape->dim),
        .k = at->same_k ? w->k : w->k_head,
        .v = at->same_v ? w->v : w->v_head,
        .k_offset = at->same_k ? kv * at->k_stride : 0,
        .v_offset = at->same_v ? kv * at->v_stride : 0,
        .r = w->io->rel_key ? w->r : NULL,
        .bias = w->bias,
    };
    kernel_state state = {w->greatest[h], w->sum[h], w->acc + h * padded(shape->dim_v)};
    w->plan->kernels->attend(&part, &state);
    w->greatest[h] = state.greatest, w->sum[h] = state.sum;
}

static void attend_chunk(worker *w, const row_job *job)
{
    const hga_shape *shape = &w->plan->shape;
    const edge_chunk *c = &w->chunk;
    chunk_heads at = find_operands(w, job);
    if (w->io->rel_key)
        for (hga_id e = 0; e < c->n; e++) w->r[e] = w->io->rel_key + (ptrdiff_t)c->type[e] * shape->dim;
    if (w->io->edge_bias && job->stage == w->plan->bias_stage) reader_ranks(&w->reader, job->v, c, w->rank);
    score_bases(w, job->stage, job->v);
    int plain = !w->io->rel_bias && !w->io->edge_bias;
    int together = plain && !w->io->rel_key && shape->n_heads <= KERNEL_HEADS;
    if (together && w->plan->halves) {
        attend_halves(w);
        return;
    }
    if (together && at.same_k && at.same_v && shape->n_heads >= FEW_HEADS) {
        attend_all_heads(w, at.k_stride, at.v_stride);
        return;
    }
    if (plain) memcpy(w->bias, w->edge_base, (size_t)c->n * sizeof *w->bias);
    for (hga_id h = 0; h < shape->n_heads; h++) {
        if (!plain) biases_of_head(w, job, h);
        attend_head(w, job, &at, h);
    }
}

/* ---- pieces: long rows are cut at places that depend on the row alone, and the pieces' states merged in order ---- */

/* The log-sum-exp of a state; -inf when it is empty. */
static float log_sum(float greatest, float sum)
{
    return sum == 0 ? -INFINITY : greatest + logf(sum); /* NaN stays NaN */
}

/* (x, lx) <- the merge of (x, lx) and (y, ly); an empty state changes nothing */
static float merge_state(const kernel_table *k, hga_id columns, float *x, float lx, const float *y, float ly)
{
    if (ly == -INFINITY) return lx;
    float greatest = lx > ly ? lx : ly, a = expf(lx - greatest), b = expf(ly - greatest), sum = a + b;
    k->blend(columns, a / sum, x, b / sum, y, x);
    return greatest + logf(sum);
}

/* Normalise the state in acc and hand it to out: the row's state, or a piece's place. */
static void store_states(worker *w, const row_job *job)
{
    const hga_shape *shape = &w->plan->shape;
    hga_id room = padded(shape->dim_v);
    const view *out = field(w, stage_of(w, job->stage)->out);
    w->plan->kernels->finish(shape->n_heads, w->greatest, w->sum, w->sum, w->greatest);
    for (hga_id h = 0; h < shape->n_heads; h++) {
        float *to;
        if (job->piece >= 0) {
            to = w->state->workspace + w->plan->stage[job->stage].piece_at +
                 ((ptrdiff_t)job->piece * shape->n_heads + h) * (room + 2);
            to[room] = w->greatest[h];
        } else {
            to = view_row(out, job->v) + h * view_head(out, job->v);
            view_lse(out, job->v)[h] = w->greatest[h];
        }
        w->plan->kernels->scale(shape->dim_v, w->sum[h], w->acc + h * room, to);
    }
}

/* Keep the state of the pieces so far in `whole` while the next piece is read. */
static void fold_piece(worker *w, float *whole, float *whole_lse, int first)
{
    const hga_shape *shape = &w->plan->shape;
    hga_id room = padded(shape->dim_v);
    for (hga_id h = 0; h < shape->n_heads; h++) {
        float *acc = w->acc + h * room, lse = log_sum(w->greatest[h], w->sum[h]);
        w->plan->kernels->scale(shape->dim_v, w->sum[h] == 0 ? 0 : 1 / w->sum[h], acc, acc);
        if (first)
            memcpy(whole + h * room, acc, (size_t)shape->dim_v * sizeof *acc), whole_lse[h] = lse;
        else
            whole_lse[h] = merge_state(w->plan->kernels, shape->dim_v, whole + h * room, whole_lse[h], acc, lse);
        memset(acc, 0, (size_t)room * sizeof *acc);
        w->greatest[h] = -INFINITY, w->sum[h] = 0;
    }
}

static void unfold(worker *w, const float *whole, const float *whole_lse)
{
    const hga_shape *shape = &w->plan->shape;
    memcpy(w->acc, whole, (size_t)(shape->n_heads * padded(shape->dim_v)) * sizeof *whole);
    for (hga_id h = 0; h < shape->n_heads; h++)
        w->greatest[h] = whole_lse[h], w->sum[h] = whole_lse[h] == -INFINITY ? 0 : 1;
}

void attend_rest(worker *w, const row_job *job, const uint16_t *done, unsigned done_bits)
{
    hga_pos cut = w->plan->options.cut_edges, left = job->count, in_piece = 0;
    hga_id pieces = 0, heads = w->plan->shape.n_heads;
    float *whole = (float *)w->plain, *whole_lse = whole + (ptrdiff_t)heads * padded(w->plan->shape.dim_v);
    edge_cursor c = cursor_start_beyond(&w->reader, job->v, done, done_bits);
    cursor_skip(&c, job->from);
    int loaded = 0;
    for (;;) {
        hga_pos most = left < cut - in_piece ? left : cut - in_piece;
        cursor_next(&c, most, &w->chunk);
        if (!w->chunk.n) break;
        if (!loaded++) w->plan->halves ? load_halved_queries(w, job) : load_queries(w, job);
        if (pieces && !in_piece) pieces++;
        attend_chunk(w, job);
        in_piece += w->chunk.n, left -= w->chunk.n;
        if (in_piece < cut || left == 0) continue;
        fold_piece(w, whole, whole_lse, !pieces);
        pieces += !pieces, in_piece = 0;
    }
    if (pieces && in_piece) fold_piece(w, whole, whole_lse, 0);
    if (pieces) unfold(w, whole, whole_lse);
    store_states(w, job);
}

static void attend_row(worker *w, const row_job *job)
{
    attend_start(w, job);
    attend_rest(w, job, NULL, 0);
}

void merge_pieces(worker *w, hga_id stage, const wide_row *wide)
{
    const hga_shape *shape = &w->plan->shape;
    hga_id room = padded(shape->dim_v);
    hga_id v = node_at(&w->plan->stage[stage], wide->position);
    const view *out = field(w, stage_of(w, stage)->out);
    for (hga_id h = 0; h < shape->n_heads; h++) {
        float *piece = w->state->workspace + w->plan->stage[stage].piece_at +
                       ((ptrdiff_t)wide->first_piece * shape->n_heads + h) * (room + 2);
        ptrdiff_t next = (ptrdiff_t)shape->n_heads * (room + 2);
        float lse = piece[room];
        for (hga_id i = 1; i < wide->n_pieces; i++)
            lse = merge_state(w->plan->kernels, shape->dim_v, piece, lse, piece + i * next, piece[i * next + room]);
        memcpy(view_row(out, v) + h * view_head(out, v), piece, (size_t)shape->dim_v * sizeof *piece);
        view_lse(out, v)[h] = lse;
    }
}

/* ---- inputs in bfloat16 precision ---- */

void copy_input(worker *w, hga_id f, hga_id v)
{
    const view *x = field(w, f);
    const float *from = x->io + (v - w->plan->home[f].io_first) * x->io_row;
    for (hga_id h = 0; h < x->heads; h++)
        memcpy(view_row(x, v) + h * x->ws_head, from + h * x->io_head, (size_t)x->columns * sizeof *from);
}

void round_row(worker *w, hga_id f, hga_id v)
{
    const view *x = field(w, f);
    if (!program_row(&w->plan->nodes, w->plan->program.field[f].rows, v)) return;
    float *row = view_row(x, v);
    if (!w->plan->home[f].halves.n) {
        w->plan->kernels->round_bf16(x->columns * x->heads, row, row);
        return;
    }
    int one_row = view_head(x, v) == x->columns;
    hga_id parts = one_row ? 1 : x->heads, columns = one_row ? x->columns * x->heads : x->columns;
    for (hga_id h = 0; h < parts; h++)
        w->plan->kernels->narrow(columns, row + h * view_head(x, v), view_halves(x, v) + h * columns);
}

const stage_kernel fused_stages[N_KINDS] = {
    [KIND_MEAN] = {"rows mean", sum_row, sum_panel},
    [KIND_SUM] = {"rows sum", sum_row, sum_panel},
    [KIND_WEIGHTED_SUM] = {"rows weighted sum", sum_row, sum_panel},
    [KIND_ATTEND] = {"tiles and rows, online softmax", attend_row, attend_panel},
    [KIND_ATTEND_MORE] = {"tiles and rows, online softmax, merged", attend_row, attend_panel},
    [KIND_SPREAD] = {"rows state merge", spread_row, spread_panel},
    [KIND_ENERGY] = {"rows energy", NULL, energy_panel},
    [KIND_DESCEND] = {"rows descend", NULL, descend_panel},
};
