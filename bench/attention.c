/* attention.c: one line a variant, with the time to build the graph, to plan and to run it: bench_attention [TOKENS
   [HEADS [DIM [THREADS]]]] */
#include <hga.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the rows of the table ---- */

typedef hga_status (*maker)(hga_id n, hga_graph **g, hga_program *p);

static hga_status dense(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_dense(&(hga_dense){.n_tokens = n}, g, p);
}

static hga_status window(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_window(&(hga_window){.n_tokens = n, .left = 64, .right = 64, .stride = 1}, g, p);
}

static hga_status bpt(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_bpt(&(hga_bpt){.n_tokens = n, .k = 4, .clip = 10}, g, p);
}

static hga_status htransformer(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_htransformer(&(hga_htransformer){.n_tokens = n, .block = 16}, g, p);
}

static hga_status htransformer_causal(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_htransformer(&(hga_htransformer){.n_tokens = n, .block = 16, .causal = 1}, g, p);
}

static hga_status hsa(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_hsa(&(hga_hsa){.n_tokens = n, .branching = (const hga_id[]){2, 4, 8, 16}, .n_branching = 4}, g, p);
}

static const struct {
    const char *name;
    maker make;
} rows[] = {
    {"dense", dense},
    {"window", window},
    {"bpt", bpt},
    {"htransformer", htransformer},
    {"htransformer causal", htransformer_causal},
    {"hsa", hsa},
};

/* ---- measuring ---- */

typedef struct measurement {
    double build, plan, run;
    hga_cost cost;
} measurement;

/* The smallest of several runs: noise only adds. At least three, and for at least 0.2 s. */
static hga_status fastest(const hga_plan *plan, hga_workspace *state, const hga_io *io, double *seconds)
{
    double begin = now();
    *seconds = HUGE_VAL;
    for (int i = 0; i < 3 || (now() - begin < 0.2 && i < 1000); i++) {
        double start = now();
        hga_status st = hga_plan_execute(plan, state, io);
        if (st) return st;
        *seconds = fmin(*seconds, now() - start);
    }
    return HGA_OK;
}

static hga_status measure(maker make, hga_id n, const hga_shape *shape, hga_id threads, measurement *m)
{
    hga_status st;
    hga_graph *g = NULL;
    hga_plan *plan = NULL;
    hga_workspace *state = NULL;
    float *x = NULL;
    hga_program program;
    hga_options options = {.threads = threads};
    double start = now();
    HGA_TRY(make(n, &g, &program));
    m->build = now() - start;
    start = now();
    HGA_TRY(hga_plan_create(g, &program, shape, &options, &plan));
    HGA_TRY(hga_workspace_create(plan, &state));
    m->plan = now() - start;
    m->cost = hga_plan_cost(plan);

    /* as many rows as any variant's tensors have */
    int64_t n_rows = hga_graph_nodes(g).n, floats = n_rows * shape->n_heads * shape->dim;
    HGA_TRY(hga_new(NULL, 4 * floats, sizeof *x, &x));
    for (int64_t i = 0; i < 4 * floats; i++) x[i] = (float)rand() / (float)RAND_MAX * 2 - 1;
    hga_io io = {.query = {.data = x, .rows = n_rows},
                 .key = {.data = x + floats, .rows = n_rows},
                 .value = {.data = x + 2 * floats, .rows = n_rows},
                 .out = {.data = x + 3 * floats, .rows = n_rows}};
    HGA_TRY(fastest(plan, state, &io, &m->run));
    hga_delete(NULL, x, 4 * floats, sizeof *x);
done:
    hga_workspace_destroy(state);
    hga_plan_destroy(plan);
    hga_graph_destroy(g);
    return st;
}

static hga_id argument(int n_words, char **word, int i, hga_id otherwise)
{
    return n_words > i ? (hga_id)strtol(word[i], NULL, 10) : otherwise;
}

int main(int n_words, char **word)
{
    hga_id n = argument(n_words, word, 1, 4096), threads = argument(n_words, word, 4, 0);
    hga_shape shape = {.n_heads = argument(n_words, word, 2, 8), .dim = argument(n_words, word, 3, 64)};
    printf("%d tokens, %d heads of %d, isa %s\n", n, shape.n_heads, shape.dim, hga_isa_list());
    printf("%-20s %12s %10s %10s %10s %8s %10s\n", "variant", "edges", "build ms", "plan ms", "run ms", "GFLOP/s",
           "ns/edge/h");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        measurement m;
        hga_status st = measure(rows[i].make, n, &shape, threads, &m);
        if (st) return fprintf(stderr, "%s: %s: %s\n", rows[i].name, hga_status_name(st), hga_error_detail()), 1;
        printf("%-20s %12.0f %10.3f %10.3f %10.3f %8.1f %10.2f\n", rows[i].name, m.cost.edges, m.build * 1e3,
               m.plan * 1e3, m.run * 1e3, m.cost.flops / m.run * 1e-9, m.run * 1e9 / m.cost.edges / shape.n_heads);
    }
    return 0;
}
