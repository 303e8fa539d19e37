/* batch.c: gradients of many executions. Every sample's arguments are checked before anything is written. Then as
   many samples as there are threads, or a multiple, run on one thread each and never wait for each other; all
   threads together compute the remaining samples. Which thread computes a sample does not change the bits. On ranks
   samples run one after the other. */
#include "plan.h"
#include "gradient_check.h"
#include "sample_queue.h"
#include "thread_binding.h"
#include "solvers.h"
#include "workspace_base.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

typedef struct batch {
    const hga_plan *plan;
    hga_workspace *const *workspaces;
    gradient_call *call; /* [n] */
    hga_id n;
    hga_id failed; /* the first sample that failed, and why; n: none */
    hga_status status;
    char what[400];
} batch;

/* Records the error of the first sample that failed. */
static void note_failure(batch *b, hga_id sample, hga_status st)
{
    if (sample >= b->failed) return;
    b->failed = sample, b->status = st;
    snprintf(b->what, sizeof b->what, "%s", hga_error_detail());
}

static hga_status blame(const batch *b)
{
    return b->failed < b->n ? hga_fail(b->status, "sample %d: %s", b->failed, b->what) : HGA_OK;
}

/* ---- checks of all samples ---- */

static hga_status begin_sample(const batch *b, hga_id i, const hga_io *io, const hga_grad_io *grad)
{
    hga_workspace *workspace = b->workspaces[i];
    if (!workspace) return hga_fail(HGA_EINVAL, "no workspace");
    if (workspace_enlist(workspace, 1)) return hga_fail(HGA_EINVAL, "its workspace is an earlier sample's, too");
    return gradient_begin(b->plan, workspace, io, grad, &b->call[i]);
}

/* Checks every sample's arguments, and that no sample writes what another reads or writes. */
static hga_status begin_all(batch *b, const hga_io *ios, const hga_grad_io *grads)
{
    for (hga_id i = 0; i < b->n && b->failed == b->n; i++) {
        hga_status st = begin_sample(b, i, &ios[i], &grads[i]);
        if (st) note_failure(b, i, st);
    }
    hga_id sample = 0;
    hga_status st = b->failed == b->n ? calls_disjoint(b->call, b->n, &sample) : HGA_OK;
    if (st) note_failure(b, sample, st);
    return blame(b);
}

static void let_workspaces_go(const batch *b)
{
    for (hga_id i = 0; i < b->n; i++)
        if (b->workspaces[i]) workspace_enlist(b->workspaces[i], 0);
}

/* ---- threads ---- */

static void go_sample(batch *b, hga_id i, hga_id threads)
{
    b->call[i].threads = threads;
    hga_status st = gradient_go(&b->call[i], b->workspaces[i]);
    if (!st) return;
#pragma omp critical
    note_failure(b, i, st);
}

/* Returns how many samples run on one thread each. */
static hga_id find_whole(batch *b, hga_id threads)
{
    const hga_plan *plan;
    reason buffer;
    hga_status st = solver_plan(b->plan, &plan);
    if (st) note_failure(b, 0, st);
    int alone = b->plan->waves.alone || (!st && must_be_plain(plan, &buffer));
    return threads == 1 ? 0 : alone ? b->n : b->n / threads * threads;
}

/* Computes the first samples in parallel, one thread each, then the rest one after the other with all threads. */
static hga_status run_batch(batch *b)
{
    hga_id threads = threads_allowed(b->plan->team.n), whole = find_whole(b, threads);
    hga_id team = whole < threads ? (whole > 1 ? whole : 1) : threads;
    hga_status st = blame(b);
    if (!st && team > 1) st = threads_prepare(team);
    if (st) return st;
    sample_queue queue = sample_queue_open(b->plan, b->workspaces, whole, team);
#pragma omp parallel num_threads(team) if (team > 1)
    {
        binding old;
        queue_position at = {0};
        binding_take(b->plan, &old);
        for (hga_id i; (i = sample_queue_next(&queue, (hga_id)omp_get_thread_num(), &at)) >= 0;) go_sample(b, i, 1);
        topology_unbind(&old);
    }
    for (hga_id i = whole; i < b->n; i++) go_sample(b, i, threads);
    if (b->failed == b->n) binding_say(b->plan);
    return blame(b);
}

/* Runs samples in order up to the first that fails; a failure reaches all ranks. A rank may have no samples where
   others have some. */
static hga_status run_on_ranks(batch *b)
{
    if (b->n == 0) return b->plan->share.wing->gradient->none(b->plan);
    for (hga_id i = 0; i < b->n && b->failed == b->n; i++) {
        b->call[i].samples = b->n - i;
        go_sample(b, i, threads_allowed(b->plan->team.n));
    }
    return blame(b);
}

/* Checks the arguments, then computes the gradients of n samples, on ranks or by threads. */
static hga_status go_back(const hga_plan *plan, hga_workspace *const *workspaces, const hga_io *ios,
                          const hga_grad_io *grads, hga_id n)
{
    if (n < 0) return hga_fail(HGA_EINVAL, "%d samples", n);
    if (!plan || (n > 0 && (!workspaces || !ios || !grads)))
        return hga_fail(HGA_EINVAL, "no %s",
                        !plan         ? "plan"
                        : !workspaces ? "workspaces"
                        : !ios        ? "tensors"
                                      : "gradients");
    if (n == 0 && !plan->share.wing) return HGA_OK;
    batch b = {.plan = plan, .workspaces = workspaces, .n = n, .failed = n};
    hga_status st = hga_new(&plan->memory.user, n, sizeof *b.call, &b.call);
    if (st) return st;
    st = begin_all(&b, ios, grads);
    let_workspaces_go(&b);
    if (!st) st = plan->share.wing ? run_on_ranks(&b) : run_batch(&b);
    hga_delete(&plan->memory.user, b.call, n, sizeof *b.call);
    return st;
}

hga_status hga_plan_gradient_batch(const hga_plan *plan, hga_workspace *const *workspaces, const hga_io *ios,
                                   const hga_grad_io *grads, hga_id n)
{
    return plan_failed(plan, go_back(plan, workspaces, ios, grads, n));
}
