/* ranks.c: a rank's plan of a run: its nodes, and its messages, batch by batch. */
#include "ranks.h"
#include "rank_passes.h"
#include "rank_lists.h"
#include "plan.h"

#include "bindings.h"
#include "identity.h"

#include <string.h>

/* ---- options ---- */

/* The exchange is of this library's layout, knows its rank, and has all functions. */
static hga_status check_exchange(const hga_exchange *x)
{
    if (!x) return hga_fail(HGA_EINVAL, "ranks: no exchange");
    if (x->size != sizeof *x)
        return hga_fail(HGA_EINVAL, "ranks: an exchange of %zu bytes, not %zu", x->size, sizeof *x);
    if (x->n_ranks < 1 || x->rank < 0 || x->rank >= x->n_ranks)
        return hga_fail(HGA_EINVAL, "ranks: rank %d of %d", x->rank, x->n_ranks);
    if (!x->start || !x->test || !x->wait || !x->gather || !x->fail)
        return hga_fail(HGA_EINVAL, "ranks: the exchange lacks a function");
    return HGA_OK;
}

static hga_status check_rank_options(const hga_options *o)
{
    const char *with = o->rows ? "rows" : o->keep_fields ? "keep_fields" : NULL;
    hga_status st = hga_check_reserved("hga_ranks", o->ranks->reserved, sizeof o->ranks->reserved);
    if (!st && with) st = hga_fail(HGA_EUNSUPPORTED, "ranks: not with options.%s", with);
    if (!st) st = check_exchange(o->ranks->exchange);
    if (!st && !o->ranks->cuts) st = hga_fail(HGA_EINVAL, "ranks: no cuts");
    return st;
}

/* Allocates what a rank's plan has besides; cuts are copied. */
static hga_status rank_plan_open(hga_plan *plan, const hga_exchange *x, const hga_id *cuts)
{
    hga_id n = x->n_ranks + 1;
    struct rank_plan *r;
    hga_status st = hga_new_zero(&plan->memory.allocator, 1, sizeof *r, &r);
    if (st) return st;
    r->allocator = plan->memory.allocator, r->exchange = x;
    plan->share.ranks = r;
    HGA_TRY(hga_new(&r->allocator, n, sizeof *cuts, &r->cuts));
    memcpy(r->cuts, cuts, (size_t)n * sizeof *cuts);
done:
    return st;
}

/* Makes the plan a rank's; all ranks meet. */
static hga_status begin_rank(hga_plan *plan)
{
    const hga_ranks *input = plan->options.ranks;
    hga_status st = HGA_OK;
    HGA_TRY(check_rank_options(&plan->options));
    HGA_TRY(rank_plan_open(plan, input->exchange, input->cuts));
    plan->options.ranks = NULL;              /* borrowed for this call */
    plan->options.rows = HGA_ROWS_THAT_STAY; /* those of others are there once they have been received */
    HGA_TRY(rank_call_meet(input->exchange, (rank_word){.kind = RANKS_CREATE}));
done:
    return st;
}

static hga_status renew(hga_plan *plan)
{
    const struct rank_plan *old = plan->share.ranks;
    plan->share.ranks = NULL;
    hga_status st = rank_call_meet(old->exchange, (rank_word){.kind = RANKS_UPDATE, .plan = old->stamp});
    return st ? st : rank_plan_open(plan, old->exchange, old->cuts);
}

/* Frees what a plan knows of its ranks. */
static void clear_ranks(hga_plan *plan)
{
    struct rank_plan *r = plan->share.ranks;
    if (!r) return;
    hga_allocator allocator = r->allocator, *a = &allocator;
    hga_delete(a, r->rows.owner, r->n_nodes, sizeof *r->rows.owner);
    hga_delete(a, r->rows.owned, r->rows.owned_capacity, sizeof *r->rows.owned);
    hga_delete(a, r->rows.mine, r->rows.mine_capacity, sizeof *r->rows.mine);
    hga_delete(a, r->rows.number, r->n_nodes, sizeof *r->rows.number);
    hga_delete(a, r->split, r->split_capacity, sizeof *r->split);
    hga_delete(a, r->traffic.part, r->traffic.part_capacity, sizeof *r->traffic.part);
    hga_delete(a, r->traffic.message, r->traffic.message_capacity, sizeof *r->traffic.message);
    hga_delete(a, r->traffic.batch, r->traffic.batch_capacity, sizeof *r->traffic.batch);
    hga_delete(a, r->passes.run, r->passes.run_capacity, sizeof *r->passes.run);
    hga_delete(a, r->passes.pass, r->passes.pass_capacity, sizeof *r->passes.pass);
    hga_delete(a, r->cuts, r->exchange->n_ranks + 1, sizeof *r->cuts);
    hga_delete(a, r, 1, sizeof *r);
    plan->share.ranks = NULL;
}

/* ---- which rows ---- */

/* Lists the nodes that this rank computes, as intervals. */
static hga_status list_mine(const hga_plan *plan, struct rank_plan *r)
{
    hga_status st = HGA_OK;
    for (hga_id v = 0, end; v < plan->nodes.n; v = end) {
        int mine = rank_computes(r, v);
        for (end = v + 1; end < plan->nodes.n && rank_computes(r, end) == mine;) end++;
        if (!mine) continue;
        HGA_TRY(hga_grow(&r->allocator, &r->rows.mine, &r->rows.mine_capacity, r->rows.n_mine, r->rows.n_mine + 1,
                         sizeof *r->rows.mine));
        r->rows.mine[r->rows.n_mine++] = (hga_interval){v, end - v};
    }
done:
    return st;
}

/* Lists all nodes as runs of one owner. */
static hga_status list_owned(const hga_plan *plan, struct rank_plan *r)
{
    hga_status st = HGA_OK;
    for (hga_id v = 0, end; v < plan->nodes.n; v = end) {
        for (end = v + 1; end < plan->nodes.n && r->rows.owner[end] == r->rows.owner[v];) end++;
        HGA_TRY(hga_grow(&r->allocator, &r->rows.owned, &r->rows.owned_capacity, r->rows.n_owned, r->rows.n_owned + 1,
                         sizeof *r->rows.owned));
        r->rows.owned[r->rows.n_owned++] = (owned_nodes){v, end - v, r->rows.owner[v]};
    }
done:
    return st;
}

/* Has a tensor rows of several intervals? */
static int has_intervals(const hga_plan *plan)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        rows_here at = {0};
        if (rows_here_next(plan, f, &at) && rows_here_next(plan, f, &at)) return 1;
    }
    return 0;
}

static hga_status number_rows(hga_plan *plan, struct rank_plan *r)
{
    if (!has_intervals(plan)) return HGA_OK;
    hga_status st = hga_new(&r->allocator, r->n_nodes, sizeof *r->rows.number, &r->rows.number);
    for (hga_id v = 0, n = 0; !st && v < r->n_nodes; v++) r->rows.number[v] = rank_computes(r, v) ? n++ : -1;
    plan->share.number = r->rows.number;
    return st;
}

/* ---- messages ---- */

/* Lists transfers batch by batch, as hops between two ranks. */
static hga_status list_hops(const hga_plan *plan, struct rank_plan *r, const rank_transfers *all, hop_list *l)
{
    hga_status st = HGA_OK;
    int64_t *order = NULL;
    hga_id *batch = NULL, n_batches;
    HGA_TRY(hga_new(&r->allocator, all->n, sizeof *order, &order));
    HGA_TRY(hga_new(&r->allocator, all->n, sizeof *batch, &batch));
    HGA_TRY(rank_batches(plan, r->rows.owner, all, order, batch, &n_batches));
    HGA_TRY(
        hga_grow(&r->allocator, &r->traffic.batch, &r->traffic.batch_capacity, 0, n_batches, sizeof *r->traffic.batch));
    r->traffic.n_batches = n_batches;
    if (n_batches) memset(r->traffic.batch, 0, (size_t)n_batches * sizeof *r->traffic.batch);
    for (int64_t i = 0; i < all->n; i++) HGA_TRY(hops_add(r, &all->transfer[order[i]], batch[i], i, l));
done:
    hga_delete(&r->allocator, order, all->n, sizeof *order);
    hga_delete(&r->allocator, batch, all->n, sizeof *batch);
    return st;
}

/* ---- are all ranks' plans the same? ---- */

typedef struct rank_stamp {
    uint64_t cuts, shape, options, program, graph;
    char isa[16];
} rank_stamp;

/* Hashes what must be the same on all ranks. */
static rank_stamp stamp_of(const hga_plan *plan)
{
    const hga_options *o = &plan->options;
    const int64_t options[] = {o->precision,           o->generic,         o->cut_edges, o->strict_rows, o->gradient,
                               o->gradient_row_ranges, o->gradient_subtree};
    const size_t cuts = (size_t)(plan->share.ranks->exchange->n_ranks + 1) * sizeof(hga_id);
    rank_stamp x = {.cuts = identity_mix(IDENTITY_OF_NOTHING, plan->share.ranks->cuts, cuts),
                    .shape = identity_mix(IDENTITY_OF_NOTHING, &plan->shape, sizeof plan->shape),
                    .options = identity_mix(IDENTITY_OF_NOTHING, options, sizeof options),
                    .program = identity_of_program(&plan->program),
                    .graph = identity_of_graph(plan->graph)};
    x.options = identity_mix(x.options, &o->dropout, sizeof o->dropout);
    strncpy(x.isa, plan->machine.kernels->isa, sizeof x.isa - 1);
    return x;
}

/* In what two ranks differ; NULL: in nothing. */
static const char *difference(const rank_stamp *a, const rank_stamp *b)
{
    return a->cuts != b->cuts         ? "cuts"
           : a->shape != b->shape     ? "shapes"
           : a->options != b->options ? "options"
           : a->program != b->program ? "programs"
           : a->graph != b->graph     ? "graphs"
           : memcmp(a->isa, b->isa, sizeof a->isa)
               ? "instruction sets, and so would have other bits: name one in options.isa"
               : NULL;
}

/* Refuses the first rank that differs from rank 0; all ranks find the same. */
static hga_status check_stamps(const hga_plan *plan, const rank_stamp *mine)
{
    const hga_exchange *x = plan->share.ranks->exchange;
    rank_stamp *all = NULL;
    hga_status st = HGA_OK;
    HGA_TRY(hga_new(&plan->memory.allocator, x->n_ranks, sizeof *all, &all));
    HGA_TRY(x->gather(x->ctx, mine, sizeof *mine, all));
    for (hga_id r = 1; r < x->n_ranks; r++) {
        const char *what = difference(&all[0], &all[r]);
        if (what) HGA_TRY(hga_fail(HGA_EINVAL, "ranks: rank 0 and rank %d have different %s", r, what));
    }
done:
    hga_delete(&plan->memory.allocator, all, x->n_ranks, sizeof *all);
    return st;
}

/* ---- all of it ---- */

/* The edges at which rows are cut into splits, 0: nowhere. */
static hga_pos cuts_at(const hga_plan *plan)
{
    const hga_options *o = &plan->options;
    return o->generic || o->strict_rows ? 0 : o->cut_edges;
}

/* Stores in the plan which rows are this rank's, for the core to read. */
static void share_plan(hga_plan *plan, const struct rank_plan *r)
{
    const hga_id *cut = r->cuts + r->exchange->rank;
    plan->share.rows = r->rows.mine, plan->share.n_rows = r->rows.n_mine;
    plan->share.first_token = cut[0], plan->share.end_token = cut[1];
}

/* Each rank finds which rows are whose and what goes between ranks; the ranks' stamps are compared. */
static hga_status list(hga_plan *plan)
{
    hga_status st = HGA_OK;
    struct rank_plan *r = plan->share.ranks;
    hga_halo_list halo = {0};
    rank_transfers transfers = {0};
    hop_list hops = {0};
    r->n_nodes = plan->nodes.n;
    HGA_TRY(hga_new(&r->allocator, r->n_nodes, sizeof *r->rows.owner, &r->rows.owner));
    HGA_TRY(halo_find(plan->graph, &plan->program, &plan->shape, r->cuts, r->exchange->n_ranks, cuts_at(plan),
                      r->rows.owner, &halo));
    HGA_TRY(list_mine(plan, r));
    share_plan(plan, r);
    HGA_TRY(rank_splits_list(plan, r, &halo));
    HGA_TRY(number_rows(plan, r));
    HGA_TRY(rank_transfers_list(r, &halo, &transfers));
    HGA_TRY(list_hops(plan, r, &transfers, &hops));
    HGA_TRY(hops_to_messages(r, &hops));
    if (plan->options.gradient) HGA_TRY(list_owned(plan, r));
    rank_stamp stamp = stamp_of(plan);
    HGA_TRY(check_stamps(plan, &stamp));
    r->stamp = identity_mix(IDENTITY_OF_NOTHING, &stamp, sizeof stamp);
done:
    hops_clear(r, &hops);
    rank_transfers_clear(r, &transfers);
    hga_halo_clear(&halo);
    return st;
}

hga_status ranks_failed(const hga_exchange *x, hga_status st)
{
    if (st && x && x->size == sizeof *x && x->fail) x->fail(x->ctx, st);
    return st;
}

static void tell(const hga_plan *plan, hga_status st)
{
    ranks_failed(plan->share.ranks ? plan->share.ranks->exchange : NULL, st);
}

static hga_status divide(hga_plan *plan)
{
    hga_status st = rank_passes_make(plan);
    return st ? st : rank_slots_make(plan);
}

const plan_wing rank_wing = {.begin = begin_rank,
                             .renew = renew,
                             .list = list,
                             .divide = divide,
                             .clear = clear_ranks,
                             .tell = tell,
                             .execution = &rank_execution,
                             .gradient = &heads_shared};

hga_status hga_plan_rank_rows(const hga_plan *plan, hga_id field, hga_interval *rows, int64_t capacity, int64_t *n)
{
    if (!plan || !n || (capacity > 0 && !rows))
        return hga_fail(HGA_EINVAL, "no %s", !plan ? "plan" : !n ? "n" : "rows");
    if (!plan->share.ranks) return hga_fail(HGA_EINVAL, "the plan was made without options.ranks");
    if (field < 1 || field > plan->program.n_fields)
        return hga_fail(HGA_EINVAL, "field %d of %d does not exist", field, plan->program.n_fields);
    *n = 0;
    for (rows_here at = {0}; rows_here_next(plan, field, &at); ++*n)
        if (*n < capacity) rows[*n] = (hga_interval){at.first - plan->fields.storage[field].io_first, at.n};
    return HGA_OK;
}
