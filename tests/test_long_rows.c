/* Rows that are cut into pieces: which ones, and that pieces come when others read the same columns. */
#include "by_hand.h"

#include <math.h>
#include <stdlib.h>

#include "plan.h"

static hga_plan *plan_of(const hga_graph *g, const hga_program *p, hga_id threads)
{
    hga_plan *plan;
    assert_ok(hga_plan_create(g, p, &(hga_shape){.n_heads = 2, .dim = 8}, &(hga_options){.threads = threads}, &plan));
    return plan;
}

static hga_plan *plan_of_words(const char *words, hga_id n, hga_id threads)
{
    hga_graph *g;
    hga_program p;
    assert_ok(hga_build(words, n, &g, &p));
    hga_plan *plan = plan_of(g, &p, threads);
    hga_graph_destroy(g);
    return plan;
}

static int64_t visits;
void __real_hga_graph_visit_segments(const hga_graph *g, hga_id relation, hga_id first, hga_id n,
                                     hga_segments_visit visit, void *context);
void __wrap_hga_graph_visit_segments(const hga_graph *g, hga_id relation, hga_id first, hga_id n,
                                     hga_segments_visit visit, void *context);
void __wrap_hga_graph_visit_segments(const hga_graph *g, hga_id relation, hga_id first, hga_id n,
                                     hga_segments_visit visit, void *context)
{
    visits++;
    __real_hga_graph_visit_segments(g, relation, first, n, visit, context);
}

/* Each of the 4096 tokens has more than 64 columns, and none of them alone. */
static void the_graph_is_asked_by_panels_not_by_rows(void **state)
{
    (void)state;
    visits = 0;
    hga_plan *plan = plan_of_words("bpt k=64", 4096, 1);
    assert_in_range(visits, plan->stage[0].panels, 8 * plan->stage[0].panels);
    assert_true(8 * plan->stage[0].panels < 4096);
    hga_plan_destroy(plan);
}

/* One relation of one block, from 400 rows to the 400 rows themselves. */
static hga_plan *plan_of_block(hga_block block)
{
    hga_graph *g = blocks_over(400, &block, 1);
    hga_program p;
    assert_ok(hga_program_attention(&p, 0));
    hga_plan *plan = plan_of(g, &p, 1);
    hga_graph_destroy(g);
    return plan;
}

/* Spans of 128, 256, 512 and 1024 tokens: 8 + 4 + 2 + 1 of them, sixteen pieces of 64 on each level. So each token has
   several, and those of 32 and 64 tokens, which join them, are one piece each. */
static void spans_of_many_tokens_are_cut(void **state)
{
    (void)state;
    hga_plan *plan = plan_of_words("bpt k=2", 1024, 1);
    const stage_plan *s = &plan->stage[0];
    assert_int_equal(s->n_long, 32 + 16 + 15);
    assert_int_equal(s->n_splits, 32 + 16 + 4 * 16);
    for (hga_id i = 0; i < s->n_long; i++) {
        hga_id v = s->long_row[i].position;
        assert_int_equal(s->long_row[i].alone.first, plan->nodes.span_first[v]);
        assert_int_equal(s->long_row[i].n_edges, plan->nodes.span_last[v] - plan->nodes.span_first[v] + 1);
    }
    hga_plan_destroy(plan);
}

static void rows_that_share_columns_are_not_cut(void **state)
{
    (void)state;
    static const char *const words[] = {"dense", "dense causal=1", "window left=100 right=100",
                                        "htransformer block=64"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        hga_plan *plan = plan_of_words(words[i], 1000, 1);
        for (hga_id s = 0; s < plan->program.n_stages; s++) assert_int_equal(plan->stage[s].n_long, 0);
        hga_plan_destroy(plan);
    }
}

/* The last row of a block begins a panel, where it looks alone. */
static void a_row_alone_in_its_panel_may_share_columns(void **state)
{
    (void)state;
    hga_plan *plan = plan_of_block((hga_block){.n_dst = 257, .n_src = 400});
    assert_int_equal(plan->stage[0].n_long, 0);
    hga_plan_destroy(plan);
    plan = plan_of_block((hga_block){.dst = 256, .n_dst = 1, .n_src = 400});
    assert_int_equal(plan->stage[0].n_long, 1);
    assert_int_equal(plan->stage[0].n_splits, 7);
    hga_plan_destroy(plan);
    plan = plan_of_block((hga_block){.dst = 399, .n_dst = 1, .n_src = 400});
    assert_int_equal(plan->stage[0].n_long, 1);
    hga_plan_destroy(plan);
}

/* A piece's first column is one of the tokens that the panel before it attends from, and those of 64 tokens come one
   behind the other. */
static void pieces_come_with_their_columns(void **state)
{
    (void)state;
    hga_plan *plan = plan_of_words("bpt k=4", 4096, 1);
    const stage_plan *s = &plan->stage[0];
    hga_id begin = 0, end = 0, pieces = 0, runs = 0, last = -1;
    for (int64_t i = 0; i < plan->waves.n_items; i++) {
        const wave_item *item = &plan->waves.item[i];
        const phase *ph = &plan->phases.list[item->phase];
        if (ph->job == JOB_ROWS && ph->first == 0) begin = item->panel * ph->panel, end = begin + ph->panel;
        if (ph->job != JOB_SPLITS) continue;
        const long_row *row = long_row_of(s, item->panel);
        hga_pos first = row->alone.first + row->cut * (item->panel - row->first_split);
        assert_in_range(first, begin, end - 1);
        runs += first / 64 != last, last = (hga_id)(first / 64);
        pieces++;
    }
    assert_int_equal(pieces, s->n_splits);
    assert_int_equal(pieces, 4096 / 32 + 7 * 4096 / 64);
    assert_int_equal(runs, 4096 / 64);
    hga_plan_destroy(plan);
}

/* ---- sums ---- */

/* A plan of Treeformer with eight leaves, whose nodes' keys lie all over the tokens. */
static hga_plan *plan_of_tree(hga_id n, int coarse, hga_id threads)
{
    int32_t *leaf = memory(2 * (int64_t)n, sizeof *leaf);
    for (hga_id i = 0; i < 2 * n; i++) leaf[i] = i % 8;
    hga_treeformer t;
    hga_defaults(&t);
    t.n_queries = t.n_keys = n, t.height = 3, t.n_leaves = 8;
    t.query_leaf = leaf, t.key_leaf = leaf + n;
    hga_graph *g;
    hga_program p;
    assert_ok((coarse ? hga_build_treeformer_coarse : hga_build_treeformer_fine)(&t, &g, &p));
    hga_plan *plan = plan_of(g, &p, threads);
    hga_graph_destroy(g);
    free(leaf);
    return plan;
}

/* Nodes of 4096, 2048 and 1024 keys, 8 pieces of 512 on each of their levels; leaves have no more than a piece. */
static void means_of_many_rows_are_cut(void **state)
{
    (void)state;
    hga_plan *plan = plan_of_tree(4096, 1, 1);
    const stage_plan *s = &plan->stage[0];
    assert_int_equal(s->kind, KIND_MEAN);
    assert_int_equal(s->n_long, 1 + 2 + 4);
    assert_int_equal(s->n_splits, 3 * 8);
    for (hga_id i = 0; i < s->n_long; i++) assert_true(s->long_row[i].alone.first >= 0);
    hga_plan_destroy(plan);
}

/* A row alone with its columns is cut, two that share them are not: each would need rows of its own for its pieces. */
static void means_that_share_columns_are_not_cut(void **state)
{
    (void)state;
    for (hga_id rows = 1; rows < 3; rows++) {
        hga_graph *g = blocks_over(600, &(hga_block){.dst = 7, .n_dst = rows, .n_src = 600, .count = 1}, 1);
        hga_program p;
        hga_program_init(&p);
        hga_id v = field_on_nodes(&p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE),
               out = field_on_nodes(&p, "out", HGA_WIDTH_OUT, HGA_IO_OUT),
               mean = field_on_nodes(&p, "mean", HGA_WIDTH_VALUE, HGA_INTERNAL);
        assert_ok(hga_program_mean(&p, 0, v, mean, 0));
        assert_ok(hga_program_weighted_sum(&p, 0, mean, out));
        hga_plan *plan = plan_of(g, &p, 1);
        assert_int_equal(plan->stage[0].n_splits, rows == 1 ? 2 : 0);
        hga_plan_destroy(plan), hga_graph_destroy(g);
    }
}

/* Pieces and leaves go along the keys, as these lie in their order: the i-th of n rows where the i-th of n pieces is.
 */
static void means_that_read_the_same_rows_come_together(void **state)
{
    (void)state;
    hga_plan *plan = plan_of_tree(4096, 1, 1);
    hga_id leaves = 0, pieces = 0;
    for (int64_t i = 0; i < plan->waves.n_items; i++) {
        const phase *ph = &plan->phases.list[plan->waves.item[i].phase];
        if (ph->stage > 0 || ph->job > JOB_SPLITS) continue;
        leaves += ph->job == JOB_ROWS && ph->n == 8, pieces += ph->job == JOB_SPLITS;
        assert_in_range(pieces, 3 * (leaves - 1), 3 * (leaves + 1));
    }
    assert_int_equal(pieces, 3 * 8);
    hga_plan_destroy(plan);
}

/* Two threads have as much to do in each wave: nodes above are shared out, and keys, which the stage does not write,
   cost nothing. */
static void trees_are_shared_out_evenly(void **state)
{
    (void)state;
    for (int coarse = 0; coarse < 2; coarse++) {
        hga_plan *plan = plan_of_tree(4096, coarse, 2);
        const phase *queries = plan->phases.list;
        while (!queries->by_position) queries++;
        assert_int_equal(queries->n, 4096);
        int64_t items[2] = {0};
        for (hga_id wave = 0; wave < plan->waves.n; wave++)
            for (hga_id t = 0; t < 2; t++) {
                int64_t share = 2 * (int64_t)wave + t;
                items[t] += plan->waves.ptr[share + 1] - plan->waves.ptr[share];
            }
        assert_true(items[0] > 0 && items[1] > 0);
        assert_true(waves_longest_shares(plan) < 0.53);
        hga_plan_destroy(plan);
    }
}

/* Means by mass, sums and weighted sums of 700 rows of a block, and of weighted edges beside them, against the plain
   executor: as numbers whole or cut, as bits on any number of threads. */
static void sums_of_pieces_are_sums(void **state)
{
    (void)state;
    enum { N = 700 };
    static const hga_pos cuts[] = {0, 1, 3, 64, 513};
    hga_builder *b = tokens_alone(N);
    hga_id near;
    uint64_t rng = 5;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_block(b, near, 0, 3, 0, N, 0));
    assert_ok(hga_builder_add_block(b, near, 3, N - 3, 40, 9, 0));
    for (hga_id i = 0; i < N; i++)
        assert_ok(hga_builder_add_edge(b, near, random_below(&rng, N), i % 3 ? N - 1 : 1, i % 2, 0.25f));
    problem p = {.name = "sums", .graph = finished(b), .shape = {.n_heads = 4, .n_kv_heads = 2, .dim = 3, .dim_v = 5}};
    hga_program_init(&p.program);
    hga_id v = field_on_nodes(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE),
           mean = field_on_nodes(&p.program, "mean", HGA_WIDTH_VALUE, HGA_INTERNAL),
           sum = field_on_nodes(&p.program, "sum", HGA_WIDTH_VALUE, HGA_INTERNAL),
           out = field_on_nodes(&p.program, "out", HGA_WIDTH_OUT, HGA_IO_OUT);
    assert_ok(hga_program_mean(&p.program, near, v, mean, 1));
    assert_ok(hga_program_sum(&p.program, near, mean, sum));
    assert_ok(hga_program_weighted_sum(&p.program, near, sum, out));
    problem_fill(&p, 6);
    p.io.type_scale.data = (const float[]){0.5f, -1.5f}, p.io.type_scale.rows = 2;
    float *plain = problem_out(&p, &(hga_options){.generic = 1}, NULL);
    double most = 0;
    for (int64_t i = 0; i < out_count(&p); i++) most = fmax(most, fabs((double)plain[i]));
    assert_true(most > 1);
    for (int c = 0; c < 5; c++) {
        float *one = problem_out(&p, &(hga_options){.threads = 1, .cut_edges = cuts[c]}, NULL);
        float *three = problem_out(&p, &(hga_options){.threads = 3, .cut_edges = cuts[c]}, NULL);
        assert_near_floats("sums", one, plain, out_count(&p), 1e-5 * most);
        assert_same_bits("sums", three, one, out_count(&p));
        free(one), free(three);
    }
    free(plain);
    problem_clear(&p);
}

/* A row of several times SUM_CUT edges that is not cut: what its parts add to begins at nothing. */
static void many_ones_add_up_to_their_number(void **state)
{
    (void)state;
    enum { N = 2 * SUM_CUT + 100 };
    hga_builder *b = tokens_alone(N);
    hga_id near;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_block(b, near, 0, 2, 0, N, 0));
    problem p = {.name = "ones", .graph = finished(b), .shape = {.n_heads = 2, .dim = 3}};
    hga_program_init(&p.program);
    hga_id v = field_on_nodes(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE),
           out = field_on_nodes(&p.program, "out", HGA_WIDTH_OUT, HGA_IO_OUT);
    assert_ok(hga_program_weighted_sum(&p.program, near, v, out));
    problem_fill(&p, 1);
    p.io.type_scale.data = (const float[]){1}, p.io.type_scale.rows = 1;
    for (int64_t i = 0; i < N * 6; i++) ((float *)p.io.value.data)[i] = 1;
    float *sums = problem_out(&p, &(hga_options){.threads = 1, .cut_edges = 2 * N}, NULL);
    for (int i = 0; i < 2 * 6; i++) assert_true(sums[i] == N);
    free(sums);
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_graph_is_asked_by_panels_not_by_rows),
        cmocka_unit_test(spans_of_many_tokens_are_cut),
        cmocka_unit_test(rows_that_share_columns_are_not_cut),
        cmocka_unit_test(a_row_alone_in_its_panel_may_share_columns),
        cmocka_unit_test(pieces_come_with_their_columns),
        cmocka_unit_test(means_of_many_rows_are_cut),
        cmocka_unit_test(means_that_share_columns_are_not_cut),
        cmocka_unit_test(means_that_read_the_same_rows_come_together),
        cmocka_unit_test(trees_are_shared_out_evenly),
        cmocka_unit_test(sums_of_pieces_are_sums),
        cmocka_unit_test(many_ones_add_up_to_their_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
