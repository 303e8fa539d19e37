/* counted_wire.h: what a rank sends and receives, and how long it is in the exchange. */
#ifndef BENCH_COUNTED_WIRE_H
#define BENCH_COUNTED_WIRE_H

#include "clock.h"
#include "hga.h"

typedef struct counted_wire {
    hga_exchange outer; /* the plan's exchange: its ctx is this */
    const hga_exchange *inner;
    bench_time within;
    int64_t messages[2], bytes[2]; /* in, out */
} counted_wire;

/* Over an exchange that outlives it; all counts are 0. */
void counted_wire_open(const hga_exchange *inner, counted_wire *c);

/* Half of the time of a round trip between the first rank and the last of a message of so many bytes, in `data`: the
   least of n. All ranks call it together. */
hga_status wire_ping(const hga_exchange *x, int64_t bytes, char *data, int n, double *seconds);

#endif
