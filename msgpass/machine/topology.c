/* topology.c: the one file that includes hwloc. A machine is discovered once; the usable part is determined at each
   call, since masks change, and stored in plain arrays. hwloc itself is needed again only to bind threads. */
#include "topology.h"
#include "allowed.h"
#include "tuning.h"

#include <errno.h>
#include <hwloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* hwloc's data of a machine. */
typedef struct hardware {
    hwloc_topology_t hw;
    int owners;
} hardware;

struct topology {
    hardware *from;
    hwloc_topology_t hw; /* from's */
    int owners;
    hga_id n_domains, n_pus;
    topology_domain *domain; /* [n_domains] */
    hga_id *pu;              /* [n_pus], domain after domain */
    hwloc_bitmap_t set;      /* the PUs */
    double quota;
};

/* This machine, and its last usable part, for the whole process; freed when the library is unloaded. */
static struct {
    pthread_mutex_t lock;
    hardware *hardware;
    topology *machine;
} shared_under_lock = {PTHREAD_MUTEX_INITIALIZER, NULL, NULL};

/* ---- reading ---- */

/* hwloc's Linux backend prints an error where it has nothing to read. */
static int has_cpu_folder(void)
{
    return access("/sys/bus/cpu/devices/cpu0/topology", R_OK) == 0 ||
           access("/sys/devices/system/cpu/cpu0/topology", R_OK) == 0;
}

/* Whether caches and kinds of cores are read: not of this machine where the C library knows its caches, since they are
   several files of each PU. */
static int is_read_whole(const char *described) { return described || !processor_here().second_cache; }

static int is_file(const char *described)
{
    const size_t n = strlen(described);
    return n > 4 && strcasecmp(described + n - 4, ".xml") == 0;
}

static hga_status can_be_read(const char *path)
{
    FILE *file = fopen(path, "r");
    const int read = file && (fgetc(file) != EOF || !ferror(file)), why = errno;
    if (file) fclose(file);
    return read ? HGA_OK : hga_fail(HGA_EFORMAT, "cannot read '%.200s': %s", path, strerror(why));
}

/* What the caller says of another machine. */
static hga_status describe_to(hwloc_topology_t hw, const char *described)
{
    if (is_file(described)) {
        hga_status st = can_be_read(described);
        if (st || hwloc_topology_set_xml(hw, described) == 0) return st;
        return hga_fail(HGA_EFORMAT, "'%.200s' is not a file of a topology as lstopo writes it, errno %d", described,
                        errno);
    }
    if (hwloc_topology_set_synthetic(hw, described) == 0) return HGA_OK;
    return hga_fail(HGA_EINVAL,
                    "'%.200s' is neither a synthetic topology such as 'pack:2 numa:1 core:4 pu:1' nor a file.xml",
                    described);
}

/* Quiet and quick: no devices, distances; the discovering thread is not migrated. Where /sys is not mounted CPUID is
   used. */
static hga_status load_topology(hardware *t, const char *described)
{
    const int whole = is_read_whole(described);
    unsigned long flags = HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS;
    if (!whole) flags |= HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
    if (!described) flags |= HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
    if (hwloc_topology_init(&t->hw) != 0) {
        t->hw = NULL;
        return hga_fail(HGA_ENOMEM, "hwloc: no memory for a topology");
    }
    if (described) {
        hga_status st = describe_to(t->hw, described);
        if (st) return st;
    }
    if (!described && !has_cpu_folder())
        hwloc_topology_set_components(t->hw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "linux");
    int failed = hwloc_topology_set_flags(t->hw, flags) != 0 ||
                 hwloc_topology_set_io_types_filter(t->hw, HWLOC_TYPE_FILTER_KEEP_NONE) != 0 ||
                 hwloc_topology_set_cache_types_filter(t->hw, whole ? HWLOC_TYPE_FILTER_KEEP_ALL
                                                                    : HWLOC_TYPE_FILTER_KEEP_NONE) != 0;
    if (failed) return hga_fail(HGA_EEXTERNAL, "hwloc: setting up failed, errno %d", errno);
    if (hwloc_topology_load(t->hw) == 0) return HGA_OK;
    if (described)
        return hga_fail(is_file(described) ? HGA_EFORMAT : HGA_EINVAL,
                        "'%.200s' is not a topology that can be built, errno %d", described, errno);
    return hga_fail(HGA_EEXTERNAL, "hwloc: discovery failed, errno %d", errno);
}

/* Discovers a machine, with one owner. */
static hga_status read_hardware(const char *described, hardware **out)
{
    hga_status st = HGA_OK;
    hardware *from = NULL;
    HGA_TRY(hga_new_zero(NULL, 1, sizeof *from, &from));
    from->owners = 1;
    HGA_TRY(load_topology(from, described));
done:
    if (st && from) {
        if (from->hw) hwloc_topology_destroy(from->hw);
        hga_delete(NULL, from, 1, sizeof *from), from = NULL;
    }
    *out = from;
    return st;
}

/* Under the lock, where it is shared. */
static void let_hardware_go(hardware *from)
{
    if (!from || --from->owners > 0) return;
    hwloc_topology_destroy(from->hw);
    hga_delete(NULL, from, 1, sizeof *from);
}

/* Adds the CPUs that the calling thread may use. */
static hga_status add_allowed(hwloc_bitmap_t own)
{
    hga_status st = HGA_OK;
    hga_id *cpu = NULL, n = 0;
    HGA_TRY(cpus_allowed(&cpu, &n));
    for (hga_id i = 0; i < n; i++)
        if (hwloc_bitmap_set(own, (unsigned)cpu[i]) != 0)
            HGA_TRY(hga_fail(HGA_ENOMEM, "hwloc: no memory for a cpuset"));
done:
    hga_delete(NULL, cpu, n, sizeof *cpu);
    return st;
}

/* The CPUs that the administrator and the calling thread's own mask allow: never empty. */
static hga_status usable(hwloc_topology_t hw, hwloc_bitmap_t *out)
{
    hga_status st = HGA_OK;
    hwloc_bitmap_t set = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(hw)), own = hwloc_bitmap_alloc();
    HGA_TRY(set && own ? HGA_OK : hga_fail(HGA_ENOMEM, "hwloc: no memory for a cpuset"));
    if (hwloc_topology_is_thissystem(hw)) HGA_TRY(add_allowed(own));
    if (hwloc_bitmap_intersects(set, own) && hwloc_bitmap_and(set, set, own) != 0)
        HGA_TRY(hga_fail(HGA_ENOMEM, "hwloc: no memory for a cpuset"));
done:
    hwloc_bitmap_free(own);
    if (st) hwloc_bitmap_free(set), set = NULL;
    *out = set;
    return st;
}

/* A PU with its sort keys. */
typedef struct seat {
    hga_id domain, node, rank, logical, os; /* rank: how many usable PUs of its core come before it */
} seat;

static int by_seat(const void *x, const void *y)
{
    const seat *a = x, *b = y;
    if (a->domain != b->domain) return a->domain < b->domain ? -1 : 1;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    return (a->logical > b->logical) - (a->logical < b->logical);
}

/* The first NUMA node with that PU, by hwloc's number and by the operating system's; memory of several kinds at the
   same cores counts once. */
static void find_node(hwloc_topology_t hw, unsigned pu, hga_id *domain, hga_id *number)
{
    hwloc_obj_t node = NULL;
    *domain = *number = 0;
    while ((node = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_NUMANODE, node)) != NULL)
        if (hwloc_bitmap_isset(node->cpuset, pu)) {
            *domain = (hga_id)node->logical_index, *number = (hga_id)node->os_index;
            return;
        }
}

/* The usable PUs in hwloc's order, in which the PUs of a core follow each other. */
static hga_id list_seats(hwloc_topology_t hw, hwloc_const_bitmap_t set, seat *seats)
{
    hga_id n = 0, rank = 0;
    hwloc_obj_t pu = NULL, last_core = NULL;
    while ((pu = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_PU, pu)) != NULL) {
        if (!hwloc_bitmap_isset(set, pu->os_index)) continue;
        hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(hw, HWLOC_OBJ_CORE, pu);
        rank = core && core == last_core ? rank + 1 : 0;
        last_core = core;
        if (seats) {
            seats[n] = (seat){.rank = rank, .logical = (hga_id)pu->logical_index, .os = (hga_id)pu->os_index};
            find_node(hw, pu->os_index, &seats[n].domain, &seats[n].node);
        }
        n++;
    }
    return n;
}

/* Makes domains of sorted seats, numbered without gaps. */
static void fill_domains(topology *t, const seat *seats)
{
    hga_id d = -1;
    for (hga_id i = 0; i < t->n_pus; i++) {
        if (i == 0 || seats[i].domain != seats[i - 1].domain)
            t->domain[++d] = (topology_domain){.number = seats[i].node, .pu = t->pu + i};
        t->domain[d].n_pus++;
        t->domain[d].n_cores += seats[i].rank == 0;
        t->pu[i] = seats[i].os;
    }
    t->n_domains = d + 1;
}

/* The usable PUs, domain by domain. */
static hga_status arrange(topology *t)
{
    hga_status st = HGA_OK;
    seat *seats = NULL;
    t->n_pus = list_seats(t->hw, t->set, NULL);
    if (t->n_pus == 0) return hga_fail(HGA_EEXTERNAL, "hwloc: the topology has no PU that may be used");
    HGA_TRY(hga_new(NULL, t->n_pus, sizeof *seats, &seats));
    HGA_TRY(hga_new(NULL, t->n_pus, sizeof *t->pu, &t->pu));
    HGA_TRY(hga_new(NULL, t->n_pus, sizeof *t->domain, &t->domain));
    list_seats(t->hw, t->set, seats);
    qsort(seats, (size_t)t->n_pus, sizeof *seats, by_seat);
    fill_domains(t, seats);
done:
    hga_delete(NULL, seats, t->n_pus, sizeof *seats);
    return st;
}

/* Under the lock. */
static void destroy(topology *t)
{
    if (!t) return;
    let_hardware_go(t->from);
    hwloc_bitmap_free(t->set);
    hga_delete(NULL, t->pu, t->n_pus, sizeof *t->pu);
    hga_delete(NULL, t->domain, t->n_pus, sizeof *t->domain);
    hga_delete(NULL, t, 1, sizeof *t);
}

/* A topology of the usable PUs of a machine; it takes over `set`. */
static hga_status view(hardware *from, hwloc_bitmap_t set, const char *root, const char *self, topology **out)
{
    hga_status st = HGA_OK;
    topology *t = NULL;
    HGA_TRY(hga_new_zero(NULL, 1, sizeof *t, &t));
    t->owners = 1;
    t->from = from, t->hw = from->hw, from->owners++;
    t->set = set, set = NULL;
    HGA_TRY(arrange(t));
    if (topology_is_this_machine(t)) t->quota = topology_read_quota(root, self);
done:
    hwloc_bitmap_free(set);
    if (st) destroy(t), t = NULL;
    *out = t;
    return st;
}

/* A machine discovered for one caller. */
static hga_status discover(const char *described, const char *root, const char *self, topology **out)
{
    hga_status st = HGA_OK;
    hardware *from = NULL;
    hwloc_bitmap_t set = NULL;
    *out = NULL;
    HGA_TRY(read_hardware(described, &from));
    HGA_TRY(usable(from->hw, &set));
    HGA_TRY(view(from, set, root, self, out));
done:
    let_hardware_go(from);
    return st;
}

/* Under the lock: updates the shared machine to the PUs that the calling thread may use now. Earlier plans keep theirs.
   */
static hga_status look_again(void)
{
    hga_status st = HGA_OK;
    hwloc_bitmap_t set = NULL;
    topology *fresh = NULL, *old = shared_under_lock.machine;
    if (!shared_under_lock.hardware) HGA_TRY(read_hardware(NULL, &shared_under_lock.hardware));
    HGA_TRY(usable(shared_under_lock.hardware->hw, &set));
    if (old && hwloc_bitmap_isequal(old->set, set)) {
        hwloc_bitmap_free(set);
        return HGA_OK;
    }
    HGA_TRY(view(shared_under_lock.hardware, set, "/sys/fs/cgroup", "/proc/self/cgroup", &fresh));
    shared_under_lock.machine = fresh;
    if (old && --old->owners == 0) destroy(old);
done:
    return st;
}

hga_status topology_open_in(const char *root, const char *self, topology **out)
{
    return discover(NULL, root, self, out);
}

/* A machine that is described is the caller's own; this one is shared, and updated when the allowed CPUs change. */
hga_status topology_open(const char *described, topology **out)
{
    hga_status st = HGA_OK;
    *out = NULL;
    if (described) return discover(described, NULL, NULL, out);
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
    if (--t->owners == 0) destroy(t);
    pthread_mutex_unlock(&shared_under_lock.lock);
}

/* Releases the library's own reference when it is unloaded. */
__attribute__((destructor)) static void forget_machine(void)
{
    topology_close(shared_under_lock.machine);
    let_hardware_go(shared_under_lock.hardware);
    shared_under_lock.machine = NULL, shared_under_lock.hardware = NULL;
}

/* ---- queries ---- */

hga_id topology_domains(const topology *t) { return t->n_domains; }

topology_domain topology_domain_at(const topology *t, hga_id domain) { return t->domain[domain]; }

hga_id topology_cores(const topology *t) { return topology_paid_for(t->quota, t->n_pus); }

double topology_cpu_quota(const topology *t) { return t->quota; }

int topology_is_this_machine(const topology *t) { return hwloc_topology_is_thissystem(t->hw); }

hga_id topology_domain_of(const topology *t, hga_id pu)
{
    for (hga_id d = 0; d < t->n_domains; d++)
        for (hga_id i = 0; i < t->domain[d].n_pus; i++)
            if (t->domain[d].pu[i] == pu) return d;
    return -1;
}

/* The node of a policy of the calling thread that takes memory from one node only. */
hga_id topology_memory_node(const topology *t)
{
    hwloc_membind_policy_t policy = HWLOC_MEMBIND_DEFAULT;
    hwloc_nodeset_t nodes = topology_is_this_machine(t) ? hwloc_bitmap_alloc() : NULL;
    hga_id node = -1;
    if (nodes && hwloc_get_membind(t->hw, nodes, &policy, HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET) == 0 &&
        policy == HWLOC_MEMBIND_BIND && hwloc_bitmap_weight(nodes) == 1)
        node = (hga_id)hwloc_bitmap_first(nodes);
    hwloc_bitmap_free(nodes);
    return node;
}

/* Thread i is at PU i * n_pus / threads of all, which gives its domain; inside the domain threads use the PUs in order.
   */
void topology_locate(const topology *t, hga_id threads, hga_id *domain, hga_id *pu)
{
    hga_id d = 0, before = 0, taken = 0; /* PUs in domains before d, threads already in d */
    for (hga_id i = 0; i < threads; i++) {
        int64_t at = (int64_t)i * t->n_pus / threads;
        for (; at >= (int64_t)before + t->domain[d].n_pus; d++, taken = 0) before += t->domain[d].n_pus;
        domain[i] = d;
        if (pu) pu[i] = t->domain[d].pu[taken % t->domain[d].n_pus];
        taken++;
    }
}

/* ---- caches, kinds of cores ---- */

/* A PU's data cache of a level; NULL: none. */
static hwloc_obj_t cache_of(hwloc_obj_t pu, hga_id level)
{
    hwloc_obj_t at = pu->parent;
    while (at && !(hwloc_obj_type_is_dcache(at->type) && at->attr->cache.depth == (unsigned)level)) at = at->parent;
    return at;
}

/* How many of a set's PUs may be used. */
static hga_id usable_of(const topology *t, hwloc_const_bitmap_t set)
{
    hga_id n = 0;
    for (hga_id i = 0; i < t->n_pus; i++) n += hwloc_bitmap_isset(set, (unsigned)t->pu[i]);
    return n;
}

topology_cache topology_cache_at(const topology *t, hga_id level)
{
    topology_cache least = {0};
    hwloc_obj_t pu = NULL;
    while ((pu = hwloc_get_next_obj_by_type(t->hw, HWLOC_OBJ_PU, pu)) != NULL) {
        hwloc_obj_t cache = hwloc_bitmap_isset(t->set, pu->os_index) ? cache_of(pu, level) : NULL;
        int64_t bytes = cache ? (int64_t)cache->attr->cache.size : 0;
        if (bytes > 0 && (!least.bytes || bytes < least.bytes))
            least = (topology_cache){bytes, usable_of(t, cache->cpuset)};
    }
    return least;
}

hga_id topology_kinds(const topology *t, hga_id capacity, hga_id *n_pus)
{
    hga_id kinds = 0;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    int n = set ? hwloc_cpukinds_get_nr(t->hw, 0) : 0;
    for (int i = 0; i < n && kinds < capacity; i++) {
        if (hwloc_cpukinds_get_info(t->hw, (unsigned)i, set, NULL, NULL, NULL, 0) != 0) break;
        hga_id pus = usable_of(t, set);
        if (pus > 0) n_pus[kinds++] = pus;
    }
    hwloc_bitmap_free(set);
    return kinds;
}

/* ---- binding ---- */

/* *old is what topology_unbind will restore; nothing on a machine that is not this one. */
hga_status topology_bind(topology *t, hga_id pu, binding *old)
{
    *old = (binding){NULL, NULL};
    if (!topology_is_this_machine(t)) return HGA_OK;
    hwloc_bitmap_t before = hwloc_bitmap_alloc(), set = hwloc_bitmap_alloc();
    hga_status st = HGA_OK;
    if (!before || !set || hwloc_bitmap_only(set, (unsigned)pu) != 0)
        st = hga_fail(HGA_ENOMEM, "hwloc: no memory for a cpuset");
    else if (hwloc_get_cpubind(t->hw, before, HWLOC_CPUBIND_THREAD) != 0)
        st = hga_fail(HGA_EEXTERNAL, "hwloc: a thread's mask cannot be read, errno %d", errno);
    else if (!hwloc_bitmap_isset(before, (unsigned)pu))
        st = hga_fail(HGA_EEXTERNAL, "a thread cannot be bound to PU %d, which its mask leaves out", pu);
    else if (hwloc_set_cpubind(t->hw, set, HWLOC_CPUBIND_THREAD) != 0)
        st = hga_fail(HGA_EEXTERNAL, "hwloc: cannot bind a thread to PU %d, errno %d", pu, errno);
    hwloc_bitmap_free(set);
    if (st)
        hwloc_bitmap_free(before);
    else
        *old = (binding){t, before};
    return st;
}

void topology_unbind(binding *old)
{
    if (old->t) hwloc_set_cpubind(old->t->hw, old->cpuset, HWLOC_CPUBIND_THREAD);
    hwloc_bitmap_free(old->cpuset);
    *old = (binding){NULL, NULL};
}
