/* routed.h: Treeformer with everything that changes from call to call: routing, graph, plan and attention. */
#ifndef BENCH_ROUTED_H
#define BENCH_ROUTED_H

#include "measure.h"

/* Seconds of the parts of one call, medians over the timed calls: no part takes longer than its call. */
enum { ROUTED_ROUTE, ROUTED_BUILD, ROUTED_UPDATE, ROUTED_EXECUTE, ROUTED_PARTS };
typedef struct routed_times {
    double part[ROUTED_PARTS];
} routed_times;

/* `heads` trees of `height` with balanced leaves, over random tokens; times of one call. */
hga_status measure_routed(hga_id tokens, hga_id heads, hga_id dim, hga_id height, const hga_options *options,
                          const bench_rules *rules, bench_measurement *out, routed_times *times);

#endif
