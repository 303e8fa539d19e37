/* timing.c: warm-up, repeats until stable, median and other statistics. */
#include "timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_REPEATS = 3, MOST_REPEATS = 100 };
static const double stable = 0.01 /* of the median */, usual_budget = 2, fresh = 0.01 /* seconds that a limit holds */;

/* The machine's limits when they were last measured. */
typedef struct limit_checks {
    const bench_limits *limits;
    double at, rate[BENCH_LIMITS];
    int threads, some; /* some: once at least */
} limit_checks;

/* One repeat. */
typedef struct sample {
    double seconds, rate[BENCH_LIMITS];
} sample;

/* The repeats so far. */
typedef struct record {
    sample *sample;
    double *scratch;
    double processor_least;
    bench_time all;
    int n, capacity, threads, by_processor;
} record;

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(double *x, int64_t n) { qsort(x, (size_t)n, sizeof *x, by_size); }

double bench_quantile(const double *sorted, int n, double share)
{
    double at = share * (n - 1);
    int below = (int)at;
    if (below + 1 >= n) return sorted[n - 1];
    return sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]);
}

/* sorted into the scratch buffer */
static const double *sorted(const record *r)
{
    bench_sort(r->scratch, r->n);
    return r->scratch;
}

/* the median of a limit, and of what it allowed in a repeat's time */
static bench_limit summarise_limit(const record *r, int limit)
{
    bench_limit l;
    for (int i = 0; i < r->n; i++) r->scratch[i] = r->sample[i].rate[limit];
    l.rate = bench_quantile(sorted(r), r->n, 0.5);
    for (int i = 0; i < r->n; i++) r->scratch[i] = r->sample[i].rate[limit] * r->sample[i].seconds;
    l.possible = bench_quantile(sorted(r), r->n, 0.5);
    return l;
}

/* all statistics of the repeats so far */
static void summarise(const record *r, bench_timing *t)
{
    for (int i = 0; i < r->n; i++) r->scratch[i] = r->sample[i].seconds;
    const double *x = sorted(r);
    t->least = x[0];
    t->quartile1 = bench_quantile(x, r->n, 0.25);
    t->seconds = bench_quantile(x, r->n, 0.5);
    t->quartile3 = bench_quantile(x, r->n, 0.75);
    t->most = x[r->n - 1], t->mean = 0;
    for (int i = 0; i < r->n; i++) t->mean += x[i] / r->n;
    for (int i = 0; i < r->n; i++) r->scratch[i] = fabs(r->sample[i].seconds - t->seconds);
    t->spread = bench_quantile(sorted(r), r->n, 0.5);
    t->processor = bench_processor(r->all, r->threads) / r->n;
    t->processor_least = r->processor_least;
    t->busy = bench_busy(r->all, r->threads);
    for (int i = 0; i < BENCH_LIMITS; i++) t->limit[i] = summarise_limit(r, i);
    t->repeats = r->n;
}

double bench_budget(const bench_rules *rules) { return rules->budget > 0 ? rules->budget : usual_budget; }

/* Summarises where the median must be stable. */
static int enough(const record *r, const bench_rules *rules, double spent, bench_timing *t)
{
    double budget = bench_budget(rules);
    if (rules->repetitions > 0) return r->n >= rules->repetitions;
    if (rules->most > 0) return r->n >= rules->most || (r->n >= LEAST_REPEATS && spent >= budget);
    if (spent < rules->min_time) return 0;
    if (spent >= budget || r->n >= MOST_REPEATS) return 1;
    if (r->n < LEAST_REPEATS || spent < budget / 10) return 0;
    summarise(r, t);
    return t->spread <= stable * t->seconds;
}

static hga_status make_capacity(record *r, int n)
{
    if (n <= r->capacity) return HGA_OK;
    int capacity = 2 * n;
    sample *kept = realloc(r->sample, (size_t)capacity * sizeof *kept);
    if (kept) r->sample = kept;
    double *scratch = kept ? realloc(r->scratch, (size_t)capacity * sizeof *scratch) : NULL;
    if (!scratch) return hga_fail(HGA_ENOMEM, "the times of %d repeats", capacity);
    r->scratch = scratch;
    r->capacity = capacity;
    return HGA_OK;
}

static void keep(record *r, bench_time took, const double before[BENCH_LIMITS], const double after[BENCH_LIMITS])
{
    double processor = bench_processor(took, r->threads);
    sample *s = &r->sample[r->n];
    r->all = bench_time_add(r->all, took);
    if (r->n == 0 || processor < r->processor_least) r->processor_least = processor;
    s->seconds = r->by_processor ? processor : took.wall;
    for (int i = 0; i < BENCH_LIMITS; i++) s->rate[i] = (before[i] + after[i]) / 2;
    r->n++;
}

/* Measures the limits, unless that was a moment ago: repeats may be shorter than a measurement. */
static hga_status check_limits(limit_checks *a)
{
    if (!a->limits->ask || (a->some && bench_seconds() - a->at < fresh)) return HGA_OK;
    hga_status st = a->limits->ask(a->limits->context, a->threads, a->rate);
    a->at = bench_seconds(), a->some = 1;
    return st;
}

/* Times one call, and records what the machine allowed before and after. */
static hga_status timed(hga_status (*run)(void *), void *context, limit_checks *a, record *r)
{
    double before[BENCH_LIMITS];
    hga_status st;
    HGA_TRY(make_capacity(r, r->n + 1));
    HGA_TRY(check_limits(a));
    memcpy(before, a->rate, sizeof before);
    bench_time start = bench_clock();
    HGA_TRY(run(context));
    bench_time took = bench_since(start);
    HGA_TRY(check_limits(a));
    keep(r, took, before, a->rate);
done:
    return st;
}

enum { MOST_ACTIONS = 2 };

/* Times n actions in turns; `prepare` may be NULL. */
static hga_status repeat(hga_status (*prepare)(void *), hga_status (*const *run)(void *), int n, void *context,
                         const bench_rules *rules, int threads, bench_timing *out)
{
    hga_status st = HGA_OK;
    record r[MOST_ACTIONS] = {{0}};
    limit_checks a = {.limits = &rules->limits, .threads = threads};
    double start = 0;
    int is_enough = 0;
    for (int i = 0; i < n; i++) {
        r[i].threads = threads, r[i].by_processor = rules->by_processor && threads == 1;
        out[i] = (bench_timing){0};
    }
    for (int i = 0, warmup = rules->warmup ? rules->warmup : 1; i < warmup; i++) {
        if (prepare) HGA_TRY(prepare(context));
        for (int k = 0; k < n; k++) HGA_TRY(run[k](context));
    }
    for (start = bench_seconds(); !is_enough;) {
        if (prepare) HGA_TRY(prepare(context));
        for (int k = 0; k < n; k++) HGA_TRY(timed(run[k], context, &a, &r[k]));
        const double spent = bench_seconds() - start;
        is_enough = 1;
        for (int k = 0; k < n; k++) is_enough &= enough(&r[k], rules, spent, &out[k]);
    }
    for (int i = 0; i < n; i++) summarise(&r[i], &out[i]);
done:
    for (int i = 0; i < n; i++) free(r[i].sample), free(r[i].scratch);
    return st;
}

hga_status bench_repeat(hga_status (*run)(void *), void *context, const bench_rules *rules, int threads,
                        bench_timing *out)
{
    return repeat(NULL, &run, 1, context, rules, threads, out);
}

hga_status bench_alternate(hga_status (*prepare)(void *context), hga_status (*const run[2])(void *context),
                           void *context, const bench_rules *rules, int threads, bench_timing out[2])
{
    return repeat(prepare, run, MOST_ACTIONS, context, rules, threads, out);
}
