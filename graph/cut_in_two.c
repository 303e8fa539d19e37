/* cut_in_two.c: the one file that includes METIS. METIS divides by log 1 for one part, prints when a part is left
   without vertices, may return METIS_OK with empty parts, is not reentrant, and cannot be stopped. So it only ever cuts
   a graph of at least two vertices and one edge in two, under a lock, and its answer is checked. Where the caller may
   end the call, METIS runs in another thread, which is left behind: it frees METIS's input and ends with METIS. */
#include "cut_in_two.h"
#include "interrupt.h"
#include "written.h"

#include <errno.h>
#include <metis.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

_Static_assert(sizeof(idx_t) == sizeof(int32_t), "METIS is one with 32-bit indices");

/* ---- graphs ---- */

const hga_allocator *subgraph_allocator(const hga_allocator *a) { return may_be_interrupted() ? NULL : a; }

hga_status subgraph_create(const hga_allocator *a, int64_t n, int64_t n_adj, subgraph *p)
{
    hga_status st = HGA_OK;
    *p = (subgraph){.n = n, .capacity = n_adj};
    HGA_TRY(hga_new_zero(a, n + 1, sizeof *p->ptr, &p->ptr));
    HGA_TRY(hga_new(a, n, sizeof *p->weight, &p->weight));
    HGA_TRY(hga_new(a, n, sizeof *p->name, &p->name));
    HGA_TRY(hga_new(a, n_adj, sizeof *p->adj, &p->adj));
    HGA_TRY(hga_new(a, n_adj, sizeof *p->adj_weight, &p->adj_weight));
done:
    return st;
}

void subgraph_clear(const hga_allocator *a, subgraph *p)
{
    hga_delete(a, p->ptr, p->n + 1, sizeof *p->ptr);
    hga_delete(a, p->weight, p->n, sizeof *p->weight);
    hga_delete(a, p->name, p->n, sizeof *p->name);
    hga_delete(a, p->adj, p->capacity, sizeof *p->adj);
    hga_delete(a, p->adj_weight, p->capacity, sizeof *p->adj_weight);
    *p = (subgraph){0};
}

/* ---- METIS ---- */

/* A graph that METIS cuts in two, with weights in the ratio left : right. */
typedef struct cut_job {
    subgraph p;
    int32_t *side;
    int64_t left, right;
    int answer;
    /* only of a job in a thread */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int over, left_behind;
} cut_job;

/* One caller at a time. METIS returns METIS_ERROR only on SIGTERM, which was meant for the process: it is raised
   again. */
static void call_metis(cut_job *x)
{
    static pthread_mutex_t metis_lock = PTHREAD_MUTEX_INITIALIZER;
    idx_t n = (idx_t)x->p.n, one = 1, two = 2, cut = 0, options[METIS_NOPTIONS];
    real_t all = (real_t)(x->left + x->right), share[2] = {(real_t)x->left / all, (real_t)x->right / all};
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_NUMBERING] = 0;
    options[METIS_OPTION_SEED] = 1;
    pthread_mutex_lock(&metis_lock);
    x->answer = METIS_PartGraphRecursive(&n, &one, x->p.ptr, x->p.adj, x->p.weight, NULL, x->p.adj_weight, &two, share,
                                         NULL, options, &cut, x->side);
    pthread_mutex_unlock(&metis_lock);
    memory_is_written(x->side, (size_t)n * sizeof *x->side);
    if (x->answer == METIS_ERROR) raise(SIGTERM);
}

static hga_status check_answer(const cut_job *x)
{
    if (x->answer == METIS_ERROR_MEMORY)
        return hga_fail(HGA_ENOMEM, "METIS: no memory for %lld vertices", (long long)x->p.n);
    if (x->answer != METIS_OK)
        return hga_fail(HGA_EEXTERNAL, "METIS: error %d for %lld vertices", x->answer, (long long)x->p.n);
    for (int64_t i = 0; i < x->p.n; i++)
        if (x->side[i] != 0 && x->side[i] != 1)
            return hga_fail(HGA_EEXTERNAL, "METIS: vertex %lld in part %d of 2", (long long)i, (int)x->side[i]);
    return HGA_OK;
}

/* ---- by a thread that may be left behind ---- */

/* Edges that METIS cuts in less than a tenth of a second. */
enum { SOON_CUT = 1 << 17, TICK = 10000000 /* ns */ };

static void job_destroy(cut_job *job)
{
    pthread_cond_destroy(&job->changed);
    pthread_mutex_destroy(&job->lock);
    hga_delete(NULL, job->side, job->p.n, sizeof *job->side);
    subgraph_clear(NULL, &job->p);
    hga_delete(NULL, job, 1, sizeof *job);
}

static void *run_job(void *context)
{
    cut_job *job = context;
    call_metis(job);
    pthread_mutex_lock(&job->lock);
    job->over = 1;
    int mine = job->left_behind;
    pthread_cond_signal(&job->changed);
    pthread_mutex_unlock(&job->lock);
    if (mine) job_destroy(job);
    return NULL;
}

/* METIS installs its own SIGTERM handler, which works only in the thread that runs METIS; the signal may come to any
   other. */
static void restore_handler(const struct sigaction *before)
{
    struct sigaction now;
    if (sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler != before->sa_handler) sigaction(SIGTERM, before, NULL);
}

/* Waits until the job is over or the caller interrupts. */
static hga_status await_job(cut_job *job)
{
    hga_status st = HGA_OK;
    struct sigaction before;
    struct timespec until;
    sigaction(SIGTERM, NULL, &before);
    pthread_mutex_lock(&job->lock);
    while (!job->over && !st) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += TICK;
        if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
        pthread_cond_timedwait(&job->changed, &job->lock, &until);
        pthread_mutex_unlock(&job->lock);
        restore_handler(&before);
        st = interrupted();
        pthread_mutex_lock(&job->lock);
    }
    job->left_behind = !job->over;
    pthread_mutex_unlock(&job->lock);
    return st;
}

static hga_status job_start(cut_job *job)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int error = pthread_create(&thread, &attributes, run_job, job);
    pthread_attr_destroy(&attributes);
    return error ? hga_fail(HGA_ENOMEM, "cannot start a thread for METIS") : HGA_OK;
}

/* Cuts in a thread of its own. The job owns the graph and *side; they return to the caller once the job is over. */
static hga_status cut_in_own_thread(subgraph *p, int64_t left, int64_t right, int32_t **side)
{
    cut_job *job = NULL;
    hga_status st = hga_new_zero(NULL, 1, sizeof *job, &job);
    if (st) return st;
    job->p = *p, job->side = *side, job->left = left, job->right = right;
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->changed, NULL);
    st = job_start(job);
    int started = !st;
    if (started) st = await_job(job);
    if (started && job->left_behind) {
        *p = (subgraph){0}, *side = NULL;
        return st;
    }
    if (!st) st = check_answer(job);
    job->p = (subgraph){0}, job->side = NULL;
    job_destroy(job);
    return st;
}

static hga_status cut_here(subgraph *p, int64_t left, int64_t right, int32_t *side)
{
    cut_job job = {.p = *p, .side = side, .left = left, .right = right};
    call_metis(&job);
    return check_answer(&job);
}

/* ---- in two ---- */

/* The first vertices, by weight, to side 0: for graphs without edges, and instead of an answer that leaves a side short
   of vertices. */
static void cut_in_order(const subgraph *p, int64_t left, int64_t right, int32_t *side)
{
    double total = 0, sum = 0;
    for (int64_t i = 0; i < p->n; i++) total += p->weight[i];
    double goal = total * (double)left / ((double)left + (double)right);
    for (int64_t i = 0; i < p->n; i++) {
        side[i] = i >= left && (i >= p->n - right || sum + p->weight[i] / 2.0 > goal);
        sum += p->weight[i];
    }
}

hga_status cut_in_two(subgraph *p, int64_t left, int64_t right, int32_t **side)
{
    hga_status st = HGA_OK;
    int64_t on_right = 0;
    if (p->n_adj == 0) {
        cut_in_order(p, left, right, *side);
        return HGA_OK;
    }
    HGA_TRY(may_be_interrupted() && p->n_adj > SOON_CUT ? cut_in_own_thread(p, left, right, side)
                                                        : cut_here(p, left, right, *side));
    for (int64_t i = 0; i < p->n; i++) on_right += (*side)[i];
    if (on_right < right || p->n - on_right < left) cut_in_order(p, left, right, *side);
done:
    return st;
}
