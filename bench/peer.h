/* peer.h: the same attention by other libraries, measured on the same machine within the same minute as ours. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include "hga.h"

/* One softmax over explicit edges. Tensors are [rows][heads][dim], rows are nodes; scores are scale * q . k. */
typedef struct peer_job {
    const hga_csr *edges; /* of all rows */
    hga_id rows, heads, dim, threads;
    float scale;
    const float *query, *key, *value;
    float *out;
} peer_job;

/* `start` prepares what a user would hold between calls, `run` is timed, `stop` accepts NULL. */
typedef struct peer {
    const char *name;
    int (*can)(const peer_job *j); /* its library is here and it supports the job */
    hga_status (*start)(const peer_job *j, void **state);
    hga_status (*run)(void *state);
    void (*stop)(void *state);
} peer;
extern const peer peer_openblas, peer_passes, peer_graphblas;

/* All of them, ended by NULL. */
extern const peer *const peers[];
/* "openblas,passes", or "all" or "none": a set of indices into `peers`, bit by bit. */
hga_status peers_read(const char *list, unsigned *out);

/* Before anything is measured: makes OpenBLAS use this machine's kernels. May restart the process with the same
   arguments. */
void peer_openblas_tune(int argc, char **argv);

#endif
