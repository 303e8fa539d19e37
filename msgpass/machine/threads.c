/* threads.c: whether a parallel region may begin. OpenMP's runtime ends the process when a thread of a team cannot
   start, and hangs in a child that was forked after it had started some: both are detected first. */
#include "machine.h"

#include <omp.h>
#include <pthread.h>

/* Threads of the calling thread's last team, which exist for the next one. */
static _Thread_local hga_id started;

/* ---- fork ---- */

/* Whether this process has had a team, and whether it was forked by one that had. */
static struct {
    pthread_mutex_t lock;
    int watched, had_team, orphan;
} process_under_lock = {PTHREAD_MUTEX_INITIALIZER, 0, 0, 0};

static void lock(void) { pthread_mutex_lock(&process_under_lock.lock); }
static void unlock(void) { pthread_mutex_unlock(&process_under_lock.lock); }

/* In the child, whose one thread holds the lock. */
static void note_child(void)
{
    process_under_lock.orphan |= process_under_lock.had_team;
    unlock();
}

hga_id threads_allowed(hga_id requested)
{
    if (requested == 1 || omp_in_parallel()) return 1;
    lock();
    int orphan = process_under_lock.orphan;
    unlock();
    return orphan ? 1 : requested;
}

/* Where pthread_atfork fails, forks are not detected. */
static void note_team(void)
{
    lock();
    if (!process_under_lock.watched) process_under_lock.watched = pthread_atfork(lock, unlock, note_child) == 0;
    process_under_lock.had_team = 1;
    unlock();
}

/* ---- trying ---- */

enum { MOST = 4096 };

/* Waits until all threads have been started. */
static void *wait_for_all(void *context)
{
    pthread_mutex_t *gate = context;
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* The number of n threads that start at once; all are joined. */
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
    note_team();
    return HGA_OK;
}

/* ---- places ---- */

int threads_find_cpus(hga_id n, hga_id *cpu)
{
    int known = 1;
    for (hga_id i = 0; i < n; i++) cpu[i] = -1;
    if (threads_allowed(n) != n || threads_prepare(n)) return 0;
#pragma omp parallel num_threads(n)
    cpu[omp_get_thread_num()] = cpu_of_omp_place();
    for (hga_id i = 0; i < n; i++) known &= cpu[i] >= 0;
    return known;
}
