/* Outputs of more rows than caches hold, which go past them where their rows are whole lines: they have the bits of
   rows that are not, at any thread count, and are what the plain executor says. */
#include "testing.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 4096, LINE = 64 };

static const hga_shape shape = {.n_heads = 8, .n_kv_heads = 1, .dim = 8, .dim_v = 256};

static float *at_a_line(float *memory) { return memory + (LINE - (uintptr_t)memory % LINE) / sizeof *memory; }

/* As the options say, into `out`; the tensors' values are the same in every call. */
static void run(const char *words, const hga_options *o, float *out)
{
    hga_graph *g;
    hga_program p;
    hga_plan *plan;
    hga_workspace *workspace;
    float *q = random_floats(1, 1, (int64_t)TOKENS * shape.n_heads * shape.dim),
          *k = random_floats(2, 1, (int64_t)TOKENS * shape.dim),
          *v = random_floats(3, 1, (int64_t)TOKENS * shape.dim_v);
    assert_ok(hga_build(words, TOKENS, &g, &p));
    assert_ok(hga_plan_create(g, &p, &shape, o, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    hga_io io = {.query = {.data = q, .rows = TOKENS},
                 .key = {.data = k, .rows = TOKENS},
                 .value = {.data = v, .rows = TOKENS},
                 .out = {.data = out, .rows = TOKENS}};
    for (int again = 0; again < 2; again++) assert_ok(hga_plan_execute(plan, workspace, &io));
    hga_workspace_destroy(workspace), hga_plan_destroy(plan), hga_graph_destroy(g);
    free(q), free(k), free(v);
}

static void large_outputs_are_the_same(void **state)
{
    static const char *const words[] = {"hsa branching=4", "hsa branching=2,4,8,16", "window left=8 right=8"};
    static const char *const isas[] = {NULL, "avx2", "ref"};
    const int64_t n = (int64_t)TOKENS * shape.n_heads * shape.dim_v;
    (void)state;
    assert_true(n * (int64_t)sizeof(float) >= 32 << 20);
    float *buffer = memory(n + LINE, sizeof *buffer), *other = memory(n + LINE, sizeof *other),
          *out = at_a_line(buffer), *beside = at_a_line(other) + 1;
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
            if (isas[i] && !strstr(hga_isa_list(), isas[i])) continue;
            run(words[w], &(hga_options){.threads = 1, .isa = isas[i]}, beside);
            for (hga_id threads = 1; threads <= 3; threads += 2) {
                memset(out, 0, (size_t)n * sizeof *out);
                run(words[w], &(hga_options){.threads = threads, .isa = isas[i]}, out);
                assert_same_bits(words[w], out, beside, n);
            }
            if (i > 0) continue;
            run(words[w], &(hga_options){.threads = 2, .generic = 1}, beside);
            for (int64_t j = 0; j < n; j++) assert_true(fabs((double)out[j] - (double)beside[j]) < 1e-4);
        }
    free(buffer), free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(large_outputs_are_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
