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
    double wall, rate[BENCH_LIMITS];
} sample;

/* The repeats so far. */
typedef struct record {
    sample *sample;
    double *scratch;
    double processor_least;
    bench_time all;
    int n, capacity, threads;
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
    for (int i = 0; i < r->n; i++) r->scratch[i] = r->sample[i].rate[limit] * r->sample[i].wall;
    l.possible = bench_quantile(sorted(r), r->n, 0.5);
    return l;
}

/* all statistics of the repeats so far */
static void summarise(const record *r, bench_timing *t)
{
    for (int i = 0; i < r->n; i++) r->scratch[i] = r->sample[i].wall;
    const double *x = sorted(r);
    t->least = x[0];
    t->quartile1 = bench_quantile(x, r->n, 0.25);
    t->seconds = bench_quantile(x, r->n, 0.5);
    t->quartile3 = bench_quantile(x, r->n, 0.75);
    for (int i = 0; i < r->n; i++) r->scratch[i] = fabs(r->sample[i].wall - t->seconds);
    t->spread = bench_quantile(sorted(r), r->n, 0.5);
    t->processor = bench_processor(r->all, r->threads) / r->n;
    t->processor_least = r->processor_least;
    t->busy = bench_busy(r->all, r->threads);
    for (int i = 0; i < BENCH_LIMITS; i++) t->limit[i] = summarise_limit(r, i);
    t->repeats = r->n;
}

double bench_budget(const bench_rules *rules) { return rules->budget > 0 ? rules->budget : usual_budget; }

static int enough(const bench_timing *t, const bench_rules *rules, double spent)
{
    double budget = bench_budget(rules);
    if (rules->repetitions > 0) return t->repeats >= rules->repetitions;
    if (spent < rules->min_time) return 0;
    if (spent >= budget || t->repeats >= MOST_REPEATS) return 1;
    return t->repeats >= LEAST_REPEATS && t->spread <= stable * t->seconds && spent >= budget / 10;
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
    s->wall = took.wall;
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

/* If repeats are so short that checking for stability takes longer, checks when their number has doubled. */
static hga_status repeat(hga_status (*run)(void *), void *context, const bench_rules *rules, record *r,
                         bench_timing *out)
{
    hga_status st;
    limit_checks a = {.limits = &rules->limits, .threads = r->threads};
    double start = bench_seconds();
    do {
        for (int until = r->n < MOST_REPEATS ? r->n + 1 : r->n + r->n / 8; r->n < until;) {
            HGA_TRY(timed(run, context, &a, r));
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
    free(r.sample), free(r.scratch);
    return st;
}

hga_status bench_alternate(hga_status (*prepare)(void *context), hga_status (*const run[2])(void *context),
                           void *context, const bench_rules *rules, int threads, bench_timing out[2])
{
    hga_status st = HGA_OK;
    record r[2] = {{.threads = threads}, {.threads = threads}};
    limit_checks a = {.limits = &rules->limits, .threads = threads};
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
            HGA_TRY(timed(run[i], context, &a, &r[i]));
            summarise(&r[i], &out[i]);
        }
    } while (!enough(&out[0], rules, bench_seconds() - start) || !enough(&out[1], rules, bench_seconds() - start));
done:
    for (int i = 0; i < 2; i++) free(r[i].sample), free(r[i].scratch);
    return st;
}
