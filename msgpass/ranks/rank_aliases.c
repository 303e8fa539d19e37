/* rank_aliases.c: rows of the workspace that are stored in the caller's. The caller's row of an output is not used
   until it is written, and often what it is made of is not used any more by then: a rank, all of whose states may
   wait for a message, stores a finished state in the row of its own node's output. One process finds aliases before
   it orders its panels (storage.c); a rank finds them once its passes are known, bucket by bucket, so that nothing
   waits for an alias. */
#include "rank_aliases.h"
#include "plan.h"

/* Is the alias's last use over when the host's row is first touched? The step that does both reads each row before it
   writes it. */
static int is_over(const bucket_ends *alias, const bucket_ends *host, const entry *step)
{
    if (alias->first < 0 || alias->input || host->first < 0) return 0;
    const stamp *last = &step[alias->last].when, *first = &step[host->first].when;
    if (last->wave != first->wave) return last->wave < first->wave;
    return !alias->last_shared && !host->first_shared && last->owner == first->owner && last->at <= first->at;
}

/* Allocates an index for each row of the rank's in the host's tensor, n rows from the first node on. */
static hga_status open_rows(const hga_plan *plan, hga_id host, alias_rows *x)
{
    hga_id end = 0;
    x->host = host, x->n = 0;
    for (rows_here at = {0}; rows_here_next(plan, host, &at); end = at.first + at.n)
        if (at.row == 0) x->first = at.first;
    if (end == 0) return HGA_OK;
    hga_status st = hga_new(&plan->memory.allocator, end - x->first, sizeof *x->row, &x->row);
    if (!st) x->n = end - x->first;
    for (hga_id i = 0; i < x->n; i++) x->row[i] = -1;
    return st;
}

/* Finds the nodes whose row of the alias can be stored in their row of the host; if there are none, removes the
   aliases. */
static hga_status find_alias_rows(hga_plan *plan, accesses *a, const live_ranges *l, const entry *step, hga_id alias,
                                  hga_id host)
{
    alias_rows *x = &plan->fields.storage[alias].aliases;
    hga_id found = 0;
    hga_status st = open_rows(plan, host, x);
    for (rows_here at = {0}; !st && rows_here_next(plan, host, &at);)
        for (hga_id v = at.first; v < at.first + at.n; v++) {
            const bucket_ends *of_alias = l->ends + accesses_buckets(a, alias, v, v).first,
                              *of_host = l->ends + accesses_buckets(a, host, v, v).first;
            if (is_over(of_alias, of_host, step)) x->row[v - x->first] = (hga_id)(at.row + v - at.first), found++;
        }
    if (!found) aliases_clear(plan, alias);
    return st;
}

/* A host holds one field's rows, which no stage touches after the first stage that touches the host
   (storage_may_host): a row has one alias, and an alias one host. */
hga_status rank_aliases_find(hga_plan *plan, accesses *a, const live_ranges *l, const entry *step)
{
    hga_status st = HGA_OK;
    for (hga_id host = 1; host <= plan->program.n_fields; host++)
        for (hga_id f = 1; f <= plan->program.n_fields && !st; f++) {
            uint64_t both = UINT64_C(1) << f | UINT64_C(1) << host;
            if (f == host || (a->recycled & both) != both || !storage_may_host(plan, f, host)) continue;
            st = find_alias_rows(plan, a, l, step, f, host);
        }
    return st;
}
