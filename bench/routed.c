/* routed.c: a Treeformer call from tokens to output. A head has a tree of its own, so that heads are folded into
   rows. */
#include "routed.h"

#include <stdlib.h>

#include "hyperplanes.h"
#include "memory.h"
#include "numbers.h"

typedef struct routed {
    hga_id tokens, heads, dim, height;
    float *weights, *bias; /* [heads][planes][dim], [heads][planes] */
    float *query, *key, *value, *out;
    float *memory;
    int32_t *leaf; /* [tokens][heads] */
    hga_plan *plan;
    hga_workspace *workspace;
    double *part[ROUTED_PARTS]; /* [capacity]: of each call so far */
    int calls, capacity;
} routed;

static int64_t planes_of(const routed *r) { return ((int64_t)1 << r->height) - 1; }

/* ---- a call ---- */

static hga_status build(const routed *r, hga_graph **g, hga_program *p)
{
    hga_treeformer t;
    hga_defaults(&t);
    t.n_queries = r->tokens;
    t.n_tree_heads = r->heads;
    t.height = r->height;
    t.query_leaf = r->leaf;
    return hga_build_treeformer_fine(&t, g, p);
}

static hga_status route(const routed *r)
{
    hga_router router = {
        .height = r->height, .dim = r->dim, .n_heads = r->heads, .weights = r->weights, .bias = r->bias};
    return hga_route(&router, r->query, r->tokens, (ptrdiff_t)r->heads * r->dim, r->dim, r->leaf);
}

static hga_status make_capacity(routed *r)
{
    int capacity = 2 * r->capacity + 8;
    if (r->calls < r->capacity) return HGA_OK;
    for (int i = 0; i < ROUTED_PARTS; i++) {
        double *more = realloc(r->part[i], (size_t)capacity * sizeof *more);
        if (!more) return hga_fail(HGA_ENOMEM, "the times of %d calls", capacity);
        r->part[i] = more;
    }
    r->capacity = capacity;
    return HGA_OK;
}

/* Adds the time since *since, which becomes now, as a part of the current call. */
static void lap(routed *r, int part, double *since)
{
    double now = bench_seconds();
    r->part[part][r->calls] = now - *since;
    *since = now;
}

static hga_status call(void *context)
{
    routed *r = context;
    hga_graph *g = NULL;
    hga_program p;
    int64_t rows = (int64_t)r->tokens * r->heads;
    hga_io io = {.query = {.data = r->query, .rows = rows},
                 .key = {.data = r->key, .rows = rows},
                 .value = {.data = r->value, .rows = rows},
                 .out = {.data = r->out, .rows = rows}};
    hga_status st = make_capacity(r);
    if (st) return st;
    double clock = bench_seconds();
    HGA_TRY(route(r));
    lap(r, ROUTED_ROUTE, &clock);
    HGA_TRY(build(r, &g, &p));
    lap(r, ROUTED_BUILD, &clock);
    HGA_TRY(hga_plan_update(r->plan, g));
    lap(r, ROUTED_UPDATE, &clock);
    HGA_TRY(hga_plan_execute(r->plan, r->workspace, &io));
    lap(r, ROUTED_EXECUTE, &clock);
    r->calls++;
done:
    hga_graph_destroy(g);
    return st;
}

/* ---- all ---- */

static hga_status make_numbers(routed *r)
{
    int64_t count = (int64_t)r->tokens * r->heads * r->dim, weights = r->heads * planes_of(r) * r->dim;
    hga_status st = HGA_OK;
    HGA_TRY(bench_new(4 * count, sizeof(float), &r->memory));
    HGA_TRY(bench_new(weights, sizeof(float), &r->weights));
    HGA_TRY(bench_new(r->heads * planes_of(r), sizeof(float), &r->bias));
    HGA_TRY(bench_new((int64_t)r->tokens * r->heads, sizeof *r->leaf, &r->leaf));
    r->query = r->memory, r->key = r->query + count, r->value = r->key + count, r->out = r->value + count;
    numbers_fill(6, 1, 3 * count, r->memory);
    numbers_fill(7, 1, weights, r->weights);
    for (hga_id head = 0; head < r->heads; head++)
        HGA_TRY(bench_halve(r->query + (int64_t)head * r->dim, r->tokens, (ptrdiff_t)r->heads * r->dim, r->dim,
                            r->height, r->weights + head * planes_of(r) * r->dim, r->bias + head * planes_of(r)));
done:
    return st;
}

static hga_status make_plan(routed *r, const hga_options *options)
{
    hga_graph *g = NULL;
    hga_program p;
    hga_shape shape = {.n_heads = 1, .dim = r->dim};
    hga_status st = route(r);
    if (!st) st = build(r, &g, &p);
    if (!st) st = hga_plan_create(g, &p, &shape, options, &r->plan);
    if (!st) st = hga_workspace_create(r->plan, &r->workspace);
    hga_graph_destroy(g);
    return st;
}

/* Medians; sorts the times. */
static void summarise(const routed *r, routed_times *times)
{
    for (int i = 0; i < ROUTED_PARTS; i++) {
        bench_sort(r->part[i], r->calls);
        times->part[i] = bench_quantile(r->part[i], r->calls, 0.5);
    }
}

hga_status measure_routed(hga_id tokens, hga_id heads, hga_id dim, hga_id height, const hga_options *options,
                          const bench_rules *rules, bench_measurement *out, routed_times *times)
{
    bench_rules rules_after = *rules;
    routed r = {.tokens = tokens, .heads = heads, .dim = dim, .height = height};
    hga_status st = HGA_OK;
    *out = (bench_measurement){0};
    HGA_TRY(make_numbers(&r));
    HGA_TRY(make_plan(&r, options));
    HGA_TRY(call(&r)); /* warm-up, whose parts do not count */
    r.calls = 0;
    rules_after.warmup = -1;
    HGA_TRY(bench_repeat(call, &r, &rules_after, hga_plan_threads(r.plan), &out->time));
    summarise(&r, times);
    out->cost = hga_plan_cost(r.plan);
    out->threads = hga_plan_threads(r.plan);
done:
    hga_workspace_destroy(r.workspace);
    hga_plan_destroy(r.plan);
    for (int i = 0; i < ROUTED_PARTS; i++) free(r.part[i]);
    free(r.memory);
    free(r.weights);
    free(r.bias);
    free(r.leaf);
    return st;
}
