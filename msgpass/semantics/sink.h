/* sink.h: a number a head that takes part in each row's denominator and in nothing else, once, when the row is whole.
   In double, as semantics/ defines things. */
#ifndef HGA_SEMANTICS_SINK_H
#define HGA_SEMANTICS_SINK_H

#include "exponents.h"

/* What a row keeps of itself beside the sink, and the sink's own part; together 1. */
typedef struct sink_shares {
    double row, sink;
} sink_shares;

static inline sink_shares sink_shares_of(double sink, double lse)
{
    return (sink_shares){sink == -INFINITY ? 1 : share(lse, sink), sink == -INFINITY ? 0 : share(sink, lse)};
}
static inline double sink_lse(double sink, double lse) { return log_add(lse, sink); }

#endif
