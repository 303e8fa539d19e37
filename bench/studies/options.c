/* options.c: what an option of a call costs: the time of a call with it over that of the same call without, forward,
   and forward and backward, by processor time of one thread, in turns; medians over the turns. bench_options [TURNS
   [MILLISECONDS [OPTION [TOKENS]]]]: a turn runs each call for at least so long. Exits with 1 where a ratio is above
   the row's limit, at the row's own number of tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "clock.h"
#include "hga_gradient.h"
#include "memory.h"
#include "numbers.h"

enum { HEADS = 8, DIM = 64, MOST_TURNS = 99 };

typedef enum option { SIGMOID, EDGE_BIAS, ADDITIVE, N_OPTIONS } option;
static const char *const names[N_OPTIONS] = {"sigmoid", "edge_bias", "additive"};

/* Limits of the ratios; 0: none. */
static const struct {
    option option;
    const char *words;
    hga_id tokens;
    double forward, both;
} rows[] = {
    {SIGMOID, "dense", 1024, 1.3, 1.3},
    {SIGMOID, "window left=64 right=64", 1024, 1.3, 1.3},
    {SIGMOID, "bpt k=4", 1024, 1.3, 1.3},
    {SIGMOID, "htransformer block=16", 1024, 1.3, 1.3},
    {SIGMOID, "htransformer block=16 causal=1", 1024, 1.3, 1.3},
    {SIGMOID, "hsa branching=4 causal=1", 1024, 1.3, 1.3},
    {SIGMOID, "fenwick", 1024, 1.3, 1.3},
    {SIGMOID, "random degree=32", 1024, 1.3, 1.3},
    {EDGE_BIAS, "dense", 1024, 1.6, 2},
    {EDGE_BIAS, "window left=64 right=64", 1024, 1.6, 2},
    {EDGE_BIAS, "bpt k=64", 1024, 1.6, 2},
    {EDGE_BIAS, "htransformer block=16", 1024, 1.6, 2},
    {EDGE_BIAS, "fenwick", 1024, 0, 0},
    {ADDITIVE, "dense", 1024, 3, 3},
    {ADDITIVE, "window left=64 right=64", 1024, 3, 3},
    {ADDITIVE, "bpt k=4", 1024, 3, 3},
    {ADDITIVE, "bpt k=64", 1024, 3, 3},
    {ADDITIVE, "htransformer block=16", 1024, 3, 3},
    {ADDITIVE, "hsa branching=4 causal=1", 1024, 4, 3},
    {ADDITIVE, "fenwick", 1024, 4, 3},
    {ADDITIVE, "random degree=32", 1024, 3, 3},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* ---- a call ---- */

typedef struct call {
    bench_case c;
    hga_grad_io grad;
    hga_io taped;
    float *table, *gradients;
    void *tape;
} call;

static hga_status add_edge_bias(call *x)
{
    const hga_program *p = &x->c.program;
    hga_id s = 0;
    while (p->stage[s].message != HGA_SCORE) s++;
    const int64_t n = hga_graph_relation(x->c.graph, p->stage[s].relation).n_edges;
    hga_status st = bench_new(n * HEADS, sizeof *x->table, &x->table);
    if (st) return st;
    numbers_fill(7, 1, n * HEADS, x->table);
    x->c.io.edge_bias = (hga_table){.data = x->table, .rows = n, .columns = HEADS};
    return HGA_OK;
}

/* Gives the call the option. */
static hga_status add_option(option o, call *x)
{
    if (o == SIGMOID) {
        x->c.program.has_lse = 0;
        return hga_program_normalise(&x->c.program, HGA_NORMALISER_SIGMOID, 0);
    }
    if (o == ADDITIVE) x->c.program.scores = HGA_SCORES_ADDITIVE, x->c.program.negative_slope = 0.2f;
    return HGA_OK;
}

/* Gradients of queries, keys and values, and the gradient of the output that they come from. */
static hga_status add_gradients(call *x)
{
    const hga_io *io = &x->c.io;
    const int64_t row = HEADS * DIM;
    const int64_t rows_of[] = {io->query.rows, io->key.rows, io->value.rows, io->out.rows};
    hga_tensor *to[] = {&x->grad.d_query, &x->grad.d_key, &x->grad.d_value, &x->grad.d_out};
    int64_t all = 0;
    for (int i = 0; i < 4; i++) all += rows_of[i] * row;
    hga_status st = bench_new(all, sizeof *x->gradients, &x->gradients);
    if (!st) st = bench_new(hga_plan_tape_bytes(x->c.plan), 1, &x->tape);
    if (st) return st;
    float *at = x->gradients;
    for (int i = 0; i < 4; at += rows_of[i++] * row) *to[i] = (hga_tensor){.data = at, .rows = rows_of[i]};
    numbers_fill(8, 1, rows_of[3] * row, x->grad.d_out.data);
    x->taped = *io, x->taped.tape = x->tape;
    return HGA_OK;
}

/* The call of a row, with its option or without. */
static hga_status make_call(int i, hga_id tokens, int with, call *x)
{
    hga_status st = bench_case_make(rows[i].words, tokens ? tokens : rows[i].tokens, &x->c);
    const hga_shape shape = {.n_heads = HEADS, .dim = DIM};
    if (!st && with) st = add_option(rows[i].option, x);
    if (!st) st = bench_case_ready(&x->c, &shape, &(hga_options){.threads = 1, .gradient = 1});
    if (!st && with && rows[i].option == EDGE_BIAS) st = add_edge_bias(x);
    if (!st) st = add_gradients(x);
    return st;
}

static void clear_call(call *x) { free(x->table), free(x->gradients), free(x->tape), bench_case_clear(&x->c); }

static hga_status run_forward(call *x) { return hga_plan_execute(x->c.plan, x->c.workspace, &x->c.io); }
static hga_status run_both(call *x)
{
    hga_status st = hga_plan_execute(x->c.plan, x->c.workspace, &x->taped);
    return st ? st : hga_plan_gradient(x->c.plan, x->c.workspace, &x->taped, &x->grad);
}

/* ---- turns ---- */

/* Seconds of one run, of as many as take that long. */
static hga_status time_run(hga_status (*run)(call *x), call *x, double least, double *seconds)
{
    hga_status st = HGA_OK;
    int64_t n = 0;
    double took = 0;
    for (bench_time start = bench_clock(); !st && took < least; took = bench_since(start).process) st = run(x), n++;
    *seconds = took / (double)n;
    return st;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, compare);
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

/* The median over the turns of the time with the option over that without; *with: of the former. */
static hga_status measure(hga_status (*run)(call *x), call *pair, int turns, double least, double *ratio, double *with)
{
    double ratios[MOST_TURNS], times[MOST_TURNS], seconds[2] = {0};
    hga_status st = HGA_OK;
    for (int side = 0; !st && side < 2; side++) st = run(&pair[side]);
    for (int i = 0; !st && i < turns; i++) {
        for (int k = 0; !st && k < 2; k++) st = time_run(run, &pair[(i + k) % 2], least, &seconds[(i + k) % 2]);
        ratios[i] = seconds[1] / seconds[0], times[i] = seconds[1];
    }
    if (!st) *ratio = median_of(ratios, turns), *with = median_of(times, turns);
    return st;
}

static const char *verdict(double ratio, double limit) { return limit > 0 && ratio > limit ? " above the limit" : ""; }

/* Prints a row; counts ratios above their limits. */
static hga_status print_row(int i, hga_id tokens, int turns, double least, int *above)
{
    call pair[2] = {{.tape = NULL}};
    double forward, both, seconds, seconds_both;
    hga_status st = make_call(i, tokens, 0, &pair[0]);
    if (!st) st = make_call(i, tokens, 1, &pair[1]);
    if (!st) st = measure(run_forward, pair, turns, least, &forward, &seconds);
    if (!st) st = measure(run_both, pair, turns, least, &both, &seconds_both);
    clear_call(&pair[0]), clear_call(&pair[1]);
    if (st) return st;
    printf("%-10s %-32s forward %7.2f (%8.3f ms)%s, both %7.2f (%8.3f ms)%s\n", names[rows[i].option], rows[i].words,
           forward, 1e3 * seconds, verdict(forward, rows[i].forward), both, 1e3 * seconds_both,
           verdict(both, rows[i].both));
    fflush(stdout);
    *above += (*verdict(forward, rows[i].forward) != 0) + (*verdict(both, rows[i].both) != 0);
    return HGA_OK;
}

int main(int n, char **word)
{
    const int turns = bench_argument(n, word, 1, 9);
    const double least = 1e-3 * bench_argument(n, word, 2, 30);
    const hga_id tokens = bench_argument(n, word, 4, 0);
    int above = 0;
    if (turns < 1 || turns > MOST_TURNS) return fprintf(stderr, "bench_options: 1 to %d turns\n", MOST_TURNS), 2;
    for (int i = 0; i < N_ROWS; i++) {
        if (n > 3 && strcmp(word[3], "all") != 0 && strcmp(word[3], names[rows[i].option]) != 0) continue;
        hga_status st = print_row(i, tokens, turns, least, &above);
        if (st) return bench_complain(rows[i].words, st);
    }
    return above > 0 && tokens == 0;
}
