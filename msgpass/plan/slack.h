/* slack.h: entries delayed where that shortens waves (slack.c). */
#ifndef HGA_PLAN_SLACK_H
#define HGA_PLAN_SLACK_H

#include "schedule.h"

/* Delays entries, in program order and all stamped, where that shortens waves; *moved: whether any may have moved. */
hga_status slack_use(accesses *a, entry *entries, int64_t n, int *moved);

#endif
