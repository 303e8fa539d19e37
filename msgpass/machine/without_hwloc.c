/* without_hwloc.c: in place of topology.c where hwloc is left out: one domain of the CPUs that the process may use. */
#define _GNU_SOURCE /* sched_setaffinity and sets of CPUs */
#include "topology.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

enum { MOST_CPUS = 8192 };

struct topology {
    hga_id n_pus;
    topology_domain domain;
    hga_id *pu; /* [n_pus] */
    double quota;
};

/* This machine, for the whole process; freed when the library is unloaded. */
static struct {
    pthread_mutex_t lock;
    topology *machine;
} shared_under_lock = {PTHREAD_MUTEX_INITIALIZER, NULL};

static void destroy(topology *t)
{
    if (!t) return;
    hga_delete(NULL, t->pu, t->n_pus, sizeof *t->pu);
    hga_delete(NULL, t, 1, sizeof *t);
}

/* The CPUs of the process's affinity, by number; cores and their hardware threads are not told apart. */
hga_status topology_open_in(const char *root, const char *self, topology **out)
{
    hga_status st = HGA_OK;
    topology *t = NULL;
    cpu_set_t *set = CPU_ALLOC(MOST_CPUS);
    size_t bytes = CPU_ALLOC_SIZE(MOST_CPUS);
    HGA_TRY(set ? HGA_OK : hga_fail(HGA_ENOMEM, "no memory for a set of %d CPUs", MOST_CPUS));
    if (sched_getaffinity(0, bytes, set) != 0)
        HGA_TRY(hga_fail(HGA_EEXTERNAL, "the process's CPUs cannot be read, errno %d", errno));
    HGA_TRY(hga_new_zero(NULL, 1, sizeof *t, &t));
    t->n_pus = CPU_COUNT_S(bytes, set);
    HGA_TRY(hga_new(NULL, t->n_pus, sizeof *t->pu, &t->pu));
    for (hga_id cpu = 0, n = 0; cpu < MOST_CPUS; cpu++)
        if (CPU_ISSET_S((size_t)cpu, bytes, set)) t->pu[n++] = cpu;
    t->domain = (topology_domain){.n_cores = t->n_pus, .n_pus = t->n_pus, .pu = t->pu};
    t->quota = topology_read_quota(root, self);
done:
    if (set) CPU_FREE(set);
    if (st) destroy(t), t = NULL;
    *out = t;
    return st;
}

hga_status topology_open(const char *synthetic, topology **out)
{
    hga_status st = HGA_OK;
    *out = NULL;
    if (synthetic)
        return hga_fail(HGA_EUNSUPPORTED,
                        "the topology '%.200s' needs hwloc, which this library was built without (HGA_WITH_HWLOC=OFF)",
                        synthetic);
    pthread_mutex_lock(&shared_under_lock.lock);
    if (!shared_under_lock.machine)
        st = topology_open_in("/sys/fs/cgroup", "/proc/self/cgroup", &shared_under_lock.machine);
    *out = shared_under_lock.machine;
    pthread_mutex_unlock(&shared_under_lock.lock);
    return st;
}

/* The shared one stays. */
void topology_close(topology *t)
{
    pthread_mutex_lock(&shared_under_lock.lock);
    int is_shared = t == shared_under_lock.machine;
    pthread_mutex_unlock(&shared_under_lock.lock);
    if (!is_shared) destroy(t);
}

__attribute__((destructor)) static void forget_machine(void)
{
    destroy(shared_under_lock.machine);
    shared_under_lock.machine = NULL;
}

hga_id topology_domains(const topology *t)
{
    (void)t;
    return 1;
}

topology_domain topology_domain_at(const topology *t, hga_id domain)
{
    (void)domain;
    return t->domain;
}

hga_id topology_cores(const topology *t) { return topology_paid_for(t->quota, t->n_pus); }

double topology_cpu_quota(const topology *t) { return t->quota; }

int topology_is_this_machine(const topology *t)
{
    (void)t;
    return 1;
}

void topology_place(const topology *t, hga_id threads, hga_id *domain, hga_id *pu)
{
    for (hga_id i = 0; i < threads; i++) {
        domain[i] = 0;
        if (pu) pu[i] = t->pu[i % t->n_pus];
    }
}

hga_status topology_bind(topology *t, hga_id pu, binding *old)
{
    cpu_set_t *before = CPU_ALLOC(MOST_CPUS), *set = CPU_ALLOC(MOST_CPUS);
    size_t bytes = CPU_ALLOC_SIZE(MOST_CPUS);
    hga_status st = HGA_OK;
    *old = (binding){NULL, NULL};
    if (set) {
        CPU_ZERO_S(bytes, set);
        CPU_SET_S((size_t)pu, bytes, set);
    }
    if (!before || !set)
        st = hga_fail(HGA_ENOMEM, "no memory for a set of %d CPUs", MOST_CPUS);
    else if (sched_getaffinity(0, bytes, before) != 0 || sched_setaffinity(0, bytes, set) != 0)
        st = hga_fail(HGA_EEXTERNAL, "cannot bind a thread to CPU %d, errno %d", pu, errno);
    if (set) CPU_FREE(set);
    if (st && before) CPU_FREE(before);
    if (!st) *old = (binding){t, before};
    return st;
}

void topology_unbind(binding *old)
{
    if (old->t) sched_setaffinity(0, CPU_ALLOC_SIZE(MOST_CPUS), old->cpuset);
    if (old->cpuset) CPU_FREE(old->cpuset);
    *old = (binding){NULL, NULL};
}
