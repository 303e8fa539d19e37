/* run_estimate.c: graphs and plans are made of the whole text, executions are measured on its first words and grow with
   the operations. */
#include "run_estimate.h"

#include <math.h>

#include "growth.h"
#include "measured.h"
#include "progress.h"
#include "table.h"

enum { KL_COLUMNS = 128 };            /* of the identity at a time, as weights.c has them */
static const double peak_seconds = 3; /* about what measuring this machine's limits takes */

/* What one contender costs. */
typedef struct estimate {
    trial whole;
    double once, probing, all; /* seconds: an execution on the text, the weights, everything */
} estimate;

static int plan_whole(const estimate_wish *w, const contender *c, estimate *e)
{
    const trial_way way = {.shape = w->shape, .options = w->options, .plans_only = 1};
    double start = bench_seconds();
    int status = trial_run(w->whole, c, &way, NULL, &e->whole);
    e->all = bench_seconds() - start;
    return status;
}

/* The first words are what the weights are measured on, in executions of KL_COLUMNS values each. */
static int run_few(const estimate_wish *w, const contender *c, estimate *e)
{
    const trial_way way = {.shape = w->shape, .options = w->options, .rules = {.repetitions = 3}};
    trial few = {0};
    int status = trial_run(w->probe, c, &way, NULL, &few);
    if (status) return status;
    double least = few.m.time.least;
    e->once = few.m.cost.flops > 0 ? least * e->whole.m.cost.flops / few.m.cost.flops : least;
    e->probing =
        least * ceil(w->probe->words.n / (double)KL_COLUMNS) * (w->shape.dim + KL_COLUMNS) / (2.0 * w->shape.dim);
    return CLI_GOOD;
}

/* Prefixes are halves of halves, each repeated for a tenth of a second at least. */
static double prefix_time(const estimate_wish *w, const estimate *e)
{
    bench_rules rules = growth_rules();
    double sum = 0, once = e->once;
    hga_id n = w->whole->words.n;
    for (int l = 1; w->with_prefixes && l < MAX_LENGTHS && n >= 2 * GROWTH_SHORTEST; l++, n /= 2)
        once /= 2, sum += measured_expected(&rules, once);
    return sum;
}

static json_t *row_of(const contender *c, const estimate *e)
{
    const trial *t = &e->whole;
    return json_pack("{s:s, s:s, s:i, s:I, s:f, s:I, s:f, s:f}", "variant", c->variant->name, "parameters",
                     c->parameters, "nodes", t->nodes, "edges", (json_int_t)t->m.cost.edges, "flops", t->m.cost.flops,
                     "bytes", (json_int_t)t->bytes, "estimated_seconds", e->once, "estimated_case_seconds", e->all);
}

int run_estimate(const estimate_wish *w, json_t *rows, double *seconds, int64_t *bytes)
{
    int status = CLI_GOOD;
    progress bar = progress_start("estimating");
    *seconds = peak_seconds, *bytes = 0;
    for (int i = 0; i < w->all->n; i++) {
        const contender *c = &w->all->of[i];
        estimate e = {0};
        progress_show((double)i / w->all->n, &bar);
        TRY(plan_whole(w, c, &e));
        TRY(run_few(w, c, &e));
        e.all += measured_expected(&w->rules, e.once) + e.probing + prefix_time(w, &e);
        *seconds += e.all;
        if (e.whole.bytes > *bytes) *bytes = e.whole.bytes;
        TRY(row_append(rows, row_of(c, &e)));
    }
done:
    progress_end(&bar);
    return status;
}

int run_estimate_print(const json_t *rows, double seconds, int64_t bytes)
{
    static const column columns[] = {
        {"variant", "variant", NULL, 0},
        {"parameters", "parameters", NULL, 0},
        {"nodes", "nodes", NULL, 0},
        {"edges", "edges", NULL, 0},
        {"flops", "GFLOP", "%.3f", 1e-9},
        {"bytes", "MB", "%.1f", 1e-6},
        {"estimated_seconds", "about ms each", "%.1f", 1e3},
        {"estimated_case_seconds", "in all about s", "%.1f", 0},
        {0},
    };
    int status = table_print(stdout, rows, columns);
    if (status == CLI_GOOD)
        printf("\nThe run takes about %.0f s and %.0f MB beside the text's own tensors.\n", ceil(seconds),
               ceil((double)bytes * 1e-6));
    return status;
}
