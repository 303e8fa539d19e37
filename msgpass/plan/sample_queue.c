/* sample_queue.c: divides the whole samples of a batch among threads. A sample belongs to the thread that computed it
   first, in whose domain its workspace is; a thread without samples of its own computes others', those of its own
   domain first. */
#include "sample_queue.h"
#include "plan.h"
#include "workspace_base.h"

sample_queue sample_queue_open(const hga_plan *plan, hga_workspace *const *workspaces, hga_id n, hga_id team)
{
    for (hga_id i = 0; i < n; i++) {
        workspace_home *d = workspace_home_of(workspaces[i]);
        d->taken = 0;
        d->home = d->first < 0 || d->first >= team ? (hga_id)((int64_t)i * team / n) : d->first;
    }
    return (sample_queue){plan, workspaces, n};
}

/* Whether the thread may compute a sample of that home in this round: its own, its domain's, any. */
static int is_for(const sample_queue *d, hga_id me, hga_id home, int round)
{
    return round == 2 || home == me || (round == 1 && d->plan->team.domain[home] == d->plan->team.domain[me]);
}

/* First the thread's own samples, then its domain's, then any; -1: none is left. */
hga_id sample_queue_next(const sample_queue *d, hga_id me, queue_position *at)
{
    for (; at->round < 3; at->round++, at->sample = 0)
        while (at->sample < d->n) {
            hga_id i = at->sample++;
            workspace_home *w = workspace_home_of(d->workspaces[i]);
            if (!is_for(d, me, w->home, at->round) || __atomic_exchange_n(&w->taken, 1, __ATOMIC_RELAXED)) continue;
            if (w->first < 0) w->first = me;
            return i;
        }
    return -1;
}
