/* meeting.h: the barrier of an execution's threads, between two waves. */
#ifndef MEETING_H
#define MEETING_H

#include "hga_base.h"

#include <pthread.h>

typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    hga_id arrived;
    int round; /* times that all have met */
} meeting;

/* Opens a meeting at which no thread has arrived. */
void meeting_open(meeting *m);
/* Destroys its lock and condition; no thread may wait. */
void meeting_close(meeting *m);
/* Returns once n threads have arrived. */
void meeting_await(meeting *m, hga_id n);

#endif
