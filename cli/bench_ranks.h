/* bench_ranks.h: cases of `hga bench --ranks`: what the ranks of mpirun send and how long they take, beside what
   `hga explain --ranks` says of as many. */
#ifndef CLI_BENCH_RANKS_H
#define CLI_BENCH_RANKS_H

#include "bench_run.h"

/* What a message meets here: as typed, or, where that is 0, as measured between the first rank and the last. */
typedef struct bench_link {
    double latency_us, gbits;
} bench_link;
int bench_link_measure(bench_link *link);

/* All ranks call it together; rank 0 appends the row. */
int bench_ranks_run(const bench_place *p, const bench_link *link, json_t *rows);

#endif
