/* Gradients of scores that are made of everything they can be, by every instruction set, and of dropped weights. */
#include "kernels.h"
#include "machine.h"
#include "philox.h"
#include "slopes.h"

/* With types, positions, places and dropped weights tiles give what the plain way gives. */
static void all_parts_of_scores(problem *p, uint64_t seed)
{
    static const char *const isas[] = {"ref", "avx2", "avx512"};
    problem_fill_tables(p, seed, 1, 1, seed % 2 ? 0 : seed % 4 ? 1 : p->shape.n_heads);
    slope plain = slope_create(p, seed), fast = slope_create(p, seed);
    float dropout = seed % 3 == 0 ? 0.3f : 0;
    slope_run(&plain, (hga_options){.generic = 1, .threads = 1, .dropout = dropout});
    for (int i = 0; i < 3; i++) {
        if (isa_kernels(isas[i], &(const kernel_table *){NULL})) continue;
        slope_run(&fast, (hga_options){.threads = 2, .isa = isas[i], .dropout = dropout});
        assert_same_slopes(&plain, &fast, 2e-5);
    }
    slope_clear(&plain), slope_clear(&fast);
}

static void scores_have_many_parts(void **state)
{
    (void)state;
    static const hga_shape shape = {.n_heads = 10, .n_kv_heads = 5, .dim = 17, .dim_v = 9, .pos_dim = 5};
    static const char *const words[] = {"bpt k=8",
                                        "bpt k=20 causal=1",
                                        "bpt k=4 rule=text",
                                        "bpt k=70",
                                        "window left=20 right=9 global=2",
                                        "hsa branching=16,4",
                                        "hsa branching=16,4 causal=1",
                                        "dense",
                                        "htransformer block=8"};
    for (size_t i = 0; i < 2 * sizeof words / sizeof words[0]; i++) {
        problem p = {.shape = shape};
        snprintf(p.name, sizeof p.name, "%s", words[i / 2]);
        assert_ok(hga_build(words[i / 2], 100, &p.graph, &p.program));
        problem_fill(&p, i);
        all_parts_of_scores(&p, i);
        problem_clear(&p);
    }
}

/* Sixteen rows and columns at a time, the same weights are dropped as one by one. */
static void weights_are_dropped_as_philox_says(void **state)
{
    (void)state;
    static const char *const isas[] = {"ref", "avx2", "avx512"};
    hga_id destination[KERNEL_TILE], source[KERNEL_CHUNK];
    int32_t type[KERNEL_CHUNK * KERNEL_TILE];
    uint64_t rng = 5;
    for (int i = 0; i < KERNEL_TILE; i++) destination[i] = i == 3 ? -1 : random_below(&rng, 1 << 30);
    for (int i = 0; i < KERNEL_CHUNK; i++) source[i] = random_below(&rng, 1 << 30);
    for (int i = 0; i < KERNEL_CHUNK * KERNEL_TILE; i++) type[i] = random_below(&rng, 1000);
    for (int i = 0; i < 3; i++) {
        const kernel_table *kernels;
        if (isa_kernels(isas[i], &kernels)) continue;
        for (hga_id head = 0; head < 20; head++) {
            kernel_drop d = {.n = KERNEL_CHUNK - head, .destination = destination, .source = source, .type = type};
            float kept[KERNEL_CHUNK * KERNEL_TILE];
            d.seed = 0x123456789abcdefu * (uint64_t)head, d.layer = 7u * (uint32_t)head, d.head = head;
            d.dropout = 0.05f * (float)head;
            kernels->drop(&d, kept);
            for (int j = 0; j < d.n * KERNEL_TILE; j++)
                assert_true(kept[j] == philox_dropout(d.dropout, d.seed, d.layer, destination[j % KERNEL_TILE],
                                                      source[j / KERNEL_TILE], type[j], head));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(scores_have_many_parts),
                                       cmocka_unit_test(weights_are_dropped_as_philox_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
