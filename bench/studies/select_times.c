/* select_times.c: how long query blocks of a causal call take to choose blocks of keys, by means and by samples, and
   the attention over what the samples chose, in turns, as JSON:
   bench_select_times [--tokens N] [--heads H] [--kv-heads H] [--dim D] [--block B] [--query-block C] [--k K]
   [--sample S] [--threads T] [--isa I] [--seconds S]. ../goals.py runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "memory.h"
#include "numbers.h"

typedef struct study {
    hga_selection how;
    hga_shape shape;
    hga_id tokens;
    hga_options options;
    bench_rules rules;
    float *memory;
    hga_select_input in;
    hga_io io;
    hga_plan *plan;
    hga_workspace *workspace;
} study;

static int read_option(const char *name, const char *value, study *s)
{
    struct {
        const char *name;
        int *number;
    } numbers[] = {{"--tokens", &s->tokens}, {"--heads", &s->shape.n_heads}, {"--kv-heads", &s->shape.n_kv_heads},
                   {"--dim", &s->shape.dim}, {"--block", &s->how.block},     {"--query-block", &s->how.query_block},
                   {"--k", &s->how.k},       {"--sample", &s->how.sample},   {"--threads", &s->options.threads}};
    if (strcmp(name, "--isa") == 0) return s->options.isa = value, 1;
    if (strcmp(name, "--seconds") == 0) return s->rules.budget = strtod(value, NULL), s->rules.budget > 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0) return *numbers[i].number = atoi(value), *numbers[i].number > 0;
    return 0;
}

/* ---- calls ---- */

static hga_status choose(const study *s, hga_select_score score)
{
    hga_selection how = s->how;
    hga_chosen chosen;
    how.score = score;
    hga_status st = hga_select_blocks(&how, &s->in, &chosen);
    hga_chosen_clear(&chosen);
    return st;
}

static hga_status choose_by_samples(void *context) { return choose(context, HGA_SELECT_SAMPLE); }
static hga_status choose_by_means(void *context) { return choose(context, HGA_SELECT_MEAN); }

static hga_status attend(void *context)
{
    const study *s = context;
    return hga_plan_execute(s->plan, s->workspace, &s->io);
}

static hga_status nothing(void *context)
{
    (void)context;
    return HGA_OK;
}

/* ---- all ---- */

/* [tokens][heads][dim], whose heads are rows of the graph behind each other. */
static hga_tensor folded(const study *s, float *data, hga_id heads)
{
    return (hga_tensor){.data = data,
                        .rows = (int64_t)s->tokens * heads,
                        .row_stride = (ptrdiff_t)heads * s->shape.dim,
                        .head_stride = s->shape.dim,
                        .fold = s->tokens,
                        .fold_stride = s->shape.dim};
}

static hga_status make_tensors(study *s)
{
    const int64_t q = (int64_t)s->tokens * s->shape.n_heads * s->shape.dim,
                  k = (int64_t)s->tokens * s->shape.n_kv_heads * s->shape.dim;
    hga_status st = bench_new(2 * q + 2 * k, sizeof *s->memory, &s->memory);
    if (st) return st;
    float *query = s->memory, *key = query + q, *value = key + k, *out = value + k;
    numbers_fill(8, 2, q + 2 * k, s->memory);
    s->in = (hga_select_input){.n_tokens = s->tokens,
                               .shape = s->shape,
                               .query = {.data = query, .rows = s->tokens},
                               .key = {.data = key, .rows = s->tokens},
                               .threads = s->options.threads,
                               .isa = s->options.isa};
    s->io.query = folded(s, query, s->shape.n_heads), s->io.key = folded(s, key, s->shape.n_kv_heads);
    s->io.value = folded(s, value, s->shape.n_kv_heads), s->io.out = folded(s, out, s->shape.n_heads);
    return HGA_OK;
}

/* The plan of what the samples choose. */
static hga_status make_plan(study *s)
{
    hga_status st = HGA_OK;
    hga_chosen chosen = {0};
    hga_graph *g = NULL;
    hga_program program;
    hga_routed p;
    hga_defaults(&p);
    HGA_TRY(hga_select_blocks(&s->how, &s->in, &chosen));
    p.n_tokens = s->tokens, p.block = s->how.block, p.query_block = s->how.query_block, p.causal = 1;
    p.n_choosers = s->shape.n_heads, p.n_key_heads = s->shape.n_kv_heads;
    p.choice = chosen.block, p.choice_first = chosen.first;
    HGA_TRY(hga_build_routed(&p, &g, &program));
    const hga_shape one = {.n_heads = 1, .n_kv_heads = 1, .dim = s->shape.dim, .dim_v = s->shape.dim};
    HGA_TRY(hga_plan_create(g, &program, &one, &s->options, &s->plan));
    HGA_TRY(hga_workspace_create(s->plan, &s->workspace));
done:
    hga_graph_destroy(g);
    hga_chosen_clear(&chosen);
    return st;
}

static hga_status measure(study *s, bench_timing samples[2], bench_timing means[2])
{
    hga_status st = HGA_OK;
    const int threads = s->options.threads;
    HGA_TRY(make_tensors(s));
    HGA_TRY(make_plan(s));
    HGA_TRY(bench_alternate(nothing, (hga_status(*const[2])(void *)){choose_by_samples, attend}, s, &s->rules, threads,
                            samples));
    HGA_TRY(bench_alternate(nothing, (hga_status(*const[2])(void *)){choose_by_means, attend}, s, &s->rules, threads,
                            means));
done:
    hga_workspace_destroy(s->workspace);
    hga_plan_destroy(s->plan);
    free(s->memory);
    return st;
}

int main(int n, char **word)
{
    study s = {.how = hga_selection_defaults(), .shape = {9, 3, 64, 64, 0, {0}}, .tokens = 8192, .options.threads = 1};
    bench_timing samples[2], means[2];
    s.how.block = s.how.query_block = 16, s.how.k = 64, s.how.causal = 1, s.how.score = HGA_SELECT_SAMPLE;
    for (int i = 1; i < n; i += 2)
        if (i + 1 == n || !read_option(word[i], word[i + 1], &s)) {
            fprintf(stderr, "bench_select_times: cannot read %s %s\n", word[i], i + 1 < n ? word[i + 1] : "");
            return 2;
        }
    hga_status st = measure(&s, samples, means);
    if (st) return bench_complain("routed", st);
    const double busy = samples[0].busy < samples[1].busy ? samples[0].busy : samples[1].busy;
    printf("{\"seconds\": %.9g, \"cpu_over_wall\": %.4f, \"mean_seconds\": %.9g, \"execute_seconds\": %.9g, "
           "\"disturbed\": %s}\n",
           samples[0].processor_least, busy, means[0].processor_least, samples[1].processor_least,
           busy < BENCH_TRUSTED ? "true" : "false");
    return 0;
}
