/* rank_batches.c: which transfers go together. A transfer can go when its rows have been computed, and these may
   need rows of others, or splits of them. Transfers are put in the order in which their rows are written; a batch
   ends before the first whose rows may need what the batch receives. Every rank finds the same batches, so none
   waits for another in a circle. */
#include "plan.h"
#include "rank_lists.h"
#include "ranks.h"
#include "sort.h"

/* Rows of a stage, of one of its levels where these wait for each other, are a step. So are splits of its long rows:
   only flat stages have these, and what is sent of such a stage needs nothing else of it. */
typedef struct placed {
    hga_id stage, level, batch;
    int64_t transfer;
} placed;

static int placed_before(const placed *a, const placed *b)
{
    if (a->stage != b->stage) return a->stage < b->stage;
    if (a->level != b->level) return a->level < b->level;
    return a->transfer < b->transfer;
}
SORT_DEFINE(sort_placed, placed, placed_before)

/* Fields that stage w's rows are made of, by itself and by the stages before it. */
static uint32_t needed_fields(const hga_program *p, hga_id w)
{
    uint32_t fields = p->stage[w].reads;
    for (hga_id s = w; s >= 0; s--)
        if (p->stage[s].writes & (fields | (s == w ? ~0u : 0))) fields |= p->stage[s].reads;
    return fields;
}

/* Is a row that a rank owns above one that is shared? Only where spans are not nested. */
static int owned_above_shared(const hga_nodes *nodes, const hga_id *owner)
{
    for (hga_id v = 0; nodes->parent && v < nodes->n; v++)
        if (owner[v] == OWNED_BY_ALL && nodes->parent[v] >= 0 && owner[nodes->parent[v]] != OWNED_BY_ALL) return 1;
    return 0;
}

/* Can all rows of the stage go as one step, since none waits for what another of them sends? */
int rank_is_one_step(const hga_plan *plan, const hga_id *owner, const rank_transfers *all, hga_id stage)
{
    const hga_stage *s = &plan->program.stage[stage];
    int inside = 0, to_all = 1;
    if (s->order == HGA_FLAT) return 1;
    for (int64_t i = 0; i < all->n; i++) {
        const rank_transfer *t = &all->transfer[i];
        if (t->written_by != stage || t->read_by > stage) continue;
        inside = 1, to_all &= t->to == HGA_EVERY_RANK;
    }
    return !inside ||
           (s->order == HGA_LEVELS_UP && s->relation < 0 && to_all && !owned_above_shared(&plan->nodes, owner));
}

/* Finds the step of every transfer: the stage that writes its rows, and their level where levels wait for each
   other. */
static void place(const hga_plan *plan, const hga_id *owner, const rank_transfers *all, placed *x)
{
    int one_step[HGA_MAX_STAGES];
    for (hga_id s = 0; s < plan->program.n_stages; s++) one_step[s] = rank_is_one_step(plan, owner, all, s);
    for (int64_t i = 0; i < all->n; i++) {
        const rank_transfer *t = &all->transfer[i];
        x[i] = (placed){.stage = t->written_by, .transfer = i};
        if (t->written_by < 0 || one_step[t->written_by]) continue;
        hga_id level = level_of_node(&plan->nodes, t->part.first);
        x[i].level = plan->program.stage[t->written_by].order == HGA_LEVELS_UP ? level : plan->nodes.n_levels - level;
    }
}

/* The first stage that reads rows of each field of the current batch, or makes rows of it of the batch's splits. */
typedef struct open_batch {
    hga_id number;
    hga_id read_by[HGA_FIELD_SLOTS];
} open_batch;

static void open_next(open_batch *b)
{
    for (int f = 0; f < HGA_FIELD_SLOTS; f++) b->read_by[f] = HGA_MAX_STAGES;
}

/* May rows of stage w, or splits of shared ones, need what the batch receives? */
static int needs_batch(const hga_program *p, const open_batch *b, hga_id w)
{
    uint32_t fields = w < 0 ? 0 : needed_fields(p, w);
    for (; fields; fields &= fields - 1)
        if (b->read_by[__builtin_ctz(fields)] <= w) return 1;
    return 0;
}

static void note_readers(const hga_program *p, const rank_transfer *t, open_batch *b)
{
    uint32_t fields = t->part.field ? UINT32_C(1) << t->part.field : p->stage[t->written_by].writes;
    for (; fields; fields &= fields - 1) {
        hga_id *first = &b->read_by[__builtin_ctz(fields)];
        if (t->read_by < *first) *first = t->read_by;
    }
}

/* Sorts the transfers by their steps, and finds the batch of each. */
hga_status rank_batches(const hga_plan *plan, const hga_id *owner, const rank_transfers *all, int64_t *order,
                        hga_id *batch, hga_id *n_batches)
{
    placed *x = NULL;
    open_batch b = {0};
    hga_status st = hga_new(&plan->memory.allocator, all->n, sizeof *x, &x);
    if (st) return st;
    place(plan, owner, all, x);
    sort_placed(x, all->n);
    open_next(&b);
    for (int64_t i = 0; i < all->n; i++) {
        const rank_transfer *t = &all->transfer[x[i].transfer];
        int new_step = i > 0 && (x[i].stage != x[i - 1].stage || x[i].level != x[i - 1].level);
        if (new_step && needs_batch(&plan->program, &b, x[i].stage)) b.number++, open_next(&b);
        note_readers(&plan->program, t, &b);
        order[i] = x[i].transfer, batch[i] = b.number;
    }
    *n_batches = all->n ? b.number + 1 : 0;
    hga_delete(&plan->memory.allocator, x, all->n, sizeof *x);
    return HGA_OK;
}
