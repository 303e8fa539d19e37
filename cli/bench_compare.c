/* bench_compare.c: hga bench compare A.json B.json. Reads what hga and what Google Benchmark write: the middle of a
   case and its noise come from quartiles where a row has them, else from the repetitions of its name, else from the
   aggregates of its name. */
#include "bench_compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "json_file.h"
#include "measured.h"

/* One case of one run, in seconds. */
typedef struct timed {
    const char *name;
    double seconds, quartile1, quartile3; /* quartiles are NaN where nothing tells them */
    int disturbed;
} timed;

typedef struct run {
    const char *path;
    json_t *document;
    timed *cases; /* [n], each name once */
    int n;
} run;

typedef struct arguments {
    const char *path[2];
    int n_paths, json;
    double fail_above; /* percent; NaN: never */
} arguments;

/* ---- reading ---- */

static double real_of(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static double unit_of(const json_t *row)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(text_of(row, "time_unit"), units[i].name) == 0) return units[i].seconds;
    return 1e-9; /* Google Benchmark's own default */
}

static const char *name_of(const json_t *row)
{
    const char *name = text_of(row, "run_name");
    return *name ? name : text_of(row, "name");
}

static int is_aggregate(const json_t *row) { return strcmp(text_of(row, "run_type"), "aggregate") == 0; }

/* the repetitions of a name: their middle and quartiles */
static void read_repetitions(const json_t *rows, double *room, timed *out)
{
    int n = 0;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        if (is_aggregate(row) || strcmp(name_of(row), out->name) != 0) continue;
        room[n++] = unit_of(row) * real_of(row, "real_time");
        if (n > 1 || isnan(real_of(row, "seconds_q1"))) continue;
        out->quartile1 = real_of(row, "seconds_q1"), out->quartile3 = real_of(row, "seconds_q3");
        out->disturbed = json_is_true(json_object_get(row, "disturbed"));
    }
    if (n == 0) return;
    bench_sort(room, n);
    out->seconds = bench_quantile(room, n, 0.5);
    if (n > 1) out->quartile1 = bench_quantile(room, n, 0.25), out->quartile3 = bench_quantile(room, n, 0.75);
}

/* median and stddev where only those were written; the quartiles of a normal distribution lie 0.674 of it away */
static void read_aggregates(const json_t *rows, timed *out)
{
    size_t i;
    json_t *row;
    double mean = NAN, deviation = NAN;
    json_array_foreach(rows, i, row)
    {
        if (!is_aggregate(row) || strcmp(name_of(row), out->name) != 0) continue;
        double seconds = unit_of(row) * real_of(row, "real_time");
        const char *kind = text_of(row, "aggregate_name");
        if (strcmp(kind, "median") == 0) out->seconds = seconds;
        if (strcmp(kind, "mean") == 0) mean = seconds;
        if (strcmp(kind, "stddev") == 0) deviation = seconds;
    }
    if (isnan(out->seconds)) out->seconds = mean;
    out->quartile1 = out->seconds - 0.674 * deviation, out->quartile3 = out->seconds + 0.674 * deviation;
}

static int has(const run *r, const char *name)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->cases[i].name, name) == 0) return 1;
    return 0;
}

static int read_cases(const json_t *rows, run *r)
{
    size_t i;
    json_t *row;
    double *room = NULL;
    int status = CLI_GOOD;
    TRY(take((int64_t)json_array_size(rows), sizeof *room, &room));
    TRY(take((int64_t)json_array_size(rows), sizeof *r->cases, &r->cases));
    json_array_foreach(rows, i, row)
    {
        if (!*name_of(row) || has(r, name_of(row))) continue;
        timed t = {.name = name_of(row), .seconds = NAN, .quartile1 = NAN, .quartile3 = NAN};
        read_repetitions(rows, room, &t);
        if (isnan(t.seconds)) read_aggregates(rows, &t);
        if (!(t.seconds > 0)) TRY(complain(CLI_DATA, "%s: '%s' has no time above 0", r->path, t.name));
        r->cases[r->n++] = t;
    }
done:
    free(room);
    return status;
}

static int read_run(const char *path, run *out)
{
    *out = (run){.path = path};
    int status = json_file_read(path, &out->document);
    if (status) return status;
    const json_t *rows = json_object_get(out->document, "benchmarks");
    if (!json_is_array(rows)) return complain(CLI_DATA, "%s: has no list of benchmarks", path);
    return read_cases(rows, out);
}

/* ---- judging ---- */

/* half the distance of the quartiles, of the middle; 0 where nothing tells it */
static double noise_of(const timed *t)
{
    double half = (t->quartile3 - t->quartile1) / 2;
    return half > 0 ? half / t->seconds : 0;
}

typedef struct judgement {
    double change, noise; /* of the time: 0.1 is a tenth more; the noise of both together */
    int disturbed, clear; /* clear: the change is beyond the noise of an undisturbed pair */
} judgement;

/* A change counts when it is more than twice the noise of both runs together, and more than clocks tell apart. */
static judgement judge(const timed *a, const timed *b)
{
    static const double least = 0.01;
    const double of_a = noise_of(a), of_b = noise_of(b);
    judgement j = {.change = b->seconds / a->seconds - 1, .noise = sqrt(of_a * of_a + of_b * of_b)};
    j.disturbed = a->disturbed || b->disturbed;
    j.clear = !j.disturbed && fabs(j.change) > fmax(2 * j.noise, least);
    return j;
}

static const char *verdict_of(const judgement *j)
{
    if (j->disturbed) return "disturbed: no verdict";
    if (!j->clear) return "same within noise";
    return j->change < 0 ? "faster" : "slower";
}

static int is_failure(const judgement *j, const arguments *a)
{
    return j->clear && 100 * j->change > a->fail_above; /* never with NaN */
}

/* ---- the table ---- */

static const column columns[] = {
    {"name", "case", NULL, 0},
    {"seconds_a", "A ms", "%.4g", 1e3},
    {"seconds_b", "B ms", "%.4g", 1e3},
    {"change", "change", "%+.1f %%", 100},
    {"noise", "noise", "%.1f %%", 100},
    {"verdict", "verdict", NULL, 0},
    {0},
};

static const timed *case_named(const run *r, const char *name)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->cases[i].name, name) == 0) return &r->cases[i];
    return NULL;
}

static json_t *lone_row(const timed *t, const char *key, const char *verdict)
{
    return json_pack("{s:s, s:f, s:s}", "name", t->name, key, t->seconds, "verdict", verdict);
}

/* cases of A in their order, then those that only B has; *slower counts what --fail-above fails on */
static json_t *compare(const run *a, const run *b, const arguments *args, int *slower, double *mean)
{
    json_t *rows = json_array();
    double sum = 0;
    int shared = 0;
    for (int i = 0; i < a->n; i++) {
        const timed *one = &a->cases[i], *two = case_named(b, one->name);
        if (!two) {
            json_array_append_new(rows, lone_row(one, "seconds_a", "only in A"));
            continue;
        }
        judgement j = judge(one, two);
        *slower += is_failure(&j, args);
        sum += log1p(j.change), shared++;
        json_array_append_new(rows, json_pack("{s:s, s:f, s:f, s:f, s:f, s:b, s:s}", "name", one->name, "seconds_a",
                                              one->seconds, "seconds_b", two->seconds, "change", j.change, "noise",
                                              j.noise, "failed", is_failure(&j, args), "verdict", verdict_of(&j)));
    }
    for (int i = 0; i < b->n; i++)
        if (!case_named(a, b->cases[i].name))
            json_array_append_new(rows, lone_row(&b->cases[i], "seconds_b", "only in B"));
    *mean = shared ? expm1(sum / shared) : NAN;
    return rows;
}

static int print(const arguments *args, json_t *rows, double mean, int slower)
{
    if (args->json)
        return json_print(stdout, json_pack("{s:s, s:s, s:o, s:i, s:O}", "a", args->path[0], "b", args->path[1],
                                            "mean_change", json_number(mean), "failed", slower, "rows", rows));
    int status = table_print(stdout, rows, columns);
    if (isfinite(mean)) printf("geometric mean of the cases in both: %+.1f %% of the time\n", 100 * mean);
    return status;
}

/* ---- the command line ---- */

enum { KEY_FAIL_ABOVE = 0x2900 };

static int read_percent(const char *text, double *out)
{
    int status = read_number("--fail-above", text, out);
    return status == CLI_GOOD && *out < 0 ? complain(CLI_USAGE, "--fail-above: %s is below 0", text) : status;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case KEY_FAIL_ABOVE: return arguments_said(read_percent(value, &a->fail_above));
    case ARGP_KEY_ARG:
        if (a->n_paths == 2) return ARGP_ERR_UNKNOWN;
        a->path[a->n_paths++] = value;
        return 0;
    case ARGP_KEY_END:
        if (a->n_paths < 2) return arguments_said(complain(CLI_USAGE, "bench compare: takes two runs, A.json B.json"));
        return 0;
    default: return arguments_put(key, value, a);
    }
}

static const struct argp_option options[] = {
    {"fail-above", KEY_FAIL_ABOVE, "PERCENT", 0, "exit 1 when a case takes more than so much longer, beyond the noise",
     1},
    {"json", FLAG(arguments, json), NULL, 0, "as JSON", 9},
    {0},
};

static const char doc[] =
    "Two runs that `hga bench --json` or Google Benchmark wrote, case by case: the medians, the change from A to B, "
    "and whether it is more than noise.\v"
    "Noise is half the distance of the quartiles of each run, of its median, put together as independent errors are; "
    "a change counts when it is more than twice that and more than 1 %. A run of one repetition tells no noise: let "
    "Google Benchmark make some (--benchmark_repetitions). Cases that other work disturbed get no verdict.";

int run_bench_compare(int argc, char **argv)
{
    struct argp argp = {options, parse, "A.json B.json", doc, NULL, NULL, NULL};
    arguments args = {.fail_above = NAN};
    run a = {0}, b = {0};
    json_t *rows = NULL;
    int status = CLI_GOOD, slower = 0;
    double mean;
    TRY(arguments_parse(&argp, argc, argv, &args));
    TRY(read_run(args.path[0], &a));
    TRY(read_run(args.path[1], &b));
    rows = compare(&a, &b, &args, &slower, &mean);
    TRY(print(&args, rows, mean, slower));
    if (slower)
        TRY(complain(CLI_FAILED, "%d case%s more than %g %% slower than in %s", slower, slower > 1 ? "s are" : " is",
                     args.fail_above, args.path[0]));
done:
    json_decref(rows);
    json_decref(a.document), json_decref(b.document);
    free(a.cases), free(b.cases);
    return status;
}
