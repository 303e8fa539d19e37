/* race.h: runs the edges of a relation by us and by peers, on the same numbers, and compares the results. */
#ifndef BENCH_RACE_H
#define BENCH_RACE_H

#include "measure.h"
#include "peer.h"

/* What all runners share. */
typedef struct race {
    peer_job job;
    hga_csr edges;
    float *memory; /* query, key, value, ours, theirs: [rows][heads][dim] each */
    const float *ours;
} race;

/* A peer's result further from ours than this, in any number, is wrong: values are in [-1, 1). */
#define RACE_TOLERANCE 1e-4

/* Can peers run the attention of a program? It must attend, over edges without weights. */
int race_possible(const hga_graph *g, const hga_program *p);
/* Peers run the edges of the program's first attended relation and nothing else, on rows for every node; our result for
   the same is computed here. Release with race_clear, whatever is returned. */
hga_status race_start(const hga_graph *g, const hga_program *p, const hga_shape *shape, const hga_options *options,
                      race *out);
/* Time a peer; *distance is the largest difference of a number from ours. */
hga_status race_run(const race *r, const peer *p, const bench_rules *rules, bench_measurement *out, double *distance);
void race_clear(race *r);

#endif
