/* sample_queue.h: the samples of a batch, from which any thread of a team takes the next until there is none
   (sample_queue.c). */
#ifndef HGA_PLAN_SAMPLE_QUEUE_H
#define HGA_PLAN_SAMPLE_QUEUE_H

#include "hga_plan.h"

/* n samples, one a workspace. */
typedef struct sample_queue {
    const hga_plan *plan;
    hga_workspace *const *workspaces;
    hga_id n;
} sample_queue;
/* A thread's position; zeroed at first. */
typedef struct queue_position {
    int round;
    hga_id sample;
} queue_position;
/* Assigns each sample to a thread of the team: the one that had its workspace first, else thread i team / n for
   sample i. The workspaces are borrowed. */
sample_queue sample_queue_open(const hga_plan *plan, hga_workspace *const *workspaces, hga_id n, hga_id team);
/* The next sample for thread `me`; -1: there is none. */
hga_id sample_queue_next(const sample_queue *d, hga_id me, queue_position *at);

#endif
