/* measured.c: measurements as JSON, and whether they were disturbed. */
#include "measured.h"

#include <math.h>
#include <string.h>

#include "arguments.h"

static const char *mark_of(int disturbed) { return disturbed ? "!" : ""; }

json_t *measured_json(const bench_measurement *m)
{
    const bench_timing *t = &m->time;
    int disturbed = t->repeats > 0 && t->busy < BENCH_TRUSTED;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:i, s:f, s:b, s:s}", "plan_seconds", m->plan_seconds,
                     "seconds", t->seconds, "seconds_min", t->least, "seconds_q1", t->quartile1, "seconds_q3",
                     t->quartile3, "seconds_spread", t->spread, "repeats", t->repeats, "threads", m->threads,
                     "cpu_over_wall", t->busy, "disturbed", disturbed, "mark", mark_of(disturbed));
}

json_t *measured_share(double share) { return json_number(share <= 1 ? share : NAN); }

json_t *measured_within(json_t *row, double greatest)
{
    int beyond = greatest > 1;
    if (row && beyond) json_object_set_new(row, "mark", json_string(mark_of(beyond)));
    if (row) json_object_set_new(row, "limit_disturbed", json_boolean(beyond));
    return row;
}

static int is_beyond(const char *member, json_t *value)
{
    return strncmp(member, "share_of_", 9) == 0 && strcmp(member, "share_of_gather") != 0 &&
           json_number_value(value) > 1;
}

/* Turns shares above 1 of what the machine allows into null. */
void measured_hold(json_t *rows)
{
    size_t i;
    json_t *row, *value;
    const char *member;
    json_array_foreach(rows, i, row)
    {
        double greatest = 0;
        json_object_foreach(row, member, value) if (is_beyond(member, value))
        {
            greatest = json_number_value(value);
            json_object_set_new(row, member, json_null());
        }
        if (greatest > 1) measured_within(row, greatest);
    }
}

json_t *measured_peaks_json(const char *isa, const bench_peaks *p)
{
    int disturbed = p->busy < BENCH_TRUSTED;
    return json_pack("{s:s, s:f, s:o, s:f, s:f, s:f, s:f, s:i, s:b, s:s}", "isa", isa, "fma_gflops", p->best.fma_gflops,
                     "bf16_gflops", json_number(p->best.bf16_gflops > 0 ? p->best.bf16_gflops : NAN), "exp_gelements",
                     p->best.exp_gelements, "l2_gbytes", p->best.l2_gbytes, "dram_gbytes", p->best.dram_gbytes,
                     "cpu_over_wall", p->busy, "times", p->times, "disturbed", disturbed, "mark", mark_of(disturbed));
}

double measured_expected(const bench_rules *rules, double once)
{
    double warmup = rules->warmup < 0 ? 0 : rules->warmup > 0 ? rules->warmup * once : once;
    double timed = rules->repetitions > 0 ? rules->repetitions * once : fmax(bench_budget(rules), 3 * once);
    return warmup + fmax(timed, rules->min_time);
}

void measured_explain(FILE *file, const json_t *rows)
{
    size_t n = json_array_size(rows), disturbed = rows_that_are(rows, "disturbed"),
           beyond = rows_that_are(rows, "limit_disturbed");
    if (beyond)
        fprintf(file,
                "! %zu of %zu rows did more than the machine was found to allow: the limit was disturbed, and they "
                "have no share of it\n",
                beyond, n);
    if (disturbed)
        fprintf(
            file,
            "! %zu of %zu rows had less than %.0f %% of their threads' processor time: the machine did other work\n",
            disturbed, n, 100 * BENCH_TRUSTED);
}

json_t *json_joined(json_t *row, json_t *more)
{
    int failed = !row || !more || json_object_update(row, more) != 0;
    json_decref(more);
    if (!failed) return row;
    json_decref(row);
    return NULL;
}

/* ---- how long to measure ---- */

enum { MOST_REPETITIONS = 1000000 };

/* none is -1, as 0 stands for one */
static int read_warmup(const char *text, void *input)
{
    bench_rules *r = input;
    hga_id n;
    MUST(read_id("--warmup", text, 0, MOST_REPETITIONS, &n));
    r->warmup = n ? n : -1;
    return CLI_GOOD;
}

static const option_row rules_options[] = {
    {"seconds", ABOVE_0(bench_rules, budget), "S", 0,
     "repeat until stable, at most S seconds for one case without warm-up (default: 2; run: 1)", 8},
    {"min-time", ABOVE_0(bench_rules, min_time), "S", 0,
     "repeat for at least S seconds (default: a tenth of --seconds)", 8},
    {"repetitions", ID(bench_rules, repetitions, 1, MOST_REPETITIONS), "N", 0,
     "exactly N repeats (default: until the median is stable)", 8},
    {"warmup", READ(read_warmup), "N", 0, "executions before the first that is timed (default: 1)", 8},
    {0},
};

const option_list rules_list = {.rows = rules_options};
