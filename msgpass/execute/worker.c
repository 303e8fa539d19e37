/* worker.c: what one thread needs to compute rows, taken once per state so that executing allocates nothing. */
#include "tiles.h"

#include <string.h>

/* Floats of each array of a worker, in the order they are handed out; each is a multiple of KERNEL_PAD. */
typedef struct layout {
    int64_t query, query16, acc, bias, greatest, sum, lanes, group_query, group_acc, group_scalar, pair_base, pair_bias,
        tile_key, tile_value, type_score, plain, total;
} layout;

/* Scalars that go through a kernel together: many, or the vectors wait for each other; so few that they stay in the
   first cache. */
enum { LANES = 1024 };

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* One aggregate of the generic executor: its header and a vector of doubles; or a user's state. */
static int64_t aggregate_bytes(const hga_plan *plan)
{
    int64_t bytes = 64 + most(plan->shape.dim, plan->shape.dim_v) * (int64_t)sizeof(double);
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        bytes = most(bytes, (int64_t)plan->program.stage[s].udf.state_bytes);
    return (bytes + 63) / 64 * 64;
}

static layout lay_out(const hga_plan *plan)
{
    const hga_shape *s = &plan->shape;
    layout l;
    int64_t heads = s->n_heads, width = padded((hga_id)most(s->dim, s->dim_v));
    l.query = heads * padded(s->dim);
    l.query16 = plan->halves ? l.query : 0; /* twice what it takes */
    l.acc = heads * width;
    l.bias = KERNEL_CHUNK + KERNEL_PAD;
    l.greatest = l.sum = padded(s->n_heads);
    l.lanes = most(LANES, l.greatest);
    l.plain = most(2 * aggregate_bytes(plan) / (int64_t)sizeof(float), 2 * heads * width + heads);
    l.plain = (l.plain + KERNEL_PAD - 1) / KERNEL_PAD * KERNEL_PAD;
    int64_t places = heads + heads / s->n_kv_heads; /* of each of the panel's rows */
    l.group_query = places * padded(s->dim) * PANEL_ROWS;
    l.group_acc = places * padded(s->dim_v) * PANEL_ROWS;
    l.group_scalar = places * PANEL_ROWS;
    l.pair_base = PANEL_GROUPS * KERNEL_CHUNK * KERNEL_TILE;
    l.pair_bias = 2 * KERNEL_CHUNK * KERNEL_TILE;
    l.tile_key = (int64_t)KERNEL_CHUNK * padded(s->dim);
    l.tile_value = (int64_t)KERNEL_CHUNK * padded(s->dim_v);
    l.type_score = (int64_t)KERNEL_CHUNK * KERNEL_TILE * KERNEL_TILE;
    l.total = l.query + l.query16 + l.acc + l.bias + l.greatest + l.sum + 4 * l.lanes + l.group_query + l.group_acc +
              2 * l.group_scalar + l.pair_base + l.pair_bias + l.tile_key + l.tile_value + l.type_score + l.plain +
              LINE_FLOATS;
    return l;
}

/* The types of pairs in tiles; none where no relation has types. */
enum { PAIR_TYPES = PANEL_GROUPS * KERNEL_CHUNK * KERNEL_TILE, RUN_TYPES = RUN_COLUMNS * KERNEL_TILE };

static int64_t type_room(const hga_plan *plan)
{
    int64_t n_types = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++) n_types = most(n_types, plan->stage[s].relation.n_types);
    return n_types ? 2 * PAIR_TYPES + RUN_TYPES + n_types : 0;
}

static int64_t reader_bytes(const hga_plan *plan)
{
    return plan->segment_room * (int64_t)(sizeof(hga_segment) + 2 * sizeof(uint16_t) + sizeof(hga_id)) +
           (int64_t)sizeof(hga_id) + plan->list_room * (int64_t)sizeof(hga_id) +
           plan->degree_room * (int64_t)sizeof(rank_key);
}

int64_t workers_bytes(const hga_plan *plan)
{
    return plan->threads *
           ((int64_t)sizeof(worker) + (int64_t)sizeof(tile_block) + lay_out(plan).total * (int64_t)sizeof(float) +
            type_room(plan) * (int64_t)sizeof(int32_t) + reader_bytes(plan));
}

static hga_status create(const hga_plan *plan, worker *w)
{
    const hga_allocator *a = &plan->given;
    layout l = lay_out(plan);
    hga_status st = HGA_OK;
    w->plan = plan;
    w->reading = -1;
    w->reader.segment_room = plan->segment_room, w->reader.list_room = plan->list_room,
    w->reader.degree_room = plan->degree_room;
    w->floats = l.total;
    HGA_TRY(hga_new(a, l.total, sizeof *w->memory, &w->memory)); /* worker_begin clears it */
    w->query = first_line(w->memory);
    w->query16 = (uint16_t *)(void *)(w->query + l.query);
    w->acc = w->query + l.query + l.query16;
    w->bias = w->acc + l.acc;
    w->greatest = w->bias + l.bias;
    w->sum = w->greatest + l.greatest;
    w->lanes = (hga_id)l.lanes;
    for (int i = 0; i < 4; i++) w->scalars[i] = w->sum + l.sum + i * l.lanes;
    w->group_query = w->scalars[3] + l.lanes;
    w->group_acc = w->group_query + l.group_query;
    w->group_greatest = w->group_acc + l.group_acc;
    w->group_sum = w->group_greatest + l.group_scalar;
    w->pair_bias = w->group_sum + l.group_scalar;
    w->pair_base = w->pair_bias + l.pair_bias;
    w->tile_key = w->pair_base + l.pair_base;
    w->tile_value = w->tile_key + l.tile_key;
    w->type_score = w->tile_value + l.tile_value;
    w->plain = (double *)(void *)(w->type_score + l.type_score);
    w->plain_bytes = aggregate_bytes(plan);
    HGA_TRY(hga_new(a, 1, sizeof *w->block, &w->block));
    w->type_room = type_room(plan);
    HGA_TRY(hga_new(a, w->type_room, sizeof *w->types, &w->types));
    for (int64_t i = 0; i < w->type_room; i++) w->types[i] = -1;
    w->pair_type = w->types, w->part_type = w->types + PAIR_TYPES;
    w->run_type = w->types + 2 * PAIR_TYPES, w->type_place = w->types + 2 * PAIR_TYPES + RUN_TYPES;
    HGA_TRY(hga_new(a, plan->segment_room, sizeof *w->reader.segment, &w->reader.segment));
    HGA_TRY(hga_new(a, plan->segment_room, sizeof *w->tiled, &w->tiled));
    HGA_TRY(hga_new(a, plan->segment_room, sizeof *w->narrow, &w->narrow));
    HGA_TRY(hga_new(a, plan->segment_room + 1, sizeof *w->own, &w->own));
    HGA_TRY(hga_new(a, plan->list_room, sizeof *w->reader.list, &w->reader.list));
    HGA_TRY(hga_new(a, plan->degree_room, sizeof *w->reader.rank, &w->reader.rank));
done:
    return st;
}

/* Padding is read before anything is written there, so it must be numbers; and pages belong to the thread that writes
   them first. */
void worker_begin(worker *w)
{
    if (!w->begun) memset(w->memory, 0, (size_t)w->floats * sizeof *w->memory);
    w->begun = 1;
}

int workers_fit(const hga_plan *plan, const hga_workspace *state)
{
    const worker *w = &state->workers[0]; /* they are alike */
    return w->reader.segment_room >= plan->segment_room && w->reader.list_room >= plan->list_room &&
           w->reader.degree_room >= plan->degree_room && w->type_room >= type_room(plan);
}

hga_status workers_create(const hga_plan *plan, hga_workspace *state)
{
    hga_status st = hga_new_zero(&plan->given, plan->threads, sizeof *state->workers, &state->workers);
    if (st) return st;
    state->n_workers = plan->threads;
    for (hga_id t = 0; !st && t < plan->threads; t++) st = create(plan, &state->workers[t]);
    return st;
}

void workers_destroy(hga_workspace *state)
{
    const hga_allocator *a = &state->allocator;
    for (hga_id t = 0; t < state->n_workers; t++) {
        worker *w = &state->workers[t];
        hga_delete(a, w->memory, w->floats, sizeof *w->memory);
        hga_delete(a, w->block, 1, sizeof *w->block);
        hga_delete(a, w->types, w->type_room, sizeof *w->types);
        hga_delete(a, w->reader.segment, w->reader.segment_room, sizeof *w->reader.segment);
        hga_delete(a, w->tiled, w->reader.segment_room, sizeof *w->tiled);
        hga_delete(a, w->narrow, w->reader.segment_room, sizeof *w->narrow);
        hga_delete(a, w->own, w->reader.segment_room + 1, sizeof *w->own);
        hga_delete(a, w->reader.list, w->reader.list_room, sizeof *w->reader.list);
        hga_delete(a, w->reader.rank, w->reader.degree_room, sizeof *w->reader.rank);
    }
    hga_delete(a, state->workers, state->n_workers, sizeof *state->workers);
}
