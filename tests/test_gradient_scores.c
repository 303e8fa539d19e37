/* Gradients of scores that are made of everything they can be, by every instruction set, and of dropped weights. */
#include "kernels.h"
#include "machine.h"
#include "philox.h"
#include "slopes.h"

/* With types, positions, places and dropped weights tiles give what the plain way gives. */
static void all_parts_of_scores(problem *p, uint64_t seed)
{
    static const char *const isas[] = {FLOAT_ISAS};
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
                                        "htransformer block=8",
                                        "htransformer block=64 relative=1"};
    for (size_t i = 0; i < 2 * sizeof words / sizeof words[0]; i++) {
        problem p = {.shape = shape};
        snprintf(p.name, sizeof p.name, "%s", words[i / 2]);
        assert_ok(hga_build(words[i / 2], 100, &p.graph, &p.program));
        problem_fill(&p, i);
        all_parts_of_scores(&p, i);
        problem_clear(&p);
    }
}

/* Rows 0 to 15 and 16 to 23 see each other: in tiles the second group has eight rows, and in the places of the others
   nothing of the first may be left. */
static void positions_that_are_not_finite_stay_with_their_rows(void **state)
{
    (void)state;
    enum { FIRST = 16, TOKENS = 24, DIM = 8, POS_DIM = 3 };
    static const char *const isas[] = {FLOAT_ISAS};
    int32_t segment[TOKENS] = {0};
    for (int i = FIRST; i < TOKENS; i++) segment[i] = 1;
    problem p = {.name = "segments", .shape = {.n_heads = 2, .dim = DIM, .pos_dim = POS_DIM}};
    hga_segmented parts = {.n_tokens = TOKENS, .query_segment = segment};
    assert_ok(hga_build_segments(&parts, &p.graph, &p.program));
    problem_fill(&p, 5);
    float *position = random_floats(6, 1, TOKENS * POS_DIM);
    p.io.node_pos.data = position, p.io.node_pos.rows = TOKENS;
    for (int i = 0; i < 3; i++) {
        if (isa_kernels(isas[i], &(const kernel_table *){NULL})) continue;
        slope finite = slope_create(&p, 7), odd = slope_create(&p, 7);
        slope_run(&finite, (hga_options){.threads = 1, .isa = isas[i]});
        float was = position[12 * POS_DIM];
        position[12 * POS_DIM] = NAN;
        slope_run(&odd, (hga_options){.threads = 1, .isa = isas[i]});
        position[12 * POS_DIM] = was;
        for (int k = SLOW_QUERY; k <= SLOW_VALUE; k++) {
            int64_t first = finite.n[k] / TOKENS * FIRST;
            assert_true(isnan(odd.of[k][0]));
            assert_same_bits(isas[i], odd.of[k] + first, finite.of[k] + first, finite.n[k] - first);
        }
        assert_same_bits(isas[i], odd.of[SLOW_NODE_POS] + FIRST * POS_DIM, finite.of[SLOW_NODE_POS] + FIRST * POS_DIM,
                         (TOKENS - FIRST) * POS_DIM);
        slope_clear(&finite), slope_clear(&odd);
    }
    free(position), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(scores_have_many_parts),
                                       cmocka_unit_test(positions_that_are_not_finite_stay_with_their_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
