/* instructions.c: one execution of one small case for callgrind to count: instructions VARIANT ISA [TIMES [bf16]]
   prints edges times heads. See instructions.sh; arm.sh, which can count whole programs only, takes the difference of
   two TIMES. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

enum { TOKENS = 256 };

static const struct {
    const char *name, *words;
    int relative; /* with relative keys */
} variants[] = {
    {"dense", "dense", 0},
    {"window", "window left=64 right=64", 0},
    {"bpt-4", "bpt k=4", 0},
    {"bpt-4-rel", "bpt k=4", 1},
    {"bpt-64", "bpt k=64", 0},
    {"bpt-64-rel", "bpt k=64", 1},
    {"htransformer", "htransformer block=16", 0},
    {"hsa", "hsa branching=2,4,8,16", 0},
    {"random", "random degree=32", 0},
};

/* The function that callgrind counts, by name. */
hga_status counted(bench_case *c);
__attribute__((noinline)) hga_status counted(bench_case *c) { return hga_plan_execute(c->plan, c->workspace, &c->io); }

static hga_status run(const char *words, int relative, const hga_options *options, int times)
{
    static const hga_shape shape = {.n_heads = 2, .dim = 64};
    hga_status st;
    bench_case c = {0};
    HGA_TRY(bench_case_make(words, TOKENS, &c));
    HGA_TRY(bench_case_ready(&c, &shape, options));
    if (relative) HGA_TRY(bench_case_relative(&c, shape.dim));
    HGA_TRY(hga_plan_execute(c.plan, c.workspace, &c.io)); /* the first one clears its threads' memory */
    for (int i = 0; i < times; i++) HGA_TRY(counted(&c));
    printf("%.0f\n", hga_plan_cost(c.plan).edges * shape.n_heads);
done:
    bench_case_clear(&c);
    return st;
}

int main(int n_words, char **word)
{
    if (n_words == 1) /* the names, for the script to loop over */
        for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) puts(variants[i].name);
    for (size_t i = 0; n_words >= 3 && i < sizeof variants / sizeof *variants; i++)
        if (strcmp(word[1], variants[i].name) == 0) {
            hga_options options = {.threads = 1, .isa = word[2]};
            if (n_words > 4 && strcmp(word[4], "bf16") == 0) options.precision = HGA_PRECISION_BF16;
            hga_status st = run(variants[i].words, variants[i].relative, &options, n_words > 3 ? atoi(word[3]) : 1);
            return st ? bench_complain(word[1], st) : 0;
        }
    return n_words == 1 ? 0 : (fprintf(stderr, "usage: bench_instructions [VARIANT ISA [TIMES [bf16]]]\n"), 2);
}
