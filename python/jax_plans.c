/* jax_plans.c: plans that calls of XLA's share, by kind: the last that were used, with workspaces that nobody uses. */
#define _GNU_SOURCE
#include "jax.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

enum { MOST_CACHED = 128 };
static const int64_t most_bytes = (int64_t)1 << 30; /* of all plans and workspaces; one is kept however large it is */

typedef struct workspaces {
    hga_py_workspaces c; /* the first member: who has it has the workspaces */
    hga_id capacity;
    hga_workspace **workspaces;
    struct workspaces *next;
} workspaces;

struct hga_py_cached {
    int64_t key[2], number;
    hga_plan *plan;
    int users;
    workspaces *free;
    int64_t workspaces;
    hga_py_cached *next; /* used longer ago */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static hga_py_cached *latest;
static int64_t last_number;

/* A fork waits for a plan that is being made. */
static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void begin_child(void) { pthread_mutex_init(&lock, NULL), last_number = 0; }

__attribute__((constructor)) static void begin(void) { pthread_atfork(before_fork, after_fork, begin_child); }

/* ---- a plan ---- */

static hga_status write_text(int file, const char *text, int64_t bytes)
{
    while (bytes > 0) {
        ssize_t some = write(file, text, (size_t)bytes);
        if (some <= 0) return hga_fail(HGA_ENOMEM, "no memory for a hierarchy of %lld bytes", (long long)bytes);
        text += some, bytes -= some;
    }
    return HGA_OK;
}

/* A graph and its program from text, through a file in memory, for the library reads files. */
static hga_status read_hierarchy(const hga_py_kind *kind, hga_graph **graph, hga_program *program)
{
    char path[32];
    int file = memfd_create("hierarchy", MFD_CLOEXEC);
    if (file < 0)
        return hga_fail(HGA_ENOMEM, "no memory for a hierarchy of %lld bytes", (long long)kind->hierarchy_bytes);
    snprintf(path, sizeof path, "/dev/fd/%d", file);
    hga_status st = write_text(file, kind->hierarchy, kind->hierarchy_bytes);
    if (!st) st = hga_program_read_file(NULL, path, graph, program);
    close(file);
    return st;
}

/* The plan that a kind's numbers describe. */
static hga_status make_plan(const hga_py_kind *kind, hga_plan **out)
{
    const int64_t *n = kind->number;
    hga_graph *graph = NULL;
    hga_program program;
    char isa[32] = "";
    hga_shape shape = {.n_heads = (hga_id)n[HGA_PY_HEADS],
                       .n_kv_heads = (hga_id)n[HGA_PY_KV_HEADS],
                       .dim = (hga_id)n[HGA_PY_DIM],
                       .dim_v = (hga_id)n[HGA_PY_DIM_V],
                       .pos_dim = (hga_id)n[HGA_PY_POS_DIM]};
    hga_options options = {.threads = (hga_id)n[HGA_PY_THREADS],
                           .bind = (int)n[HGA_PY_BIND],
                           .strict_rows = n[HGA_PY_STRICT],
                           .precision = (hga_precision)n[HGA_PY_PRECISION],
                           .generic = (int)n[HGA_PY_GENERIC],
                           .gradient = (int)n[HGA_PY_GRADIENT],
                           .dropout = (float)kind->dropout};
    if (kind->isa_bytes >= (int64_t)sizeof isa)
        return hga_fail(HGA_EINVAL, "the name of the instruction set has %lld bytes", (long long)kind->isa_bytes);
    memcpy(isa, kind->isa, (size_t)kind->isa_bytes);
    options.isa = *isa ? isa : NULL;
    hga_status st = read_hierarchy(kind, &graph, &program);
    if (!st) st = hga_plan_create(graph, &program, &shape, &options, out);
    hga_graph_destroy(graph); /* the plan has one, too */
    return st;
}

/* ---- workspaces ---- */

static void destroy_workspaces(workspaces *c)
{
    for (hga_id i = 0; i < c->capacity; i++) hga_workspace_destroy(c->workspaces[i]);
    free(c->workspaces), free(c->c.ios), free(c->c.grads), free(c);
}

/* Room for n samples; what is there stays where it fails. */
static hga_status fit(hga_py_cached *cached, workspaces *c, hga_id n)
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

/* Workspaces that were given back are taken first, and get more room where they are too few. */
hga_status hga_py_take_workspaces(hga_py_cached *cached, hga_id samples, hga_py_workspaces **out)
{
    pthread_mutex_lock(&lock);
    workspaces *c = cached->free;
    if (c) cached->free = c->next;
    pthread_mutex_unlock(&lock);
    if (!c) c = calloc(1, sizeof *c);
    if (!c) return hga_fail(HGA_ENOMEM, "no memory for %d workspaces", samples);
    hga_status st = samples > c->capacity ? fit(cached, c, samples) : HGA_OK;
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

/* ---- those that are kept ---- */

static void destroy(hga_py_cached *cached)
{
    for (workspaces *c = cached->free, *next; c; c = next) next = c->next, destroy_workspaces(c);
    hga_plan_destroy(cached->plan), free(cached);
}

static int64_t bytes_of(const hga_py_cached *cached)
{
    return hga_plan_bytes(cached->plan) + cached->workspaces * hga_plan_workspace_bytes(cached->plan);
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
        *at = cached->next, n--, sum -= bytes_of(cached);
        destroy(cached);
    }
}

/* The one of that key, then the latest. Locked. */
static hga_py_cached *find(const int64_t key[2])
{
    for (hga_py_cached **at = &latest, *cached; (cached = *at); at = &cached->next)
        if (cached->key[0] == key[0] && cached->key[1] == key[1]) {
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
static hga_status make(const hga_py_kind *kind, hga_py_cached **out)
{
    hga_py_cached *cached = calloc(1, sizeof *cached);
    if (!cached) return hga_fail(HGA_ENOMEM, "no memory for a plan");
    hga_status st = make_plan(kind, &cached->plan);
    if (st) {
        free(cached);
        return st;
    }
    memcpy(cached->key, &kind->number[HGA_PY_KEY], sizeof cached->key);
    cached->number = new_number(), cached->next = latest, latest = cached;
    let_go(MOST_CACHED, most_bytes);
    *out = cached;
    return HGA_OK;
}

hga_status hga_py_cache(const hga_py_kind *kind, hga_py_cached **out)
{
    hga_status st = HGA_OK;
    pthread_mutex_lock(&lock);
    *out = find(&kind->number[HGA_PY_KEY]);
    if (!*out) st = make(kind, out);
    if (!st) (*out)->users++;
    pthread_mutex_unlock(&lock);
    return st;
}

void hga_py_release(hga_py_cached *cached)
{
    pthread_mutex_lock(&lock);
    cached->users--;
    pthread_mutex_unlock(&lock);
}

const hga_plan *hga_py_cached_plan(const hga_py_cached *cached) { return cached->plan; }

int64_t hga_py_cached_number(const hga_py_cached *cached) { return cached->number; }

int64_t hga_py_tape_of(const hga_plan *plan) { return (hga_plan_tape_bytes(plan) + 8 + 63) / 64 * 64; }

hga_status hga_py_tape_bytes(const hga_py_kind *kind, int64_t *bytes)
{
    hga_py_cached *cached;
    hga_status st = hga_py_cache(kind, &cached);
    if (st) return st;
    *bytes = hga_py_tape_of(cached->plan);
    hga_py_release(cached);
    return HGA_OK;
}

/* How many plans and workspaces are kept, and their bytes. */
hga_py_cached_sizes hga_py_cached_all(void)
{
    hga_py_cached_sizes all = {0};
    pthread_mutex_lock(&lock);
    for (const hga_py_cached *cached = latest; cached; cached = cached->next) {
        all.plans++, all.plan_bytes += hga_plan_bytes(cached->plan), all.workspaces += cached->workspaces;
        all.workspace_bytes += cached->workspaces * hga_plan_workspace_bytes(cached->plan);
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
