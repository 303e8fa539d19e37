/* routed_times.c: the time of a Treeformer call whose trees are routed again, part by part, as JSON:
   bench_routed_times [--tokens N] [--heads H] [--dim D] [--height L] [--threads T] [--isa I] [--seconds S].
   ../goals.py runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "routed.h"

typedef struct wish {
    hga_id tokens, heads, dim, height;
    hga_options options;
    bench_rules rules;
} wish;

static int read_option(const char *name, const char *value, wish *w)
{
    struct {
        const char *name;
        int *number;
    } numbers[] = {{"--tokens", &w->tokens},
                   {"--heads", &w->heads},
                   {"--dim", &w->dim},
                   {"--height", &w->height},
                   {"--threads", &w->options.threads}};
    if (strcmp(name, "--isa") == 0) return w->options.isa = value, 1;
    if (strcmp(name, "--seconds") == 0) return w->rules.budget = strtod(value, NULL), w->rules.budget > 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0) return *numbers[i].number = atoi(value), *numbers[i].number > 0;
    return 0;
}

int main(int n, char **word)
{
    wish w = {.tokens = 8192, .heads = 8, .dim = 96, .height = 6, .options.threads = 1};
    bench_measurement m;
    routed_times t;
    for (int i = 1; i < n; i += 2)
        if (i + 1 == n || !read_option(word[i], word[i + 1], &w)) {
            fprintf(stderr, "bench_routed_times: cannot read %s %s\n", word[i], i + 1 < n ? word[i + 1] : "");
            return 2;
        }
    hga_status st = measure_routed(w.tokens, w.heads, w.dim, w.height, &w.options, &w.rules, &m, &t);
    if (st) return bench_complain("treeformer", st);
    printf("{\"seconds\": %.9g, \"cpu_over_wall\": %.4f, \"build_seconds\": %.9g, \"update_seconds\": %.9g, "
           "\"execute_seconds\": %.9g, \"disturbed\": %s}\n",
           m.time.seconds, m.time.busy, t.part[ROUTED_BUILD], t.part[ROUTED_UPDATE], t.part[ROUTED_EXECUTE],
           m.time.busy < BENCH_TRUSTED ? "true" : "false");
    return 0;
}
