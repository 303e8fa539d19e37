/* rank_sums.c: gradients of what every rank has: each has summed up a part, and all add these parts in the order of the
   ranks, some thousand numbers at a time. So all have the same sums. */
#include "rank_call.h"

#include <string.h>

/* ---- do all want the same? ---- */

hga_status ranks_same_tables(const int64_t *entries_i, const int64_t *entries_k, hga_id i, hga_id k)
{
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (entries_k[t] != entries_i[t])
            return hga_fail(HGA_EINVAL, "ranks: rank %d wants gradients of %lld entries of %s, and rank %d of %lld", i,
                            (long long)entries_i[t], call_row(t)->name, k, (long long)entries_k[t]);
    return HGA_OK;
}

hga_status rank_agree(const gradient_call *c, const rank_call *r)
{
    const hga_exchange *x = c->plan->ranks->exchange;
    const int64_t *mine = c->needs.entries, *all = (const int64_t *)(const void *)r->all;
    hga_status st = rank_call_meet(x, rank_word_of(RANKS_GO_BACK, c->plan, c->io, c->samples));
    if (!st) st = x->gather(x->ctx, mine, sizeof c->needs.entries, r->all);
    for (hga_id k = 0; !st && k < x->n_ranks; k++) st = ranks_same_tables(mine, all + k * HGA_N_TABLES, x->rank, k);
    return st;
}

/* ---- sums of all ranks ---- */

/* The first n of `mine` become the sums of all ranks'. */
static hga_status sum_gathered(const gradient_call *c, const rank_call *r, int64_t n)
{
    const hga_exchange *x = c->plan->ranks->exchange;
    hga_status st = n ? x->gather(x->ctx, r->mine, n * (int64_t)sizeof *r->mine, r->all) : HGA_OK;
    for (int64_t i = 0; !st && i < n; i++) {
        r->mine[i] = 0;
        for (hga_id k = 0; k < x->n_ranks; k++) r->mine[i] += r->all[k * n + i];
    }
    return st;
}

/* The sum of what the turns have of entry i, which the first keeps. */
static double take_turns(const gradient_call *c, hga_call_table which, int64_t i)
{
    double sum = c->sums[0].of[which][i];
    for (hga_id turn = 1; turn < c->needs.turns; turn++) {
        double *own = c->sums[turn].of[which];
        if (own == c->sums[0].of[which]) continue; /* heads write it apart */
        sum += own[i], own[i] = 0;
    }
    return sum;
}

hga_status rank_sum_tables(const gradient_call *c, const rank_call *r)
{
    hga_status st = HGA_OK;
    for (int which = 0; which < HGA_N_TABLES; which++)
        for (int64_t at = 0; at < c->needs.entries[which]; at += GATHERED) {
            int64_t left = c->needs.entries[which] - at, n = left < GATHERED ? left : GATHERED;
            for (int64_t i = 0; i < n; i++) r->mine[i] = take_turns(c, (hga_call_table)which, at + i);
            HGA_TRY(sum_gathered(c, r, n));
            memcpy(c->sums[0].of[which] + at, r->mine, (size_t)n * sizeof *r->mine);
        }
done:
    return st;
}

/* ---- shared rows ---- */

/* Numbers of shared rows that wait to be summed, and where they come from. */
typedef struct waiting {
    const gradient_call *c;
    const rank_call *r;
    float *row[GATHERED]; /* of each number */
    int64_t n;
} waiting;

static hga_status sum_waiting(waiting *w)
{
    for (int64_t i = 0; i < w->n; i++) w->r->mine[i] = (double)*w->row[i];
    hga_status st = sum_gathered(w->c, w->r, w->n);
    for (int64_t i = 0; !st && i < w->n; i++) *w->row[i] = (float)w->r->mine[i];
    w->n = 0;
    return st;
}

static hga_status sum_row(waiting *w, hga_id f, hga_id v)
{
    hga_status st = HGA_OK;
    const field_storage *h = &w->c->plan->storage[f];
    float *row = tensor_at(field_gradient(w->c, f), h->heads, h->columns, v - h->io_first, 0);
    for (int64_t i = 0; i < (int64_t)h->heads * h->columns; i++) {
        w->row[w->n++] = row + i;
        if (w->n == GATHERED) HGA_TRY(sum_waiting(w));
    }
done:
    return st;
}

hga_status rank_sum_shared(const gradient_call *c, const rank_call *r)
{
    hga_status st = HGA_OK;
    const hga_plan *plan = c->plan;
    waiting w = {.c = c, .r = r};
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        if (!program_is_input(plan->program.field[f].binding)) continue;
        for (rank_rows at = {0}; rank_rows_next(plan, f, &at);)
            for (hga_id v = at.first; v < at.first + at.n; v++)
                if (plan->ranks->owner[v] == OWNED_BY_ALL) HGA_TRY(sum_row(&w, f, v));
    }
    HGA_TRY(sum_waiting(&w));
done:
    return st;
}
