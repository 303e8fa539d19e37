/* pool.c: the plans that were used last, by key, with workspaces that nobody uses. */
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { FEW_CACHED = 16, MOST_CACHED = 128 };
static const int64_t most_bytes = (int64_t)1 << 30; /* of all plans and workspaces; one is kept however large it is */

typedef struct workspaces {
    hga_py_workspaces c; /* the first member: who has it has the workspaces */
    hga_id capacity;
    hga_workspace **workspaces;
    struct workspaces *next;
} workspaces;

/* What is before memory that is taken. */
typedef struct block {
    int64_t bytes;
    struct block *next;
    char line[64 - 2 * sizeof(int64_t)];
} block;

struct hga_py_cached {
    int64_t key[2], number;
    hga_plan *plan;
    const hga_graph *graph; /* of a plan that callers have alone: the one that it was updated to */
    int users;
    workspaces *free;
    int64_t workspaces;
    int64_t plan_bytes, workspace_bytes; /* as they were when it was had last */
    block *blocks;                       /* that nobody has */
    int64_t memory;                      /* bytes of all blocks */
    hga_py_cached *next;                 /* used longer ago */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static hga_py_cached *latest;
static int64_t last_number;
static int n_cached;

/* A fork waits for a plan that is being made. */
static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void begin_child(void) { pthread_mutex_init(&lock, NULL), last_number = 0; }

__attribute__((constructor)) static void begin(void) { pthread_atfork(before_fork, after_fork, begin_child); }

/* ---- workspaces ---- */

static void destroy_workspaces(workspaces *c)
{
    for (hga_id i = 0; i < c->capacity; i++) hga_workspace_destroy(c->workspaces[i]);
    free(c->workspaces), free(c->c.ios), free(c->c.grads), free(c);
}

/* Room for n samples; what is there stays where it fails. */
static hga_status grow(hga_py_cached *cached, workspaces *c, hga_id n)
{
    hga_status st = HGA_OK;
    hga_io *ios = calloc((size_t)n, sizeof *ios);
    hga_grad_io *grads = calloc((size_t)n, sizeof *grads);
    hga_workspace **more = ios && grads ? realloc(c->workspaces, (size_t)n * sizeof *more) : NULL;
    if (!more) {
        free(ios), free(grads);
        return hga_fail(HGA_ENOMEM, "no memory for %d workspaces", n);
    }
    free(c->c.ios), free(c->c.grads);
    c->c.ios = ios, c->c.grads = grads, c->workspaces = more, c->c.workspaces = more;
    while (c->capacity < n && !(st = hga_workspace_create(cached->plan, &more[c->capacity]))) {
        c->capacity++;
        __atomic_fetch_add(&cached->workspaces, 1, __ATOMIC_RELAXED);
    }
    return st;
}

/* Those that the plan has outgrown are made anew: it was updated since. */
static hga_status renew(const hga_plan *plan, hga_workspace **of, hga_id n)
{
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < n && !st; i++) {
        if (hga_workspace_fits(plan, of[i])) continue;
        hga_workspace *larger;
        if ((st = hga_workspace_create(plan, &larger))) break;
        hga_workspace_destroy(of[i]), of[i] = larger;
    }
    return st;
}

/* Workspaces that were given back are taken first, and get more room where they are too few. */
hga_status hga_py_take_workspaces(hga_py_cached *cached, hga_id samples, hga_py_workspaces **out)
{
    pthread_mutex_lock(&lock);
    workspaces *c = cached->free;
    if (c) cached->free = c->next;
    pthread_mutex_unlock(&lock);
    if (!c) c = calloc(1, sizeof *c);
    if (!c) return hga_fail(HGA_ENOMEM, "no memory for %d workspaces", samples);
    hga_status st = samples > c->capacity ? grow(cached, c, samples) : HGA_OK;
    if (!st) st = renew(cached->plan, c->workspaces, samples);
    c->c.n = samples;
    if (st) hga_py_give_workspaces(cached, &c->c);
    *out = st ? NULL : &c->c;
    return st;
}

void hga_py_give_workspaces(hga_py_cached *cached, hga_py_workspaces *of)
{
    workspaces *c = (workspaces *)of;
    pthread_mutex_lock(&lock);
    c->next = cached->free, cached->free = c;
    pthread_mutex_unlock(&lock);
}

/* ---- memory ---- */

static block *new_block(hga_py_cached *cached, int64_t bytes)
{
    const int64_t room = bytes <= INT64_MAX / 2 ? (bytes + bytes / 4 + 63) / 64 * 64 : -1; /* the next is larger */
    block *x = room < 0 ? NULL : aligned_alloc(sizeof *x, (size_t)room + sizeof *x);
    if (x) x->bytes = room, __atomic_fetch_add(&cached->memory, room, __ATOMIC_RELAXED);
    return x;
}

static void free_block(hga_py_cached *cached, block *x)
{
    __atomic_fetch_sub(&cached->memory, x->bytes, __ATOMIC_RELAXED);
    free(x);
}

hga_status hga_py_take_memory(hga_py_cached *cached, int64_t bytes, void **out)
{
    pthread_mutex_lock(&lock);
    block *x = cached->blocks;
    if (x) cached->blocks = x->next;
    pthread_mutex_unlock(&lock);
    if (x && x->bytes < bytes) free_block(cached, x), x = NULL;
    if (!x) x = new_block(cached, bytes);
    *out = x ? x + 1 : NULL;
    return x ? HGA_OK : hga_fail(HGA_ENOMEM, "no memory for a call of %lld bytes", (long long)bytes);
}

void hga_py_give_memory(hga_py_cached *cached, void *memory)
{
    if (!memory) return;
    block *x = (block *)memory - 1;
    pthread_mutex_lock(&lock);
    x->next = cached->blocks, cached->blocks = x;
    pthread_mutex_unlock(&lock);
}

/* ---- those that are kept ---- */

static void destroy(hga_py_cached *cached)
{
    for (workspaces *c = cached->free, *next; c; c = next) next = c->next, destroy_workspaces(c);
    for (block *x = cached->blocks, *next; x; x = next) next = x->next, free_block(cached, x);
    hga_plan_destroy(cached->plan), free(cached);
}

/* Notes what a plan takes: by who has it, for while it is updated nobody else may look at it. Locked. */
static void measure(hga_py_cached *cached)
{
    cached->plan_bytes = hga_plan_bytes(cached->plan);
    cached->workspace_bytes = cached->workspaces * hga_plan_workspace_bytes(cached->plan);
}

static int64_t bytes_of(const hga_py_cached *cached)
{
    return cached->plan_bytes + cached->workspace_bytes + __atomic_load_n(&cached->memory, __ATOMIC_RELAXED);
}

/* Of those that nobody uses the ones that were used longest ago go, until no more than `most` are left. Locked. */
static void let_go(int most, int64_t bytes)
{
    int n = 0;
    int64_t sum = 0;
    for (hga_py_cached **at = &latest, *cached; (cached = *at);) {
        n++, sum += bytes_of(cached);
        if (cached->users || (n <= most && (n == 1 || sum <= bytes))) {
            at = &cached->next;
            continue;
        }
        *at = cached->next, n--, n_cached--, sum -= bytes_of(cached);
        destroy(cached);
    }
}

/* One of that key, then the latest; of a graph where one is given, without users unless it is shared. Locked. */
static hga_py_cached *find(const int64_t key[2], const hga_graph *graph, int shared)
{
    for (hga_py_cached **at = &latest, *cached; (cached = *at); at = &cached->next) {
        if (cached->key[0] != key[0] || cached->key[1] != key[1]) continue;
        if ((!shared && cached->users) || (graph && cached->graph != graph)) continue; /* a user may set its graph */
        *at = cached->next, cached->next = latest, latest = cached;
        return cached;
    }
    return NULL;
}

/* Numbers of other processes are others: a tape may come from one. */
static int64_t new_number(void)
{
    if (!last_number && getrandom(&last_number, sizeof last_number, 0) != sizeof last_number) last_number = getpid();
    return ++last_number;
}

/* Locked. */
static hga_status make(const hga_py_maker *maker, hga_py_cached **out)
{
    hga_py_cached *cached = calloc(1, sizeof *cached);
    if (!cached) return hga_fail(HGA_ENOMEM, "no memory for a plan");
    hga_status st = maker->make(maker->of, &cached->plan);
    if (st) {
        free(cached);
        return st;
    }
    memcpy(cached->key, maker->key, sizeof cached->key);
    cached->number = new_number(), cached->next = latest, latest = cached, n_cached++;
    measure(cached);
    let_go(MOST_CACHED, most_bytes);
    *out = cached;
    return HGA_OK;
}

hga_status hga_py_share(const hga_py_maker *maker, hga_py_cached **out)
{
    hga_status st = HGA_OK;
    pthread_mutex_lock(&lock);
    *out = find(maker->key, NULL, 1);
    if (!*out) st = make(maker, out);
    if (!st) (*out)->users++;
    pthread_mutex_unlock(&lock);
    return st;
}

/* The one that has the graph, another that is free, or a new one. */
hga_status hga_py_borrow(const hga_py_maker *maker, const hga_graph *graph, hga_py_cached **out)
{
    hga_status st = HGA_OK;
    pthread_mutex_lock(&lock);
    *out = find(maker->key, graph, 0);
    if (!*out) *out = find(maker->key, NULL, 0);
    if (!*out && !(st = make(maker, out))) (*out)->graph = graph;
    if (!st) (*out)->users++;
    pthread_mutex_unlock(&lock);
    if (st || (*out)->graph == graph) return st;
    st = hga_plan_update((*out)->plan, graph);
    if (st)
        hga_py_release(*out);
    else
        (*out)->graph = graph; /* the plan keeps it, so no other has its address */
    return st;
}

void hga_py_release(hga_py_cached *cached)
{
    pthread_mutex_lock(&lock);
    measure(cached), cached->users--;
    if (n_cached > FEW_CACHED) let_go(MOST_CACHED, most_bytes);
    pthread_mutex_unlock(&lock);
}

const hga_plan *hga_py_cached_plan(const hga_py_cached *cached) { return cached->plan; }

int64_t hga_py_cached_number(const hga_py_cached *cached) { return cached->number; }

/* How many plans and workspaces are kept, and their bytes. */
hga_py_cached_sizes hga_py_cached_all(void)
{
    hga_py_cached_sizes all = {0};
    pthread_mutex_lock(&lock);
    for (const hga_py_cached *cached = latest; cached; cached = cached->next) {
        all.plans++, all.plan_bytes += cached->plan_bytes, all.workspaces += cached->workspaces;
        all.workspace_bytes += cached->workspace_bytes;
    }
    pthread_mutex_unlock(&lock);
    return all;
}

void hga_py_forget_cached(void)
{
    pthread_mutex_lock(&lock);
    let_go(0, 0);
    pthread_mutex_unlock(&lock);
}
