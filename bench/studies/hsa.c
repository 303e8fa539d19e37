/* hsa.c: Table 3 of Amizadeh et al. 2025 in time: softmax attention and HSA on hopping windows (2, 4, 8, 16), 12 heads
   of 64, one thread, at the table's lengths. hsa [MILLISECONDS]. The plan is made once, as a layer that sees many texts
   of a length would. `examples/python/hsa3.py` has the counts. */
#include <stdio.h>

#include "cases.h"

/* the paper's MFLOPs of a layer */
static const struct {
    const char *data;
    hga_id length;
    double softmax, hsa;
} published[] = {
    {"CoLA", 12, 0.4441, 0.1912}, {"SST-2", 26, 2.08, 0.4132}, {"QNLI", 38, 4.45, 0.5643},
    {"AGNEWS", 54, 8.99, 0.8357}, {"MRPC", 55, 9.33, 0.8481},  {"RTE", 70, 15.11, 1.29},
    {"IMDB", 264, 214.94, 4.32},
};

/* The least processor time of one execution. */
static hga_status measure(const char *words, hga_id n, double enough, double *seconds)
{
    hga_status st;
    bench_case c = {0};
    bench_timing t;
    HGA_TRY(bench_case_make(words, n, &c));
    HGA_TRY(bench_case_ready(&c, &(hga_shape){.n_heads = 12, .dim = 64}, &(hga_options){.threads = 1}));
    HGA_TRY(bench_case_time(&c, &(bench_rules){.budget = enough, .min_time = enough}, &t));
    *seconds = t.processor_least;
done:
    bench_case_clear(&c);
    return st;
}

int main(int n_words, char **word)
{
    double enough = 1e-3 * bench_argument(n_words, word, 1, 500), dense, hsa;
    printf("%-8s %7s %11s %11s %9s %12s\n", "data", "length", "dense us", "HSA us", "speed-up", "FLOPs ratio");
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        hga_status st = measure("dense", published[i].length, enough, &dense);
        if (!st) st = measure("hsa branching=2,4,8,16", published[i].length, enough, &hsa);
        if (st) return bench_complain(published[i].data, st);
        printf("%-8s %7d %11.1f %11.1f %8.2fx %11.1fx\n", published[i].data, published[i].length, dense * 1e6,
               hsa * 1e6, dense / hsa, published[i].softmax / published[i].hsa);
        fflush(stdout);
    }
    return 0;
}
