/* parts.c: partitions work among threads into contiguous runs of about equal cost. Only which thread computes what
   depends on it. */
#include "partition.h"

/* Each thing belongs to the part in which the middle of its cost lies. */
void share_by_cost(hga_id n, const int64_t *cost, hga_id parts, hga_id *part)
{
    double total = 0, sum = 0;
    for (hga_id i = 0; i < n; i++) total += cost ? (double)cost[i] : 1;
    for (hga_id i = 0; i < n; i++) {
        double each = cost ? (double)cost[i] : 1;
        part[i] = total > 0 ? (hga_id)((sum + 0.5 * each) / total * parts) : 0;
        if (part[i] >= parts) part[i] = parts - 1;
        sum += each;
    }
}

hga_status part_by_cost(const hga_plan *plan, phase *ph)
{
    hga_status st = hga_new(&plan->memory.allocator, ph->n_panels, sizeof *ph->owner, &ph->owner);
    if (!st) share_by_cost(ph->n_panels, ph->cost, plan->team.n, ph->owner);
    return st;
}
