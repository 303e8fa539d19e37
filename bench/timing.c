/* timing.c: warm up, repeat until stable, tell the middle and the rest. */
#include "timing.h"

#include <math.h>
#include <stdlib.h>

enum { LEAST_REPEATS = 3, MOST_REPEATS = 100 };
static const double stable = 0.01 /* of the median */, usual_budget = 2;

/* The repeats so far. */
typedef struct record {
    double *wall, *scratch;
    double processor_least;
    bench_time all;
    int n, room, threads;
} record;

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(const double *sorted, int n, double share)
{
    double at = share * (n - 1);
    int below = (int)at;
    if (below + 1 >= n) return sorted[n - 1];
    return sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]);
}

/* sorted into the scratch room */
static const double *sorted(const record *r)
{
    qsort(r->scratch, (size_t)r->n, sizeof *r->scratch, by_size);
    return r->scratch;
}

/* everything that is told of the repeats so far */
static void summarise(const record *r, bench_timing *t)
{
    for (int i = 0; i < r->n; i++) r->scratch[i] = r->wall[i];
    const double *x = sorted(r);
    t->least = x[0];
    t->quartile1 = bench_quantile(x, r->n, 0.25);
    t->seconds = bench_quantile(x, r->n, 0.5);
    t->quartile3 = bench_quantile(x, r->n, 0.75);
    for (int i = 0; i < r->n; i++) r->scratch[i] = fabs(r->wall[i] - t->seconds);
    t->spread = bench_quantile(sorted(r), r->n, 0.5);
    t->processor = bench_processor(r->all, r->threads) / r->n;
    t->processor_least = r->processor_least;
    t->busy = bench_busy(r->all, r->threads);
    t->repeats = r->n;
}

static int enough(const bench_timing *t, const bench_rules *rules, double spent)
{
    double budget = rules->budget > 0 ? rules->budget : usual_budget;
    if (rules->repetitions > 0) return t->repeats >= rules->repetitions;
    if (spent < rules->min_time) return 0;
    if (spent >= budget || t->repeats >= MOST_REPEATS) return 1;
    return t->repeats >= LEAST_REPEATS && t->spread <= stable * t->seconds && spent >= budget / 10;
}

static hga_status make_room(record *r, int n)
{
    if (n <= r->room) return HGA_OK;
    int room = 2 * n;
    double *wall = realloc(r->wall, (size_t)room * sizeof *wall);
    if (wall) r->wall = wall;
    double *scratch = wall ? realloc(r->scratch, (size_t)room * sizeof *scratch) : NULL;
    if (!scratch) return hga_fail(HGA_ENOMEM, "the times of %d repeats", room);
    r->scratch = scratch;
    r->room = room;
    return HGA_OK;
}

static void keep(record *r, bench_time took)
{
    double processor = bench_processor(took, r->threads);
    r->all = bench_time_add(r->all, took);
    if (r->n == 0 || processor < r->processor_least) r->processor_least = processor;
    r->wall[r->n++] = took.wall;
}

/* Repeats so short that looking at them would take longer are looked at when their number has doubled. */
static hga_status repeat(hga_status (*run)(void *), void *context, const bench_rules *rules, record *r,
                         bench_timing *out)
{
    hga_status st;
    double start = bench_seconds();
    do {
        for (int until = r->n < MOST_REPEATS ? r->n + 1 : r->n + r->n / 8; r->n < until;) {
            HGA_TRY(make_room(r, r->n + 1));
            bench_time before = bench_clock();
            HGA_TRY(run(context));
            keep(r, bench_since(before));
            if (rules->repetitions > 0 && r->n >= rules->repetitions) break;
        }
        summarise(r, out);
    } while (!enough(out, rules, bench_seconds() - start));
done:
    return st;
}

hga_status bench_repeat(hga_status (*run)(void *), void *context, const bench_rules *rules, int threads,
                        bench_timing *out)
{
    hga_status st = HGA_OK;
    record r = {.threads = threads};
    int warmup = rules->warmup ? rules->warmup : 1;
    *out = (bench_timing){0};
    for (int i = 0; i < warmup; i++) HGA_TRY(run(context));
    HGA_TRY(repeat(run, context, rules, &r, out));
done:
    free(r.wall), free(r.scratch);
    return st;
}

/* One call, its time kept. */
static hga_status timed(hga_status (*run)(void *), void *context, record *r)
{
    hga_status st = make_room(r, r->n + 1);
    if (st) return st;
    bench_time before = bench_clock();
    st = run(context);
    if (!st) keep(r, bench_since(before));
    return st;
}

hga_status bench_alternate(hga_status (*prepare)(void *context), hga_status (*const run[2])(void *context),
                           void *context, const bench_rules *rules, int threads, bench_timing out[2])
{
    hga_status st = HGA_OK;
    record r[2] = {{.threads = threads}, {.threads = threads}};
    double start = 0;
    for (int i = 0, warmup = rules->warmup ? rules->warmup : 1; i < warmup; i++) {
        HGA_TRY(prepare(context));
        HGA_TRY(run[0](context));
        HGA_TRY(run[1](context));
    }
    start = bench_seconds();
    do {
        HGA_TRY(prepare(context));
        for (int i = 0; i < 2; i++) {
            HGA_TRY(timed(run[i], context, &r[i]));
            summarise(&r[i], &out[i]);
        }
    } while (!enough(&out[0], rules, bench_seconds() - start) || !enough(&out[1], rules, bench_seconds() - start));
done:
    for (int i = 0; i < 2; i++) free(r[i].wall), free(r[i].scratch);
    return st;
}
