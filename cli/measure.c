/* measure.c: warm up, repeat until stable, take the median. */
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LEAST_REPEATS = 3, MOST_REPEATS = 100 };
static const double stable = 0.01; /* of the median */

static double read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double seconds_now(void) { return read_clock(CLOCK_MONOTONIC); }

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* median and spread of the times so far */
static void summarise(const double *times, measurement *m)
{
    double x[MOST_REPEATS];
    for (int i = 0; i < m->repeats; i++) x[i] = times[i];
    m->seconds = median(x, m->repeats);
    m->seconds_min = x[0];
    for (int i = 0; i < m->repeats; i++) x[i] = fabs(x[i] - m->seconds);
    m->spread = median(x, m->repeats);
}

static int enough(const measurement *m, double spent, double budget)
{
    if (spent >= budget || m->repeats == MOST_REPEATS) return 1;
    return m->repeats >= LEAST_REPEATS && m->spread <= stable * m->seconds && spent >= budget / 10;
}

int measure_repeats(int (*run)(void *), void *context, double budget, measurement *m)
{
    double times[MOST_REPEATS], start = seconds_now(), cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    do {
        double before = seconds_now();
        int status = run(context);
        if (status) return status;
        times[m->repeats++] = seconds_now() - before;
        summarise(times, m);
    } while (!enough(m, seconds_now() - start, budget));
    m->cpu_seconds = (read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu) / m->repeats;
    return CLI_GOOD;
}

int measure_plan(const job *j, hga_plan **plan, measurement *out)
{
    *out = (measurement){0};
    double start = seconds_now();
    int status = complain_of(hga_plan_create(j->graph, j->program, &j->shape, &j->options, plan), CLI_USAGE, j->title);
    if (status) return status;
    out->plan_seconds = seconds_now() - start;
    out->cost = hga_plan_cost(*plan);
    out->threads = hga_plan_threads(*plan);
    out->workspace_bytes = hga_plan_workspace_bytes(*plan);
    out->plan_bytes = hga_plan_bytes(*plan);
    out->graph_bytes = hga_graph_bytes(j->graph);
    return CLI_GOOD;
}

/* One execution, as an action. */
typedef struct execution {
    const hga_plan *plan;
    hga_workspace *state;
    const hga_io *io;
    const char *title;
} execution;

static int execute(void *context)
{
    const execution *e = context;
    return complain_of(hga_plan_execute(e->plan, e->state, e->io), CLI_USAGE, e->title);
}

int measure_execution(const job *j, const hga_plan *plan, const hga_io *io, double budget, measurement *out)
{
    execution e = {.plan = plan, .io = io, .title = j->title};
    int status = CLI_GOOD;
    TRY(complain_of(hga_workspace_create(plan, &e.state), CLI_USAGE, j->title));
    TRY(execute(&e));
    TRY(measure_repeats(execute, &e, budget, out));
done:
    hga_workspace_destroy(e.state);
    return status;
}

int64_t peak_resident(void)
{
    char line[256];
    long long kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lld kB", &kilobytes) == 1) break;
    if (file) fclose(file);
    return kilobytes * 1024;
}

void reset_peak_resident(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file) return;
    fputs("5", file);
    fclose(file);
}
