/* topology.h: NUMA domains, the PUs (hardware threads) this process may use, and the placement of threads. */
#ifndef HGA_TOPOLOGY_H
#define HGA_TOPOLOGY_H

#include "hga_base.h"

typedef struct topology topology;

/* A thread's binding before topology_bind, to be restored. Zeroed: nothing to restore. */
typedef struct binding {
    topology *t;
    void *cpuset;
} binding;

/* One NUMA domain: `number` is the operating system's of its node; its PUs as the operating system numbers them, the
   first of every core before the second of any. */
typedef struct topology_domain {
    hga_id number, n_cores, n_pus;
    const hga_id *pu;
} topology_domain;

/* `described` as hwloc does: synthetic ("pack:2 numa:1 core:4 pu:1"), or a file that lstopo wrote ("machine.xml");
   HGA_EINVAL if it is neither, HGA_EFORMAT for a file that is none or cannot be read. Or NULL for this machine, which
   is discovered at the first call and shared by the whole process: the PUs that the calling thread may use now
   (allowed.h). Any thread may call; an open topology may be read by any number of threads. */
hga_status topology_open(const char *described, topology **out);
/* This machine, not shared, under the quota that topology_read_quota finds there. */
hga_status topology_open_in(const char *root, const char *self, topology **out);
/* NULL is accepted. */
void topology_close(topology *t);

/* Domains that have a PU this process may use; at least 1. */
hga_id topology_domains(const topology *t);
/* Domain 0 .. topology_domains - 1; its PUs are the topology's. */
topology_domain topology_domain_at(const topology *t, hga_id domain);
/* The useful number of threads: the PUs that may be used, at most the cgroups' CPU quota rounded up. */
hga_id topology_cores(const topology *t);
/* The quota in CPUs, 0 without. */
double topology_cpu_quota(const topology *t);
/* False for topologies that are described, also for those that hwloc's own environment variables put in this machine's
   place. */
int topology_is_this_machine(const topology *t);
/* The domain of a PU; -1: none. */
hga_id topology_domain_of(const topology *t, hga_id pu);
/* The one node, by the operating system's number, from which a memory policy of the calling thread takes all memory
   (numactl --membind); -1: no such policy. */
hga_id topology_memory_node(const topology *t);

/* A cache: its bytes, and how many PUs that may be used share it. */
typedef struct topology_cache {
    int64_t bytes;
    hga_id n_pus;
} topology_cache;
/* Of the caches of a level (1: the nearest) that PUs have which may be used, the smallest; zeros where there is none,
   or where they are not read: of this machine they are where the C library does not know them. */
topology_cache topology_cache_at(const topology *t, hga_id level);
/* Where cores are of several kinds, as in phones and laptops: how many PUs that may be used each of the first
   `capacity` kinds has, in n_pus, the slowest kind first; returns the kinds. 0: nobody says, or see topology_cache_at.
   */
hga_id topology_kinds(const topology *t, hga_id capacity, hga_id *n_pus);

/* Places thread i of `threads` on domain[i] and PU pu[i] (NULL accepted): domains ascend, each gets threads by its
   share of PUs, inside a domain cores come first. More threads than PUs share them. */
void topology_locate(const topology *t, hga_id threads, hga_id *domain, hga_id *pu);

/* Binds the calling thread to a PU of this machine and stores the old binding in *old; HGA_EEXTERNAL, and no change,
   where the thread's mask has no such PU or the system refuses. Does nothing, successfully, on other topologies. */
hga_status topology_bind(topology *t, hga_id pu, binding *old);
/* On the same thread: restores the old binding. */
void topology_unbind(binding *old);

/* The CPU quota of a process in CPUs, 0 without: `self` is its /proc/PID/cgroup, `root` where the cgroups are mounted
   (/sys/fs/cgroup); the tightest of the process's groups and all above them, cgroup v2 and v1. */
double topology_read_quota(const char *root, const char *self);
/* The number of `pus` within a quota, rounded up; 0: all. */
hga_id topology_paid_for(double quota, hga_id pus);

/* hga_topology_describe of a machine that is open; `described` is its name. */
hga_status topology_describe(const topology *t, const char *described, hga_id threads, hga_format format, char **out);

#endif
