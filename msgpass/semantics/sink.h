/* sink.h: a number a head that enters each row's denominator and nothing else, once, when the row is complete. In
   double, as everything in semantics/. */
#ifndef HGA_SEMANTICS_SINK_H
#define HGA_SEMANTICS_SINK_H

#include "exponents.h"

/* The shares of the row's edges and of the sink; their sum is 1. */
typedef struct sink_shares {
    double row, sink;
} sink_shares;

static inline sink_shares sink_shares_of(double sink, double lse)
{
    return (sink_shares){sink == -INFINITY ? 1 : share(lse, sink), sink == -INFINITY ? 0 : share(sink, lse)};
}
static inline double sink_lse(double sink, double lse) { return log_add(lse, sink); }

#endif
