/* rank_returns.c: gradients on ranks. A rank goes back through its own rows, and through shared ones, which every rank
   has for itself: each carries what its rows ask of them, and together that is what is asked. What it asks of rows that
   it has received goes home to the ranks that sent them: the transfers of the execution, turned round. A row's gradient
   must be whole when it goes, and come before the row itself goes back. Stages go back from the last to the first. */
#include "ranks.h"
#include "sort.h"

/* A transfer on its way back. */
typedef struct returned {
    hga_id stage, level, turned; /* see rank_return; turned: levels ascend in the order in which they go back */
    int64_t transfer;
} returned;

static int returned_before(const returned *a, const returned *b)
{
    if (a->stage != b->stage) return a->stage > b->stage;
    if (a->turned != b->turned) return a->turned < b->turned;
    return a->transfer < b->transfer;
}
SORT_DEFINE(sort_returned, returned, returned_before)

/* Are the rows the caller's, whom their gradients are for? */
static int are_given(const hga_plan *plan, const rank_transfer *t)
{
    const field_storage *h = &plan->storage[t->part.field];
    return !rank_gives_back(plan, t->part.field) && t->part.first >= h->io_first &&
           t->part.first < h->io_first + h->io_n;
}

static return_time time_of(const hga_plan *plan, const rank_transfers *all, hga_id stage)
{
    int inside = 0;
    for (int64_t i = 0; i < all->n; i++) {
        const rank_transfer *t = &all->transfer[i];
        inside |= t->written_by == stage && t->read_by <= stage && !are_given(plan, t);
    }
    if (!inside || plan->program.stage[stage].order == HGA_FLAT) return RETURN_FIRST;
    return rank_is_one_step(plan, plan->ranks->owner, all, stage) ? RETURN_SHARED : RETURN_LEVELS;
}

static returned place(const hga_plan *plan, const rank_transfer *t, int64_t number)
{
    returned x = {.stage = are_given(plan, t) ? -1 : t->written_by, .transfer = number};
    if (x.stage < 0 || plan->ranks->time[x.stage] != RETURN_LEVELS) return x;
    x.level = hga_graph_level(plan->graph, t->part.first);
    x.turned = plan->program.stage[x.stage].order == HGA_LEVELS_UP ? -x.level : x.level;
    return x;
}

static int is_kv(const hga_program *p, hga_id field)
{
    return p->field[field].width == HGA_WIDTH_KV_KEY || p->field[field].width == HGA_WIDTH_VALUE;
}

/* May the transfers x[0 .. n - 1] of a stage go with those of a later one, that is at hand? Nobody between the two may
   read them; and fields of key/value heads go back by themselves. */
static int joins(const hga_plan *plan, const rank_transfers *all, const returned *x, int64_t n, const rank_return *with,
                 int with_kv)
{
    if (x->stage < 0 || with->stage < 0 || plan->ranks->time[x->stage] == RETURN_LEVELS ||
        plan->ranks->time[with->stage] == RETURN_LEVELS)
        return 0;
    for (int64_t i = 0; i < n; i++) {
        const rank_transfer *t = &all->transfer[x[i].transfer];
        if (t->read_by <= with->stage || is_kv(&plan->program, t->part.field) != with_kv) return 0;
    }
    return 1;
}

static hga_status add_return(struct rank_plan *r, hga_id stage, hga_id level)
{
    hga_status st = hga_grow(&r->allocator, &r->back, &r->back_room, r->n_back, r->n_back + 1, sizeof *r->back);
    if (!st) r->back[r->n_back++] = (rank_return){.stage = stage, .level = level};
    return st;
}

/* The transfer with room for its rows' adjoints: those of states may have a log-sum-exp of their own beside them. */
static rank_transfer with_room(const hga_plan *plan, const rank_transfer *t)
{
    rank_transfer x = *t;
    if (plan->program.field[t->part.field].width == HGA_WIDTH_STATE)
        x.bytes += (int64_t)t->part.n * plan->storage[t->part.field].heads * (int64_t)sizeof(float);
    return x;
}

/* Transfers of one stage and level after the other. */
static hga_status list_returns(const hga_plan *plan, const rank_transfers *all, const returned *x, leg_list *legs)
{
    hga_status st = HGA_OK;
    struct rank_plan *r = plan->ranks;
    int kv = 0;
    for (int64_t i = 0, n; i < all->n; i += n) {
        for (n = 1; i + n < all->n && x[i + n].stage == x[i].stage && x[i + n].turned == x[i].turned;) n++;
        if (!r->n_back || !joins(plan, all, &x[i], n, &r->back[r->n_back - 1], kv)) {
            HGA_TRY(add_return(r, x[i].stage, x[i].level));
            kv = is_kv(&plan->program, all->transfer[x[i].transfer].part.field);
        }
        for (int64_t k = i; k < i + n; k++) {
            const rank_transfer t = with_room(plan, &all->transfer[x[k].transfer]);
            HGA_TRY(legs_add(r, &t, (hga_id)r->n_back - 1, k, 1, legs));
        }
    }
    if (!r->n_back || r->back[r->n_back - 1].stage >= 0) HGA_TRY(add_return(r, -1, 0));
done:
    return st;
}

hga_status rank_returns_make(hga_plan *plan, const rank_transfers *all)
{
    hga_status st = HGA_OK;
    struct rank_plan *r = plan->ranks;
    returned *x = NULL;
    rank_batch *batch = NULL;
    leg_list legs = {0};
    HGA_TRY(hga_new(&r->allocator, all->n, sizeof *x, &x));
    for (hga_id s = 0; s < plan->program.n_stages; s++) r->time[s] = time_of(plan, all, s);
    for (int64_t i = 0; i < all->n; i++) {
        x[i] = place(plan, &all->transfer[i], i);
        if (x[i].stage >= 0) r->returned |= UINT32_C(1) << all->transfer[i].part.field;
    }
    sort_returned(x, all->n);
    HGA_TRY(list_returns(plan, all, x, &legs));
    HGA_TRY(hga_new_zero(&r->allocator, r->n_back, sizeof *batch, &batch));
    HGA_TRY(legs_to_messages(r, &legs, batch, &r->back_out, &r->back_in));
    for (int64_t i = 0; i < r->n_back; i++) r->back[i].batch = batch[i];
done:
    legs_clear(r, &legs);
    hga_delete(&r->allocator, batch, r->n_back, sizeof *batch);
    hga_delete(&r->allocator, x, all->n, sizeof *x);
    return st;
}
