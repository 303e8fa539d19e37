/* run_tiles.c: computes chunks of columns against the groups of rows that have them, head by head. A group whose chunks
   are all in the batch opens and closes there: its states are never written to memory. */
#include "run_tiles.h"
#include "attend.h"
#include "attend_row.h"
#include "carve.h"
#include "dropout.h"
#include "edge_biases.h"
#include "plan.h"
#include "scores.h"
#include "stages.h"

#include <math.h>
#include <string.h>

static const hga_stage *own_stage(const worker *w) { return stage_of(w, w->tiles.chooser.batch->stage); }
static hga_id heads_per_key(const worker *w) { return w->plan->shape.n_heads / w->plan->shape.n_kv_heads; }

/* ---- queries and states of a group ---- */

/* Index of a state, of (slot, head). Slots below PANEL_GROUPS belong to the groups and hold all heads; the others hold
   the heads of one key/value head at a time. */
static ptrdiff_t state_slot(const worker *w, hga_id slot, hga_id head)
{
    const hga_shape *s = &w->plan->shape;
    if (slot < PANEL_GROUPS) return (ptrdiff_t)slot * s->n_heads + head;
    return (ptrdiff_t)PANEL_GROUPS * s->n_heads + (ptrdiff_t)(slot - PANEL_GROUPS) * heads_per_key(w) +
           head % heads_per_key(w);
}

static float *queries_at(const worker *w, ptrdiff_t slot)
{
    return w->tiles.tile.query + slot * padded(w->plan->shape.dim) * KERNEL_TILE;
}

static uint32_t *pairs_at(const worker *w, ptrdiff_t slot) { return (uint32_t *)(void *)queries_at(w, slot); }

static kernel_tile_state state_at(const worker *w, ptrdiff_t slot)
{
    ptrdiff_t padded_dim = padded(w->plan->shape.dim_v);
    return (kernel_tile_state){.greatest = w->tiles.tile.greatest + slot * KERNEL_TILE,
                               .sum = w->tiles.tile.sum + slot * KERNEL_TILE,
                               .acc = w->tiles.tile.acc + slot * KERNEL_TILE * padded_dim,
                               .stride = padded_dim};
}

int has_pairs(const worker *w)
{
    return w->plan->fields.bf16_rows && w->plan->machine.kernels->attend_tile_bf16 && !w->io->rel_key.data;
}

/* Transposes the group's queries into [dim][lane]. */
static void load_group_queries(worker *w, const row_group *g, hga_id head, ptrdiff_t slot)
{
    const hga_shape *shape = &w->plan->shape;
    const bound_field *q = read_field(w, own_stage(w), own_stage(w)->query);
    const float *row[KERNEL_TILE];
    for (hga_id r = 0; r < g->n_rows; r++)
        row[r] = g->node[r] < 0 ? NULL : bound_row(q, g->node[r]) + head * bound_head(q, g->node[r]);
    const kernel_table *k = w->plan->machine.kernels;
    float *out = queries_at(w, slot);
    if (has_pairs(w)) {
        k->transpose_pairs(g->n_rows, row, shape->dim, pairs_at(w, slot));
    } else if (w->plan->fields.bf16_rows) {
        k->transpose_rows(g->n_rows, row, 1, shape->dim, out);
        k->round_bf16(shape->dim * KERNEL_TILE, out, out);
        k->scale(shape->dim * KERNEL_TILE, w->workspace->scores.scale_2, out, out);
    } else {
        const float scale = scores_are_sums(w->plan) ? 1 : w->workspace->scores.scale_2;
        k->transpose_rows(g->n_rows, row, scale, shape->dim, out);
    }
}

/* A row's state so far: its vector, and its log-sum-exp, -inf if it has none. */
static const float *find_state(const worker *w, const row_group *g, hga_id r, hga_id head, float *lse)
{
    const bound_field *out = field(w, own_stage(w)->out);
    const hga_id v = g->node[r];
    *lse = -INFINITY;
    if (v < 0) return NULL;
    if (g->carried) {
        const float *state = carried_state(w, g->carried[r], head);
        *lse = state[padded(w->plan->shape.dim_v)];
        return state;
    }
    *lse = bound_lse(out, v)[head];
    return bound_row(out, v) + head * bound_head(out, v);
}

/* Loads the rows' states so far into the slot. */
static void load_states(worker *w, const row_group *g, hga_id head, ptrdiff_t slot)
{
    kernel_tile_state s = state_at(w, slot);
    for (hga_id r = 0; r < KERNEL_TILE; r++) {
        float *acc = s.acc + r * s.stride, lse = -INFINITY;
        const float *state = r < g->n_rows ? find_state(w, g, r, head, &lse) : NULL;
        s.greatest[r] = lse * KERNEL_LOG2E, s.sum[r] = lse == -INFINITY ? 0 : 1;
        if (lse == -INFINITY)
            memset(acc, 0, (size_t)s.stride * sizeof *acc);
        else
            memcpy(acc, state, (size_t)w->plan->shape.dim_v * sizeof *acc);
    }
}

void take_states(worker *w, const row_group *g, hga_id r)
{
    const hga_shape *shape = &w->plan->shape;
    for (hga_id h = w->heads.first; h < w->heads.end; h++) {
        kernel_tile_state s = state_at(w, state_slot(w, g->number, h));
        memcpy(w->rows.row.acc + (ptrdiff_t)h * s.stride, s.acc + r * s.stride,
               (size_t)shape->dim_v * sizeof *w->rows.row.acc);
        w->rows.row.greatest[h] = s.greatest[r], w->rows.row.sum[h] = s.sum[r];
    }
}

/* Normalizes the states of a group, for the worker's heads, and writes them to the output. */
void store_group(worker *w, const row_group *g)
{
    const hga_shape *shape = &w->plan->shape;
    const bound_field *out = &w->workspace->field[w->plan->program.stage[g->stage].out];
    for (hga_id h = w->heads.first; h < w->heads.end; h++) {
        kernel_tile_state s = state_at(w, state_slot(w, g->number, h));
        w->plan->machine.kernels->finish(KERNEL_TILE, s.greatest, s.sum, s.sum, s.greatest);
        for (hga_id r = 0; r < g->n_rows; r++) {
            hga_id v = g->node[r];
            if (v < 0) continue;
            bound_lse(out, v)[h] = s.greatest[r];
            w->plan->machine.kernels->scale(shape->dim_v, s.sum[r], s.acc + r * s.stride,
                                            bound_row(out, v) + h * bound_head(out, v));
        }
    }
}

/* ---- keys and values ---- */

static tile_operands *operands_of(const worker *w, const tile_chunk *c)
{
    return &w->tiles.tile.operand[c - w->tiles.chooser.batch->chunk];
}

/* Loads what all heads need of a chunk: score bases, positions, source addresses. */
static void load_operands(worker *w, const tile_chunk *c)
{
    const hga_stage *s = own_stage(w);
    const bound_field *key = read_field(w, s, s->key), *value = read_field(w, s, s->value);
    tile_operands *o = operands_of(w, c);
    score_bases(w, w->tiles.chooser.batch->stage, -1, &c->columns, o->base);
    o->sigmoid = sigmoids_of_chunk(w, w->tiles.chooser.batch->stage, &c->columns, o->inverse_count);
    for (hga_id e = 0; e < c->columns.n && w->workspace->scores.slopes; e++)
        o->at[e] = (float)w->plan->cache->lists.position[c->columns.src[e]];
    if (w->plan->fields.bf16_rows) {
        for (hga_id e = 0; e < c->columns.n; e++)
            o->k16[e] = bound_bf16(key, c->columns.src[e]), o->v16[e] = bound_bf16(value, c->columns.src[e]);
    } else {
        find_sources(&c->columns, key, o->k, &o->same_k, &o->k_stride);
        find_sources(&c->columns, value, o->v, &o->same_v, &o->v_stride);
    }
    for (hga_id i = 0; w->io->node_pos.data && i < c->n_parts; i++) pair_positions(w, c, i);
    if (has_edge_biases(w, w->tiles.chooser.batch->stage)) find_edge_ranks(w, c);
}

/* Biases of whole columns, for one head. */
static const float *load_bias(worker *w, const tile_chunk *c, hga_id head)
{
    const tile_operands *o = operands_of(w, c);
    const float *bias = w->io->rel_bias.data;
    if (!bias) return o->base;
    for (hga_id e = 0; e < c->columns.n; e++)
        w->rows.row.bias[e] =
            c->types_vary >> e & 1
                ? o->base[e]
                : o->base[e] + in_base_2(bias[(ptrdiff_t)c->columns.type[e] * w->plan->shape.n_heads + head]);
    return w->rows.row.bias;
}

/* Replaces keys by k + rel_key[type], for columns that have one type. */
static void load_relative_keys(worker *w, const tile_chunk *c)
{
    hga_id dim = w->plan->shape.dim;
    for (hga_id e = 0; e < c->columns.n; e++) {
        if (c->types_vary >> e & 1) continue;
        float *to = w->tiles.packed_key + e * padded(dim);
        w->plan->machine.kernels->blend(dim, 1, w->rows.at.k_head[e], 1,
                                        w->io->rel_key.data + (ptrdiff_t)c->columns.type[e] * dim, to);
        w->rows.at.k_head[e] = to;
    }
}

static void point_at(const float *side_by_side, hga_id n, ptrdiff_t stride, const float **row)
{
    for (hga_id e = 0; e < n; e++) row[e] = side_by_side + e * stride;
}

/* Packs values in pairs of columns. */
static void load_value_pairs(worker *w, const tile_chunk *c)
{
    const uint16_t *row[KERNEL_CHUNK + 1] = {NULL};
    memcpy(row + c->odd, w->rows.at.v16_head, (size_t)c->columns.n * sizeof *row);
    w->rows.at.v_row = padded(w->plan->shape.dim_v), w->rows.at.v_pairs = (uint32_t *)(void *)w->tiles.packed_value;
    w->plan->machine.kernels->pair_rows(c->odd + c->columns.n, row, w->plan->shape.dim_v,
                                        (uint32_t *)(void *)w->tiles.packed_value, w->rows.at.v_row);
}

/* Loads one head of 16-bit keys and values; widens them where the kernel does not take pairs. */
static void load_bf16(worker *w, const tile_chunk *c, hga_id kv)
{
    const tile_operands *o = operands_of(w, c);
    const hga_shape *shape = &w->plan->shape;
    const kernel_table *k = w->plan->machine.kernels;
    const hga_stage *s = own_stage(w);
    const ptrdiff_t key = kv * read_field(w, s, s->key)->bf16.head, value = kv * read_field(w, s, s->value)->bf16.head;
    for (hga_id e = 0; e < c->columns.n; e++)
        w->rows.at.k16_head[e] = o->k16[e] + key, w->rows.at.v16_head[e] = o->v16[e] + value;
    if (has_pairs(w)) {
        load_value_pairs(w, c);
        return;
    }
    k->widen(c->columns.n, w->rows.at.v16_head, shape->dim_v, w->tiles.packed_value, padded(shape->dim_v));
    point_at(w->tiles.packed_value, c->columns.n, padded(shape->dim_v), w->rows.at.v_head);
    w->rows.at.v_row = padded(shape->dim_v);
    k->widen(c->columns.n, w->rows.at.k16_head, shape->dim, w->tiles.packed_key, padded(shape->dim));
    point_at(w->tiles.packed_key, c->columns.n, padded(shape->dim), w->rows.at.k_head);
    if (w->io->rel_key.data) load_relative_keys(w, c);
}

static void find_head(const edge_chunk *c, const bound_field *x, const float *const *row, int same, ptrdiff_t stride,
                      hga_id head, const float **out)
{
    if (same)
        for (hga_id e = 0; e < c->n; e++) out[e] = row[e] + head * stride;
    else
        move_to_head(c, x, row, head, out);
}

/* Loads one head's keys and values of the chunk: packed contiguously when they are read often, since rows of one head
   are far apart and conflict in the first cache. */
static void load_head(worker *w, const tile_chunk *c, hga_id kv)
{
    const tile_operands *o = operands_of(w, c);
    const hga_shape *shape = &w->plan->shape;
    const hga_stage *s = own_stage(w);
    const bound_field *key = read_field(w, s, s->key), *value = read_field(w, s, s->value);
    const hga_id heads = w->heads.end - w->heads.first, readers = heads < heads_per_key(w) ? heads : heads_per_key(w);
    int pack = c->n_parts * readers >= w->plan->machine.tuning.is.pack_readers,
        all_relative = w->io->rel_key.data && !c->types_vary;
    find_head(&c->columns, key, o->k, o->same_k, o->k_stride, kv, w->rows.at.k_head);
    find_head(&c->columns, value, o->v, o->same_v, o->v_stride, kv, w->rows.at.v_head);
    if (pack && !all_relative) {
        w->plan->machine.kernels->copy_rows(c->columns.n, w->rows.at.k_head, shape->dim, w->tiles.packed_key,
                                            padded(shape->dim));
        point_at(w->tiles.packed_key, c->columns.n, padded(shape->dim), w->rows.at.k_head);
    }
    if (w->io->rel_key.data) load_relative_keys(w, c);
    w->rows.at.v_row = pack ? padded(shape->dim_v) : 0;
    if (!pack) return;
    w->plan->machine.kernels->copy_rows(c->columns.n, w->rows.at.v_head, shape->dim_v, w->tiles.packed_value,
                                        padded(shape->dim_v));
    point_at(w->tiles.packed_value, c->columns.n, padded(shape->dim_v), w->rows.at.v_head);
}

/* ---- computing ---- */

/* Finds each group's first and last part in the batch, and its slot: a group that both opens and closes takes the first
   free slot, which is still in the cache. */
static void find_slots(tile_batch *b)
{
    unsigned seen = 0, free_slots = (1u << PANEL_GROUPS) - 1;
    for (hga_id i = b->n - 1; i >= 0; i--)
        for (hga_id k = b->chunk[i].n_parts - 1; k >= 0; k--) {
            tile_part *part = &b->chunk[i].part[k];
            unsigned bit = 1u << part->group->number;
            part->closes = !(seen & bit) && part->group->complete;
            seen |= bit;
        }
    hga_id slot[PANEL_GROUPS];
    seen = 0;
    for (hga_id i = 0; i < b->n; i++) {
        for (hga_id k = 0; k < b->chunk[i].n_parts; k++) {
            tile_part *part = &b->chunk[i].part[k];
            const row_group *g = part->group;
            int own = g->begun || !g->complete;
            if (!(seen >> g->number & 1u)) {
                slot[g->number] = own ? g->number : PANEL_GROUPS + (hga_id)__builtin_ctz(free_slots);
                part->opens = !g->begun;
                if (!own) free_slots &= free_slots - 1;
            }
            seen |= 1u << g->number;
            part->slot = slot[g->number];
        }
        for (hga_id k = 0; k < b->chunk[i].n_parts; k++) {
            const tile_part *part = &b->chunk[i].part[k];
            if (part->closes && part->slot >= PANEL_GROUPS) free_slots |= 1u << (part->slot - PANEL_GROUPS);
        }
    }
}

/* Loads the group's queries, and its states if there are any; returns whether they are empty. */
static int load_group(worker *w, const row_group *g, hga_id head, ptrdiff_t slot)
{
    load_group_queries(w, g, head, slot);
    if (!g->carried && !kind_starts_from_out(w->plan->stage[w->tiles.chooser.batch->stage].kind)) return 1;
    load_states(w, g, head, slot);
    return 0;
}

/* The rows from the first requested to the last: for the others only scores are computed. */
static void find_requested(const row_group *g, hga_id *first, hga_id *end)
{
    *first = 0, *end = g->n_rows;
    while (*first < *end && g->node[*first] < 0) ++*first;
    while (*end > *first && g->node[*end - 1] < 0) --*end;
}

/* The group's arguments for the kernel, with its queries and states in a slot; `opens`: they are loaded first. */
kernel_tile_group open_group(worker *w, const row_group *g, hga_id head, ptrdiff_t slot, int opens)
{
    hga_id first, end;
    find_requested(g, &first, &end);
    return (kernel_tile_group){.n_rows = end,
                               .first_row = first,
                               .q = queries_at(w, slot),
                               .q_pairs = pairs_at(w, slot),
                               .fresh = opens && load_group(w, g, head, slot),
                               .state = state_at(w, slot)};
}

/* Sets where the group's states are stored: in the output, in splits' slots, or in the carried states. */
void end_group(const worker *w, const row_group *g, hga_id head, float **row, kernel_tile_group *to)
{
    const bound_field *out = field(w, own_stage(w)->out);
    const kernel_tile_state *s = &to->state;
    to->out = row, to->streams = out->io.streams;
    for (hga_id r = 0; r < g->n_rows; r++) {
        hga_id v = g->node[r];
        row[r] = v < 0        ? s->acc + r * s->stride
                 : g->split   ? state_of_split(w->plan, w->workspace, g->stage, g->split[r], head)
                 : g->carried ? carried_state(w, g->carried[r], head)
                              : bound_row(out, v) + head * bound_head(out, v);
        to->streams &= v >= 0 && !g->split && !g->carried && bound_is_io(out, v);
    }
}

/* Stores log-sum-exps beside the rows as end_group has set them. */
void store_lse(worker *w, const row_group *g, hga_id head, const float *lse)
{
    const bound_field *out = field(w, own_stage(w)->out);
    const hga_id capacity = padded(w->plan->shape.dim_v);
    for (hga_id r = 0; r < g->n_rows; r++) {
        if (g->node[r] < 0) continue;
        if (g->split)
            state_of_split(w->plan, w->workspace, g->stage, g->split[r], head)[capacity] = lse[r];
        else if (g->carried)
            carried_state(w, g->carried[r], head)[capacity] = lse[r];
        else
            bound_lse(out, g->node[r])[head] = lse[r];
    }
}

void run_tile(const worker *w, const kernel_tile *t)
{
    (has_pairs(w) ? w->plan->machine.kernels->attend_tile_bf16 : w->plan->machine.kernels->attend_tile)(t);
}

void point_at_pairs(const uint32_t *values, ptrdiff_t row, hga_id column, kernel_tile *t)
{
    t->v_pairs = values + column / 2 * row, t->v_row = row, t->odd = column % 2;
}

void modify_tile(const worker *w, hga_id head, const float *column_at, kernel_tile *t)
{
    static const float nothing[KERNEL_CHUNK];
    t->terms.cap = w->workspace->scores.cap_2;
    if (t->terms.cap > 0) t->terms.after = t->terms.bias, t->terms.bias = nothing;
    if (w->workspace->scores.slopes) t->terms.column_at = column_at, t->terms.slope = slope_in_base_2(w, head);
}

void find_rows_at(const worker *w, const row_group *g, float *at)
{
    for (hga_id r = 0; r < KERNEL_TILE && w->workspace->scores.slopes; r++)
        at[r] = r < g->n_rows && g->node[r] >= 0 ? (float)w->plan->cache->lists.position[g->node[r]] : 0;
}

/* Runs parts i .. i + many - 1 in one kernel call. */
static void run_parts(worker *w, const tile_chunk *c, hga_id i, hga_id many, hga_id head, const float *column_bias)
{
    const hga_shape *shape = &w->plan->shape;
    const tile_part *part = &c->part[i], *other = part + many - 1;
    hga_id first = part->first < other->first ? part->first : other->first,
           last = part->last > other->last ? part->last : other->last;
    float *end[2][KERNEL_TILE], row_at[2][KERNEL_TILE];
    kernel_tile t = {.n_groups = many,
                     .n = last - first,
                     .dim = shape->dim,
                     .dim_v = shape->dim_v,
                     .k = w->rows.at.k_head + first,
                     .k16 = w->rows.at.k16_head + first,
                     .v = w->rows.at.v_head + first,
                     .v_row = w->rows.at.v_row,
                     .additive = additive_of(w, head),
                     .terms.bias = column_bias + first,
                     .terms.scale = w->workspace->scores.scale_2,
                     .keep = weight_of_undropped(w),
                     .lone = w->plan->fields.lone_rows,
                     .sigmoid = sigmoids_from(operands_of(w, c)->sigmoid, first)};
    modify_tile(w, head, operands_of(w, c)->at + first, &t);
    if (has_pairs(w)) point_at_pairs(w->rows.at.v_pairs, w->rows.at.v_row, c->odd + first, &t);
    for (hga_id x = 0; x < many; x++) {
        const row_group *g = part[x].group;
        ptrdiff_t slot = state_slot(w, part[x].slot, head);
        kernel_tile_group *to = &t.group[x];
        *to = open_group(w, g, head, slot, part[x].opens);
        find_rows_at(w, g, row_at[x]), to->row_at = row_at[x];
        const float *bias = pair_biases(w, c, i + x, head, to->q);
        to->pair_bias = bias ? bias + first * KERNEL_TILE : NULL;
        to->drop_mask = drops_weights(w) ? drop_mask_bits(w, c, i + x, head) + first : NULL;
        to->rows = part[x].full && part[x].first == first && part[x].last == last ? NULL : c->rows[i + x] + first;
        if (part[x].closes) end_group(w, g, head, end[x], to);
    }
    run_tile(w, &t);
    for (hga_id x = 0; x < many; x++)
        if (part[x].closes) store_lse(w, part[x].group, head, t.group[x].state.greatest);
}

/* Whether parts i and i + 1 share most of their columns. Pairing does not change the order of any sum. */
static int make_pair(const tile_chunk *c, hga_id i)
{
    if (i + 1 == c->n_parts) return 0;
    const tile_part *a = &c->part[i], *b = a + 1;
    if ((a->first - b->first) % SUM_ACCUMULATORS) return 0;
    hga_id first = a->first < b->first ? a->first : b->first, last = a->last > b->last ? a->last : b->last;
    hga_id a_n = a->last - a->first, b_n = b->last - b->first;
    return 4 * (a_n < b_n ? a_n : b_n) >= 3 * (last - first);
}

static void run_chunk(worker *w, const tile_chunk *c, hga_id kv)
{
    w->plan->fields.bf16_rows ? load_bf16(w, c, kv) : load_head(w, c, kv);
    const hga_id first = kv * heads_per_key(w), end = first + heads_per_key(w);
    for (hga_id h = first < w->heads.first ? w->heads.first : first; h < end && h < w->heads.end; h++) {
        const float *bias = load_bias(w, c, h);
        drop_parts(w, c, h);
        for (hga_id i = 0, many; i < c->n_parts; i += many) run_parts(w, c, i, many = 1 + make_pair(c, i), h, bias);
    }
}

void run_tiles(void *context, tile_batch *b)
{
    pair_list_types(context, b);
    run_listed_tiles(context, b);
}

void run_listed_tiles(worker *w, tile_batch *b)
{
    for (hga_id i = 0; i < b->n; i++) load_operands(w, &b->chunk[i]);
    if (scores_are_sums(w->plan)) load_additive(w);
    find_slots(b);
    for (hga_id kv = w->heads.kv_first; kv < w->heads.kv_end; kv++)
        for (hga_id i = 0; i < b->n; i++) run_chunk(w, &b->chunk[i], kv);
    for (hga_id i = 0; i < b->n; i++)
        for (hga_id k = 0; k < b->chunk[i].n_parts; k++)
            b->chunk[i].part[k].group->begun = 1, b->chunk[i].part[k].group->stored |= b->chunk[i].part[k].closes;
}
