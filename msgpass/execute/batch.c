/* batch.c: samples of one shape in one parallel region. Multiples of the team's size run whole, one thread a sample,
   without barriers; all threads share each remaining sample. Which thread computes what does not change the bits. On
   ranks samples run in order. */
#include "execution.h"
#include "plan.h"
#include "sample_queue.h"
#include "thread_binding.h"

#include <omp.h>
#include <stdio.h>

/* Prefixes an error with its sample's number. */
static hga_status blame(hga_status st, hga_id sample)
{
    char what[400];
    snprintf(what, sizeof what, "%s", hga_error_detail());
    return hga_fail(st, "sample %d: %s", sample, what);
}

static hga_status begin_sample(const hga_plan *plan, hga_workspace *workspace, const hga_io *io)
{
    if (!workspace) return hga_fail(HGA_EINVAL, "no workspace");
    if (workspace->base.listed) return hga_fail(HGA_EINVAL, "its workspace is an earlier sample's, too");
    hga_status st = execution_begin(plan, workspace, io);
    workspace->base.listed = !st;
    return st;
}

/* Begins all samples; *begun says how many are listed. */
static hga_status begin_samples(const hga_plan *plan, hga_workspace *const *workspaces, const hga_io *ios, hga_id n,
                                hga_id *begun)
{
    for (*begun = 0; *begun < n; ++*begun) {
        hga_status st = begin_sample(plan, workspaces[*begun], &ios[*begun]);
        if (st) return blame(st, *begun);
    }
    hga_id sample;
    hga_status st = arrays_of_samples(workspaces, n, &sample);
    return st ? blame(st, sample) : HGA_OK;
}

/* A thread's work in all samples: some whole, then its share of each of the others. */
static void run_samples(const hga_plan *plan, hga_workspace *const *workspaces, hga_id n, sample_queue *queue)
{
    hga_id me = (hga_id)omp_get_thread_num(), team = (hga_id)omp_get_num_threads();
    hga_id whole = plan->waves.alone ? n : n / team * team;
    binding old;
    queue_position at = {0};
    binding_take(plan, &old);
#pragma omp single
    *queue = sample_queue_open(plan, workspaces, whole, team);
    for (hga_id i; (i = sample_queue_next(queue, me, &at)) >= 0;) execution_run_alone(plan, workspaces[i]);
    for (hga_id i = whole; i < n; i++) execution_run_together(plan, workspaces[i], me, team);
    topology_unbind(&old);
}

/* Runs all samples by one thread, or by all threads in one parallel region. */
static hga_status execute_samples(const hga_plan *plan, hga_workspace *const *workspaces, hga_id n)
{
    if (execution_is_alone(plan) || (n == 1 && plan->waves.alone)) {
        binding old;
        binding_take_alone(plan, &old);
        for (hga_id i = 0; i < n; i++) execution_run_alone(plan, workspaces[i]);
        topology_unbind(&old);
        return HGA_OK;
    }
    hga_status st = threads_prepare(plan->team.n);
    if (st) return st;
    sample_queue queue;
#pragma omp parallel num_threads(plan->team.n)
    run_samples(plan, workspaces, n, &queue);
    return HGA_OK;
}

/* A rank without samples still tells the others, which may have some. */
static hga_status run_on_ranks(const hga_plan *plan, hga_workspace *const *workspaces, const hga_io *ios, hga_id n)
{
    const struct shared_execution *with = plan->share.wing->execution;
    if (n == 0) return with->run(plan, NULL, NULL, 0);
    for (hga_id i = 0; i < n; i++) {
        hga_status st = with->run(plan, workspaces[i], &ios[i], n - i);
        if (st) return blame(st, i);
    }
    return HGA_OK;
}

static hga_status run_begun(const hga_plan *plan, hga_workspace *const *workspaces, const hga_io *ios, hga_id n)
{
    if (plan_is_shared(plan)) return run_on_ranks(plan, workspaces, ios, n);
    return n > 0 ? execute_samples(plan, workspaces, n) : HGA_OK;
}

/* Checks the arguments, then begins, runs and ends all samples; after a failure none counts as executed. */
static hga_status execute_batch(const hga_plan *plan, hga_workspace *const *workspaces, const hga_io *ios, hga_id n)
{
    if (n < 0) return hga_fail(HGA_EINVAL, "%d samples", n);
    if (!plan || (n > 0 && (!workspaces || !ios)))
        return hga_fail(HGA_EINVAL, "no %s", !plan ? "plan" : !workspaces ? "workspaces" : "tensors");
    hga_id begun = 0;
    hga_status st = begin_samples(plan, workspaces, ios, n, &begun);
    if (!st) st = run_begun(plan, workspaces, ios, n);
    for (hga_id i = 0; i < begun; i++) {
        workspaces[i]->base.listed = 0;
        st || plan_is_shared(plan) ? execution_forget(workspaces[i]) : execution_end(plan, workspaces[i], &ios[i]);
    }
    if (!st) binding_say(plan);
    return st;
}

hga_status hga_plan_execute_batch(const hga_plan *plan, hga_workspace *const *workspaces, const hga_io *ios, hga_id n)
{
    return plan_failed(plan, execute_batch(plan, workspaces, ios, n));
}
