/* rank_splits.c: which rank computes which splits of the long rows that all ranks have, and what goes between ranks:
   rows, and merged results of neighbouring splits of one rank. */
#include "plan.h"
#include "rank_lists.h"
#include "ranks.h"

#include <assert.h>

/* Converts the halo's splits to splits of the plan's long rows. */
hga_status rank_splits_list(const hga_plan *plan, struct rank_plan *r, const hga_halo_list *halo)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_grow(&r->allocator, &r->split, &r->split_capacity, 0, halo->n_splits, sizeof *r->split));
    hga_id next = 0; /* split of the row */
    for (int64_t i = 0; i < halo->n_splits; i++) {
        const hga_split *x = &halo->split[i];
        if (i == 0 || x->stage != x[-1].stage || x->node != x[-1].node) next = 0;
        const long_row *row = long_row_at(&plan->stage[x->stage], x->node);
        assert(row);
        hga_id n = (hga_id)((x->n_edges - 1) / row->cut + 1);
        r->split[r->n_splits++] = (rank_split){x->stage, row->first_split + next, n, x->rank};
        next += n;
    }
done:
    return st;
}

/* The first split that does not start before `lo` of the stage. */
static int64_t find_split(const struct rank_plan *r, hga_id stage, hga_id lo)
{
    int64_t first = 0, end = r->n_splits;
    while (first < end) {
        int64_t middle = first + (end - first) / 2;
        const rank_split *x = &r->split[middle];
        if (x->stage < stage || (x->stage == stage && x->first < lo))
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

int64_t rank_split_at(const struct rank_plan *r, hga_id stage, hga_id lo, hga_id hi)
{
    int64_t i = find_split(r, stage, lo);
    int found = i < r->n_splits && r->split[i].stage == stage && r->split[i].first == lo && r->split[i].n == hi - lo;
    return found ? i : -1;
}

/* Lists the halo's transfers, and every split, which goes from its rank to all others. */
hga_status rank_transfers_list(const struct rank_plan *r, const hga_halo_list *halo, rank_transfers *out)
{
    hga_status st = hga_grow(&r->allocator, &out->transfer, &out->capacity, 0, halo->n_transfers + halo->n_splits,
                             sizeof *out->transfer);
    for (int64_t i = 0; !st && i < halo->n_transfers; i++) {
        const hga_transfer *t = &halo->transfer[i];
        out->transfer[out->n++] = (rank_transfer){
            t->from, t->to, t->written_by, t->read_by, {.field = t->field, .first = t->first, .n = t->n}, t->bytes};
    }
    for (int64_t i = 0; !st && i < halo->n_splits; i++) {
        const rank_split *x = &r->split[i];
        if (x->rank == OWNED_BY_ALL) continue;
        out->transfer[out->n++] = (rank_transfer){x->rank,
                                                  HGA_EVERY_RANK,
                                                  x->stage,
                                                  x->stage,
                                                  {.first = x->first, .n = x->n, .stage = x->stage},
                                                  halo->split[i].bytes};
    }
    return st;
}

void rank_transfers_clear(const struct rank_plan *r, rank_transfers *all)
{
    hga_delete(&r->allocator, all->transfer, all->capacity, sizeof *all->transfer);
}
