/* shapes.c: is speed special to 8 heads of 64? shapes [TOKENS [SECONDS in ms]]: GFLOP/s of odd shapes on one thread as
   a share of that case of the same variant. */
#include <stdio.h>

#include "cases.h"

/* The variants, at a length where each takes some milliseconds. */
static const struct {
    const char *words;
    int lengths; /* of the shortest case */
} variants[] = {
    {"dense", 1},    {"window left=128 right=128", 4}, {"bpt k=4", 4},
    {"bpt k=64", 2}, {"htransformer block=16", 4},     {"htransformer block=64", 4},
};
/* a block that fills no tile, as a share of the variant before it in the table */
enum { HTRANSFORMER_16 = 4 };
static const char odd_block[] = "htransformer block=12";

/* ---- the shapes ---- */

static const struct {
    const char *name;
    hga_shape shape;
    int ragged;
} shapes[] = {
    {"8 x 64", {.n_heads = 8, .dim = 64}, 0},
    {"dim 24", {.n_heads = 8, .dim = 24}, 0},
    {"dim 40", {.n_heads = 8, .dim = 40}, 0},
    {"dim 80", {.n_heads = 8, .dim = 80}, 0},
    {"dim 96", {.n_heads = 8, .dim = 96}, 0},
    {"dim 128", {.n_heads = 8, .dim = 128}, 0},
    {"dim_v 17", {.n_heads = 8, .dim = 64, .dim_v = 17}, 0},
    {"3 heads", {.n_heads = 3, .dim = 64}, 0},
    {"1 kv head", {.n_heads = 8, .n_kv_heads = 1, .dim = 64}, 0},
    {"ragged batch", {.n_heads = 8, .dim = 64}, 1},
};

/* Five samples whose lengths share no factor with any block: 37, 25, 18, 13 and 7 hundredths, each made odd. */
enum { SAMPLES = 5 };
static hga_status make_ragged(const char *words, hga_id n, bench_case *out)
{
    static const hga_id percent[SAMPLES] = {37, 25, 18, 13, 7};
    hga_status st = HGA_OK;
    bench_case sample[SAMPLES] = {{0}};
    const hga_graph *graph[SAMPLES];
    *out = (bench_case){0};
    for (int i = 0; i < SAMPLES; i++) {
        HGA_TRY(bench_case_make(words, (hga_id)((int64_t)n * percent[i] / 100) | 1, &sample[i]));
        graph[i] = sample[i].graph;
    }
    out->program = sample[0].program;
    HGA_TRY(hga_graph_concat(graph, SAMPLES, &out->graph, NULL));
done:
    for (int i = 0; i < SAMPLES; i++) bench_case_clear(&sample[i]);
    return st;
}

/* By the least processor time: one thread, without the other load of a shared machine. */
static hga_status measure(const char *words, hga_id n, const hga_shape *shape, int ragged, double enough,
                          double *gflops)
{
    hga_status st;
    bench_case c = {0};
    bench_timing t;
    HGA_TRY((ragged ? make_ragged : bench_case_make)(words, n, &c));
    HGA_TRY(bench_case_ready(&c, shape, &(hga_options){.threads = 1}));
    HGA_TRY(bench_case_time(&c, &(bench_rules){.budget = enough, .min_time = enough}, &t));
    *gflops = hga_plan_cost(c.plan).flops / t.processor_least * 1e-9;
done:
    bench_case_clear(&c);
    return st;
}

static void print_row(const char *variant, const char *shape, double gflops, double reference)
{
    double share = gflops / reference;
    printf("%-26s %-13s %9.1f %6.0f %%%s\n", variant, shape, gflops, 100 * share, share < 0.6 ? "  below 60 %" : "");
    fflush(stdout);
}

int main(int n_words, char **word)
{
    hga_id shortest = bench_argument(n_words, word, 1, 2048);
    double enough = 1e-3 * bench_argument(n_words, word, 2, 400), gflops, reference = 0;
    printf("%-26s %-13s %9s %8s\n", "variant", "shape", "GFLOP/s", "share");
    for (int v = 0; v < (int)(sizeof variants / sizeof *variants); v++) {
        const char *words = variants[v].words;
        hga_id n = shortest * variants[v].lengths;
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            hga_status st = measure(words, n, &shapes[s].shape, shapes[s].ragged, enough, &gflops);
            if (st) return bench_complain(words, st);
            if (s == 0) reference = gflops;
            print_row(words, shapes[s].name, gflops, reference);
        }
        if (v != HTRANSFORMER_16) continue;
        hga_status st = measure(odd_block, n, &shapes[0].shape, 0, enough, &gflops);
        if (st) return bench_complain(odd_block, st);
        print_row(odd_block, shapes[0].name, gflops, reference);
    }
    return 0;
}
