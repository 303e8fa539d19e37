/* rank_wire.c: how much longer two ranks take on a slow wire. `bench_rank_wire [MILLISECONDS [TOKENS [REPEATS [HEADS
   DIM]]]]`: with messages that take so long and with messages that take no time, in turns, by the clocks of
   slow_wire.h of the rank that ends later. Medians, in ms. `meanwhile`: what the rank with less of it has to do that
   needs nothing of a message while any is under way, measured with a wire that takes arbitrarily long; no rank waits
   less than what all messages one after another take beyond that. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"
#include "memory.h"
#include "slow_wire.h"
#include "timing.h"

enum { RANKS = 2 };

typedef struct wired_rank {
    const bench_case *c;
    const hga_shape *shape;
    const hga_id *cuts;
    slow_wire *wire;
    double delay, took;
    hga_plan *plan;
    hga_workspace *workspace;
    float *tensors;
    hga_io io;
    hga_status st;
    pthread_t thread;
} wired_rank;

/* ---- ranks ---- */

/* Query, key, value and out may have rows of different nodes. */
static hga_status make_tensors(wired_rank *r)
{
    const hga_binding binding[] = {HGA_IO_QUERY, HGA_IO_KEY, HGA_IO_VALUE, HGA_IO_OUT};
    hga_tensor *tensor[] = {&r->io.query, &r->io.key, &r->io.value, &r->io.out};
    const int64_t floats = (int64_t)r->shape->n_heads * r->shape->dim;
    int64_t rows[4] = {0}, all = 0, n;
    hga_status st = HGA_OK;
    for (int i = 0; i < 4; i++) {
        hga_interval list[64];
        HGA_TRY(hga_plan_rank_rows(r->plan, hga_program_field(&r->c->program, binding[i]), list, 64, &n));
        if (n > 64) HGA_TRY(hga_fail(HGA_EOVERFLOW, "%lld intervals of rows", (long long)n));
        for (int64_t k = 0; k < n; k++) rows[i] += list[k].n;
        all += rows[i] * floats;
    }
    HGA_TRY(bench_new(all, sizeof(float), &r->tensors));
    for (int64_t i = 0; i < all; i++) r->tensors[i] = (float)(i % 17) / 16 - 0.5f;
    for (int64_t i = 0, at = 0; i < 4; at += rows[i++] * floats)
        *tensor[i] = (hga_tensor){.data = r->tensors + at, .rows = rows[i]};
done:
    return st;
}

static hga_status make_ready(wired_rank *r)
{
    const hga_ranks ranks = {.exchange = &r->wire->outer, .cuts = r->cuts};
    const hga_options options = {.threads = 1, .ranks = &ranks};
    hga_status st = HGA_OK;
    HGA_TRY(hga_plan_create(r->c->graph, &r->c->program, r->shape, &options, &r->plan));
    HGA_TRY(hga_workspace_create(r->plan, &r->workspace));
    HGA_TRY(make_tensors(r));
done:
    return st;
}

static void *start_ready(void *rank)
{
    wired_rank *r = rank;
    r->st = make_ready(r);
    return NULL;
}

static void *start_execution(void *rank)
{
    wired_rank *r = rank;
    slow_wire_begin(r->wire, r->delay);
    r->st = hga_plan_execute(r->plan, r->workspace, &r->io);
    r->took = slow_wire_clock(r->wire);
    return NULL;
}

/* Runs both at once. A thread that does not start is a failure of its rank, which the other receives. */
static hga_status run_together(wired_rank *ranks, void *(*start)(void *))
{
    hga_status st = HGA_OK;
    int begun = 0;
    while (begun < RANKS && !pthread_create(&ranks[begun].thread, NULL, start, &ranks[begun])) begun++;
    if (begun < RANKS) {
        hga_exchange *x = &ranks[begun].wire->outer;
        x->fail(x->ctx, st = hga_fail(HGA_ENOMEM, "no thread for rank %d", begun));
    }
    for (int r = 0; r < begun; r++) {
        pthread_join(ranks[r].thread, NULL);
        if (!st) st = ranks[r].st;
    }
    return st;
}

/* ---- times ---- */

/* Longer than any execution, by clocks that do not wait for it. */
static const double ENDLESS = 1e3;

/* A rank that receives nothing waits for nothing. */
static double find_meanwhile(const wired_rank *ranks)
{
    double least = INFINITY;
    for (int r = 0; r < RANKS; r++)
        if (ranks[r].wire->waited > 0) least = fmin(least, ranks[r].wire->worked);
    return least;
}

static hga_status time_once(wired_rank *ranks, double delay, double *seconds)
{
    for (int r = 0; r < RANKS; r++) ranks[r].delay = delay;
    hga_status st = run_together(ranks, start_execution);
    *seconds = ranks[0].took > ranks[1].took ? ranks[0].took : ranks[1].took;
    return st;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Medians without the wire, and with it; and the work that needs no message meanwhile. */
static hga_status time_turns(wired_rank *ranks, double delay, int repeats, double median[3])
{
    double *times = NULL;
    hga_status st = HGA_OK;
    HGA_TRY(bench_new(2 * (int64_t)repeats, sizeof *times, &times));
    HGA_TRY(time_once(ranks, 0, times)); /* warm-up */
    HGA_TRY(time_once(ranks, ENDLESS, &median[2]));
    median[2] = find_meanwhile(ranks);
    for (int i = 0; i < repeats; i++)
        for (int slow = 0; slow < 2; slow++) HGA_TRY(time_once(ranks, slow * delay, &times[slow * repeats + i]));
    for (int slow = 0; slow < 2; slow++) {
        qsort(times + slow * repeats, (size_t)repeats, sizeof *times, by_size);
        median[slow] = bench_quantile(times + slow * repeats, repeats, 0.5);
    }
done:
    free(times);
    return st;
}

static hga_status measure(const char *words, hga_id tokens, const hga_shape *shape, double delay, int repeats,
                          double median[3])
{
    bench_case c = {0};
    hga_exchange xs[RANKS] = {0};
    slow_wire wires[RANKS];
    wired_rank ranks[RANKS] = {0};
    const hga_id cuts[RANKS + 1] = {0, tokens / 2, tokens};
    hga_status st = HGA_OK;
    HGA_TRY(bench_case_make(words, tokens, &c));
    HGA_TRY(hga_dist_in_process(RANKS, NULL, xs));
    slow_wire_open(xs, wires);
    for (int r = 0; r < RANKS; r++) ranks[r] = (wired_rank){.c = &c, .shape = shape, .cuts = cuts, .wire = &wires[r]};
    HGA_TRY(run_together(ranks, start_ready));
    HGA_TRY(time_turns(ranks, delay, repeats, median));
done:
    for (int r = 0; r < RANKS; r++) {
        hga_workspace_destroy(ranks[r].workspace);
        hga_plan_destroy(ranks[r].plan);
        hga_dist_destroy(&xs[r]);
        free(ranks[r].tensors);
    }
    bench_case_clear(&c);
    return st;
}

int main(int n_words, char **word)
{
    static const char *const all[] = {"window left=256 right=256", "htransformer block=16", "hsa branching=4",
                                      "bpt k=4", "fenwick"};
    const double delay = 1e-3 * bench_argument(n_words, word, 1, 20);
    const hga_id tokens = bench_argument(n_words, word, 2, 1 << 16);
    const int repeats = bench_argument(n_words, word, 3, 9);
    const hga_shape shape = {.n_heads = bench_argument(n_words, word, 4, 8),
                             .dim = bench_argument(n_words, word, 5, 64)};
    printf("%-26s %10s %8s %8s %10s\n", "variant", "without", "with", "longer", "meanwhile");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double median[3];
        hga_status st = measure(all[i], tokens, &shape, delay, repeats, median);
        if (st) return bench_complain(all[i], st);
        printf("%-26s %10.2f %8.2f %8.2f %10.2f\n", all[i], median[0] * 1e3, median[1] * 1e3,
               (median[1] - median[0]) * 1e3, median[2] * 1e3);
        fflush(stdout);
    }
    return 0;
}
