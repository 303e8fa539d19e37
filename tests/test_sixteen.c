/* Tensors of 16 bits: every number comes through, sums are those of the same numbers in float32, outputs are
   rounded. */
#include "testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The value of a half, by its definition. */
static double value_of(hga_dtype type, uint16_t half)
{
    int exponent = type == HGA_F16 ? half >> 10 & 31 : half >> 7 & 255, most = type == HGA_F16 ? 31 : 255;
    int digits = type == HGA_F16 ? 10 : 7, bias = type == HGA_F16 ? 15 : 127;
    int fraction = half & ((1 << digits) - 1);
    double x = exponent == most
                   ? fraction ? NAN : INFINITY
                   : ldexp(exponent ? fraction + (1 << digits) : fraction, (exponent ? exponent : 1) - bias - digits);
    return half & 0x8000 ? -x : x;
}

/* The half whose value is nearest, of two the even one: by trying all. */
static uint16_t nearest(hga_dtype type, double x)
{
    int best = -1;
    double distance = INFINITY;
    for (int h = 0; h < 0x8000; h++) {
        double v = value_of(type, (uint16_t)h), d = fabs(v - fabs(x));
        if (isnan(v) || isinf(v)) continue;
        if (d < distance || (d == distance && h % 2 == 0)) best = h, distance = d;
    }
    return (uint16_t)(best | (signbit(x) ? 0x8000 : 0));
}

/* A window of nothing but the token itself: the output is the value. */
static hga_status pass_through(hga_tensor value, hga_tensor out, hga_id n, hga_id dim)
{
    hga_graph *g = NULL;
    hga_program program;
    hga_status st = HGA_OK;
    float *zeros = calloc((size_t)n * (size_t)dim, sizeof *zeros);
    assert_non_null(zeros);
    HGA_TRY(hga_build_window(&(hga_window){.n_tokens = n, .stride = 1}, &g, &program));
    hga_shape shape = {.n_heads = 1, .dim = dim};
    hga_tensor none = {.data = zeros, .rows = n};
    HGA_TRY(
        hga_attention(g, &program, &shape, NULL, &(hga_io){.query = none, .key = none, .value = value, .out = out}));
done:
    hga_graph_destroy(g);
    free(zeros);
    return st;
}

static void every_finite_half_is_read_and_written(void **state)
{
    (void)state;
    enum { N = 65536 / 64 };
    static uint16_t half[65536], back[65536];
    static float wide[65536];
    for (hga_dtype type = HGA_F16; type <= HGA_BF16; type++) {
        int most = type == HGA_F16 ? 0x7c00 : 0x7f80;
        for (int h = 0; h < 65536; h++) half[h] = (h & 0x7fff) < most ? (uint16_t)h : 0;
        assert_ok(pass_through((hga_tensor){.data = half, .rows = N, .dtype = type},
                               (hga_tensor){.data = wide, .rows = N}, N, 64));
        for (int h = 0; h < 65536; h++) assert_true((double)wide[h] == value_of(type, half[h]));
        assert_ok(pass_through((hga_tensor){.data = half, .rows = N, .dtype = type},
                               (hga_tensor){.data = back, .rows = N, .dtype = type}, N, 64));
        for (int h = 0; h < 65536; h++) assert_true(value_of(type, back[h]) == value_of(type, half[h]));
    }
}

static void outputs_are_rounded_to_the_nearest(void **state)
{
    (void)state;
    static const float tried[] = {1.00048828125f, 1.00146484375f, 1.0009766f, 65504, 65519, 3e-8f,
                                  2.9e-8f,        8.940697e-8f,   6.1e-5f,    -0.1f, 1e-3f, 0.3333333f,
                                  1.00390625f,    1.01171875f,    1234.5f,    -7.7f};
    for (hga_dtype type = HGA_F16; type <= HGA_BF16; type++) {
        uint16_t got[16] = {0};
        assert_ok(pass_through((hga_tensor){.data = (void *)(uintptr_t)tried, .rows = 1},
                               (hga_tensor){.data = got, .rows = 1, .dtype = type}, 1, 16));
        for (int i = 0; i < 16; i++) assert_int_equal(got[i], nearest(type, (double)tried[i]));
    }
    uint16_t got[16] = {0};
    float large[16] = {65520, -1e30f};
    assert_ok(pass_through((hga_tensor){.data = large, .rows = 1},
                           (hga_tensor){.data = got, .rows = 1, .dtype = HGA_F16}, 1, 16));
    assert_int_equal(got[0], 0x7c00);
    assert_int_equal(got[1], 0xfc00);
}

enum { TOKENS = 150, HEADS = 3, DIM = 8, NUMBERS = TOKENS * HEADS * DIM };

/* Query and value of 16 bits, of any stride, in one plan for two calls and in a batch. */
static void results_are_those_of_the_same_numbers_in_float32(void **state)
{
    (void)state;
    enum { ROW = HEADS * DIM + 5 };
    static uint16_t query[TOKENS * ROW], value[NUMBERS], out[TOKENS * ROW];
    static float wide_query[NUMBERS], key[NUMBERS], wide_value[NUMBERS], want[NUMBERS], lse[2][TOKENS * HEADS];
    for (int precision = 0; precision < 2; precision++)
        for (hga_dtype type = HGA_F16; type <= HGA_BF16; type++) {
            hga_graph *g;
            hga_program program;
            hga_plan *plan;
            hga_workspace *w;
            hga_shape shape = {.n_heads = HEADS, .dim = DIM};
            hga_options options = {.threads = 2, .precision = (hga_precision)precision};
            for (int i = 0; i < NUMBERS; i++) {
                uint16_t q = (uint16_t)(type == HGA_F16 ? 0x3000 + i * 37 % 0xc00 : 0x3e00 + i * 37 % 0x180);
                uint16_t v = (uint16_t)(q ^ (i % 2 ? 0x8000 : 0));
                query[i / (HEADS * DIM) * ROW + i % (HEADS * DIM)] = q, value[i] = v;
                wide_query[i] = (float)value_of(type, q), wide_value[i] = (float)value_of(type, v);
                key[i] = (float)(i * 7 % 13) / 13 - 0.5f;
            }
            for (int i = 0; i < TOKENS * ROW; i++) out[i] = 0x1234;
            assert_ok(hga_build_htransformer(&(hga_htransformer){.n_tokens = TOKENS, .block = 4}, &g, &program));
            assert_ok(hga_plan_create(g, &program, &shape, &options, &plan));
            assert_ok(hga_workspace_create(plan, &w));
            hga_io io = {.query = {.data = wide_query, .rows = TOKENS},
                         .key = {.data = key, .rows = TOKENS},
                         .value = {.data = wide_value, .rows = TOKENS},
                         .out = {.data = want, .rows = TOKENS},
                         .lse = {.data = lse[0], .rows = TOKENS}};
            hga_io halves = io;
            halves.query =
                (hga_tensor){.data = query, .rows = TOKENS, .row_stride = ROW, .head_stride = DIM, .dtype = type};
            halves.value = (hga_tensor){.data = value, .rows = TOKENS, .dtype = type};
            halves.out =
                (hga_tensor){.data = out, .rows = TOKENS, .row_stride = ROW, .head_stride = DIM, .dtype = type};
            halves.lse.data = lse[1];
            assert_ok(hga_plan_execute(plan, w, &io));
            for (int again = 0; again < 2; again++) {
                if (again)
                    assert_ok(hga_plan_execute_batch(plan, &w, &halves, 1));
                else
                    assert_ok(hga_plan_execute(plan, w, &halves));
                assert_memory_equal(lse[0], lse[1], sizeof lse[0]);
                for (int i = 0; i < NUMBERS; i += 41)
                    assert_int_equal(out[i / (HEADS * DIM) * ROW + i % (HEADS * DIM)], nearest(type, (double)want[i]));
                for (int i = 0; i < TOKENS; i++) assert_int_equal(out[i * ROW + HEADS * DIM], 0x1234);
            }
            hga_workspace_destroy(w);
            hga_plan_destroy(plan);
            hga_graph_destroy(g);
        }
}

/* What a stage writes beside the field whose rows it goes through comes back, too: what descend leaves of each node. */
static void whatever_a_stage_writes_is_rounded_back(void **state)
{
    (void)state;
    problem p;
    hga_id keep = 0, first, n;
    variant_build(variant_named("hsa"), 30, 3, &(hga_shape){.n_heads = 2, .dim = 4}, &p);
    for (hga_id s = 0; s < p.program.n_stages; s++) keep |= p.program.stage[s].keep;
    p.program.field[keep].binding = HGA_IO_USER, p.program.field[keep].io = p.program.field[keep].rows;
    assert_ok(hga_program_rows(&p.program, p.graph, keep, &first, &n));
    float *want = memory(2 * n, sizeof *want);
    for (hga_dtype type = HGA_F16; type <= HGA_BF16; type++) {
        uint16_t *half = memory(2 * n, sizeof *half);
        p.io.user[0] = (hga_tensor){.data = want, .rows = n};
        assert_ok(hga_attention(p.graph, &p.program, &p.shape, NULL, &p.io));
        p.io.user[0] = (hga_tensor){.data = half, .rows = n, .dtype = type};
        assert_ok(hga_attention(p.graph, &p.program, &p.shape, NULL, &p.io));
        for (hga_id i = 0; i < 2 * n; i++) assert_int_equal(half[i], nearest(type, (double)want[i]));
        free(half);
    }
    free(want), problem_clear(&p);
}

/* A call that is refused leaves nothing of its tensors to the next. */
static void a_refused_call_is_forgotten(void **state)
{
    (void)state;
    problem p;
    hga_plan *plan;
    hga_workspace *w;
    variant_build(variant_named("hsa"), 30, 3, &(hga_shape){.n_heads = 2, .dim = 4}, &p);
    hga_field *f = p.program.field; /* the output's is bound before the one that fails */
    hga_id last = p.program.n_fields;
    assert_ok(hga_program_add_field(&p.program, "last", HGA_WIDTH_SCALAR, HGA_IO_USER, HGA_ROWS_NODES, HGA_ROWS_NODES,
                                    &last));
    assert_int_equal(f[last].binding, HGA_IO_USER);
    uint16_t *half = memory(out_count(&p), sizeof *half);
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, NULL, &plan));
    assert_ok(hga_workspace_create(plan, &w));
    hga_io io = p.io;
    io.out = (hga_tensor){.data = half, .rows = p.n_out, .dtype = HGA_F16};
    assert_status(HGA_EINVAL, hga_plan_execute(plan, w, &io)); /* without the last */
    memset(half, 0x42, (size_t)out_count(&p) * sizeof *half);
    p.io.user[0] = (hga_tensor){.data = memory(hga_graph_nodes(p.graph).n * 2, sizeof(float))};
    p.io.user[0].rows = hga_graph_nodes(p.graph).n;
    assert_ok(hga_plan_execute(plan, w, &p.io));
    for (int64_t i = 0; i < out_count(&p); i++) assert_int_equal(half[i], 0x4242);
    free(half), free(p.io.user[0].data);
    hga_workspace_destroy(w), hga_plan_destroy(plan), problem_clear(&p);
}

static void what_is_no_type_is_refused(void **state)
{
    (void)state;
    uint16_t x[16] = {0}, y[16];
    assert_status(HGA_EUNSUPPORTED, pass_through((hga_tensor){.data = x, .rows = 1, .dtype = (hga_dtype)3},
                                                 (hga_tensor){.data = y, .rows = 1, .dtype = HGA_F16}, 1, 16));
    assert_status(HGA_EINVAL, pass_through((hga_tensor){.data = (char *)x + 1, .rows = 1, .dtype = HGA_F16},
                                           (hga_tensor){.data = y, .rows = 1, .dtype = HGA_F16}, 1, 8));
    assert_status(HGA_EINVAL, pass_through((hga_tensor){.data = x, .rows = 1, .dtype = HGA_BF16},
                                           (hga_tensor){.data = y, .rows = 2, .dtype = HGA_F16}, 2, 8));
}

/* ---- tensors of bfloat16 in a plan that rounds to it ---- */

typedef struct both_types {
    hga_tensor wide, half;
} both_types;

enum { PACKED, HEAD_BY_HEAD, FOLDED, N_LAYOUTS, FOLD = 10 };

/* The same numbers in float32, packed, and in bfloat16 in a layout: a folded one has a gap after every so many rows. */
static both_types in_both_types(uint64_t *rng, hga_id rows, hga_id heads, hga_id columns, int layout)
{
    const ptrdiff_t row = layout == HEAD_BY_HEAD ? columns : (ptrdiff_t)heads * columns,
                    head = layout == HEAD_BY_HEAD ? (ptrdiff_t)rows * columns : columns, gap = layout == FOLDED ? 3 : 0;
    const int64_t n = (int64_t)rows * heads * columns, n_half = n + (rows - 1) / FOLD * gap;
    float *wide = memory(n, sizeof *wide);
    uint16_t *half = memory(n_half, sizeof *half);
    both_types x = {{.data = wide, .rows = rows},
                    {.data = half, .rows = rows, .row_stride = row, .head_stride = head, .dtype = HGA_BF16}};
    if (layout == FOLDED) x.half.fold = FOLD, x.half.fold_stride = FOLD * row + gap;
    for (hga_id i = 0; i < rows; i++)
        for (hga_id h = 0; h < heads; h++)
            for (hga_id j = 0; j < columns; j++) {
                const uint16_t bits = (uint16_t)(0x3e00 + random_below(rng, 0x180) + 0x8000 * random_below(rng, 2));
                wide[((int64_t)i * heads + h) * columns + j] = (float)value_of(HGA_BF16, bits);
                half[i * row + i / FOLD * gap + h * head + j] = bits;
            }
    return x;
}

/* Executes with each of the three tensors in float32 or bfloat16: the same bits. */
static void same_bits_in_both_types(const char *words, hga_id n, const char *isa, int layout)
{
    const hga_shape shape = {.n_heads = 4, .n_kv_heads = 2, .dim = layout ? 64 : 9, .dim_v = layout ? 32 : 5};
    const hga_options options = {.threads = 1 + n % 2,
                                 .precision = HGA_PRECISION_BF16,
                                 .isa = isa,
                                 .dropout = n % 2 ? 0.2f : 0,
                                 .rows = n % 2 ? 0 : HGA_SOME_ROWS};
    const hga_rows some = {.n_intervals = 2, .interval = (const hga_interval[]){{1, 3}, {40, 30}}};
    uint64_t rng = 3;
    hga_graph *g;
    hga_program program;
    hga_plan *plan;
    hga_workspace *w;
    assert_ok(hga_build(words, n, &g, &program));
    assert_ok(hga_plan_create(g, &program, &shape, &options, &plan));
    assert_ok(hga_workspace_create(plan, &w));
    both_types x[] = {in_both_types(&rng, n, 4, shape.dim, layout), in_both_types(&rng, n, 2, shape.dim, layout),
                      in_both_types(&rng, n, 2, shape.dim_v, layout)};
    const int64_t n_out = (int64_t)n * 4 * shape.dim_v;
    float *want = memory(n_out, sizeof *want), *got = memory(n_out, sizeof *got);
    for (unsigned halves = 0; halves < 8; halves++) {
        hga_io io = {.query = halves & 1 ? x[0].half : x[0].wide,
                     .key = halves & 2 ? x[1].half : x[1].wide,
                     .value = halves & 4 ? x[2].half : x[2].wide,
                     .out = {.data = halves ? got : want, .rows = n},
                     .rows = n % 2 ? NULL : &some,
                     .seed = 5};
        assert_ok(hga_plan_execute(plan, w, &io));
        if (halves && memcmp(want, got, (size_t)n_out * sizeof *got) != 0)
            fail_msg("%s, %s: tensors %u in bfloat16", words, isa, halves);
    }
    for (int i = 0; i < 3; i++) free(x[i].wide.data), free(x[i].half.data);
    free(want), free(got), hga_workspace_destroy(w), hga_plan_destroy(plan), hga_graph_destroy(g);
}

static void bfloat16_is_read_where_it_lies(void **state)
{
    (void)state;
    static const char *const words[] = {"dense",
                                        "dense causal=1",
                                        "window left=20 right=3",
                                        "window left=20 right=3 global=4",
                                        "htransformer block=16",
                                        "fenwick",
                                        "hsa branching=4"};
    static const char *const isas[] = {FLOAT_ISAS, PAIRS_ISA};
    for (size_t i = 0; i < 4; i++) {
        int pairs;
        if (hga_isa_pairs(isas[i], &pairs)) continue;
        for (size_t j = 0; j < sizeof words / sizeof *words; j++)
            for (hga_id n = 97; n < 97 + N_LAYOUTS; n++)
                same_bits_in_both_types(words[j], n, isas[i], (int)(n + (hga_id)j) % N_LAYOUTS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_finite_half_is_read_and_written),
        cmocka_unit_test(outputs_are_rounded_to_the_nearest),
        cmocka_unit_test(results_are_those_of_the_same_numbers_in_float32),
        cmocka_unit_test(bfloat16_is_read_where_it_lies),
        cmocka_unit_test(whatever_a_stage_writes_is_rounded_back),
        cmocka_unit_test(a_refused_call_is_forgotten),
        cmocka_unit_test(what_is_no_type_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
