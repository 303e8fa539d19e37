/* binding.c: chooses processors for a plan's threads, and binds them for the length of a call. */
#include "plan.h"
#include "thread_binding.h"

#include <omp.h>
#include <stdio.h>

struct binding_failures {
    pthread_mutex_t lock;
    int64_t n;
    char what[200]; /* the first one */
};

/* ---- choosing ---- */

/* Fewer threads than cores are not bound: another process may have as many. */
static int pays_by_itself(const hga_plan *plan)
{
    hga_id n = topology_domains(plan->machine.topology), cores = 0;
    for (hga_id d = 0; d < n; d++) cores += topology_domain_at(plan->machine.topology, d).n_cores;
    return n > 1 && plan->team.n > 1 && plan->team.n >= cores;
}

static plan_binding binding_of(const hga_plan *plan)
{
    if (!topology_is_this_machine(plan->machine.topology)) return BIND_NOTHING;
    if (cpus_bound_by_openmp()) return BIND_BY_OPENMP;
    int bind = plan->options.bind;
    return bind == HGA_BIND_ON || (bind == HGA_BIND_AUTO && pays_by_itself(plan)) ? BIND_CALLS : BIND_NOTHING;
}

/* Reads the places of OpenMP's threads; where they are unknown the plan's own guess stays. */
static hga_status query_openmp(hga_plan *plan)
{
    hga_id *cpu = NULL;
    hga_status st = hga_new(&plan->memory.allocator, plan->team.n, sizeof *cpu, &cpu);
    if (st) return st;
    int known = threads_find_cpus(plan->team.n, cpu);
    for (hga_id t = 0; t < plan->team.n; t++) known = known && topology_domain_of(plan->machine.topology, cpu[t]) >= 0;
    for (hga_id t = 0; known && t < plan->team.n; t++)
        plan->team.pu[t] = cpu[t], plan->team.domain[t] = topology_domain_of(plan->machine.topology, cpu[t]);
    hga_delete(&plan->memory.allocator, cpu, plan->team.n, sizeof *cpu);
    return HGA_OK;
}

/* Chooses the threads' processors, and whether the plan, OpenMP or neither binds them. */
hga_status binding_choose(hga_plan *plan)
{
    hga_status st = HGA_OK;
    if (plan->options.bind < HGA_BIND_OFF || plan->options.bind > HGA_BIND_AUTO)
        return hga_fail(HGA_EINVAL, "bind %d, not 0 to 2", plan->options.bind);
    HGA_TRY(hga_new(&plan->memory.allocator, plan->team.n, sizeof *plan->team.domain, &plan->team.domain));
    HGA_TRY(hga_new(&plan->memory.allocator, plan->team.n, sizeof *plan->team.pu, &plan->team.pu));
    HGA_TRY(hga_new_zero(&plan->memory.allocator, 1, sizeof *plan->team.unbound, &plan->team.unbound));
    pthread_mutex_init(&plan->team.unbound->lock, NULL);
    topology_locate(plan->machine.topology, plan->team.n, plan->team.domain, plan->team.pu);
    plan->team.binding = binding_of(plan);
    if (plan->team.binding == BIND_BY_OPENMP) HGA_TRY(query_openmp(plan));
done:
    return st;
}

void binding_clear(hga_plan *plan)
{
    if (plan->team.unbound) pthread_mutex_destroy(&plan->team.unbound->lock);
    hga_delete(&plan->memory.allocator, plan->team.unbound, 1, sizeof *plan->team.unbound);
    hga_delete(&plan->memory.allocator, plan->team.domain, plan->team.n, sizeof *plan->team.domain);
    hga_delete(&plan->memory.allocator, plan->team.pu, plan->team.n, sizeof *plan->team.pu);
    plan->team.unbound = NULL, plan->team.domain = plan->team.pu = NULL;
}

/* ---- calls ---- */

static void note_failure(const hga_plan *plan, hga_id thread)
{
    binding_failures *f = plan->team.unbound;
    pthread_mutex_lock(&f->lock);
    if (f->n++ == 0) snprintf(f->what, sizeof f->what, "thread %d: %.160s", thread, hga_error_detail());
    pthread_mutex_unlock(&f->lock);
}

static void take_unit(const hga_plan *plan, hga_id thread, binding *old)
{
    if (thread < plan->team.n && topology_bind(plan->machine.topology, plan->team.pu[thread], old))
        note_failure(plan, thread);
}

void binding_take(const hga_plan *plan, binding *old)
{
    *old = (binding){0};
    if (plan->team.binding == BIND_CALLS && omp_get_level() == 1) take_unit(plan, (hga_id)omp_get_thread_num(), old);
}

void binding_take_alone(const hga_plan *plan, binding *old)
{
    *old = (binding){0};
    if (plan->team.binding == BIND_CALLS && plan->options.bind == HGA_BIND_ON && omp_get_level() == 0)
        take_unit(plan, 0, old);
}

int64_t binding_failed(const hga_plan *plan, char what[200])
{
    binding_failures *f = plan->team.unbound;
    pthread_mutex_lock(&f->lock);
    int64_t n = f->n;
    if (what) snprintf(what, 200, "%s", f->what);
    pthread_mutex_unlock(&f->lock);
    return n;
}

void binding_say(const hga_plan *plan)
{
    char what[200];
    if (plan->team.binding == BIND_CALLS && binding_failed(plan, what)) hga_fail(HGA_EEXTERNAL, "not bound: %s", what);
}
