/* trial.c: graph, plan, execution and the results. */
#include "trial.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measured.h"
#include "progress.h"
#include "scene.h"
#include "table.h"

/* ---- prefixes of a text ---- */

enum { SHORTEST = 256, SHORTEST_OF_SHORT = 8 };

bench_rules growth_rules(void) { return (bench_rules){.budget = 0.1}; }

int growth_lengths(hga_id words, hga_id length[static MAX_LENGTHS])
{
    hga_id least = words >= 2 * SHORTEST ? SHORTEST : SHORTEST_OF_SHORT;
    int n = 1;
    while (n < MAX_LENGTHS && words >> n >= least) n++;
    for (int i = 0; i < n; i++) length[i] = words >> (n - 1 - i);
    return n;
}

json_t *growth_row(const contender *c, const trial *t, hga_id words)
{
    const bench_timing *time = &t->m.time;
    return json_pack("{s:s, s:s, s:b, s:i, s:i, s:f, s:b}", "variant", c->variant->name, "parameters", c->parameters,
                     "causal", c->causal, "tokens", words, "threads", t->m.threads, "seconds", time->seconds,
                     "disturbed", time->busy < BENCH_TRUSTED);
}

/* A row for each contender on one prefix. */
static int measure_on(const scene_text *t, const contenders *all, const scene *s, json_t *rows)
{
    const trial_setup setup = {.shape = t->shape, .options = t->options, .rules = growth_rules()};
    for (int i = 0; i < all->n; i++) {
        trial one = {0};
        MUST(trial_run(s, &all->of[i], &setup, &one));
        MUST(row_append(rows, growth_row(&all->of[i], &one, s->words.n)));
    }
    return CLI_GOOD;
}

/* Leaves out the longest length, which the run itself has measured. */
int growth_measure(const scene_text *t, const contenders *all, json_t *rows)
{
    progress bar = progress_start("prefixes");
    hga_id length[MAX_LENGTHS];
    scene s = {0};
    int status = CLI_GOOD;
    for (int l = 0, n = growth_lengths(t->words, length); l + 1 < n; l++) {
        progress_show((double)l / n, &bar);
        TRY(scene_make(t, length[l], &s));
        TRY(measure_on(t, all, &s, rows));
        scene_clear(&s);
    }
done:
    progress_end(&bar);
    scene_clear(&s);
    return status;
}

/* ---- attention's rows, by the identity ---- */

enum { CHUNK = PROBE_COLUMNS, MOST_WEIGHTS = 1 << 26 };

scene scene_start(const scene *whole)
{
    scene s = *whole;
    hga_id n = s.words.n < PROBE_WORDS ? s.words.n : PROBE_WORDS;
    while (n > 1 && (int64_t)n * n * s.words.heads > MOST_WEIGHTS) n /= 2;
    s.words.n = n;
    return s;
}

/* columns [first, first + CHUNK) of the identity, the same for every head */
static void identity_columns(hga_id n, hga_id heads, hga_id first, float *value)
{
    memset(value, 0, (size_t)((int64_t)n * heads * CHUNK) * sizeof *value);
    for (hga_id i = first; i < n && i < first + CHUNK; i++)
        for (hga_id h = 0; h < heads; h++) value[((int64_t)i * heads + h) * CHUNK + i - first] = 1;
}

/* Computes attention to CHUNK tokens at once, whose indicators are the values. */
static int run_columns(const scene *s, const hga_graph *g, const hga_program *p, const hga_options *options,
                       const float *value, hga_id first, float *weights)
{
    hga_id n = s->words.n, heads = s->words.heads, width = n - first < CHUNK ? n - first : CHUNK;
    hga_shape shape = {.n_heads = heads, .dim = s->words.dim, .dim_v = CHUNK};
    cast c = {0};
    int status = CLI_GOOD;
    TRY(cast_make(s, g, p, value, CHUNK, &c));
    TRY(complain_of(hga_attention(g, p, &shape, options, &c.io), CLI_OUTSIDE, "attention rows"));
    for (int64_t row = 0; row < (int64_t)n * heads; row++)
        memcpy(weights + row * n + first, c.out + row * CHUNK, (size_t)width * sizeof *weights);
done:
    cast_clear(&c);
    return status;
}

static void normalise(float *row, hga_id n)
{
    double sum = 0;
    for (hga_id j = 0; j < n; j++) sum += (double)row[j];
    if (sum <= 0) return;
    for (hga_id j = 0; j < n; j++) row[j] = (float)(row[j] / sum);
}

/* Computes some columns of the identity at a time, then normalises each row. */
static int weights_of_graph(const scene *s, const hga_graph *g, const hga_program *p, const hga_options *options,
                            float **weights)
{
    hga_id n = s->words.n, heads = s->words.heads;
    float *value = NULL;
    int status = CLI_GOOD;
    *weights = NULL;
    TRY(take((int64_t)n * heads * n, sizeof **weights, weights));
    TRY(take((int64_t)n * heads * CHUNK, sizeof *value, &value));
    for (hga_id first = 0; first < n; first += CHUNK) {
        identity_columns(n, heads, first, value);
        TRY(run_columns(s, g, p, options, value, first, *weights));
    }
    for (int64_t row = 0; row < (int64_t)n * heads; row++) normalise(*weights + row * n, n);
done:
    free(value);
    if (status) free(*weights), *weights = NULL;
    return status;
}

/* |x - y| / |y|; NaN where both are zero. */
static double relative_distance(const float *x, const float *y, int64_t n)
{
    double difference = 0, whole = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        whole += (double)y[i] * (double)y[i];
    }
    return sqrt(difference / whole);
}

/* The mean over rows of KL(p || q) = sum p log(p / q), in nats. 0 in q is replaced by the smallest float, where
   rounding lost what softmax never makes 0. Rows where p is zero throughout do not count; NaN if all are. */
static double mean_divergence(const float *p, const float *q, hga_id n, hga_id heads)
{
    double all = 0;
    int64_t rows = 0;
    for (int64_t row = 0; row < (int64_t)n * heads; row++, p += n, q += n) {
        double sum = 0;
        int some = 0;
        for (hga_id j = 0; j < n; j++) {
            if (!(p[j] > 0)) continue;
            sum += (double)p[j] * log((double)p[j] / (double)(q[j] > FLT_MIN ? q[j] : FLT_MIN));
            some = 1;
        }
        all += sum, rows += some;
    }
    return all / (double)rows;
}

/* ---- a trial ---- */

/* Dense attention's output, rows and time, which the first trial leaves there. Zeroed: none. */
typedef struct reference {
    float *out, *weights;
    double seconds;
} reference;

/* Whether all numbers are 0: nothing has a distance from these. */
static int is_zero(const float *x, int64_t n)
{
    int64_t i = 0;
    while (i < n && x[i] == 0) i++;
    return i == n;
}

/* The first trial, dense attention, becomes the reference; the others are compared with it. */
static int compare(const scene *s, hga_id dim_v, const cast *ran, reference *ref, trial *t)
{
    int64_t n = (int64_t)s->words.n * s->words.heads * dim_v;
    if (!ref->out) {
        if (is_zero(ran->out, n))
            return complain(CLI_DATA, "the output of dense attention is 0 throughout, as of values that are 0: "
                                      "no hierarchy has a distance from it");
        MUST(take(n, sizeof *ref->out, &ref->out));
        memcpy(ref->out, ran->out, (size_t)n * sizeof *ref->out);
        ref->seconds = t->m.time.seconds;
    }
    t->distance = relative_distance(ran->out, ref->out, n);
    t->speedup = ref->seconds / t->m.time.seconds;
    return CLI_GOOD;
}

/* Times graph, plan and execution of a contender, and compares the output with the reference's, if there is one. */
static int run(const scene *s, const contender *c, const trial_setup *setup, reference *ref, trial *out)
{
    const char *name = c->variant->name;
    hga_id dim_v = setup->shape.dim_v ? setup->shape.dim_v : setup->shape.dim;
    hga_graph *g = NULL;
    hga_program p;
    hga_plan *plan = NULL;
    cast in = {0};
    int status = CLI_GOOD;
    double start = bench_seconds();
    TRY(contender_build(s, c, &g, &p));
    out->graph_seconds = bench_seconds() - start;
    out->nodes = hga_graph_nodes(g).n;
    bench_job j = {g, &p, setup->shape, setup->options};
    TRY(complain_of(bench_plan(&j, &plan, &out->m), CLI_USAGE, name));
    out->bytes = cast_bytes(s, g, &p, dim_v) + out->m.graph_bytes + out->m.plan_bytes + out->m.workspace_bytes;
    if (setup->plans_only) goto done;
    TRY(cast_make(s, g, &p, s->words.value, dim_v, &in));
    TRY(complain_of(bench_execute(plan, &in.io, &setup->rules, &out->m), CLI_USAGE, name));
    if (ref) TRY(compare(s, dim_v, &in, ref, out));
    if (setup->look) TRY(setup->look(setup->context, c, g, &p, plan));
done:
    cast_clear(&in);
    hga_plan_destroy(plan);
    hga_graph_destroy(g);
    return status;
}

int trial_run(const scene *s, const contender *c, const trial_setup *setup, trial *out)
{
    return run(s, c, setup, NULL, out);
}

/* The first contender's rows of attention become the reference of all that follow. */
static int compare_rows(const scene *probe, const contender *c, const hga_options *options, reference *ref, trial *out)
{
    hga_graph *g = NULL;
    hga_program p;
    float *weights = NULL;
    int status = CLI_GOOD;
    TRY(contender_build(probe, c, &g, &p));
    TRY(weights_of_graph(probe, g, &p, options, &weights));
    int mine = !ref->weights;
    if (mine) ref->weights = weights;
    out->divergence = mean_divergence(weights, ref->weights, probe->words.n, probe->words.heads);
    if (!mine) free(weights);
    if (probe->call && normaliser_makes_zeros(&probe->call->normaliser)) out->divergence = NAN; /* else infinite */
done:
    hga_graph_destroy(g);
    return status;
}

static int try_one(scene *whole, const scene *probe, const contender *c, const trial_setup *setup, reference *ref)
{
    trial t = {0};
    if (c->height) MUST(scene_route(whole, c->height, c->medians, setup->seed));
    const scene start = scene_start(whole);
    MUST(run(whole, c, setup, ref, &t));
    MUST(compare_rows(probe ? probe : &start, c, &setup->options, ref, &t));
    return setup->tell(setup->context, c, &t);
}

int trials_run(scene *whole, const scene *probe, const contenders *all, const trial_setup *setup, const char *name)
{
    reference ref[2] = {{0}}; /* dense attention without and with the causal mask */
    int status = CLI_GOOD;
    progress bar = progress_start(name);
    for (int i = 0; i < all->n && !status; i++) {
        progress_show((double)i / all->n, &bar);
        status = try_one(whole, probe, &all->of[i], setup, &ref[all->of[i].causal]);
    }
    progress_end(&bar);
    for (int i = 0; i < 2; i++) free(ref[i].out), free(ref[i].weights);
    return status;
}

json_t *trial_json(const trial *t, hga_id tokens)
{
    double edges = t->m.cost.edges;
    json_t *row =
        json_pack("{s:i, s:I, s:f, s:f, s:f, s:I, s:I, s:o, s:o, s:f}", "nodes", t->nodes, "edges", (json_int_t)edges,
                  "edges_per_token", edges / tokens, "flops", t->m.cost.flops, "speedup", t->speedup, "bytes",
                  (json_int_t)t->bytes, "bytes_workspace", (json_int_t)t->m.workspace_bytes, "relative_l2",
                  json_number(t->distance), "mean_kl", json_number(t->divergence), "graph_seconds", t->graph_seconds);
    return json_joined(row, measured_json(&t->m));
}
