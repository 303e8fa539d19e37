/* peer_passes.c: attention as graph libraries run it: a score per edge, a softmax per row, a weighted sum; each a
   pass over all edges, with the scores stored between. */
#include <stdlib.h>

#include "memory.h"
#include "peer.h"
#include "peer_loops.h"

typedef struct passes {
    peer_job job;
    float *score; /* [edges], of one head at a time */
} passes;

static int can(const peer_job *j) { return j->edges->n == j->rows; }

static void stop(void *state)
{
    passes *p = state;
    if (p) free(p->score);
    free(p);
}

static hga_status start(const peer_job *j, void **state)
{
    passes *p = NULL;
    hga_status st = bench_new(1, sizeof *p, &p);
    if (st) return st;
    p->job = *j;
    *state = p;
    return bench_new(j->edges->ptr[j->rows], sizeof *p->score, &p->score);
}

static void run_head(const passes *p, hga_id head)
{
    const peer_job *j = &p->job;
    const hga_pos *ptr = j->edges->ptr;
    const hga_id *src = j->edges->src;
    float *score = p->score;
    int64_t stride = (int64_t)j->heads * j->dim, at = (int64_t)head * j->dim;
#pragma omp parallel for num_threads(j->threads) schedule(dynamic, 64)
    for (hga_id v = 0; v < j->rows; v++)
        peer_scores(j->query + v * stride + at, j->key + at, stride, j->dim, j->scale, src + ptr[v],
                    ptr[v + 1] - ptr[v], score + ptr[v]);
#pragma omp parallel for num_threads(j->threads) schedule(dynamic, 64)
    for (hga_id v = 0; v < j->rows; v++) peer_softmax(ptr[v + 1] - ptr[v], score + ptr[v]);
#pragma omp parallel for num_threads(j->threads) schedule(dynamic, 64)
    for (hga_id v = 0; v < j->rows; v++)
        peer_sum(score + ptr[v], j->value + at, stride, j->dim, src + ptr[v], ptr[v + 1] - ptr[v],
                 j->out + v * stride + at);
}

static hga_status run(void *state)
{
    const passes *p = state;
    for (hga_id head = 0; head < p->job.heads; head++) run_head(p, head);
    return HGA_OK;
}

const peer peer_passes = {"passes", can, start, run, stop};
