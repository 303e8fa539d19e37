/* without_hwloc.c: instead of topology.c where hwloc is left out: one domain of the CPUs that the process may use. */
#define _GNU_SOURCE /* sched_setaffinity and sets of CPUs */
#include "topology.h"
#include "allowed.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { MOST_CPUS = 8192 };

struct topology {
    int owners;
    hga_id n_pus;
    topology_domain domain;
    hga_id *pu; /* [n_pus] */
    double quota;
};

/* This machine as it was used last, for the whole process; freed when the library is unloaded. */
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

/* The CPUs that may be used, by number; cores and their hardware threads are not distinguished. */
hga_status topology_open_in(const char *root, const char *self, topology **out)
{
    hga_status st = HGA_OK;
    topology *t = NULL;
    HGA_TRY(hga_new_zero(NULL, 1, sizeof *t, &t));
    t->owners = 1;
    HGA_TRY(cpus_allowed(&t->pu, &t->n_pus));
    t->domain = (topology_domain){.n_cores = t->n_pus, .n_pus = t->n_pus, .pu = t->pu};
    t->quota = topology_read_quota(root, self);
done:
    if (st) destroy(t), t = NULL;
    *out = t;
    return st;
}

/* Under the lock: updates the shared machine to the CPUs that the calling thread may use now. Earlier plans keep
   theirs. */
static hga_status look_again(void)
{
    hga_status st = HGA_OK;
    topology *old = shared_under_lock.machine, *fresh = NULL;
    hga_id *pu = NULL, n = 0;
    HGA_TRY(cpus_allowed(&pu, &n));
    if (old && old->n_pus == n && memcmp(old->pu, pu, (size_t)n * sizeof *pu) == 0) goto done;
    HGA_TRY(topology_open_in("/sys/fs/cgroup", "/proc/self/cgroup", &fresh));
    shared_under_lock.machine = fresh;
    if (old && --old->owners == 0) destroy(old);
done:
    hga_delete(NULL, pu, n, sizeof *pu);
    return st;
}

/* This machine, shared in the process; others need hwloc. */
hga_status topology_open(const char *described, topology **out)
{
    hga_status st = HGA_OK;
    *out = NULL;
    if (described)
        return hga_fail(HGA_EUNSUPPORTED,
                        "the topology '%.200s' needs hwloc, which this library was built without (HGA_WITH_HWLOC=OFF)",
                        described);
    pthread_mutex_lock(&shared_under_lock.lock);
    st = look_again();
    if (!st) shared_under_lock.machine->owners++, *out = shared_under_lock.machine;
    pthread_mutex_unlock(&shared_under_lock.lock);
    return st;
}

void topology_close(topology *t)
{
    if (!t) return;
    pthread_mutex_lock(&shared_under_lock.lock);
    int last = --t->owners == 0;
    pthread_mutex_unlock(&shared_under_lock.lock);
    if (last) destroy(t);
}

/* Releases the library's own reference when it is unloaded. */
__attribute__((destructor)) static void forget_machine(void)
{
    topology_close(shared_under_lock.machine);
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

hga_id topology_domain_of(const topology *t, hga_id pu)
{
    for (hga_id i = 0; i < t->n_pus; i++)
        if (t->pu[i] == pu) return 0;
    return -1;
}

/* Caches and kinds of cores are not known here. */
topology_cache topology_cache_at(const topology *t, hga_id level)
{
    (void)t, (void)level;
    return (topology_cache){0};
}

hga_id topology_kinds(const topology *t, hga_id capacity, hga_id *n_pus)
{
    (void)t, (void)capacity, (void)n_pus;
    return 0;
}

/* Nodes are not known here. */
hga_id topology_memory_node(const topology *t)
{
    (void)t;
    return -1;
}

void topology_locate(const topology *t, hga_id threads, hga_id *domain, hga_id *pu)
{
    for (hga_id i = 0; i < threads; i++) {
        domain[i] = 0;
        if (pu) pu[i] = t->pu[i % t->n_pus];
    }
}

/* *old is what topology_unbind will restore. */
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
    else if (sched_getaffinity(0, bytes, before) != 0)
        st = hga_fail(HGA_EEXTERNAL, "a thread's mask cannot be read, errno %d", errno);
    else if (!CPU_ISSET_S((size_t)pu, bytes, before))
        st = hga_fail(HGA_EEXTERNAL, "a thread cannot be bound to CPU %d, which its mask leaves out", pu);
    else if (sched_setaffinity(0, bytes, set) != 0)
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
