/* shapes.c: is speed special to 8 heads of 64? shapes [TOKENS [SECONDS in ms]]: GFLOP/s of odd shapes on one thread as
   a share of that case of the same variant. */
#include <stdio.h>

#include "bench.h"

/* ---- the variants, at a length where each takes some milliseconds ---- */

static hga_status dense(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_dense(&(hga_dense){.n_tokens = n}, g, p);
}
static hga_status window(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_window(&(hga_window){.n_tokens = n, .left = 128, .right = 128, .stride = 1}, g, p);
}
static hga_status bpt4(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_bpt(&(hga_bpt){.n_tokens = n, .k = 4, .clip = 10}, g, p);
}
static hga_status bpt64(hga_id n, hga_graph **g, hga_program *p)
{
    return hga_build_bpt(&(hga_bpt){.n_tokens = n, .k = 64, .clip = 10}, g, p);
}

static hga_status blocks(hga_id n, hga_id block, hga_graph **g, hga_program *p)
{
    return hga_build_htransformer(&(hga_htransformer){.n_tokens = n, .block = block}, g, p);
}
static hga_status htransformer12(hga_id n, hga_graph **g, hga_program *p) { return blocks(n, 12, g, p); }
static hga_status htransformer16(hga_id n, hga_graph **g, hga_program *p) { return blocks(n, 16, g, p); }
static hga_status htransformer64(hga_id n, hga_graph **g, hga_program *p) { return blocks(n, 64, g, p); }

typedef hga_status (*maker)(hga_id n, hga_graph **g, hga_program *p);

enum { HTRANSFORMER_16 = 4 };
static const struct {
    const char *name;
    maker make;
    int lengths; /* of the shortest case */
} variants[] = {
    {"dense", dense, 1},
    {"window 128+128", window, 4},
    {"bpt k=4", bpt4, 4},
    {"bpt k=64", bpt64, 2},
    [HTRANSFORMER_16] = {"htransformer 16", htransformer16, 4},
    {"htransformer 64", htransformer64, 4},
};

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
static hga_status make_ragged(maker make, hga_id n, hga_graph **g, hga_program *p)
{
    static const hga_id percent[SAMPLES] = {37, 25, 18, 13, 7};
    hga_status st = HGA_OK;
    hga_graph *sample[SAMPLES] = {NULL};
    for (int i = 0; i < SAMPLES; i++) HGA_TRY(make((hga_id)((int64_t)n * percent[i] / 100) | 1, &sample[i], p));
    HGA_TRY(hga_graph_concat((const hga_graph *const *)sample, SAMPLES, g, NULL));
done:
    for (int i = 0; i < SAMPLES; i++) hga_graph_destroy(sample[i]);
    return st;
}

static hga_status measure(maker make, hga_id n, const hga_shape *shape, int ragged, double enough, double *gflops)
{
    hga_status st;
    bench_case c = {0};
    double seconds;
    HGA_TRY((ragged ? make_ragged(make, n, &c.graph, &c.program) : make(n, &c.graph, &c.program)));
    HGA_TRY(bench_ready(&c, shape, &(hga_options){.threads = 1}));
    HGA_TRY(bench_best(&c, enough, &seconds));
    *gflops = hga_plan_cost(c.plan).flops / seconds * 1e-9;
done:
    bench_clear(&c);
    return st;
}

static void print_row(const char *variant, const char *shape, double gflops, double reference)
{
    double share = gflops / reference;
    printf("%-16s %-13s %9.1f %6.0f %%%s\n", variant, shape, gflops, 100 * share, share < 0.6 ? "  below 60 %" : "");
    fflush(stdout);
}

int main(int n_words, char **word)
{
    hga_id shortest = bench_argument(n_words, word, 1, 2048);
    double enough = 1e-3 * bench_argument(n_words, word, 2, 400), gflops, reference = 0;
    printf("%-16s %-13s %9s %8s\n", "variant", "shape", "GFLOP/s", "share");
    for (int v = 0; v < (int)(sizeof variants / sizeof *variants); v++) {
        hga_id n = shortest * variants[v].lengths;
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            hga_status st = measure(variants[v].make, n, &shapes[s].shape, shapes[s].ragged, enough, &gflops);
            if (st) return bench_complain(variants[v].name, st);
            if (s == 0) reference = gflops;
            print_row(variants[v].name, shapes[s].name, gflops, reference);
        }
        if (v != HTRANSFORMER_16) continue;
        hga_status st = measure(htransformer12, n, &shapes[0].shape, 0, enough, &gflops);
        if (st) return bench_complain("htransformer 12", st);
        print_row("htransformer", "block 12", gflops, reference);
    }
    return 0;
}
