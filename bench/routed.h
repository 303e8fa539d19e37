/* routed.h: Treeformer with everything that changes from call to call: routing, graph, plan and attention. */
#ifndef BENCH_ROUTED_H
#define BENCH_ROUTED_H

#include "measure.h"

/* Seconds of the parts of one call, summed over `calls`. */
typedef struct routed_times {
    double route, build, update, execute;
    int calls;
} routed_times;

/* `heads` trees of `height` with balanced leaves, over random tokens; times of one call, median and sums. */
hga_status measure_routed(hga_id tokens, hga_id heads, hga_id dim, hga_id height, const hga_options *options,
                          const bench_rules *rules, bench_measurement *out, routed_times *times);

#endif
