/* slow_wire.h: simulates two ranks with a processor each, and a wire between them, on any machine: a rank's clock is
   the processor time of its thread plus the time it would have waited. Messages are carried by threads of one
   process, with the time they were sent. So other load of the machine does not lengthen any time. */
#ifndef BENCH_SLOW_WIRE_H
#define BENCH_SLOW_WIRE_H

#include "hga.h"

enum { SLOW_WIRE_CHANNELS = 64 };

/* A rank's end. Each is used by one thread, which computes on no others. */
typedef struct slow_wire {
    hga_exchange outer; /* the plan's exchange: its ctx is this */
    const hga_exchange *inner;
    struct slow_wire *other;
    double delay, begun, waited;
    double worked, since; /* seconds of work while messages were under way; when the last one was sent, or had come */
    double sent[SLOW_WIRE_CHANNELS]; /* when, by channel: written before inner carries it, read after that */
    int receives[SLOW_WIRE_CHANNELS], taken[SLOW_WIRE_CHANNELS];
} slow_wire;

/* Opens both ends, over those of hga_dist_in_process. */
void slow_wire_open(const hga_exchange inner[2], slow_wire wires[2]);
/* In the rank's thread: starts its clock; messages take so many seconds. */
void slow_wire_begin(slow_wire *w, double delay);
/* Seconds since then. */
double slow_wire_clock(const slow_wire *w);

#endif
