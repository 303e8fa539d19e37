/* test_bf16.c: plans that round queries, keys and values to bfloat16. */
#include "engine_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Operands rounded to bfloat16, everything else as before: 2 percent in the mean square. */
static void bfloat16_is_near(void **state)
{
    (void)state;
    hga_shape shape = {.n_heads = 2, .dim = 32, .pos_dim = 3};
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        double error = 0, size = 0;
        variant_build(i, 75, 15, &shape, &p);
        for (int64_t j = 0; j < p.n_query * p.shape.n_heads * 32; j++) ((float *)p.io.query.data)[j] *= 0.5f;
        problem_run(&p);
        float *out = problem_out(&p, &(hga_options){.precision = HGA_PRECISION_BF16}, NULL);
        for (int64_t j = 0; j < out_count(&p); j++) {
            double want = ((float *)p.io.out.data)[j], difference = (double)out[j] - want;
            error += difference * difference, size += want * want;
        }
        if (!(sqrt(error) <= 2e-2 * sqrt(size))) fail_msg("%s: relative error %.3g", p.name, sqrt(error / size));
        if (error == 0 && find_stage(&p.program, HGA_SCORE)) fail_msg("%s: nothing was rounded", p.name);
        free(out);
        problem_clear(&p);
    }
}

/* To nearest, ties to even. */
static void round_all(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits, half = 0x8000;
        memcpy(&bits, x + i, 4);
        uint32_t rest = bits & 0xffff, up = rest > half || (rest == half && (bits & 0x10000));
        bits = (bits - rest) + (up ? 0x10000 : 0);
        memcpy(x + i, &bits, 4);
    }
}

/* Weights are rounded, too, where pairs are multiplied: 2^-9 at most of values that are below four. */
static const double ROUNDED_WEIGHTS = 8e-3;
static int multiplies_pairs(const char *isa) { return strstr(isa, "bf16") != NULL; }

/* Where nothing is coarsened, rounding the inputs beforehand is all that the precision does. */
static void bfloat16_rounds_the_operands(void **state)
{
    static const char *const names[] = {"dense", "window", "bpt", "fine"};
    (void)state;
    hga_shape shape = {.n_heads = 2, .dim = 32};
    char isa[32];
    for (int i = 0; i < 4; i++)
        for (int k = 0; isa_name(k, isa, sizeof isa); k++) {
            problem p;
            variant_build(variant_named(names[i]), 75, 15, &shape, &p);
            float *out = problem_out(&p, &(hga_options){.precision = HGA_PRECISION_BF16, .isa = isa}, NULL);
            round_all(p.io.query.data, p.n_query * 64), round_all(p.io.key.data, p.n_key * 64),
                round_all(p.io.value.data, p.n_value * 64);
            problem_run(&p);
            assert_near_floats(p.name, out, p.io.out.data, out_count(&p),
                               multiplies_pairs(isa) ? ROUNDED_WEIGHTS : 1e-5);
            free(out);
            problem_clear(&p);
        }
}

/* What a number more or less in the last place of a mean does once it is rounded. */
static const double LAST_PLACE = 4e-3;

/* Every instruction set against the plain executor, which has its operands rounded in float32. */
static void check_bfloat16(problem *p)
{
    char name[32], what[160];
    float *want_lse, *want = problem_out(p, &(hga_options){.precision = HGA_PRECISION_BF16, .generic = 1}, &want_lse);
    const double lse_most = find_stage(&p->program, HGA_COPY) ? LAST_PLACE : tolerance;
    for (int i = 0; isa_name(i, name, sizeof name); i++) {
        double most = multiplies_pairs(name) ? fmax(lse_most, ROUNDED_WEIGHTS) : lse_most;
        float *lse,
            *out = problem_out(
                p, &(hga_options){.precision = HGA_PRECISION_BF16, .isa = name, .cut_edges = i % 2 ? 0 : 64}, &lse);
        snprintf(what, sizeof what, "bf16 %s, %d heads of %d, %s", p->name, p->shape.n_heads, p->shape.dim, name);
        assert_near_floats(what, out, want, out_count(p), most);
        if (p->program.has_lse) assert_near_floats(what, lse, want_lse, lse_count(p), 2 * lse_most);
        free(out), free(lse);
    }
    free(want), free(want_lse);
}

/* Whatever the graph: masks, types, weights, positions, biases of edges, dims that fill no vector, heads that share
   keys. */
static void bfloat16_equals_the_plain_executor(void **state)
{
    (void)state;
    for (int i = 0; i < N_PROGRAMS; i++)
        for (unsigned with = 1; with < 64; with += 3) {
            problem p;
            if (passed_over(i + (int)with)) continue;
            random_problem(i, with, 20 + (hga_id)with, with * 10 + (unsigned)i, shapes[with % N_SHAPES], &p);
            if (find_stage(&p.program, HGA_SCORE))
                problem_fill_tables(&p, 5, with & 1, with & 2, with % 4 == 2 ? p.shape.n_heads : 0);
            else
                keep_sums_small(&p);
            check_bfloat16(&p);
            problem_clear(&p);
        }
    for (int i = 0; i < 2 * n_variants(); i++) {
        problem p;
        if (passed_over(i)) continue;
        variant_build(i / 2, 300, 21, &shapes[i % N_SHAPES], &p);
        if (i % 2 && find_stage(&p.program, HGA_SCORE)) problem_fill_tables(&p, 5, i % 4 == 1, 1, 0);
        check_bfloat16(&p);
        problem_clear(&p);
    }
}

/* ---- dropout ---- */

/* The plain executor reads floats: rounded ones, whoever wrote them. Threads change no bit. */
static void check_dropout(problem *p, const char *isa, uint64_t seed)
{
    p->io.seed = seed, p->io.layer = (uint32_t)seed;
    hga_options plain = {.precision = HGA_PRECISION_BF16, .dropout = 0.3f, .threads = 1, .generic = 1}, one = plain;
    one.generic = 0, one.isa = isa;
    float *want_lse, *lse, *want = problem_out(p, &plain, &want_lse), *out = problem_out(p, &one, &lse);
    const double lse_most = find_stage(&p->program, HGA_COPY) ? LAST_PLACE : tolerance;
    assert_near_floats(p->name, out, want, out_count(p),
                       multiplies_pairs(isa) ? fmax(lse_most, ROUNDED_WEIGHTS) : lse_most);
    if (p->program.has_lse) assert_near_floats(p->name, lse, want_lse, lse_count(p), 2 * lse_most);
    hga_options several = one;
    several.threads = 2 + (hga_id)seed % 4, several.topology = "pack:2 numa:1 core:3 pu:1";
    float *again_lse, *again = problem_out(p, &several, &again_lse);
    assert_same_bits(p->name, again, out, out_count(p));
    if (p->program.has_lse) assert_same_bits(p->name, again_lse, lse, lse_count(p));
    free(again), free(again_lse);
    free(want), free(want_lse), free(out), free(lse);
}

static void dropout_in_bfloat16_equals_the_plain_executor(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * n_variants(); i++) {
        problem p;
        if (passed_over(i)) continue;
        variant_build(i / 2, 150, 31, &shapes[i % N_SHAPES], &p);
        if (i % 2 && find_stage(&p.program, HGA_SCORE)) problem_fill_tables(&p, 5, i % 4 == 1, 1, 0);
        char isa[32];
        for (int n = 0; isa_name(n, isa, sizeof isa); n++) check_dropout(&p, isa, (uint64_t)i);
        problem_clear(&p);
    }
}

/* Who asks before a plan is made is told what plans do. */
static void instruction_sets_say_whether_they_multiply_pairs(void **state)
{
    char isa[32];
    int pairs = -1;
    (void)state;
    for (int k = 0; isa_name(k, isa, sizeof isa); k++) {
        assert_status(HGA_OK, hga_isa_pairs(isa, &pairs));
        assert_int_equal(pairs, multiplies_pairs(isa));
    }
    assert_status(HGA_OK, hga_isa_pairs(NULL, &pairs));
    assert_status(HGA_EUNSUPPORTED, hga_isa_pairs("abacus", &pairs));
    assert_status(HGA_EINVAL, hga_isa_pairs("ref", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bfloat16_is_near),
        cmocka_unit_test(instruction_sets_say_whether_they_multiply_pairs),
        cmocka_unit_test(bfloat16_rounds_the_operands),
        cmocka_unit_test(bfloat16_equals_the_plain_executor),
        cmocka_unit_test(dropout_in_bfloat16_equals_the_plain_executor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
