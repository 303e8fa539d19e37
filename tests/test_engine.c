/* The engine against the slow oracle: every variant and random graphs, every shape and instruction set, plain and fused
   executor, user functions. */
#include "engine_cases.h"
#include "user_softmax.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The oracle's values, then the plain executor's and the fused kernels' of every instruction set against them. */
static void check_all_executors(problem *p)
{
    char name[32];
    double *want = NULL, *want_lse = NULL;
    slow_execute(p->graph, &p->program, &p->shape, &p->io, &want, &want_lse);
    for (int i = -1; i < 0 || isa_name(i, name, sizeof name); i++) {
        float *lse,
            *out = problem_out(
                p, &(hga_options){.generic = i < 0, .isa = i < 0 ? NULL : name, .cut_edges = i % 2 ? 0 : 64}, &lse);
        char what[160];
        snprintf(what, sizeof what, "%s, %d heads of %d, %s", p->name, p->shape.n_heads, p->shape.dim,
                 i < 0 ? "generic" : name);
        assert_near(what, out, want, out_count(p), tolerance);
        if (p->program.has_lse && want_lse) assert_near(what, lse, want_lse, lse_count(p), 2 * tolerance);
        free(out), free(lse);
    }
    free(want), free(want_lse);
}

/* ---- edges ---- */

static void check_edges(const hga_graph *g, const char *name)
{
    for (hga_id r = 0; r < hga_graph_nodes(g).n_relations; r++) {
        int64_t n_got, n_want;
        edge *got = all_rows(g, r, &n_got), *want = all_edges(g, r, &n_want);
        assert_same_edges(name, got, n_got, want, n_want);
        for (int64_t i = 0; i < n_got; i++) assert_true(got[i].weight == want[i].weight);
        assert_int_equal(n_want, hga_graph_relation(g, r).n_edges);
        free(got), free(want);
    }
}

/* What the oracle expands by hand is what hga_graph_rows gives. */
static void rows_are_the_blocks_and_edges(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        variant_build(i, 53, 3, shapes, &p);
        check_edges(p.graph, p.name);
        problem_clear(&p);
    }
    for (unsigned with = 1; with < 64; with++) {
        hga_graph *g = random_graph(with, 40, with);
        check_edges(g, "random graph");
        hga_graph_destroy(g);
    }
}

/* ---- built-in variants ---- */

static void variants_equal_the_oracle(void **state)
{
    static const hga_id sizes[] = {1, 2, 7, 40, 97, 260};
    (void)state;
    for (int i = 0; i < n_variants(); i++)
        for (int s = 0; s < 6; s++) {
            problem p;
            if (passed_over(6 * i + s)) continue;
            variant_build(i, sizes[s], (uint64_t)(20 + s), shapes + (i + s) % N_SHAPES, &p);
            check_all_executors(&p);
            problem_clear(&p);
        }
}

/* Relative keys, relative biases, edge biases and another scale, one after the other on the same graph. */
static void tables_equal_the_oracle(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++)
        for (int tables = 0; tables < 4; tables++) {
            problem p;
            if (passed_over(4 * i + tables)) continue;
            variant_build(i, 45, (uint64_t)(30 + tables), shapes + (i + tables) % N_SHAPES, &p);
            if (find_stage(&p.program, HGA_SCORE)) {
                problem_fill_tables(&p, 9, tables != 1, tables != 0,
                                    tables < 2    ? 0
                                    : tables == 2 ? 1
                                                  : p.shape.n_heads);
                p.io.scale.data = tables == 3 ? &(float){0.125f} : NULL;
                check_all_executors(&p);
            }
            problem_clear(&p);
        }
}

/* Thousands of rows, so that rows come in full panels and tiles: bands, triangles, holes, types that go with the row,
   the column or both. */
static void large_graphs_equal_the_oracle(void **state)
{
    static const char *const names[] = {"window",
                                        "window_global",
                                        "window_strided",
                                        "neighbours_wide",
                                        "neighbours_causal_wide",
                                        "siblings_wide",
                                        "siblings_causal",
                                        "bpt_wide",
                                        "bpt_text",
                                        "fine_causal",
                                        "hsa_wide",
                                        "hsa_frontier_wide",
                                        "hsa",
                                        "coarse"};
    static const hga_shape few[] = {{.n_heads = 2, .dim = 9, .dim_v = 7},
                                    {.n_heads = 2, .n_kv_heads = 1, .dim = 24, .dim_v = 17, .pos_dim = 2}};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        problem p;
        if (passed_over((int)i)) continue;
        int dense = strncmp(names[i], "window", 6) == 0 || strncmp(names[i], "fine", 4) == 0;
        variant_build(variant_named(names[i]), shortened(dense ? 1300 : 4133), 40 + i, few + i % 2, &p);
        if (i % 3 && find_stage(&p.program, HGA_SCORE)) problem_fill_tables(&p, 9, i % 3 == 2, 1, 0);
        check_all_executors(&p);
        problem_clear(&p);
    }
}

/* ---- programs on random graphs ---- */

/* Blocks of every shape, explicit edges, types, weights, orders and position embeddings in all combinations. */
static void random_graphs_equal_the_oracle(void **state)
{
    (void)state;
    for (int i = 0; i < N_PROGRAMS; i++)
        for (unsigned with = 1; with<64; with += with> 8 ? 2 : 1) {
            problem p;
            if (passed_over(i + (int)with)) continue;
            random_problem(i, with, 20 + (hga_id)with, with * 10 + (unsigned)i, shapes[with % N_SHAPES], &p);
            if (find_stage(&p.program, HGA_SCORE))
                problem_fill_tables(&p, 5, with & 1, with & 2, with % 3 == 2 ? p.shape.n_heads : 0);
            else
                keep_sums_small(&p);
            check_all_executors(&p);
            problem_clear(&p);
        }
}

/* The same with thousands of nodes: blocks with holes, bands, weights and both slopes of types go through tiles, in
   orders of their own. */
static void large_random_graphs_equal_the_oracle(void **state)
{
    static const unsigned sorts[] = {WITH_BLOCKS, WITH_BLOCKS | WITH_TYPES, WITH_BLOCKS | WITH_WEIGHTS | WITH_EDGES,
                                     WITH_BLOCKS | WITH_TYPES | WITH_WEIGHTS | WITH_ORDERS,
                                     WITH_BLOCKS | WITH_EDGES | WITH_TYPES | WITH_WEIGHTS | WITH_POSITIONS};
    static const hga_shape few[] = {{.n_heads = 1, .dim = 12}, {.n_heads = 2, .n_kv_heads = 1, .dim = 19, .dim_v = 6}};
    (void)state;
    for (int i = 0; i < 5; i++)
        for (int program = 0; program < 3; program++) {
            problem p;
            if (passed_over(3 * i + program)) continue;
            hga_shape shape = few[(i + program) % 2];
            shape.pos_dim = sorts[i] & WITH_POSITIONS ? 3 : 0;
            random_problem(program, sorts[i], shortened(3000), (uint64_t)(60 + i), shape, &p);
            if (i % 2) problem_fill_tables(&p, 5, program == 2, 1, 0);
            check_all_executors(&p);
            problem_clear(&p);
        }
}

/* ---- layouts ---- */

/* A packed [row][head][column] tensor as [head][row][column] with rows and heads apart. */
static hga_tensor head_major(problem *p, const hga_tensor *from, int64_t rows, hga_id heads, hga_id columns)
{
    ptrdiff_t row = columns + 3, head = (ptrdiff_t)(rows + 2) * row;
    float *to = p->owned[p->n_owned++] = memory(head * heads, sizeof *to);
    for (int64_t i = 0; from->data && i < rows * heads; i++)
        memcpy(to + i / heads * row + i % heads * head, (const float *)from->data + i * columns,
               (size_t)columns * sizeof *to);
    return (hga_tensor){.data = from->data ? to : NULL, .rows = rows, .row_stride = row, .head_stride = head};
}

/* [head][row][column] tensors with gaps give what packed ones give, and the gaps are left alone. */
static void strides_change_nothing(void **state)
{
    (void)state;
    hga_shape shape = {.n_heads = 4, .n_kv_heads = 2, .dim = 9, .dim_v = 6, .pos_dim = 2};
    for (int i = 0; i < 2 * n_variants(); i++) {
        problem p;
        variant_build(i / 2, 60, 5, &shape, &p);
        p.options.precision = i % 2 ? HGA_PRECISION_BF16 : HGA_PRECISION_F32;
        hga_id heads = p.shape.n_heads, kv = p.shape.n_kv_heads;
        problem_run(&p);
        hga_io packed = p.io;
        p.io.query = head_major(&p, &packed.query, p.n_query, heads, 9);
        p.io.key = head_major(&p, &packed.key, p.n_key, kv, 9);
        p.io.value = head_major(&p, &packed.value, p.n_value, kv, 6);
        p.io.out = head_major(&p, &packed.out, p.n_out, heads, 6);
        const float *out = p.io.out.data;
        for (int64_t j = 0; j < (p.n_out + 2) * heads * 9; j++) ((float *)p.io.out.data)[j] = 1234;
        problem_run(&p);
        for (int64_t j = 0; j < (p.n_out + 2) * heads * 9; j++) {
            int64_t head = j / 9 / (p.n_out + 2), row = j / 9 % (p.n_out + 2), column = j % 9;
            float want =
                row < p.n_out && column < 6 ? ((float *)packed.out.data)[(row * heads + head) * 6 + column] : 1234;
            assert_near_floats(p.name, out + j, &want, 1, 1e-6);
        }
        problem_clear(&p);
    }
}

/* Outputs that no cache holds, here rows far apart, are written past them: the same bits. */
static void outputs_past_the_caches_are_the_same(void **state)
{
    enum { N = 300, HEADS = 2, DIM = 80, STRIDE = 1 << 15 };
    static const char *const words[] = {"dense", "dense causal=1", "window left=40 right=3", "dilated",
                                        "htransformer block=8"};
    float *apart = aligned_alloc(64, sizeof(float[N][STRIDE]));
    char isa[32];
    (void)state;
    assert_non_null(apart);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int k = 0; isa_name(k, isa, sizeof isa); k++) {
            problem p = {.shape = {.n_heads = HEADS, .dim = DIM}, .options = {.isa = isa, .threads = 1 + k % 3}};
            snprintf(p.name, sizeof p.name, "%s, %s", words[i], isa);
            assert_ok(hga_build(words[i], N, &p.graph, &p.program));
            problem_fill(&p, 7);
            problem_run(&p);
            const float *packed = p.io.out.data;
            p.io.out = (hga_tensor){.data = apart, .rows = N, .row_stride = STRIDE, .head_stride = DIM};
            apart[HEADS * DIM] = 1234;
            problem_run(&p);
            for (hga_id v = 0; v < N; v++)
                assert_same_bits(p.name, apart + (ptrdiff_t)v * STRIDE, packed + v * HEADS * DIM, HEADS * DIM);
            assert_true(apart[HEADS * DIM] == 1234);
            problem_clear(&p);
        }
    free(apart);
}

/* ---- empty rows ---- */

/* One edge on three tokens: the other rows are 0 with a log-sum-exp of -inf, alone and merged with each other. */
static void empty_rows_are_zero(void **state)
{
    (void)state;
    hga_builder *b;
    hga_id relation, parent;
    problem p = {.shape = {.n_heads = 2, .dim = 3}};
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 3, NULL));
    assert_ok(hga_builder_add_level(b, 1, &parent));
    assert_ok(hga_builder_set_children(b, parent, 0, 3));
    assert_ok(hga_builder_add_relation(b, "near", &relation));
    assert_ok(hga_builder_add_edge(b, relation, 2, 1, 0, 1));
    assert_ok(hga_builder_finish(b, &p.graph));
    hga_builder_destroy(b);
    up_and_down_program(&p.program);
    problem_fill(&p, 4);
    for (p.options.generic = 0; p.options.generic < 2; p.options.generic++) {
        problem_run(&p);
        for (int i = 0; i < 18; i++) {
            float want = i / 6 == 1 ? ((float *)p.io.value.data)[12 + i % 6] : 0;
            assert_near_floats("out", (float *)p.io.out.data + i, &want, 1, 1e-6);
        }
        for (int i = 0; i < 6; i++)
            assert_true(i / 2 == 1 ? isfinite(((float *)p.io.lse.data)[i]) : ((float *)p.io.lse.data)[i] == -INFINITY);
    }
    problem_clear(&p);
}

/* ---- user functions ---- */

/* Written by a user, softmax attention gives what the built-in stage gives; rows are cut where the user can merge. */
static void user_softmax_equals_the_built_in(void **state)
{
    static const char *const names[] = {"dense", "window", "bpt",         "neighbours", "neighbours_causal",
                                        "fine",  "hsa",    "hsa_frontier"};
    (void)state;
    for (int i = 0; i < 16; i++) {
        problem p;
        user_context ctx;
        variant_build(variant_named(names[i / 2]), 150, 6, shapes + 1 + i % 3, &p);
        if (strcmp(names[i / 2], "bpt") == 0) problem_fill_tables(&p, 8, 1, 1, 0);
        float *want = problem_out(&p, &p.options, NULL);
        make_user_stage(&p, &ctx, i % 2);
        p.options.cut_edges = 64, p.options.threads = 2;
        problem_run(&p);
        assert_near_floats(p.name, p.io.out.data, want, out_count(&p), tolerance);
        p.options.generic = 1;
        problem_run(&p);
        assert_near_floats(p.name, p.io.out.data, want, out_count(&p), tolerance);
        free(want);
        problem_clear(&p);
    }
}

/* ---- plans ---- */

/* A plan given new edges does what a new plan for them does. */
static void an_updated_plan_is_a_new_plan(void **state)
{
    (void)state;
    hga_shape shape = {.n_heads = 2, .dim = 16};
    problem a, b;
    hga_plan *plan;
    hga_workspace *workspace;
    variant_build(variant_named("fine"), 90, 1, &shape, &a);
    variant_build(variant_named("fine"), 90, 2, &shape, &b);
    assert_ok(hga_plan_create(a.graph, &a.program, &shape, &(hga_options){.threads = 2}, &plan));
    assert_ok(hga_plan_update(plan, b.graph));
    assert_ok(hga_workspace_create(plan, &workspace));
    float *want = problem_out(&b, &b.options, NULL);
    assert_ok(hga_plan_execute(plan, workspace, &b.io));
    assert_same_bits("updated", b.io.out.data, want, out_count(&b));
    free(want);
    hga_workspace_destroy(workspace);
    hga_plan_destroy(plan);
    problem_clear(&a), problem_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_the_blocks_and_edges),
        cmocka_unit_test(variants_equal_the_oracle),
        cmocka_unit_test(tables_equal_the_oracle),
        cmocka_unit_test(large_graphs_equal_the_oracle),
        cmocka_unit_test(random_graphs_equal_the_oracle),
        cmocka_unit_test(large_random_graphs_equal_the_oracle),
        cmocka_unit_test(strides_change_nothing),
        cmocka_unit_test(outputs_past_the_caches_are_the_same),
        cmocka_unit_test(empty_rows_are_zero),
        cmocka_unit_test(user_softmax_equals_the_built_in),
        cmocka_unit_test(an_updated_plan_is_a_new_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
