/* rank_early.c: what a rank computes before it sends its first messages, beside what these are made of. Rows that
   both messages and others read, as means of a tree's low levels, would all wait in the workspace until messages are
   under way, and need as much memory as the tensors. So their readers run along with them, some tokens at a time, as
   in one process, where their rows are soon reused; and only as much work waits as hides the messages. The messages
   are sent later by that, so ranks agree on how much: no rank ends later that has its work to do meanwhile. */
#include "plan.h"
#include "rank_division.h"

#include <math.h>

/* The time of what the rank computes for its first messages, while these are under way, and otherwise, in
   multiplications of one thread. */
typedef struct rank_load {
    double first, meanwhile, rest;
} rank_load;

/* So much work is left for the time that messages are under way: for a rank of one thread some 20 ms. */
static const double HIDDEN_WORK = 1.25e9;

/* ---- how much ---- */

/* If there are several batches, only what later messages need runs early: the rest hides the last of them. */
static int can_be_early(const division *d, int64_t job, int64_t row)
{
    if (bits_have(&d->s.run[job], row) || !bits_have(&d->ready[job], row)) return 0;
    return d->plan->share.ranks->traffic.n_batches == 1 || bits_have(&d->early[job], row);
}

static void add_load(const division *d, int64_t job, int64_t row, rank_load *load)
{
    double work = division_work(d, d->cost[job]);
    if (bits_have(&d->s.run[job], row))
        load->first += work;
    else
        *(can_be_early(d, job, row) ? &load->meanwhile : &load->rest) += work;
}

/* The cost of the rows that are left, by when the rank computes them. */
static rank_load find_load(const division *d)
{
    rank_load load = {0};
    for (int64_t j = 0; j < d->plan->slices->n_jobs; j++) {
        FOR_RUNS(&d->left[j], i, end, 0, d->left[j].n)
        {
            for (int64_t k = i; k < end; k++) add_load(d, j, k, &load);
        }
    }
    return load;
}

/* The rank that computes longest bounds the end of all. The first messages may go so much later that the rank with
   the most to do after them ends no later than that. */
static hga_status agree_on_time(const division *d, rank_load mine, double *work)
{
    const hga_exchange *x = d->plan->share.ranks->exchange;
    rank_load *all = NULL, most = {0};
    double longest = 0;
    hga_status st = HGA_OK;
    HGA_TRY(hga_new(&d->plan->memory.allocator, x->n_ranks, sizeof *all, &all));
    HGA_TRY(x->gather(x->ctx, &mine, sizeof mine, all));
    for (hga_id r = 0; r < x->n_ranks; r++) {
        longest = fmax(longest, all[r].first + all[r].meanwhile + all[r].rest);
        most.first = fmax(most.first, all[r].first), most.rest = fmax(most.rest, all[r].rest);
    }
    *work = longest - most.first - most.rest;
    *work -= d->plan->requested.panel ? *work / 2 : HIDDEN_WORK; /* tests have small graphs */
done:
    hga_delete(&d->plan->memory.allocator, all, x->n_ranks, sizeof *all);
    return st;
}

/* ---- which rows ---- */

/* Finds the rows that the first batches are made of. */
static void find_sent(division *d, hga_id batches)
{
    slice_begin(d->plan, &d->s);
    for (hga_id b = 0; b < batches; b++) division_request_sent(d->plan, &d->s, b);
    slice_find(d->plan, &d->s);
}

static void copy_rows(const division *d, const row_bits *from, row_bits *to)
{
    for (int64_t j = 0; j < d->plan->slices->n_jobs; j++) {
        bits_clear(&to[j]);
        FOR_RUNS(&from[j], i, end, 0, from[j].n) bits_put_run(&to[j], i, end, &no_bits);
    }
}

/* Does the slice write rows that others may read? */
static int writes_rows(const division *d)
{
    const struct slice_plan *p = d->plan->slices;
    int writes = 0;
    for (int64_t j = 0; j < p->n_jobs; j++)
        writes |= p->job[j].of.writes && bits_next(&d->s.run[j], 0, p->job[j].rows) < p->job[j].rows;
    return writes;
}

/* The first token after a share of the rank's, rounded down to a panel's first row. */
static hga_id token_behind(const hga_plan *plan, double share)
{
    const struct rank_plan *r = plan->share.ranks;
    const hga_id *cut = r->cuts + r->exchange->rank, panel = plan->requested.panel ? plan->requested.panel : PANEL_ROWS;
    return cut[0] + (hga_id)(fmin(share, 1) * (cut[1] - cut[0])) / panel * panel;
}

/* Marks rows that the first messages need, and rows of nodes whose tokens are all before `token`. */
static void keep_before(division *d, hga_id token)
{
    const hga_nodes *nodes = &d->plan->nodes;
    for (int64_t j = 0; j < d->plan->slices->n_jobs; j++) {
        const phase *ph = &d->plan->phases.list[d->plan->slices->job[j].phase];
        FOR_RUNS(&d->left[j], i, end, 0, d->left[j].n)
        {
            for (int64_t k = i; k < end; k++) {
                hga_id v = phase_node(d->plan, ph, (hga_id)k);
                int first = bits_have(&d->s.run[j], k), has_tokens = nodes->span_first[v] <= nodes->span_last[v];
                if (first || (can_be_early(d, j, k) && has_tokens && nodes->span_last[v] < token))
                    bits_put(&d->early[j], k);
                else
                    bits_take(&d->early[j], k);
            }
        }
    }
}

/* Ranks agree on what they compute before the first messages; then finds the rows of that. */
hga_status division_find_early(division *d)
{
    hga_status st = HGA_OK;
    rank_load mine;
    double work;
    d->has_early = 0;
    if (d->plan->share.ranks->traffic.n_batches == 0) return HGA_OK;
    find_sent(d, (hga_id)d->plan->share.ranks->traffic.n_batches);
    copy_rows(d, d->s.run, d->early);
    find_sent(d, 1);
    mine = find_load(d);
    HGA_TRY(agree_on_time(d, mine, &work));
    if (work <= 0 || mine.meanwhile <= 0 || !writes_rows(d)) return HGA_OK;
    keep_before(d, token_behind(d->plan, work / mine.meanwhile));
    division_find_ready(d, 0, d->early);
    copy_rows(d, d->ready, d->early);
    division_find_ready(d, 0, NULL);
    d->has_early = 1;
done:
    return st;
}
