/* meeting.c: see meeting.h. OpenMP's own barrier spins for milliseconds before it sleeps; where other work shares the
   cores, that spinning keeps the awaited threads from running. */
#include "meeting.h"

enum { LOOKS = 1000 /* some tens of microseconds, which is more than waking up takes */ };

void meeting_open(meeting *m)
{
    *m = (meeting){.arrived = 0};
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->opened, NULL);
}

void meeting_close(meeting *m)
{
    pthread_cond_destroy(&m->opened);
    pthread_mutex_destroy(&m->lock);
}

static int round_of(const meeting *m) { return __atomic_load_n(&m->round, __ATOMIC_ACQUIRE); }

static void look_away(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* The last thread to arrive releases all. */
static void begin_round(meeting *m, int round)
{
    __atomic_store_n(&m->arrived, 0, __ATOMIC_RELAXED);
    pthread_mutex_lock(&m->lock);
    __atomic_store_n(&m->round, round, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&m->opened);
    pthread_mutex_unlock(&m->lock);
}

void meeting_await(meeting *m, hga_id n)
{
    const int round = round_of(m);
    if (__atomic_add_fetch(&m->arrived, 1, __ATOMIC_ACQ_REL) == n) {
        begin_round(m, (int)((unsigned)round + 1));
        return;
    }
    for (int i = 0; i < LOOKS; i++, look_away())
        if (round_of(m) != round) return;
    pthread_mutex_lock(&m->lock);
    while (round_of(m) == round) pthread_cond_wait(&m->opened, &m->lock);
    pthread_mutex_unlock(&m->lock);
}
