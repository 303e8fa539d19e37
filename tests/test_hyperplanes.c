/* Trees of hyperplanes through medians (bench/hyperplanes.c). */
#include "testing.h"

#include "hga_builders.h"
#include "hyperplanes.h"

#include <stdlib.h>

enum { DIM = 5, HEIGHT = 4, LEAVES = 1 << HEIGHT, PLANES = LEAVES - 1 };

/* How many of n random tokens each leaf of a tree of random directions gets, by the library's router. */
static void count_leaves(uint64_t seed, hga_id n, hga_id count[LEAVES])
{
    float *x = random_floats(2 * seed, 1, (int64_t)n * DIM), *weights = random_floats(2 * seed + 1, 1, PLANES * DIM),
          bias[PLANES];
    int32_t *leaf = memory(n, sizeof *leaf);
    const hga_router r = {.height = HEIGHT, .dim = DIM, .n_heads = 1, .weights = weights, .bias = bias};
    assert_ok(bench_halve(x, n, DIM, DIM, HEIGHT, weights, bias));
    assert_ok(hga_route(&r, x, n, DIM, 0, leaf));
    for (int i = 0; i < LEAVES; i++) count[i] = 0;
    for (hga_id i = 0; i < n; i++) count[leaf[i]]++;
    free(x), free(weights), free(leaf);
}

static void every_leaf_gets_as_many_tokens(void **unused)
{
    (void)unused;
    hga_id count[LEAVES];
    for (uint64_t seed = 1; seed < 20; seed++) {
        count_leaves(seed, 8 * LEAVES, count);
        for (int i = 0; i < LEAVES; i++) assert_int_equal(count[i], 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_leaf_gets_as_many_tokens)};
    return cmocka_run_group_tests_name("hyperplanes", tests, NULL, NULL);
}
