/* Explicit edges go back twice, from their rows and from their sources. */
#include "kernels.h"
#include "machine.h"
#include "slopes.h"

/* Rows without edges, a source that more rows see than a kernel takes at once and one that none sees, the same edge
   twice; of queries and keys apart where `cross` says so. */
static problem scattered_problem(uint64_t seed, hga_shape shape, int cross)
{
    enum { ROWS = 300, HUB = 7, UNSEEN = 8 };
    problem p = {.shape = shape};
    uint64_t rng = seed;
    hga_id near, first = cross ? ROWS : 0, sources = cross ? 90 : ROWS;
    hga_builder *b;
    snprintf(p.name, sizeof p.name, "scattered edges %llu", (unsigned long long)seed);
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, cross ? ROWS + sources : ROWS, NULL));
    if (cross) assert_ok(hga_builder_set_tokens(b, 0, ROWS, first, sources));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id v = 0; v < ROWS; v++) {
        if (v % 11 == 5) continue;
        assert_ok(hga_builder_add_edge(b, near, first + HUB, v, v % 4, 0.5f));
        for (hga_id i = 0, u; i < v % 13; i++) {
            if ((u = random_below(&rng, sources)) == UNSEEN) continue;
            assert_ok(hga_builder_add_edge(b, near, first + u, v, i % 5, 0.25f * (float)(1 + u % 6)));
            if (i == 3) assert_ok(hga_builder_add_edge(b, near, first + u, v, i % 5, 0.25f * (float)(1 + u % 6)));
        }
    }
    assert_ok(hga_program_attention(&p.program, near));
    assert_ok(hga_builder_finish(b, &p.graph));
    hga_builder_destroy(b);
    problem_fill(&p, seed);
    return p;
}

static const hga_shape shapes[] = {{.n_heads = 2, .dim = 16},
                                   {.n_heads = 6, .n_kv_heads = 2, .dim = 5, .dim_v = 19},
                                   {.n_heads = 3, .n_kv_heads = 1, .dim = 33, .dim_v = 8, .pos_dim = 3},
                                   {.n_heads = 1, .dim = 64}};

/* With all that scores may have: the gradients of the plain way, by every instruction set; the same bits at any number
   of threads, in strips or not, when something is added or not. */
static void scattered_edges_have_plain_gradients(void **state)
{
    (void)state;
    static const char *const isas[] = {"ref", "avx2", "avx512"};
    for (uint64_t seed = 0; seed < 16; seed++) {
        problem p = scattered_problem(seed, shapes[seed % 4], seed / 4 % 2 == 1);
        if (seed >= 8) problem_fill_tables(&p, seed, seed % 3 != 1, 1, seed % 2 ? 1 : p.shape.n_heads);
        float dropout = seed % 5 == 1 ? 0.3f : 0;
        slope plain = slope_create(&p, seed), one = slope_create(&p, seed), more = slope_create(&p, seed);
        slope_run(&plain, (hga_options){.generic = 1, .dropout = dropout});
        for (int i = 0; i < 3; i++) {
            if (isa_kernels(isas[i], &(const kernel_table *){NULL})) continue;
            slope_run(&one, (hga_options){.threads = 1, .isa = isas[i], .dropout = dropout});
            assert_same_slopes(&plain, &one, 2e-5);
        }
        for (hga_id threads = 1; threads < 6; threads++) {
            slope_run(&one, (hga_options){.threads = 1, .gradient_strips = threads, .dropout = dropout});
            slope_run(&more, (hga_options){.threads = threads, .gradient_strips = threads, .dropout = dropout});
            assert_same_slopes(&plain, &one, 2e-5);
            assert_same_slopes(&one, &more, 0);
        }
        slope_clear(&plain), slope_clear(&one), slope_clear(&more), problem_clear(&p);
    }
}

/* What is not asked for is not needed for the rest, and what was there stays under what is added. */
static void parts_of_the_gradients_are_the_same(void **state)
{
    (void)state;
    for (uint64_t which = 0; which < 8; which++) {
        problem p = scattered_problem(which, shapes[which % 3], 0);
        slope all = slope_create(&p, which), some = slope_create(&p, which);
        hga_tensor *wanted[] = {&some.grad.d_query, &some.grad.d_key, &some.grad.d_value};
        slope_run(&all, (hga_options){.threads = 1});
        some.grad.accumulate = 1, some.grad.d_scale = some.grad.d_log_mass = NULL;
        for (int i = 0; i < 3; i++) {
            for (int64_t j = 0; j < some.n[i]; j++) some.of[i][j] = 1;
            if (!(which >> i & 1u)) wanted[i]->data = NULL;
        }
        slope_run(&some, (hga_options){.threads = 2});
        for (int i = 0; i < 3; i++)
            for (int64_t j = 0; j < some.n[i]; j++) {
                double want = which >> i & 1u ? 1 + (double)all.of[i][j] : 1;
                if (!(fabs((double)some.of[i][j] - want) <= 2e-6 * fmax(1, fabs(want))))
                    fail_msg("%s, input %d entry %lld: %.9g, not %.9g", p.name, i, (long long)j, (double)some.of[i][j],
                             want);
            }
        slope_clear(&all), slope_clear(&some), problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scattered_edges_have_plain_gradients),
        cmocka_unit_test(parts_of_the_gradients_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
