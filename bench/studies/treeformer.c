/* treeformer.c: Table 4 of Madaan et al. 2022, the time of a self-attention module: projections, and dense or
   TF-attention of 8 heads of 96 by trees with 64 leaves, one per head. treeformer [LONGEST [RUNS [RIGHT %]]].
   Routing, graph, plan update and execution are inside the timed call. RIGHT is the share of tokens sent right at
   each node: 50 is balanced leaves. The binary tree has height 6, the k-ary one three levels of four children. Dense
   is ours at full speed; the paper's took 9.23 s at 8192, 27 GFLOP/s. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "memory.h"
#include "numbers.h"
#include "project.h"

enum { HEADS = 8, DIM = 96, HIDDEN = HEADS * DIM, LEAVES = 64, MOST_ROWS = 84 };

/* ---- trees ---- */

static const hga_id four[] = {4, 4, 4};

/* Every hyperplane tests one coordinate of its own level, so that levels are independent and the bias sets the share
   that goes right. */
typedef struct forest {
    hga_router router;
    float weights[HEADS][MOST_ROWS][DIM], bias[HEADS][MOST_ROWS];
} forest;

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The value that a share `below` of the n values of one coordinate are under. */
static float quantile(const float *x, hga_id n, double below)
{
    float *sorted = malloc((size_t)n * sizeof *sorted), value = 0;
    if (!sorted) return 0;
    for (hga_id i = 0; i < n; i++) sorted[i] = x[(ptrdiff_t)i * HIDDEN];
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    value = sorted[(hga_id)fmin(below * n, n - 1)];
    free(sorted);
    return value;
}

/* Level l compares coordinate l with its quantile. */
static void plant_binary(forest *f, const float *x, hga_id n, double right)
{
    f->router = (hga_router){
        .height = 6, .dim = DIM, .n_heads = HEADS, .weights = &f->weights[0][0][0], .bias = &f->bias[0][0]};
    float *weights = &f->weights[0][0][0], *bias = &f->bias[0][0];
    for (int h = 0; h < HEADS; h++)
        for (int l = 0, row = 0; l < 6; l++) {
            float threshold = quantile(x + h * DIM + l, n, 1 - right);
            for (int node = 0; node < 1 << l; node++, row++) {
                weights[(h * (LEAVES - 1) + row) * DIM + l] = 1;
                bias[h * (LEAVES - 1) + row] = -threshold;
            }
        }
}

/* The largest of four coordinates wins; the last child gets a lead that grows with `right`. */
static void plant_four(forest *f, const float *x, hga_id n, double right)
{
    f->router = (hga_router){.height = 3,
                             .dim = DIM,
                             .n_heads = HEADS,
                             .branching = four,
                             .weights = &f->weights[0][0][0],
                             .bias = &f->bias[0][0]};
    for (int h = 0; h < HEADS; h++) {
        float lead = right > 0.5 ? quantile(x + h * DIM, n, right) - quantile(x + h * DIM, n, 0.5) : 0;
        for (int l = 0, row = 0, nodes = 1; l < 3; l++, nodes *= 4)
            for (int r = 0; r < 4 * nodes; r++, row++) {
                f->weights[h][row][4 * l + r % 4] = 1;
                f->bias[h][row] = r % 4 == 3 ? lead : 0;
            }
    }
}

/* ---- the module ---- */

typedef struct module {
    hga_id n;
    float *x, *w, *q, *k, *v, *mixed, *out; /* w: four matrices */
    int32_t *query_leaf, *key_leaf;
    const forest *trees; /* NULL: dense */
    hga_graph *graph;
    hga_program program;
    hga_plan *plan;
    hga_workspace *workspace;
} module;

static hga_status build(module *m)
{
    hga_graph_destroy(m->graph);
    m->graph = NULL;
    if (!m->trees) return hga_build_dense(&(hga_dense){.n_tokens = m->n}, &m->graph, &m->program);
    hga_status st;
    HGA_TRY(hga_route(&m->trees->router, m->q, m->n, HIDDEN, DIM, m->query_leaf));
    HGA_TRY(hga_route(&m->trees->router, m->k, m->n, HIDDEN, DIM, m->key_leaf));
    hga_treeformer t = {.n_queries = m->n,
                        .n_keys = m->n,
                        .n_tree_heads = HEADS,
                        .query_leaf = m->query_leaf,
                        .key_leaf = m->key_leaf,
                        .n_leaves = LEAVES};
    HGA_TRY(hga_build_treeformer_fine(&t, &m->graph, &m->program));
done:
    return st;
}

static void project_in(module *m)
{
    project(m->n, HIDDEN, HIDDEN, m->x, m->w, m->q);
    project(m->n, HIDDEN, HIDDEN, m->x, m->w + HIDDEN * HIDDEN, m->k);
    project(m->n, HIDDEN, HIDDEN, m->x, m->w + 2 * HIDDEN * HIDDEN, m->v);
}

/* The timed call: everything but the first plan. */
static hga_status forward(module *m)
{
    hga_status st;
    hga_io io = {.query = {.data = m->q, .rows = (int64_t)m->n * HEADS},
                 .key = {.data = m->k, .rows = (int64_t)m->n * HEADS},
                 .value = {.data = m->v, .rows = (int64_t)m->n * HEADS},
                 .out = {.data = m->mixed, .rows = (int64_t)m->n * HEADS}};
    project_in(m);
    if (m->trees) {
        HGA_TRY(build(m));
        HGA_TRY(hga_plan_update(m->plan, m->graph));
    }
    HGA_TRY(hga_plan_execute(m->plan, m->workspace, &io));
    project(m->n, HIDDEN, HIDDEN, m->mixed, m->w + 3 * HIDDEN * HIDDEN, m->out);
done:
    return st;
}

static hga_status forward_again(void *context) { return forward(context); }

/* A tree per head folds heads into rows: then one head is run. */
static hga_status time_module(module *m, const forest *trees, int runs, double *seconds)
{
    hga_status st;
    hga_shape shape = {.n_heads = trees ? 1 : HEADS, .dim = DIM};
    bench_timing t;
    m->trees = trees;
    HGA_TRY(build(m));
    HGA_TRY(hga_plan_create(m->graph, &m->program, &shape, &(hga_options){.threads = 1}, &m->plan));
    HGA_TRY(hga_workspace_create(m->plan, &m->workspace));
    HGA_TRY(bench_repeat(forward_again, m, &(bench_rules){.repetitions = runs, .warmup = -1}, 1, &t));
    *seconds = t.processor_least;
done:
    hga_workspace_destroy(m->workspace), m->workspace = NULL;
    hga_plan_destroy(m->plan), m->plan = NULL;
    hga_graph_destroy(m->graph), m->graph = NULL;
    return st;
}

static void module_clear(module *m)
{
    free(m->x), free(m->w), free(m->q), free(m->k), free(m->v), free(m->mixed), free(m->out);
    free(m->query_leaf), free(m->key_leaf);
}

static hga_status module_make(hga_id n, module *m)
{
    hga_status st;
    int64_t floats = (int64_t)n * HIDDEN, weights = 4 * HIDDEN * HIDDEN;
    float **activation[] = {&m->x, &m->q, &m->k, &m->v, &m->mixed, &m->out};
    *m = (module){.n = n};
    for (size_t i = 0; i < sizeof activation / sizeof *activation; i++)
        HGA_TRY(bench_new(floats, sizeof(float), activation[i]));
    HGA_TRY(bench_new(weights, sizeof(float), &m->w));
    HGA_TRY(bench_new((int64_t)n * HEADS, sizeof *m->query_leaf, &m->query_leaf));
    HGA_TRY(bench_new((int64_t)n * HEADS, sizeof *m->key_leaf, &m->key_leaf));
    numbers_fill(1, 1, floats, m->x);
    numbers_fill(2, 0.05f, weights, m->w); /* scores of ordinary size */
done:
    return st;
}

/* The fullest leaf of the last call's queries over the mean leaf, all heads' trees together. */
static double fullest_over_mean(const module *m)
{
    hga_id count[HEADS][LEAVES] = {{0}}, fullest = 0;
    for (int64_t i = 0; i < (int64_t)m->n * HEADS; i++) {
        int32_t leaf = m->query_leaf[i];
        if (leaf < 0) continue;
        hga_id c = ++count[i % HEADS][leaf];
        if (c > fullest) fullest = c;
    }
    return (double)fullest * LEAVES / m->n;
}

static const struct {
    hga_id n;
    double binary, many; /* the paper's speed-ups, at 1024 from its times */
} published[] = {{1024, 0.96, 1.0}, {2048, 1.8, 1.7}, {4096, 3.3, 3.1}, {8192, 6.7, 6}};

static hga_status print_row(hga_id n, int runs, double right, forest *trees)
{
    hga_status st;
    module m;
    double dense, binary, many, binary_leaf, many_leaf, paper_binary = 0, paper_many = 0;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        if (published[i].n == n) paper_binary = published[i].binary, paper_many = published[i].many;
    HGA_TRY(module_make(n, &m));
    project_in(&m);
    HGA_TRY(time_module(&m, NULL, runs, &dense));
    memset(trees, 0, sizeof *trees);
    plant_binary(trees, m.q, n, right);
    HGA_TRY(time_module(&m, trees, runs, &binary));
    binary_leaf = fullest_over_mean(&m);
    memset(trees, 0, sizeof *trees);
    plant_four(trees, m.q, n, right);
    HGA_TRY(time_module(&m, trees, runs, &many));
    many_leaf = fullest_over_mean(&m);
    printf("%7d %10.1f %10.1f %8.1fx %8.1fx %9.1f %10.1f %8.1fx %8.1fx %9.1f\n", n, dense * 1e3, binary * 1e3,
           dense / binary, paper_binary, binary_leaf, many * 1e3, dense / many, paper_many, many_leaf);
    fflush(stdout);
done:
    module_clear(&m);
    return st;
}

int main(int n_words, char **word)
{
    hga_id longest = bench_argument(n_words, word, 1, 8192), runs = bench_argument(n_words, word, 2, 3),
           right = bench_argument(n_words, word, 3, 50);
    forest *trees = malloc(sizeof *trees);
    hga_status st = trees ? HGA_OK : HGA_ENOMEM;
    printf("%d %% go right; leaf: the fullest over the mean\n%7s %10s %10s %9s %9s %9s %10s %9s %9s %9s\n", right,
           "tokens", "dense ms", "TF ms", "speed-up", "paper", "leaf", "k-ary ms", "speed-up", "paper", "leaf");
    for (hga_id n = longest < 1024 ? longest : 1024; !st && n <= longest; n *= 2)
        st = print_row(n, runs, right / 100.0, trees);
    free(trees);
    return st ? bench_complain("treeformer", st) : 0;
}
