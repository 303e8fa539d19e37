/* growth.c: what grows how. `bench_growth time`: the time of one execution from 64k to 1M tokens, and its ratio from
   length to length; `bench_growth memory`: peak memory of graphs with 10^9 edges and more against the size of their
   tensors; `bench_growth linear [LONGEST]`: H-Transformer from 4k to 16M tokens, seconds and peak bytes per token,
   which do not grow. `time` and `memory` exit 1 when a ratio or a limit is passed. */
#include <hga.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COARSE_HEIGHT = 8 };

typedef hga_status (*maker)(hga_id n, hga_graph **g, hga_program *p);

static hga_status window(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_window(&(hga_window){.n_tokens = n, .left = 64, .right = 64, .stride = 1}, g, p);
}
static hga_status bpt(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_bpt(&(hga_bpt){.n_tokens = n, .k = 4, .clip = 10}, g, p);
}
static hga_status wide_bpt(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_bpt(&(hga_bpt){.n_tokens = n, .k = 64, .clip = 10}, g, p);
}
static hga_status htransformer(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_htransformer(&(hga_htransformer){.n_tokens = n, .block = 16}, g, p);
}
static hga_status causal_htransformer(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_htransformer(&(hga_htransformer){.n_tokens = n, .block = 16, .causal = 1}, g, p);
}
static hga_status hsa(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_hsa(&(hga_hsa){.n_tokens = n, .branching = (const hga_id[]){2, 4, 8, 16}, .n_branching = 4}, g, p);
}
static hga_status frontier(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_hsa(
        &(hga_hsa){.n_tokens = n, .branching = (const hga_id[]){2, 4, 8, 16}, .n_branching = 4, .causal = 1}, g, p);
}

/* Leaves in no order, as a router would give them. */
static hga_status coarse(hga_id n, hga_graph **g, hga_program *p)
{
    int32_t *leaf = NULL;
    hga_status st = hga_new(NULL, n, sizeof *leaf, &leaf);
    if (st) return st;
    for (hga_id i = 0; i < n; i++) leaf[i] = (int32_t)(((uint32_t)i * 2654435761u) >> (32 - COARSE_HEIGHT));
    st = hga_build_treeformer_coarse(
        &(hga_treeformer){.n_queries = n, .n_tree_heads = 1, .height = COARSE_HEIGHT, .query_leaf = leaf}, g, p);
    hga_delete(NULL, leaf, n, sizeof *leaf);
    return st;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Rows of the query tensor: nodes where the program says so, else tokens. */
static int64_t rows_of(const hga_graph *g, const hga_program *p)
{
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (p->field[f].binding == HGA_IO_OUT && p->field[f].io == HGA_ROWS_NODES) return hga_graph_nodes(g).n;
    return hga_graph_nodes(g).n_queries;
}

/* The best of `runs` executions, one head of 16, and the bytes of the four tensors. */
static hga_status run(maker make, hga_id n, int runs, double *seconds, double *tensor_bytes)
{
    static const float alpha[COARSE_HEIGHT + 1] = {1};
    hga_status st;
    hga_graph *g = NULL;
    hga_plan *plan = NULL;
    hga_workspace *state = NULL;
    float *x = NULL;
    int64_t floats = 0;
    hga_program program;
    HGA_TRY(make(n, &g, &program));
    HGA_TRY(hga_plan_create(g, &program, &(hga_shape){.n_heads = 1, .dim = 16}, NULL, &plan));
    HGA_TRY(hga_workspace_create(plan, &state));
    floats = rows_of(g, &program) * 16;
    HGA_TRY(hga_new(NULL, 4 * floats, sizeof *x, &x));
    for (int64_t i = 0; i < 4 * floats; i++) x[i] = (float)(i * 2654435761 >> 8 & 0xffff) / 65536;
    hga_io io = {.query = {.data = x, .rows = floats / 16},
                 .key = {.data = x + floats, .rows = floats / 16},
                 .value = {.data = x + 2 * floats, .rows = floats / 16},
                 .out = {.data = x + 3 * floats, .rows = floats / 16}};
    io.type_scale = alpha, io.n_type_scale = COARSE_HEIGHT + 1;
    *tensor_bytes = 16.0 * (double)floats;
    *seconds = HUGE_VAL;
    for (int i = 0; i < runs; i++) {
        double start = now();
        HGA_TRY(hga_plan_execute(plan, state, &io));
        *seconds = fmin(*seconds, now() - start);
    }
done:
    if (st) fprintf(stderr, "%s: %s\n", hga_status_name(st), hga_error_detail());
    hga_delete(NULL, x, 4 * floats, sizeof *x);
    hga_workspace_destroy(state);
    hga_plan_destroy(plan);
    hga_graph_destroy(g);
    return st;
}

static int grow_in_time(void)
{
    static const struct {
        const char *name;
        maker make;
    } rows[] = {{"window 64+64", window},
                {"bpt k=4", bpt},
                {"htransformer 16", htransformer},
                {"htransformer causal", causal_htransformer},
                {"hsa 2,4,8,16", hsa},
                {"hsa frontier", frontier},
                {"treeformer-coarse", coarse}};
    int failed = 0;
    printf("%-20s %9s %10s %8s\n", "variant", "tokens", "ms", "ratio");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (double n = 65536, last = 0, seconds, bytes; n <= 1048576; n *= 2, last = seconds) {
            if (run(rows[i].make, (hga_id)n, 20, &seconds, &bytes)) return 1;
            printf("%-20s %9.0f %10.2f", rows[i].name, n, seconds * 1e3);
            if (last > 0) printf(" %8.2f%s", seconds / last, seconds / last < 2.3 ? "" : "  over 2.3");
            printf("\n");
            failed |= last > 0 && seconds / last >= 2.3;
        }
    return failed;
}

/* What one execution took. */
typedef struct usage {
    double seconds, tensor_bytes, peak_bytes;
} usage;

/* In a process of its own, whose peak memory the system tells; the answer comes back through a pipe. */
static int run_apart(maker make, hga_id n, int runs, usage *u)
{
    int end[2], status;
    if (pipe(end) != 0) return perror("pipe"), 1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct rusage used;
        if (run(make, n, runs, &u->seconds, &u->tensor_bytes)) _exit(1);
        getrusage(RUSAGE_SELF, &used);
        u->peak_bytes = (double)used.ru_maxrss * 1024;
        _exit(write(end[1], u, sizeof *u) != sizeof *u);
    }
    close(end[1]);
    int whole = read(end[0], u, sizeof *u) == sizeof *u;
    close(end[0]);
    return child < 0 || waitpid(child, &status, 0) < 0 || status != 0 || !whole;
}

static int grow_in_memory(const char *name, maker make, hga_id n)
{
    usage u;
    if (run_apart(make, n, 1, &u)) return 1;
    double limit = 2 * u.tensor_bytes + 1e9;
    printf("%-20s %9d tokens  tensors %6.2f GB  peak %6.2f GB  limit %6.2f GB  %s\n", name, n, u.tensor_bytes / 1e9,
           u.peak_bytes / 1e9, limit / 1e9, u.peak_bytes <= limit ? "within" : "over");
    return u.peak_bytes > limit;
}

/* Short lengths show the process itself in the bytes, so they are given beside those of the tensors. */
static int grow_linearly(hga_id longest)
{
    printf("%9s %10s %12s %12s %14s\n", "tokens", "ms", "ns/token", "bytes/token", "tensors/token");
    for (int64_t n = 4096; n <= longest; n *= 4) {
        usage u;
        if (run_apart(htransformer, (hga_id)n, n < 1 << 22 ? 5 : 2, &u)) return 1;
        double tokens = (double)n;
        printf("%9.0f %10.2f %12.1f %12.0f %14.0f\n", tokens, u.seconds * 1e3, u.seconds * 1e9 / tokens,
               u.peak_bytes / tokens, u.tensor_bytes / tokens);
    }
    return 0;
}

int main(int n_words, char **word)
{
    if (n_words == 2 && strcmp(word[1], "time") == 0) return grow_in_time();
    if (n_words == 2 && strcmp(word[1], "memory") == 0)
        return grow_in_memory("bpt k=64", wide_bpt, 1 << 20) | grow_in_memory("htransformer 16", htransformer, 1 << 24);
    if (n_words >= 2 && strcmp(word[1], "linear") == 0)
        return grow_linearly(n_words > 2 ? (hga_id)strtol(word[2], NULL, 10) : 1 << 24);
    fprintf(stderr, "usage: bench_growth time|memory|linear [LONGEST]\n");
    return 2;
}
