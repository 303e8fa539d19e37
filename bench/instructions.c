/* instructions.c: one execution of one small case for callgrind to count: instructions VARIANT ISA prints edges times
   heads. See instructions.sh. */
#include <stdio.h>
#include <string.h>

#include "bench.h"

enum { TOKENS = 512, DEGREE = 32 };

static hga_status dense(hga_graph **g, hga_program *p)
{
    return hga_build_dense(&(hga_dense){.n_tokens = TOKENS}, g, p);
}
static hga_status window(hga_graph **g, hga_program *p)
{
    return hga_build_window(&(hga_window){.n_tokens = TOKENS, .left = 64, .right = 64, .stride = 1}, g, p);
}
static hga_status bpt(hga_graph **g, hga_program *p)
{
    return hga_build_bpt(&(hga_bpt){.n_tokens = TOKENS, .k = 4, .clip = 10}, g, p);
}
static hga_status wide_bpt(hga_graph **g, hga_program *p)
{
    return hga_build_bpt(&(hga_bpt){.n_tokens = TOKENS, .k = 64, .clip = 10}, g, p);
}
static hga_status htransformer(hga_graph **g, hga_program *p)
{
    return hga_build_htransformer(&(hga_htransformer){.n_tokens = TOKENS, .block = 16}, g, p);
}
static hga_status hsa(hga_graph **g, hga_program *p)
{
    return hga_build_hsa(&(hga_hsa){.n_tokens = TOKENS, .branching = (const hga_id[]){2, 4, 8, 16}, .n_branching = 4},
                         g, p);
}

/* Edges without any order: rows to be gathered. */
static hga_status irregular(hga_graph **g, hga_program *p)
{
    hga_status st;
    hga_builder *b = NULL;
    hga_id near;
    uint32_t seed = 1;
    HGA_TRY(hga_builder_create(NULL, &b));
    HGA_TRY(hga_builder_add_level(b, TOKENS, NULL));
    HGA_TRY(hga_builder_add_relation(b, "near", &near));
    for (hga_id v = 0; v < TOKENS; v++)
        for (int e = 0; e < DEGREE; e++) {
            seed = seed * 1664525u + 1013904223u;
            HGA_TRY(hga_builder_add_edge(b, near, (hga_id)(seed >> 16) % TOKENS, v, 0, 1));
        }
    HGA_TRY(hga_builder_finish(b, g));
    HGA_TRY(hga_program_attention(p, near));
done:
    hga_builder_destroy(b);
    return st;
}

static const struct {
    const char *name;
    hga_status (*make)(hga_graph **g, hga_program *p);
} variants[] = {
    {"dense", dense}, {"window", window},    {"bpt-4", bpt}, {"bpt-64", wide_bpt}, {"htransformer", htransformer},
    {"hsa", hsa},     {"random", irregular},
};

/* What callgrind counts, by name. */
hga_status counted(bench_case *c);
__attribute__((noinline)) hga_status counted(bench_case *c) { return hga_plan_execute(c->plan, c->state, &c->io); }

static hga_status run_once(hga_status (*make)(hga_graph **g, hga_program *p), const char *isa)
{
    static const hga_shape shape = {.n_heads = 4, .dim = 64};
    hga_status st;
    bench_case c = {0};
    HGA_TRY(make(&c.graph, &c.program));
    HGA_TRY(bench_ready(&c, &shape, &(hga_options){.threads = 1, .isa = isa}));
    HGA_TRY(hga_plan_execute(c.plan, c.state, &c.io)); /* the first one clears its threads' memory */
    HGA_TRY(counted(&c));
    printf("%.0f\n", hga_plan_cost(c.plan).edges * shape.n_heads);
done:
    bench_clear(&c);
    return st;
}

int main(int n_words, char **word)
{
    if (n_words == 1) /* the names, for the script to go through */
        for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) puts(variants[i].name);
    for (size_t i = 0; n_words == 3 && i < sizeof variants / sizeof *variants; i++)
        if (strcmp(word[1], variants[i].name) == 0) {
            hga_status st = run_once(variants[i].make, word[2]);
            return st ? bench_complain(word[1], st) : 0;
        }
    return n_words == 1 ? 0 : (fprintf(stderr, "usage: bench_instructions [VARIANT ISA]\n"), 2);
}
