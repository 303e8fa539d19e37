/* goal_ways.c: the few ways in which goals are measured. */
#include "goal_ways.h"

#include <string.h>

#include "routed.h"

/* ---- measurements ---- */

static hga_id cut(const goals_run *r, hga_id tokens)
{
    return r->most_tokens && tokens > r->most_tokens ? r->most_tokens : tokens;
}

/* what is measured; two cases that want the same share it */
typedef struct trial {
    const char *variant;
    hga_id tokens;
    hga_shape shape;
    hga_id threads;
    hga_precision precision;
    int peers, relative, by_memory;
} trial;

/* "bpt:k=4" is the row's variant and parameters */
static int is_variant(const json_t *row, const char *variant)
{
    const char *name = text_of(row, "variant"), *parameters = text_of(row, "parameters");
    size_t n = strlen(name);
    return strncmp(variant, name, n) == 0 && strcmp(variant + n + (variant[n] == ':'), parameters) == 0;
}

static int same_shape(const json_t *row, const hga_shape *s)
{
    return (hga_id)number_of(row, "heads") == s->n_heads && (hga_id)number_of(row, "dim") == s->dim &&
           (hga_id)number_of(row, "dim_v") == (s->dim_v ? s->dim_v : s->dim) &&
           (hga_id)number_of(row, "kv_heads") == (s->n_kv_heads ? s->n_kv_heads : s->n_heads);
}

static int same_sizes(const json_t *row, const trial *t)
{
    return (hga_id)number_of(row, "tokens") == t->tokens && (hga_id)number_of(row, "threads") == t->threads &&
           same_shape(row, &t->shape);
}

static int same_way(const goals_run *r, const json_t *row, const trial *t)
{
    return (strcmp(text_of(row, "precision"), "bf16") == 0) == (t->precision == HGA_PRECISION_BF16) &&
           json_is_true(json_object_get(row, "rel_key")) == t->relative &&
           (!t->by_memory || r->place.dry_run || json_is_number(json_object_get(row, "share_of_dram"))) &&
           strcmp(text_of(row, "isa"), r->place.options.isa) == 0;
}

/* the row of a trial that was measured before; cases with peers come first in the table */
static const json_t *find(const goals_run *r, const trial *t)
{
    size_t i;
    json_t *row;
    json_array_foreach(r->rows, i, row)
    {
        if (is_variant(row, t->variant) && same_sizes(row, t) && same_way(r, row, t)) return row;
    }
    return NULL;
}

static int measure(goals_run *r, const trial *s, finding *f, const json_t **row)
{
    bench_variant variant;
    bench_place p = r->place;
    int n, status = CLI_GOOD;
    if (!(*row = find(r, s))) {
        TRY(bench_variants_read(s->variant, &variant, &n));
        p.variant = &variant;
        p.tokens = s->tokens;
        p.shape = s->shape;
        p.options.threads = s->threads;
        p.options.precision = s->precision;
        p.relative = s->relative;
        p.by_memory = s->by_memory;
        p.peers = s->peers ? ~0u : 0;
        TRY(bench_run(&p, r->rows, &r->failed));
        *row = find(r, s);
    }
    double bytes = number_of(*row, "bytes");
    if (bytes > (double)f->bytes) f->bytes = (int64_t)bytes;
    f->busy = fmin(f->busy, number_of(*row, "cpu_over_wall")); /* of NaN and a number: the number */
done:
    return status;
}

/* a goal's own measurement; peers compute in float32, so that theirs is the case before */
static trial trial_of(const goals_run *r, const goal *g)
{
    return (trial){.variant = g->variant,
                   .tokens = cut(r, g->tokens),
                   .shape = {.n_heads = g->heads, .dim = g->dim},
                   .threads = r->place.options.threads,
                   .precision = r->place.options.precision,
                   .peers = r->place.options.precision == HGA_PRECISION_F32};
}

/* the fastest of the peers beside a row */
static const json_t *best_peer(const goals_run *r, const trial *s)
{
    const json_t *best = NULL;
    size_t i;
    json_t *row;
    json_array_foreach(r->rows, i, row)
    {
        int beside =
            strncmp(text_of(row, "variant"), "peer:", 5) == 0 && strcmp(text_of(row, "parameters"), s->variant) == 0;
        if (!beside || !same_sizes(row, s)) continue;
        if (!best || number_of(row, "seconds") < number_of(best, "seconds")) best = row;
    }
    return best;
}

/* ---- the ways ---- */

/* 2 dim flops an edge and head for its score, as many for its value */
static void note_shares(const goal *g, const json_t *row, finding *f)
{
    if (strcmp(g->key, "ns_per_edge_head") != 0) return;
    f->share = number_of(row, "share_of_peak");
    f->goal_share = 4 * g->dim / g->goal / GOAL_MACHINE_GFLOPS;
}

/* one figure of one measurement, with the best peer's beside it */
int goal_figure(goals_run *r, const goal *g, finding *f)
{
    const json_t *row;
    trial s = trial_of(r, g);
    int status = measure(r, &s, f, &row);
    if (status) return status;
    f->reached = g->scale * number_of(row, g->key);
    f->benchmark = text_of(row, "name");
    note_shares(g, row, f);
    const json_t *peer = best_peer(r, &s);
    if (!peer || isnan(number_of(peer, g->key))) return CLI_GOOD; /* a share of another precision's peak, for one */
    f->peer = text_of(peer, "variant") + 5;
    f->peer_value = g->scale * number_of(peer, g->key);
    return CLI_GOOD;
}

/* of the memory's bandwidth as it was in turns with the repeats */
int goal_bandwidth(goals_run *r, const goal *g, finding *f)
{
    const json_t *row;
    trial s = trial_of(r, g);
    s.peers = 0, s.by_memory = 1;
    int status = measure(r, &s, f, &row);
    if (status) return status;
    f->reached = 100 * number_of(row, "share_of_dram");
    f->benchmark = text_of(row, "name");
    return CLI_GOOD;
}

/* `note` says why not */
static int run_missing(goals_run *r, const goal *g, finding *f)
{
    (void)r, (void)g;
    f->reached = NAN;
    return CLI_GOOD;
}

int goal_bf16(goals_run *r, const goal *g, finding *f)
{
    bench_place kept = r->place;
    r->place.options.precision = HGA_PRECISION_BF16;
    int status = goal_figure(r, g, f);
    r->place = kept;
    return status;
}

/* of the peak of products of pairs, in turns with the repeats */
int goal_bf16_share(goals_run *r, const goal *g, finding *f)
{
    if (!r->place.dry_run && !(r->place.peaks.bf16_gflops > 0)) {
        f->note = "no products of bf16 pairs here";
        return run_missing(r, g, f);
    }
    return goal_bf16(r, g, f);
}

/* the time of one measurement over another's */
static int run_ratio(goals_run *r, const trial *above, const trial *below, finding *f)
{
    const json_t *upper, *lower;
    int status = CLI_GOOD;
    TRY(measure(r, below, f, &lower));
    TRY(measure(r, above, f, &upper));
    f->reached = number_of(upper, "seconds") / number_of(lower, "seconds");
    f->benchmark = text_of(upper, "name");
done:
    return status;
}

/* bf16 over f32 */
int goal_bf16_ratio(goals_run *r, const goal *g, finding *f)
{
    trial f32 = trial_of(r, g), bf16 = f32;
    bf16.precision = HGA_PRECISION_BF16, bf16.peers = 0;
    return run_ratio(r, &bf16, &f32, f);
}

/* with relative keys over without */
int goal_relative(goals_run *r, const goal *g, finding *f)
{
    trial plain = trial_of(r, g), relative = plain;
    relative.relative = 1, relative.peers = 0;
    return run_ratio(r, &relative, &plain, f);
}

/* the way back over the execution beside it; of the two rows only its own is kept, as others may have the other */
int goal_backward(goals_run *r, const goal *g, finding *f)
{
    bench_variant variant;
    bench_place p = r->place;
    json_t *both = json_array();
    int n, status = CLI_GOOD;
    trial s = trial_of(r, g);
    TRY(bench_variants_read(s.variant, &variant, &n));
    p.variant = &variant, p.tokens = s.tokens, p.shape = s.shape, p.options.threads = s.threads;
    p.relative = g->key != NULL, p.peers = 0, p.gradient = 1;
    TRY(bench_run(&p, both, &r->failed));
    json_t *row = json_array_get(both, 1);
    json_array_append(r->rows, row);
    f->reached = number_of(row, "over_forward");
    f->busy = fmin(number_of(json_array_get(both, 0), "cpu_over_wall"), number_of(row, "cpu_over_wall"));
    f->benchmark = text_of(row, "name");
    if (p.dry_run) f->bytes = (int64_t)number_of(row, "bytes");
done:
    json_decref(both);
    return status;
}

/* the workspace alone */
int goal_workspace(goals_run *r, const goal *g, finding *f)
{
    const json_t *row;
    trial s = trial_of(r, g);
    s.peers = 0;
    int status = measure(r, &s, f, &row);
    if (status) return status;
    f->reached = 1e-6 * number_of(row, "bytes_workspace");
    f->benchmark = text_of(row, "name");
    return CLI_GOOD;
}

enum { TREE_HEIGHT = 6, REGULAR = 6 };

static int measure_tree(goals_run *r, const goal *g, finding *f, bench_measurement *m, routed_times *t)
{
    hga_id tokens = cut(r, g->tokens);
    *m = (bench_measurement){.time.seconds = NAN};
    *t = (routed_times){.execute = NAN};
    f->bytes = (int64_t)tokens * g->heads * g->dim * 16;
    if (r->place.dry_run) return CLI_GOOD;
    return complain_of(measure_routed(tokens, g->heads, g->dim, TREE_HEIGHT, &r->place.options, &r->place.rules, m, t),
                       CLI_OUTSIDE, g->name);
}

int goal_routed(goals_run *r, const goal *g, finding *f)
{
    bench_measurement m;
    routed_times t;
    int status = measure_tree(r, g, f, &m, &t);
    f->reached = 1e3 * m.time.seconds;
    f->busy = m.time.busy;
    return status;
}

int goal_routed_build(goals_run *r, const goal *g, finding *f)
{
    bench_measurement m;
    routed_times t;
    int status = measure_tree(r, g, f, &m, &t);
    f->reached = 100 * (t.build + t.update) / t.execute;
    f->busy = m.time.busy;
    return status;
}

/* every variant at the length of its case; the first REGULAR of them have graphs that blocks describe */
static const struct {
    const char *variant;
    hga_id tokens;
} variants[] = {{"dense", 8192},
                {"bpt:k=4", 8192},
                {"bpt:k=64", 8192},
                {"htransformer:block=64", 65536},
                {"htransformer:block=16", 65536},
                {"window:left=128:right=128", 65536},
                {"hsa:branching=2,4,8,16", 65536},
                {"treeformer-fine", 8192},
                {"treeformer-coarse", 8192}};
enum { VARIANTS = sizeof variants / sizeof *variants };

static int measure_variant(goals_run *r, int i, hga_id threads, finding *f, const json_t **row)
{
    trial s = {.variant = variants[i].variant,
               .tokens = cut(r, variants[i].tokens),
               .shape = {.n_heads = 8, .dim = 64},
               .threads = threads,
               .precision = r->place.options.precision};
    return measure(r, &s, f, row);
}

/* the least over its cases */
int goal_threads(goals_run *r, const goal *g, finding *f)
{
    (void)g;
    f->reached = INFINITY;
    f->scaling = 1;
    for (int i = 0; i < VARIANTS; i++) {
        const json_t *one, *two;
        int status = measure_variant(r, i, 1, f, &one);
        if (!status) status = measure_variant(r, i, 2, f, &two);
        if (status) return status;
        double times = number_of(one, "seconds") / number_of(two, "seconds");
        if (times < f->reached) f->reached = times, f->note = variants[i].variant;
    }
    return CLI_GOOD;
}

/* the most over its cases */
int goal_build(goals_run *r, const goal *g, finding *f)
{
    (void)g;
    f->reached = 0;
    for (int i = 0; i < REGULAR; i++) {
        const json_t *row;
        int status = measure_variant(r, i, 1, f, &row);
        if (status) return status;
        double share =
            100 * (number_of(row, "graph_seconds") + number_of(row, "plan_seconds")) / number_of(row, "seconds");
        if (share > f->reached) f->reached = share, f->note = variants[i].variant;
    }
    return CLI_GOOD;
}

/* workspace, plan and graph; allowed are a tenth of the tensors and 8 MB a thread */
int goal_memory(goals_run *r, const goal *g, finding *f)
{
    const json_t *row;
    trial s = trial_of(r, g);
    int status = measure(r, &s, f, &row);
    if (status) return status;
    f->goal = 1e-6 * (0.1 * number_of(row, "bytes_tensors")) + 8 * s.threads;
    f->reached =
        1e-6 * (number_of(row, "bytes_workspace") + number_of(row, "bytes_plan") + number_of(row, "bytes_graph"));
    f->benchmark = text_of(row, "name");
    return CLI_GOOD;
}

/* the worst variant's slowest length over its fastest, by seconds per token */
int goal_growth(goals_run *r, const goal *g, finding *f)
{
    static const struct {
        const char *variant;
        int by_log; /* n log n edges */
    } growing[] = {{"htransformer:block=16", 0}, {"window:left=128:right=128", 0}, {"bpt:k=4", 1}};
    static const hga_id lengths[] = {4096, 65536, 1048576};
    f->reached = 0;
    for (int v = 0; v < 3; v++) {
        double least = INFINITY, most = 0;
        for (int i = 0; i < 3; i++) {
            const json_t *row;
            trial s = trial_of(r, g);
            s.variant = growing[v].variant, s.tokens = cut(r, lengths[i]), s.peers = 0;
            int status = measure(r, &s, f, &row);
            if (status) return status;
            double each = number_of(row, "seconds") / s.tokens / (growing[v].by_log ? log2(s.tokens) : 1);
            least = fmin(least, each), most = fmax(most, each);
        }
        if (most / least > f->reached) f->reached = most / least, f->note = growing[v].variant;
    }
    return CLI_GOOD;
}

/* the worst odd shape's GFLOP/s as a share of 8 x 64's */
int goal_shapes(goals_run *r, const goal *g, finding *f)
{
    static const struct {
        const char *name;
        hga_shape shape;
    } odd[] = {
        {"dim 24", {.n_heads = 8, .dim = 24}},   {"dim 40", {.n_heads = 8, .dim = 40}},
        {"dim 80", {.n_heads = 8, .dim = 80}},   {"dim 96", {.n_heads = 8, .dim = 96}},
        {"dim 128", {.n_heads = 8, .dim = 128}}, {"dim_v 17", {.n_heads = 8, .dim = 64, .dim_v = 17}},
        {"3 heads", {.n_heads = 3, .dim = 64}},  {"1 key/value head", {.n_heads = 8, .dim = 64, .n_kv_heads = 1}}};
    const json_t *usual, *row;
    trial s = trial_of(r, g);
    s.peers = 0;
    int status = measure(r, &s, f, &usual);
    f->reached = INFINITY;
    for (size_t i = 0; status == CLI_GOOD && i < sizeof odd / sizeof *odd; i++) {
        s.shape = odd[i].shape;
        status = measure(r, &s, f, &row);
        if (status) break;
        double share = 100 * number_of(row, "gflops") / number_of(usual, "gflops");
        if (share < f->reached) f->reached = share, f->note = odd[i].name;
    }
    return status;
}
