/* threads.c: may a parallel region begin? OpenMP's runtime ends the process when a thread of a team cannot start, and
   hangs in a child that was forked after it had started some: both are found out before. */
#include "machine.h"

#include <pthread.h>
#include <stdatomic.h>

/* Threads of the calling thread's last team: they are there for the next one. */
static _Thread_local hga_id started;

/* ---- fork ---- */

/* A process that has had a team, and one that was forked by such a process. */
static atomic_int had_team, is_orphan;
static pthread_once_t watching = PTHREAD_ONCE_INIT;

static void note_child(void)
{
    if (atomic_load(&had_team)) atomic_store(&is_orphan, 1);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, note_child); }

int threads_orphaned(void) { return atomic_load(&is_orphan); }

/* ---- trying ---- */

enum { MOST = 4096 };

/* Waits until all have been started. */
static void *wait_for_all(void *context)
{
    pthread_mutex_t *gate = context;
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* How many of n threads start beside each other; none is left. */
static hga_id try_threads(hga_id n)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread[MOST];
    hga_id some = 0;
    pthread_mutex_lock(&gate);
    while (some < n && some < MOST && pthread_create(&thread[some], NULL, wait_for_all, &gate) == 0) some++;
    pthread_mutex_unlock(&gate);
    for (hga_id i = 0; i < some; i++) pthread_join(thread[i], NULL);
    return some;
}

hga_status threads_prepare(hga_id n)
{
    if (n > started) {
        hga_id some = 1 + try_threads(n - 1);
        if (some < n) return hga_fail(HGA_ENOMEM, "%d threads cannot start, only %d", n, some);
    }
    started = n;
    pthread_once(&watching, watch_forks);
    atomic_store(&had_team, 1);
    return HGA_OK;
}
