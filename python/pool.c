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

struct hga_py_cached {
    int64_t key[2], number; /* number 0: it is being updated */
    hga_plan *plan;
    const hga_graph *graph; /* of a plan that callers have alone: the one that it was updated to */
    int users, has_key;
    workspaces *free;
    int64_t taken, workspaces;           /* how many callers have some, and how many there are */
    int64_t plan_bytes, workspace_bytes; /* as they were when it was had last */
    hga_py_memory *memory;
    hga_py_cached *next; /* used longer ago */
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

/* Those that were given back last, or NULL. A thread that updates the plan sees that they are taken, or this one sees
   another number. */
static hga_status begin_call(hga_py_cached *cached, int64_t number, workspaces **out)
{
    pthread_mutex_lock(&lock);
    const int is_there = cached->number == number;
    if (is_there) {
        *out = cached->free, cached->taken++;
        if (*out) cached->free = (*out)->next;
    }
    pthread_mutex_unlock(&lock);
    return is_there ? HGA_OK : (hga_status)HGA_PY_TAKEN;
}

static void end_call(hga_py_cached *cached, workspaces *of)
{
    pthread_mutex_lock(&lock);
    if (of) of->next = cached->free, cached->free = of;
    cached->taken--;
    pthread_mutex_unlock(&lock);
}

/* Workspaces that were given back are taken first, and get more room where they are too few. */
hga_status hga_py_take_workspaces(hga_py_cached *cached, int64_t number, hga_id samples, hga_py_workspaces **out)
{
    workspaces *c = NULL;
    hga_status st = begin_call(cached, number, &c);
    *out = NULL;
    if (st) return st;
    if (!c && !(c = calloc(1, sizeof *c))) st = hga_fail(HGA_ENOMEM, "no memory for %d workspaces", samples);
    if (!st && samples > c->capacity) st = grow(cached, c, samples);
    if (!st) st = renew(cached->plan, c->workspaces, samples);
    if (st)
        end_call(cached, c);
    else
        c->c.n = samples, *out = &c->c;
    return st;
}

void hga_py_give_workspaces(hga_py_cached *cached, hga_py_workspaces *of) { end_call(cached, (workspaces *)of); }

static void destroy_free_workspaces(hga_py_cached *cached, workspaces *c)
{
    for (workspaces *next; c; c = next) {
        next = c->next;
        __atomic_fetch_sub(&cached->workspaces, c->capacity, __ATOMIC_RELAXED);
        destroy_workspaces(c);
    }
}

void hga_py_rest(hga_py_cached *cached)
{
    pthread_mutex_lock(&lock);
    workspaces *all = cached->free;
    cached->free = NULL;
    pthread_mutex_unlock(&lock);
    destroy_free_workspaces(cached, all);
}

hga_py_memory *hga_py_cached_memory(const hga_py_cached *cached) { return cached->memory; }

/* ---- those that are kept ---- */

static void destroy(hga_py_cached *cached)
{
    destroy_free_workspaces(cached, cached->free);
    hga_py_memory_release(cached->memory);
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
    return cached->plan_bytes + cached->workspace_bytes + hga_py_memory_bytes(cached->memory);
}

/* Of those with a key that nobody uses the ones that were used longest ago go, until no more than `most` are left.
   Locked. */
static void let_go(int most, int64_t bytes)
{
    int n = 0;
    int64_t sum = 0;
    for (hga_py_cached **at = &latest, *cached; (cached = *at);) {
        if (cached->has_key) n++, sum += bytes_of(cached);
        if (!cached->has_key || cached->users || (n <= most && (n == 1 || sum <= bytes))) {
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
        if (!cached->has_key || cached->key[0] != key[0] || cached->key[1] != key[1]) continue;
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

/* Puts a plan first; where that fails it is destroyed. Locked. */
static hga_status put(hga_plan *plan, const int64_t *key, hga_py_cached **out)
{
    hga_py_cached *cached = calloc(1, sizeof *cached);
    if (cached) cached->memory = hga_py_memory_create();
    if (!cached || !cached->memory) {
        free(cached), hga_plan_destroy(plan);
        return hga_fail(HGA_ENOMEM, "no memory for a plan");
    }
    if (key) memcpy(cached->key, key, sizeof cached->key);
    cached->plan = plan, cached->has_key = key != NULL;
    cached->number = new_number(), cached->next = latest, latest = cached;
    *out = cached;
    return HGA_OK;
}

/* Locked. */
static hga_status make(const hga_py_maker *maker, hga_py_cached **out)
{
    hga_plan *plan;
    hga_status st = maker->make(maker->of, &plan);
    if (!st) st = put(plan, maker->key, out);
    if (st) return st;
    n_cached++, measure(*out);
    let_go(MOST_CACHED, most_bytes);
    return HGA_OK;
}

hga_status hga_py_own(hga_plan *plan, hga_py_cached **out)
{
    pthread_mutex_lock(&lock);
    hga_status st = put(plan, NULL, out);
    if (!st) (*out)->users = 1;
    pthread_mutex_unlock(&lock);
    return st;
}

/* The number goes first: whoever comes now makes another plan. */
hga_status hga_py_move(hga_py_cached *cached, const hga_graph *graph)
{
    pthread_mutex_lock(&lock);
    const int64_t number = cached->taken ? 0 : cached->number;
    if (number) cached->number = 0;
    pthread_mutex_unlock(&lock);
    if (!number) return (hga_status)HGA_PY_TAKEN;
    hga_status st = hga_plan_update(cached->plan, graph);
    pthread_mutex_lock(&lock);
    cached->number = st ? number : new_number();
    pthread_mutex_unlock(&lock);
    return st;
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

/* Takes one without a key out of the list. Locked. */
static void take_out(hga_py_cached *cached)
{
    hga_py_cached **at = &latest;
    while (*at != cached) at = &(*at)->next;
    *at = cached->next;
}

void hga_py_release(hga_py_cached *cached)
{
    pthread_mutex_lock(&lock);
    cached->users--;
    const int goes = !cached->has_key && !cached->users;
    if (goes) take_out(cached);
    if (cached->has_key) measure(cached);
    if (n_cached > FEW_CACHED) let_go(MOST_CACHED, most_bytes);
    pthread_mutex_unlock(&lock);
    if (goes) destroy(cached);
}

const hga_plan *hga_py_cached_plan(const hga_py_cached *cached) { return cached->plan; }

int64_t hga_py_cached_number(const hga_py_cached *cached) { return cached->number; }

/* Locked. */
static hga_py_cached_sizes sizes_of(const hga_py_cached *cached)
{
    return (hga_py_cached_sizes){1, cached->plan_bytes, cached->workspaces, cached->workspace_bytes,
                                 hga_py_memory_free(cached->memory)};
}

hga_py_cached_sizes hga_py_cached_one(hga_py_cached *cached)
{
    pthread_mutex_lock(&lock);
    if (!cached->has_key && cached->number) measure(cached);
    const hga_py_cached_sizes sizes = sizes_of(cached);
    pthread_mutex_unlock(&lock);
    return sizes;
}

hga_py_cached_sizes hga_py_cached_all(void)
{
    hga_py_cached_sizes all = {0};
    pthread_mutex_lock(&lock);
    for (hga_py_cached *cached = latest; cached; cached = cached->next) {
        if (!cached->has_key && cached->number) measure(cached);
        const hga_py_cached_sizes one = sizes_of(cached);
        all.plans += one.plans, all.plan_bytes += one.plan_bytes, all.workspaces += one.workspaces;
        all.workspace_bytes += one.workspace_bytes, all.memory_bytes += one.memory_bytes;
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
