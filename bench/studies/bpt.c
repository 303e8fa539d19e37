/* bpt.c: Figures 6 and 7 of Ye et al. 2019: throughput and memory of a stack of layers at 8192 tokens a batch, d = 512,
   d_ff = 2048, 8 heads, against the length of its sequences, for dense attention and BPT with k = 1, 4, 16, 64. bpt
   [TOKENS [LAYERS [SHORTEST [LONGEST]]]], one thread. A layer is attention, its four projections and the feed forward
   of every row, with residuals; rows are BPT's nodes, twice the tokens. Weights are shared by layers, as time does not
   see them. */
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"
#include "memory.h"
#include "numbers.h"
#include "project.h"

enum { HIDDEN = 512, HEADS = 8, FORWARD = 2048, CHUNK = 1024 /* rows that pass the feed forward together */ };

/* ---- the batch ---- */

/* One sample, repeated to fill the batch; k = 0: dense. */
static hga_status build_batch(hga_id tokens, hga_id length, hga_id k, bench_case *out)
{
    hga_status st;
    hga_id n = tokens / length;
    char words[32];
    bench_case sample = {0};
    const hga_graph **samples = NULL;
    snprintf(words, sizeof words, k ? "bpt k=%d" : "dense", k);
    HGA_TRY(bench_case_make(words, length, &sample));
    HGA_TRY(bench_new(n, sizeof *samples, &samples));
    for (hga_id i = 0; i < n; i++) samples[i] = sample.graph;
    out->program = sample.program;
    HGA_TRY(hga_graph_concat(samples, n, &out->graph, NULL));
done:
    free(samples);
    bench_case_clear(&sample);
    return st;
}

/* ---- the layers ---- */

typedef struct stack {
    bench_case attention;
    int64_t rows;
    float *x, *square, *up, *down, *wide; /* activations, weights, and a chunk's feed forward */
    double bytes;                         /* of everything that is held */
} stack;

static void add(int64_t n, const float *y, float *x)
{
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

/* x += relu(x up) down, a chunk at a time; `y` is a chunk's result. */
static void feed_forward(stack *s, float *y)
{
    for (int64_t first = 0; first < s->rows; first += CHUNK) {
        int64_t rows = s->rows - first < CHUNK ? s->rows - first : CHUNK;
        float *x = s->x + first * HIDDEN;
        project(rows, HIDDEN, FORWARD, x, s->up, s->wide);
        for (int64_t i = 0; i < rows * FORWARD; i++) s->wide[i] = s->wide[i] > 0 ? s->wide[i] : 0;
        project(rows, FORWARD, HIDDEN, s->wide, s->down, y);
        add(rows * HIDDEN, y, x);
    }
}

static hga_status layer(stack *s)
{
    bench_case *a = &s->attention;
    project(s->rows, HIDDEN, HIDDEN, s->x, s->square, a->io.query.data);
    project(s->rows, HIDDEN, HIDDEN, s->x, s->square, a->io.key.data);
    project(s->rows, HIDDEN, HIDDEN, s->x, s->square, a->io.value.data);
    hga_status st = hga_plan_execute(a->plan, a->workspace, &a->io);
    if (st) return st;
    project(s->rows, HIDDEN, HIDDEN, a->io.out.data, s->square, a->io.query.data);
    add(s->rows * HIDDEN, a->io.query.data, s->x);
    feed_forward(s, a->io.query.data);
    return HGA_OK;
}

static hga_status make_numbers(uint64_t stream, float scale, int64_t n, float **out)
{
    hga_status st = bench_new(n, sizeof **out, out);
    if (!st) numbers_fill(stream, scale, n, *out);
    return st;
}

static hga_status stack_make(hga_id tokens, hga_id length, hga_id k, stack *s)
{
    hga_status st;
    const float small = 0.01f; /* six layers with residuals stay finite */
    bench_case *a = &s->attention;
    HGA_TRY(build_batch(tokens, length, k, a));
    HGA_TRY(bench_case_ready(a, &(hga_shape){.n_heads = HEADS, .dim = HIDDEN / HEADS}, &(hga_options){.threads = 1}));
    s->rows = hga_graph_nodes(a->graph).n;
    HGA_TRY(make_numbers(1, 1, s->rows * HIDDEN, &s->x));
    HGA_TRY(make_numbers(2, small, HIDDEN * HIDDEN, &s->square));
    HGA_TRY(make_numbers(3, small, HIDDEN * FORWARD, &s->up));
    HGA_TRY(make_numbers(4, small, HIDDEN * FORWARD, &s->down));
    HGA_TRY(bench_new((int64_t)CHUNK * FORWARD, sizeof *s->wide, &s->wide));
    s->bytes = (double)a->tensor_bytes + sizeof(float) * ((double)s->rows * HIDDEN + (double)CHUNK * FORWARD) +
               (double)hga_plan_workspace_bytes(a->plan) + (double)hga_plan_bytes(a->plan) +
               (double)hga_graph_bytes(a->graph);
done:
    return st;
}

static void stack_clear(stack *s)
{
    free(s->x), free(s->square), free(s->up), free(s->down), free(s->wide);
    bench_case_clear(&s->attention);
}

/* What one layer of an implementation that stores its scores would hold in addition: a number for each pair of
   tokens and head. */
static double score_bytes(hga_id tokens, hga_id length) { return sizeof(float) * (double)HEADS * tokens * length; }

/* One pass: at these sizes the layers themselves are the repetition. */
static hga_status measure(hga_id tokens, hga_id length, hga_id k, int layers)
{
    hga_status st;
    stack s = {0};
    HGA_TRY(stack_make(tokens, length, k, &s));
    bench_time start = bench_clock();
    for (int l = 0; l < layers; l++) HGA_TRY(layer(&s));
    double seconds = bench_since(start).thread;
    printf("%-6s %3d %8d %9.2f %10.0f %10.1f", k ? "bpt" : "dense", k, length, seconds, tokens / seconds,
           s.bytes / 1e6);
    if (!k) printf(" %12.1f", (s.bytes + score_bytes(tokens, length)) / 1e6);
    printf("\n");
    fflush(stdout);
done:
    stack_clear(&s);
    return st;
}

int main(int n_words, char **word)
{
    static const hga_id degrees[] = {0, 1, 4, 16, 64};
    hga_id tokens = bench_argument(n_words, word, 1, 8192), layers = bench_argument(n_words, word, 2, 6);
    hga_id shortest = bench_argument(n_words, word, 3, 512), longest = bench_argument(n_words, word, 4, tokens);
    printf("%d tokens a batch, %d layers\n%-6s %3s %8s %9s %10s %10s %12s\n", tokens, layers, "", "k", "length",
           "seconds", "tokens/s", "MB", "MB + scores");
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
        for (hga_id length = shortest; length > 0 && length <= longest && length <= tokens; length *= 2) {
            hga_status st = measure(tokens, length, degrees[i], layers);
            if (st) return bench_complain("bpt", st);
        }
    return 0;
}
