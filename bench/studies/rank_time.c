/* rank_time.c: processor time of a rank's calls, beside one process'.
   `bench_rank_time [TOKENS [RANKS [REPEATS [HEADS DIM [VARIANT]]]]]`: forward and backward of one process and of a rank
   in the middle, which is alone (rank_alone.h), in turns; medians, milliseconds of the calling thread. `part` is the
   rank's of one process': 1 / RANKS where nothing is computed twice. Backward with the bytes that the rank sends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "memory.h"
#include "rank_alone.h"

enum { FORWARD, BACKWARD, N_CALLS, MOST_REPEATS = 101 };

typedef struct timed {
    rank_alone rank;
    bench_case c;
    hga_grad_io grad;
    float *gradients;
    double took[N_CALLS][MOST_REPEATS];
    int64_t sent; /* by the last backward pass */
} timed;

static hga_status make_gradients(timed *t, int64_t bytes)
{
    hga_status st = HGA_OK;
    const hga_tensor *from[] = {&t->c.io.query, &t->c.io.key, &t->c.io.value, &t->c.io.out};
    hga_tensor *to[] = {&t->grad.d_query, &t->grad.d_key, &t->grad.d_value, &t->grad.d_out};
    int64_t n = bytes / (int64_t)sizeof(float);
    HGA_TRY(bench_new(n, sizeof(float), &t->gradients));
    for (int64_t i = 0; i < n; i++) t->gradients[i] = (float)(i % 13) / 16 - 0.4f;
    for (int i = 0; i < 4; i++) {
        *to[i] = *from[i];
        to[i]->data = t->gradients + ((const float *)from[i]->data - t->c.tensors);
    }
    HGA_TRY(bench_new(hga_plan_tape_bytes(t->c.plan), 1, &t->c.io.tape));
done:
    return st;
}

static hga_status make(timed *t, const char *words, hga_id tokens, hga_id n_ranks, const hga_shape *shape)
{
    hga_status st = HGA_OK;
    hga_options options = {.threads = 1, .gradient = 1};
    int64_t bytes;
    HGA_TRY(bench_case_make(words, tokens, &t->c));
    HGA_TRY(rank_alone_make(n_ranks / 2, n_ranks, tokens, &t->rank));
    if (n_ranks > 1) options.ranks = &t->rank.ranks;
    HGA_TRY(hga_plan_create(t->c.graph, &t->c.program, shape, &options, &t->c.plan));
    HGA_TRY(hga_workspace_create(t->c.plan, &t->c.workspace));
    HGA_TRY(rank_alone_tensors(&t->c, shape, n_ranks > 1, &bytes));
    HGA_TRY(make_gradients(t, bytes));
done:
    return st;
}

static void clear(timed *t)
{
    free(t->c.io.tape), free(t->gradients);
    bench_case_clear(&t->c);
    rank_alone_clear(&t->rank);
}

static hga_status call(timed *t, int i)
{
    hga_status st = HGA_OK;
    bench_time begin = bench_clock();
    HGA_TRY(hga_plan_execute(t->c.plan, t->c.workspace, &t->c.io));
    if (i >= 0) t->took[FORWARD][i] = bench_since(begin).thread;
    t->rank.sent = 0, begin = bench_clock();
    HGA_TRY(hga_plan_gradient(t->c.plan, t->c.workspace, &t->c.io, &t->grad));
    t->sent = t->rank.sent;
    if (i >= 0) t->took[BACKWARD][i] = bench_since(begin).thread;
done:
    return st;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *took, int n)
{
    qsort(took, (size_t)n, sizeof *took, ascending);
    return took[n / 2] * 1e3;
}

/* One process, and a rank. */
enum { ONE, RANK, N_TIMED };

static void print_part(double all, double part) { printf(" %8.2f %6.3f", part, part / all); }

static void print_times(const char *words, timed *const t[N_TIMED], int repeats)
{
    double took[N_TIMED][N_CALLS];
    for (int i = 0; i < N_TIMED; i++)
        for (int k = 0; k < N_CALLS; k++) took[i][k] = median(t[i]->took[k], repeats);
    printf("%-24s %10.2f", words, took[ONE][FORWARD]);
    print_part(took[ONE][FORWARD], took[RANK][FORWARD]);
    printf(" %11.2f", took[ONE][BACKWARD]);
    print_part(took[ONE][BACKWARD], took[RANK][BACKWARD]);
    printf(" %7.2f\n", (double)t[RANK]->sent / 1e6);
    fflush(stdout);
}

static hga_status race(const char *words, hga_id tokens, hga_id n_ranks, int repeats, const hga_shape *shape)
{
    hga_status st = HGA_OK;
    timed *t[N_TIMED] = {NULL};
    for (int i = 0; i < N_TIMED; i++) {
        HGA_TRY(bench_new(1, sizeof *t[i], &t[i]));
        *t[i] = (timed){0};
        HGA_TRY(make(t[i], words, tokens, i == ONE ? 1 : n_ranks, shape));
    }
    for (int k = -1; k < repeats; k++)
        for (int i = 0; i < N_TIMED; i++) HGA_TRY(call(t[i], k));
    print_times(words, t, repeats);
done:
    for (int i = 0; i < N_TIMED; i++) {
        if (t[i]) clear(t[i]);
        free(t[i]);
    }
    return st;
}

int main(int n_words, char **word)
{
    static const char *const all[] = {"window left=256 right=256", "htransformer block=16", "hsa branching=4",
                                      "bpt k=4", "fenwick"};
    hga_id tokens = bench_argument(n_words, word, 1, 1 << 16), n_ranks = bench_argument(n_words, word, 2, 8),
           repeats = bench_argument(n_words, word, 3, 5);
    hga_shape shape = {.n_heads = bench_argument(n_words, word, 4, 8), .dim = bench_argument(n_words, word, 5, 64)};
    int failed = 0;
    if (repeats > MOST_REPEATS) repeats = MOST_REPEATS;
    printf("%-24s %10s %8s %6s %11s %8s %6s %7s\n", "variant", "forward ms", "rank", "part", "backward ms", "rank",
           "part", "MB");
    for (size_t i = 0; i < sizeof all / sizeof *all && !failed; i++) {
        if (n_words > 6 && strcmp(word[6], all[i]) != 0) continue;
        hga_status st = race(all[i], tokens, n_ranks, repeats, &shape);
        if (st) failed = bench_complain(all[i], st);
    }
    return failed;
}
