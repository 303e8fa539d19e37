/* interrupt.c: whether the caller wants a long call to end. */
#define _GNU_SOURCE /* CLOCK_MONOTONIC_COARSE */
#include "interrupt.h"

#include <time.h>

static const double SECONDS = 0.02; /* between two calls of `ask` */

/* Per thread, as the text of the last error: concurrent calls have a callback each. */
static _Thread_local struct {
    hga_interrupt ask;
    void *context;
    double checked;
} caller;

/* A clock that is read in a few nanoseconds and has a resolution of some milliseconds. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void hga_set_interrupt(hga_interrupt ask, void *context)
{
    caller.ask = ask, caller.context = context;
    caller.checked = now();
}

hga_status interrupted(void)
{
    if (!caller.ask) return HGA_OK;
    double at = now();
    if (at < caller.checked + SECONDS) return HGA_OK;
    hga_status st = caller.ask(caller.context);
    if (!st) caller.checked = now(); /* after an interrupt the callback is asked again at once */
    return st ? hga_fail(st, "the call was interrupted") : HGA_OK;
}

int may_be_interrupted(void) { return caller.ask != NULL; }
