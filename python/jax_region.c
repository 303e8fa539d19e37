/* jax_region.c: one parallel region at a time, opened by one thread. XLA calls from threads of its own, and OpenMP
   would keep a team for each of them. */
#define _GNU_SOURCE
#include "jax.h"

#include <pthread.h>
#include <stdio.h>

enum { IDLE, REQUESTED, DONE };

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; /* of who asks, to the end of what he asked for */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int state = IDLE, started;
static hga_status (*job)(void *), status;
static void *job_data;
static char detail[1024]; /* the thread's own last error, for the caller's thread */

static void begin_child(void)
{
    pthread_mutex_init(&turn, NULL), pthread_mutex_init(&lock, NULL), pthread_cond_init(&changed, NULL);
    state = IDLE, started = 0;
}

__attribute__((constructor)) static void begin(void) { pthread_atfork(NULL, NULL, begin_child); }

static void wait_for(int requested)
{
    while (state != requested) pthread_cond_wait(&changed, &lock);
}

static void become(int now) { state = now, pthread_cond_broadcast(&changed); }

/* What the one thread does: it waits for a job, runs it, and says when that is done. */
static void *run_jobs(void *unused)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        wait_for(REQUESTED);
        pthread_mutex_unlock(&lock);
        status = job(job_data);
        if (status) snprintf(detail, sizeof detail, "%s", hga_error_detail());
        pthread_mutex_lock(&lock);
        become(DONE);
    }
    return unused;
}

static hga_status start(void)
{
    pthread_t thread;
    if (!started && pthread_create(&thread, NULL, run_jobs, NULL) == 0) {
        started = 1;
        pthread_setname_np(thread, "hga"); /* and so are called those of its team */
        pthread_detach(thread);
    }
    return started ? HGA_OK : hga_fail(HGA_ENOMEM, "the thread that runs attention cannot start");
}

/* Callers take turns; the error's text goes from the other thread to the caller's. */
hga_status hga_py_run_alone(hga_status (*f)(void *), void *data)
{
    pthread_mutex_lock(&turn);
    pthread_mutex_lock(&lock);
    hga_status st = start();
    if (!st) {
        job = f, job_data = data;
        become(REQUESTED), wait_for(DONE);
        state = IDLE, st = status;
        if (st) hga_fail(st, "%s", detail);
    }
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&turn);
    return st;
}
