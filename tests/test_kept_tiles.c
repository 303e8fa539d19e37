/* Tiles that are chosen once and kept with the plan, for calls that tell types apart and for others: whoever computes
   them has the bits of whoever chooses anew. A plan that was updated, to the same graph, has none for workspaces from
   before. */
#include "by_hand.h"
#include "engine_cases.h"
#include "filling.h"
#include "layouts.h"
#include "plan.h"
#include "workspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 256 };

/* Every 16 rows have three columns of each of 200 blocks, 48 edges a segment: more chunks than a batch has. Types are a
   block's, a column's, a row's or a pair's, of which chunks of the later blocks have a thousand. */
static hga_graph *many_chunks(void)
{
    enum { BLOCKS = 200, ROWS = 2048 };
    hga_block block[BLOCKS];
    for (hga_id i = 0; i < BLOCKS; i++)
        block[i] = (hga_block){.n_dst = 16,
                               .n_src = 3,
                               .src = 7 * i,
                               .count = N / 16,
                               .dst_step = 16,
                               .src_step = 5,
                               .type = i < 170 ? i % 7 : 48 * i,
                               .type_src = i < 170 ? i % 3 == 1 : 16,
                               .type_dst = i < 170 ? i % 5 == 2 : 1,
                               .weight = i % 3 ? 0 : 0.5f};
    return blocks_over(ROWS, block, BLOCKS);
}

/* Thirty-two rows have a column each of 70 blocks, of as many types: neighbouring groups have the same columns. */
static hga_graph *twins(void)
{
    enum { BLOCKS = 70, ROWS = 1024 };
    hga_block block[BLOCKS];
    for (hga_id i = 0; i < BLOCKS; i++)
        block[i] = (hga_block){
            .n_dst = 32, .n_src = 1, .src = 11 * i, .count = N / 32, .dst_step = 32, .src_step = 3, .type = i};
    return blocks_over(ROWS, block, BLOCKS);
}

/* The same, but every other 32 rows lack three of the columns, and some rows have edges of their own beside. */
static hga_graph *twins_and_others(void)
{
    enum { BLOCKS = 40, ROWS = 1024 };
    hga_id near;
    hga_builder *b = tokens_alone(ROWS);
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id i = 0; i < BLOCKS; i++) {
        hga_block block = {.n_dst = i % 13 ? 32 : 16,
                           .n_src = 1,
                           .src = 11 * i,
                           .count = N / 32,
                           .dst_step = 32,
                           .src_step = 2,
                           .type = i % 9,
                           .type_dst = i % 11 == 0};
        assert_ok(hga_builder_add_blocks(b, near, &block));
    }
    for (hga_id i = 0; i < 40; i++) assert_ok(hga_builder_add_edge(b, near, 3 * i, 600 + i, 0, 1));
    return finished(b);
}

/* A band of 150 columns, which go in chunks of their own that groups have parts of, and many columns that thirty-two
   rows share. */
static hga_graph *a_band_and_others(void)
{
    enum { BLOCKS = 400, ROWS = 6000 };
    hga_block block[BLOCKS + 1];
    for (hga_id i = 0; i < BLOCKS; i++)
        block[i] =
            (hga_block){.n_dst = 32, .n_src = 1, .src = 700 + 11 * i, .count = N / 32, .dst_step = 32, .src_step = 2};
    block[BLOCKS] = (hga_block){.n_dst = N,
                                .n_src = N + 160,
                                .src = 33,
                                .type = 150,
                                .type_dst = -1,
                                .type_src = 1,
                                .shape = HGA_BAND,
                                .band_first = 3,
                                .band_last = 152};
    return blocks_over(ROWS, block, BLOCKS + 1);
}

static problem problem_over(hga_graph *g, const char *name)
{
    problem p = {.graph = g};
    snprintf(p.name, sizeof p.name, "%s", name);
    attention f = attention_on_nodes(&p.program);
    assert_ok(hga_program_attend(&p.program, 0, f.query, f.key, f.value, f.out, 0));
    p.program.has_lse = 1;
    return p;
}

static problem problem_of(const char *words, hga_id tokens)
{
    problem p = {0};
    snprintf(p.name, sizeof p.name, "%s", words);
    assert_ok(hga_build(words, tokens, &p.graph, &p.program));
    return p;
}

enum { N_CASES = 9, N_KEPT = 6 };
static problem case_number(int i)
{
    switch (i) {
    case 0: return problem_over(many_chunks(), "many chunks");
    case 1: return problem_over(twins(), "twins");
    case 5: return problem_over(a_band_and_others(), "a band and others");
    case 2: return problem_over(twins_and_others(), "twins and others");
    case 3: return problem_of("bpt k=4", 700);
    case 4: return problem_of("bpt k=3 causal=1 rule=text", 611);
    case 6: return problem_of("window left=9 right=4", 300);
    case 7: return problem_of("htransformer block=4", 500);
    default: return problem_of("fenwick", 333);
    }
}

/* Out and lse of a call, in fresh memory, behind each other. */
static float *results(const hga_plan *plan, hga_workspace *workspace, const problem *p)
{
    const int64_t n = out_count(p), n_lse = lse_count(p);
    float *out = memory(n + n_lse, sizeof *out);
    hga_io io = p->io;
    io.out.data = out, io.lse.data = n_lse ? out + n : NULL;
    assert_ok(hga_plan_execute(plan, workspace, &io));
    return out;
}

static void assert_keeps(const hga_plan *plan, const problem *p, int64_t before)
{
    int64_t bytes = hga_plan_bytes(plan) - before;
    if (bytes < 2048) fail_msg("%s: %lld bytes are kept", p->name, (long long)bytes);
}

/* `keeps`: the plan has something to keep, from its first workspace on; where weights are dropped from the first call
   on that tells types apart. */
static void assert_same_kept_and_anew(const problem *p, const hga_options *options, int keeps)
{
    const int64_t n = out_count(p) + lse_count(p);
    hga_plan *plan;
    hga_workspace *workspace;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, options, &plan));
    int64_t bytes = hga_plan_bytes(plan);
    assert_ok(hga_workspace_create(plan, &workspace));
    if (keeps && !(options->dropout > 0)) assert_keeps(plan, p, bytes);
    float *kept = results(plan, workspace, p);
    if (keeps) assert_keeps(plan, p, bytes);
    float *again = results(plan, workspace, p);
    assert_ok(hga_plan_update(plan, p->graph));
    float *anew = results(plan, workspace, p);
    assert_same_bits(p->name, kept, anew, n);
    assert_same_bits(p->name, again, anew, n);
    free(kept), free(again), free(anew);
    hga_workspace_destroy(workspace), hga_plan_destroy(plan);
}

static problem filled_case(int i, int j)
{
    problem p = case_number(i);
    p.shape = j % 2 ? (hga_shape){.n_heads = 6, .n_kv_heads = 2, .dim = 33, .dim_v = 47}
                    : (hga_shape){.n_heads = 8, .dim = 16};
    problem_fill(&p, 5);
    return p;
}

static hga_options options_of(int j, const char *isa)
{
    return (hga_options){.threads = j / 2 % 2 ? 3 : 1, .isa = isa, .precision = j / 4 % 2 ? HGA_PRECISION_BF16 : 0};
}

/* On every instruction set, in both precisions, by one thread and by three, with a softcap and slopes or without. */
static void kept_tiles_have_the_bits_of_tiles_chosen_anew(void **state)
{
    (void)state;
    static const float slopes[] = {0.1f, 0, 0.02f, 1, 0.5f, 0.3f, 0, 0.01f};
    static const operands modifiers = {.softcap = 2, .slopes = slopes};
    char buffer[16];
    for (int i = 0; i < N_CASES; i++)
        for (int j = 0; isa_name(j / 8, buffer, sizeof buffer); j++) {
            if (passed_over(i + j)) continue;
            problem p = filled_case(i, j);
            int modified = (i + j / 2) % 3 == 0;
            if (modified) bring_to(&p.io, &modifiers);
            hga_options o = options_of(j, buffer);
            assert_same_kept_and_anew(&p, &o, i < N_KEPT);
            problem_clear(&p);
        }
}

/* Relative keys, biases or both, on every instruction set, in both precisions, by one thread and by three, with and
   without dropout, slopes, sinks, and a softcap, with which relative keys go row by row. */
static void kept_types_have_the_bits_of_types_chosen_anew(void **state)
{
    (void)state;
    static const float slopes[] = {0.1f, 0, 0.02f, 1, 0.5f, 0.3f, 0, 0.01f};
    char buffer[16];
    for (int i = 0; i < N_CASES; i++)
        for (int j = 0; isa_name(j / 12, buffer, sizeof buffer); j++) {
            if (passed_over(i + j)) continue;
            problem p = filled_case(i, j);
            problem_fill_tables(&p, 7, j % 3 != 1, j % 3 != 0, 0);
            p.io.seed = 3, p.io.node_pos.data = NULL;
            const int modified = (i + j / 2) % 4 == 0;
            operands modifiers = {.slopes = slopes, .sink = slopes, .softcap = j / 3 % 2 ? 2.0f : 0};
            if (modified) bring_to(&p.io, &modifiers);
            hga_options o = options_of(j, buffer);
            if ((i + j) % 5 == 0) o.dropout = 0.3f;
            assert_same_kept_and_anew(&p, &o, i < N_KEPT && !(modified && o.dropout > 0));
            problem_clear(&p);
        }
}

static int64_t tensor_bytes(const problem *p)
{
    const hga_shape *s = &p->shape;
    return (int64_t)sizeof(float) * s->n_heads * s->dim * (p->n_query + p->n_key + p->n_value + p->n_out);
}

static int64_t typed_panels(const hga_plan *plan)
{
    return ((const layouts *)plan->cache->layouts.what)->typed.n_panels;
}

/* The first call that tells types apart, where there are several, leaves their tiles with the plan; no other does. */
static void types_are_kept_from_their_first_call_on(void **state)
{
    (void)state;
    for (int i = 0; i < N_CASES; i++) {
        hga_plan *plan;
        hga_workspace *workspace;
        problem p = case_number(i);
        p.shape = (hga_shape){.n_heads = 8, .dim = 16};
        problem_fill(&p, 2);
        problem with = p;
        problem_fill_tables(&with, 7, i % 2, !(i % 2), 0), with.io.node_pos.data = NULL;
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, NULL, &plan));
        assert_ok(hga_workspace_create(plan, &workspace));
        free(results(plan, workspace, &p));
        assert_int_equal(typed_panels(plan), 0);
        const int64_t before = hga_plan_bytes(plan);
        free(results(plan, workspace, &with));
        const int one_type = i == 6;
        if ((typed_panels(plan) > 0) == one_type) fail_msg("%s: %lld", p.name, (long long)typed_panels(plan));
        const int64_t bytes = hga_plan_bytes(plan);
        assert_true(bytes <= before + tensor_bytes(&p) / 10);
        free(results(plan, workspace, &with));
        assert_int_equal(hga_plan_bytes(plan), bytes);
        hga_workspace_destroy(workspace), hga_plan_destroy(plan), problem_clear(&with);
    }
}

/* Calls with types that would not compute them leave none: of some rows, with what single scores have beside, and with
   relative keys that are capped. */
static void types_that_a_call_does_not_compute_are_not_kept(void **state)
{
    (void)state;
    static const operands capped = {.softcap = 2};
    hga_plan *plan;
    hga_workspace *workspace;
    problem p = case_number(3);
    p.shape = (hga_shape){.n_heads = 8, .dim = 16, .pos_dim = 3};
    problem_fill(&p, 2), problem_fill_tables(&p, 7, 1, 1, 1);
    problem whole = p;
    whole.io.node_pos.data = whole.io.edge_bias.data = NULL;
    problem some[4] = {whole, whole, whole, whole};
    some[0].io.rows = SOME_ROWS(5, 1);
    some[1].io.node_pos.data = p.io.node_pos.data;
    some[2].io.edge_bias.data = p.io.edge_bias.data;
    bring_to(&some[3].io, &capped);
    const hga_options options = {.rows = HGA_SOME_ROWS};
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &options, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    free(results(plan, workspace, &some[2])); /* brings the lists that biases of edges need, which are kept */
    const int64_t bytes = hga_plan_bytes(plan);
    for (int i = 0; i < 4; i++) {
        free(results(plan, workspace, &some[i]));
        assert_int_equal(hga_plan_bytes(plan), bytes);
    }
    free(results(plan, workspace, &whole));
    assert_true(typed_panels(plan) > 0 && hga_plan_bytes(plan) > bytes);
    hga_workspace_destroy(workspace), hga_plan_destroy(plan), problem_clear(&p);
}

enum { ADDED_KEYS, ADDED_BIAS, ADDED_EDGE_BIAS, ADDED_POSITIONS, ADDED_DROPOUT, N_ADDED };

/* A problem that has one of these beside. */
static void add(problem *p, int what)
{
    problem_fill_tables(p, 7, what == ADDED_KEYS, what == ADDED_BIAS, what == ADDED_EDGE_BIAS);
    if (what != ADDED_POSITIONS) p->io.node_pos.data = NULL;
    if (what == ADDED_DROPOUT) p->io.seed = 3;
}

/* A call that adds something to single scores, or drops weights, chooses for itself, and the next one has the kept
   tiles again. */
static void other_calls_between_change_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < N_CASES * N_ADDED; i++) {
        if (passed_over(i)) continue;
        const int what = i % N_ADDED;
        problem p = case_number(i / N_ADDED);
        p.shape = (hga_shape){.n_heads = 8, .dim = 16, .pos_dim = 3};
        problem_fill(&p, 6);
        p.io.node_pos.data = NULL;
        problem with = p;
        add(&with, what);
        hga_options options = {.dropout = what == ADDED_DROPOUT ? 0.3f : 0};
        hga_plan *plan;
        hga_workspace *workspace;
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &options, &plan));
        assert_ok(hga_workspace_create(plan, &workspace));
        float *first = results(plan, workspace, &p), *other = results(plan, workspace, &with),
              *last = results(plan, workspace, &p);
        assert_same_bits(p.name, first, last, out_count(&p) + lse_count(&p));
        assert_ok(hga_plan_update(plan, p.graph));
        float *anew = results(plan, workspace, &with);
        assert_same_bits(p.name, other, anew, out_count(&p) + lse_count(&p));
        free(first), free(other), free(last), free(anew);
        hga_workspace_destroy(workspace), hga_plan_destroy(plan), problem_clear(&with);
    }
}

/* The bytes that a plan's first workspace leaves with it, and its second one. */
static void count_kept(const problem *p, int64_t *first, int64_t *second)
{
    hga_plan *plan;
    hga_workspace *workspace[2];
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, NULL, &plan));
    int64_t bytes = hga_plan_bytes(plan);
    assert_ok(hga_workspace_create(plan, &workspace[0]));
    *first = hga_plan_bytes(plan) - bytes;
    assert_ok(hga_workspace_create(plan, &workspace[1]));
    *second = hga_plan_bytes(plan) - bytes - *first;
    for (int i = 0; i < 2; i++) hga_workspace_destroy(workspace[i]);
    hga_plan_destroy(plan);
}

/* They are kept once a plan, and at most a tenth of the tensors: rows of few numbers have none. */
static void kept_tiles_take_a_tenth_of_the_tensors_at_most(void **state)
{
    (void)state;
    int64_t first, second;
    problem p = problem_of("bpt k=4", 2048);
    p.shape = (hga_shape){.n_heads = 8, .dim = 64};
    problem_fill(&p, 1);
    count_kept(&p, &first, &second);
    assert_true(first > 2048 * 20);
    assert_true(first < tensor_bytes(&p) / 50);
    assert_int_equal(second, 0);
    problem narrow = problem_of("bpt k=4", 2048), wide = problem_of("bpt k=64", 2048);
    narrow.shape = (hga_shape){.n_heads = 1, .dim = 2}, wide.shape = p.shape;
    problem_fill(&narrow, 1), problem_fill(&wide, 1);
    count_kept(&narrow, &first, &second);
    assert_true(first < tensor_bytes(&narrow) / 10);
    count_kept(&wide, &first, &second); /* has many edges a segment, but for spans of few tokens */
    assert_true(first < tensor_bytes(&wide) / 500);
    problem_clear(&p), problem_clear(&narrow), problem_clear(&wide);
}

/* After an update they are where those before it were: none of the memory that they were written in stays. */
static void an_update_takes_no_more_for_kept_tiles(void **state)
{
    (void)state;
    for (int i = 0; i < N_KEPT; i++) {
        hga_plan *plan;
        hga_workspace *workspace;
        problem p = case_number(i);
        p.shape = (hga_shape){.n_heads = 8, .dim = 16};
        problem_fill(&p, 2), problem_fill_tables(&p, 7, 1, 1, 0);
        p.io.node_pos.data = NULL;
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, NULL, &plan));
        for (int64_t round = 0, bytes = 0; round < 3; round++) {
            assert_ok(hga_workspace_create(plan, &workspace));
            free(results(plan, workspace, &p));
            if (round) assert_int_equal(hga_plan_bytes(plan), bytes);
            hga_workspace_destroy(workspace);
            assert_ok(hga_plan_update(plan, p.graph));
            bytes = hga_plan_bytes(plan);
        }
        hga_plan_destroy(plan), problem_clear(&p);
    }
}

/* A workspace that finds no memory for them is none, a call fails, and nothing is left behind: with memory they are as
   right as before. */
static void no_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    problem p = case_number(1);
    p.shape = (hga_shape){.n_heads = 8, .dim = 16};
    problem_fill(&p, 2), problem_fill_tables(&p, 7, 1, 1, 0);
    p.io.node_pos.data = NULL;
    hga_status st = HGA_ENOMEM;
    filling m = {.byte = 0xff};
    hga_allocator a = filling_allocator(&m);
    hga_plan *plan;
    hga_workspace *workspace = NULL;
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.allocator = &a}, &plan));
    int64_t live = m.live, fails = 1;
    for (; st; fails++) {
        m.asked = 0;
        m.fails_from = fails;
        st = hga_workspace_create(plan, &workspace);
        m.fails_from = 0;
        if (!st) break;
        assert_int_equal(st, HGA_ENOMEM);
        assert_null(workspace);
        assert_int_equal(m.live, live);
    }
    assert_true(fails > 6);
    live = m.live, st = HGA_ENOMEM, fails = 1;
    hga_io io = p.io;
    io.out.data = memory(out_count(&p), sizeof(float));
    for (; st; fails++) {
        m.asked = 0;
        m.fails_from = fails;
        st = hga_plan_execute(plan, workspace, &io);
        m.fails_from = 0;
        if (!st) break;
        assert_int_equal(st, HGA_ENOMEM);
        assert_int_equal(typed_panels(plan), 0);
        assert_int_equal(m.live, live);
    }
    assert_true(fails > 6 && typed_panels(plan) > 0);
    float *kept = results(plan, workspace, &p);
    assert_ok(hga_plan_update(plan, p.graph));
    float *anew = results(plan, workspace, &p);
    assert_same_bits(p.name, kept, anew, out_count(&p) + lse_count(&p));
    free(kept), free(anew), free(io.out.data);
    hga_workspace_destroy(workspace), hga_plan_destroy(plan);
    assert_int_equal(m.live, 0);
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_tiles_have_the_bits_of_tiles_chosen_anew),
        cmocka_unit_test(kept_types_have_the_bits_of_types_chosen_anew),
        cmocka_unit_test(types_are_kept_from_their_first_call_on),
        cmocka_unit_test(types_that_a_call_does_not_compute_are_not_kept),
        cmocka_unit_test(other_calls_between_change_nothing),
        cmocka_unit_test(kept_tiles_take_a_tenth_of_the_tensors_at_most),
        cmocka_unit_test(an_update_takes_no_more_for_kept_tiles),
        cmocka_unit_test(no_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
