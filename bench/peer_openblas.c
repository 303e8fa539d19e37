/* peer_openblas.c: dense attention the usual way, scores by a matrix product, softmax, and a second product. OpenBLAS
   is found at run time. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"
#include "peer.h"
#include "peer_loops.h"

/* cblas.h's names for them; BLOCK queries at a time */
enum { BY_ROWS = 101, AS_IT_IS = 111, TRANSPOSED = 112, BLOCK = 256 };

typedef void product(int order, int a_transposed, int b_transposed, int m, int n, int k, float alpha, const float *a,
                     int lda, const float *b, int ldb, float beta, float *c, int ldc);

/* The functions of the library, NULL when it is not here. */
typedef struct library {
    product *sgemm;
    void (*set_threads)(int n);
} library;

typedef struct dense {
    peer_job job;
    library blas;
    float *score; /* [BLOCK][rows] */
} dense;

static library find_library(void)
{
    static const char *const names[] = {"libopenblas.so.0", "libcblas.so.3", "libblas.so.3"};
    library found = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names && !found.sgemm; i++) {
        /* kept until the process ends: its threads may outlive a run */
        void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!handle) continue;
        *(void **)&found.sgemm = dlsym(handle, "cblas_sgemm");
        *(void **)&found.set_threads = dlsym(handle, "openblas_set_num_threads");
    }
    return found;
}

/* By default Debian 12's OpenBLAS (0.3.21) does not know newer processors and uses the kernels of AVX2 on some with
   AVX-512, half as fast; it reads OPENBLAS_CORETYPE when it is loaded. LAPACK may have loaded it before main, so
   that only a restart helps. A user's setting stays. */
void peer_openblas_tune(int argc, char **argv)
{
    if (getenv("OPENBLAS_CORETYPE") || !strstr(hga_isa_list(), "avx512")) return;
    char **again = NULL;
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
    if (bench_new((int64_t)argc + 2, sizeof *again, &again) != HGA_OK) return;
    again[0] = "hga", again[1] = "bench"; /* argv[0] is both */
    for (int i = 1; i < argc; i++) again[i + 1] = argv[i];
    execv("/proc/self/exe", again); /* if it fails, the peer is slower */
    free(again);
}

static int can(const peer_job *j)
{
    return j->edges->ptr[j->rows] == (hga_pos)j->rows * j->rows && find_library().sgemm;
}

static void stop(void *state)
{
    dense *d = state;
    if (d) free(d->score);
    free(d);
}

static hga_status start(const peer_job *j, void **state)
{
    dense *d = NULL;
    hga_status st = bench_new(1, sizeof *d, &d);
    if (st) return st;
    *d = (dense){.job = *j, .blas = find_library()};
    *state = d;
    if (d->blas.set_threads) d->blas.set_threads(j->threads);
    return bench_new((int64_t)BLOCK * j->rows, sizeof *d->score, &d->score);
}

/* queries [first, first + n) of one head against all keys */
static void run_block(const dense *d, hga_id head, hga_id first, hga_id n)
{
    const peer_job *j = &d->job;
    int stride = j->heads * j->dim;
    int64_t at = (int64_t)head * j->dim, row = (int64_t)first * stride + at;
    d->blas.sgemm(BY_ROWS, AS_IT_IS, TRANSPOSED, n, j->rows, j->dim, j->scale, j->query + row, stride, j->key + at,
                  stride, 0, d->score, j->rows);
#pragma omp parallel for num_threads(j->threads)
    for (hga_id i = 0; i < n; i++) peer_softmax(j->rows, d->score + (int64_t)i * j->rows);
    d->blas.sgemm(BY_ROWS, AS_IT_IS, AS_IT_IS, n, j->dim, j->rows, 1, d->score, j->rows, j->value + at, stride, 0,
                  j->out + row, stride);
}

static hga_status run(void *state)
{
    const dense *d = state;
    for (hga_id head = 0; head < d->job.heads; head++)
        for (hga_id first = 0; first < d->job.rows; first += BLOCK)
            run_block(d, head, first, d->job.rows - first < BLOCK ? d->job.rows - first : BLOCK);
    return HGA_OK;
}

const peer peer_openblas = {"openblas", can, start, run, stop};
