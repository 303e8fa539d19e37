/* test_dropout.c: weights that are dropped in tiles, families and rows are those that the plain executor drops. */
#include "engine_cases.h"
#include "kernels.h"
#include "machine.h"
#include "philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- draws ---- */

static hga_id destination[KERNEL_CHUNK * KERNEL_TILE], source[KERNEL_CHUNK * KERNEL_TILE];
static int32_t type[KERNEL_CHUNK * KERNEL_TILE];

static void fill_pairs(void)
{
    uint64_t rng = 5;
    for (int i = 0; i < KERNEL_CHUNK * KERNEL_TILE; i++) {
        destination[i] = i == 3 ? -1 : random_below(&rng, 1 << 30), source[i] = random_below(&rng, 1 << 30);
        type[i] = random_below(&rng, 1000);
    }
}

static kernel_draw some_draw(int i)
{
    static const hga_id first[] = {0, 8, 3, 21, 0};
    return (kernel_draw){0x123456789abcdefu * (uint64_t)i, 7u * (uint32_t)i, 0.04f * (float)i, first[i % 5]};
}

static float one_by_one(kernel_draw d, hga_id v, hga_id u, int32_t t, hga_id head)
{
    return philox_dropout(d.dropout, d.seed, d.layer, v, u, t, d.first_head + head);
}

static void assert_is_philox(const kernel_drop *d, hga_id head, const uint16_t *kept)
{
    for (hga_id c = 0; c < d->n; c++)
        for (hga_id r = 0; r < KERNEL_TILE; r++) {
            int32_t own = !d->type ? 0 : d->type[d->types_vary ? c * KERNEL_TILE + r : c];
            float want = one_by_one(d->draw, destination[r], source[c], own, head);
            assert_int_equal(kept[c] >> r & 1, want != 0);
        }
}

/* Eight heads share a draw, whose bits tell which pairs of a tile are kept: of those heads alone that are wanted, and
   nothing else is written. Where the dropout is as good as 1 none is kept. */
static void bits_of_tiles_are_philox(void **state)
{
    (void)state;
    char name[32];
    const kernel_table *kernels;
    uint16_t kept[8 * KERNEL_CHUNK + 1];
    for (int k = 0; isa_name(k, name, sizeof name); k++) {
        assert_ok(isa_kernels(name, &kernels));
        for (int i = 0; i < 48; i++) {
            hga_id n = KERNEL_CHUNK - i, rank = 0;
            unsigned heads = i % 3 ? 0xff : 0x5bu << i % 4 & 0xff;
            kernel_drop d = {some_draw(i % 24), n, destination, source, type, i % 2, heads, i % 5 ? KERNEL_CHUNK : n};
            if (i % 8 == 6) d.type = NULL;
            if (i % 16 == 9) d.draw.dropout = 0.9999999f;
            memset(kept, 0xa5, sizeof kept);
            kernels->drop_bits(&d, i / 6, kept);
            for (hga_id h = 0; h < 8; h++)
                if (heads >> h & 1u) assert_is_philox(&d, i / 6 * 8 + h, kept + rank++ * d.stride);
            for (ptrdiff_t j = (rank - 1) * d.stride + n; j <= 8 * KERNEL_CHUNK; j++) assert_int_equal(kept[j], 0xa5a5);
        }
    }
}

static void draws_of_single_pairs_are_philox(void **state)
{
    (void)state;
    static const hga_id heads[] = {1, 3, 8, 12, 16, 20, 64, 70};
    char name[32];
    const kernel_table *kernels;
    float *kept = memory(KERNEL_CHUNK * 70, sizeof *kept);
    for (int k = 0; isa_name(k, name, sizeof name); k++) {
        assert_ok(isa_kernels(name, &kernels));
        for (int i = 0; i < 24; i++) {
            kernel_drop_pairs d = {some_draw(i), 1 + i * 2, i % 3 * i, heads[i % 8], destination, source, type};
            kernels->drop_pairs(&d, kept);
            for (hga_id e = 0; e < d.n; e++)
                for (hga_id h = 0; h < d.heads; h++)
                    assert_true(kept[e * d.heads + h] ==
                                one_by_one(d.draw, destination[e], source[e], type[e], d.first_head + h));
        }
    }
    free(kept);
}

/* ---- executions ---- */

/* What rounding a mean or a weight of bfloat16 may do to an output, of weights that are multiplied with 1 / (1 - p). */
static double rounding(const hga_options *o) { return 8e-3 / (1 - (double)o->dropout); }

static void check_isa(problem *p, hga_options options, const float *want, const float *want_lse)
{
    char what[200];
    int rounds = options.precision == HGA_PRECISION_BF16;
    float *lse, *out = problem_out(p, &options, &lse), *again;
    snprintf(what, sizeof what, "%s, %d heads of %d, %s%s", p->name, p->shape.n_heads, p->shape.dim, options.isa,
             rounds ? ", bf16" : "");
    assert_near_floats(what, out, want, out_count(p), rounds ? rounding(&options) : 2 * tolerance);
    if (p->program.has_lse)
        assert_near_floats(what, lse, want_lse, lse_count(p), rounds ? rounding(&options) : 2 * tolerance);
    options.threads = 3;
    again = problem_out(p, &options, NULL);
    if (memcmp(out, again, (size_t)out_count(p) * sizeof *out)) fail_msg("%s: three threads have other bits", what);
    free(out), free(lse), free(again);
}

/* Every instruction set and both precisions against the plain executor. */
static void check_dropout(problem *p, int seed)
{
    char name[32];
    p->io.seed = 77u * (uint64_t)seed, p->io.layer = (uint32_t)seed, p->io.first_head = seed % 3 * 5;
    for (int precision = 0; precision < 2; precision++) {
        hga_options plain = {.dropout = 0.1f + 0.2f * (float)(seed % 4),
                             .precision = precision ? HGA_PRECISION_BF16 : HGA_PRECISION_F32,
                             .generic = 1,
                             .threads = 1};
        float *lse, *want = problem_out(p, &plain, &lse);
        for (int i = 0; isa_name(i, name, sizeof name); i++) {
            hga_options fused = plain;
            fused.generic = 0, fused.isa = name, fused.cut_edges = i % 2 ? 0 : 64;
            check_isa(p, fused, want, lse);
        }
        free(want), free(lse);
    }
}

static void variants_drop_what_the_plain_executor_drops(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * n_variants(); i++) {
        problem p;
        if (passed_over(i)) continue;
        variant_build(i / 2, i % 4 < 2 ? 75 : 300, 21, &shapes[i % N_SHAPES], &p);
        if (i % 2 && find_stage(&p.program, HGA_SCORE)) problem_fill_tables(&p, 5, i % 4 == 1, 1, 0);
        check_dropout(&p, i);
        problem_clear(&p);
    }
}

/* Masks, types, weights, positions, biases of edges, odd dimensions, heads that share keys. */
static void random_graphs_drop_what_the_plain_executor_drops(void **state)
{
    (void)state;
    for (int i = 0; i < N_PROGRAMS; i++)
        for (unsigned with = 1; with < 64; with += 3) {
            problem p;
            if (passed_over(i + (int)with)) continue;
            random_problem(i, with, 20 + (hga_id)with, with * 10 + (unsigned)i, shapes[with % N_SHAPES], &p);
            if (find_stage(&p.program, HGA_SCORE)) {
                problem_fill_tables(&p, 5, with & 1, with & 2, with % 4 == 2 ? p.shape.n_heads : 0);
                check_dropout(&p, (int)with);
            }
            problem_clear(&p);
        }
}

/* More heads than a row kernel takes at once; heads of one key that begin within eight. */
static void any_number_of_heads_shares_draws(void **state)
{
    (void)state;
    static const hga_shape many[] = {{.n_heads = 72, .n_kv_heads = 36, .dim = 8},
                                     {.n_heads = 12, .n_kv_heads = 2, .dim = 16},
                                     {.n_heads = 20, .n_kv_heads = 4, .dim = 24}};
    for (int i = 0; i < 9; i++) {
        if (every_other_passed_over(i)) continue;
        problem p;
        static const char *const names[] = {"dense", "neighbours", "hsa"};
        variant_build(variant_named(names[i % 3]), 90, 3, &many[i / 3], &p);
        check_dropout(&p, i);
        problem_clear(&p);
    }
}

/* Rows alone, and heads shared out among threads, have the bits of the whole. */
static void some_rows_drop_what_all_rows_drop(void **state)
{
    (void)state;
    static const char *const names[] = {"dense", "window", "bpt", "neighbours", "hsa"};
    hga_shape shape = {.n_heads = 4, .dim = 16};
    for (int i = 0; i < 5; i++) {
        problem p;
        variant_build(variant_named(names[i]), 200, 9, &shape, &p);
        hga_options options = {.dropout = 0.3f, .threads = 1};
        p.io.seed = 12;
        float *all = problem_out(&p, &options, NULL);
        options.rows = HGA_SOME_ROWS, options.threads = 2;
        p.io.rows = SOME_ROWS(37, 50);
        float *some = problem_out(&p, &options, NULL);
        int64_t columns = (int64_t)shape.n_heads * 16;
        assert_memory_equal(some + 37 * columns, all + 37 * columns, (size_t)(50 * columns) * sizeof *all);
        free(all), free(some), problem_clear(&p);
    }
}

/* Behind head 2047 draws would be those of other layers. */
static void heads_without_draws_are_refused(void **state)
{
    (void)state;
    problem p;
    const hga_shape shape = {.n_heads = 4, .dim = 8};
    variant_build(variant_named("dense"), 20, 1, &shape, &p);
    p.io.first_head = 2044;
    assert_ok(hga_attention(p.graph, &p.program, &shape, &(hga_options){.dropout = 0.1f}, &p.io));
    p.io.first_head = 2045;
    assert_status(HGA_EUNSUPPORTED, hga_attention(p.graph, &p.program, &shape, &(hga_options){.dropout = 0.1f}, &p.io));
    assert_string_equal(hga_error_detail(), "dropout: heads 2045 .. 2048, there are draws for 0 .. 2047");
    assert_ok(hga_attention(p.graph, &p.program, &shape, NULL, &p.io));
    problem_clear(&p);
}

static int open_pairs(void **state)
{
    (void)state;
    fill_pairs();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_tiles_are_philox),
        cmocka_unit_test(draws_of_single_pairs_are_philox),
        cmocka_unit_test(variants_drop_what_the_plain_executor_drops),
        cmocka_unit_test(random_graphs_drop_what_the_plain_executor_drops),
        cmocka_unit_test(any_number_of_heads_shares_draws),
        cmocka_unit_test(some_rows_drop_what_all_rows_drop),
        cmocka_unit_test(heads_without_draws_are_refused),
    };
    return cmocka_run_group_tests(tests, open_pairs, NULL);
}
