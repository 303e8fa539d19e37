/* Rows that are cut into pieces: which ones, and that pieces come when others read the same columns. */
#include "by_hand.h"

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

/* Spans of 128, 256, 512 and 1024 tokens: 8 + 4 + 2 + 1 of them, sixteen pieces of 64 on each level. */
static void spans_of_many_tokens_are_cut(void **state)
{
    (void)state;
    hga_plan *plan = plan_of_words("bpt k=2", 1024, 1);
    const stage_plan *s = &plan->stage[0];
    assert_int_equal(s->n_long, 15);
    assert_int_equal(s->n_pieces, 4 * 16);
    for (hga_id i = 0; i < s->n_long; i++) {
        hga_id v = s->long_row[i].position;
        assert_int_equal(s->long_row[i].source, plan->nodes.span_first[v]);
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
    assert_int_equal(plan->stage[0].n_pieces, 7);
    hga_plan_destroy(plan);
    plan = plan_of_block((hga_block){.dst = 399, .n_dst = 1, .n_src = 400});
    assert_int_equal(plan->stage[0].n_long, 1);
    hga_plan_destroy(plan);
}

/* A piece's first column is one of the tokens that the panel before it attends from. */
static void pieces_come_with_their_columns(void **state)
{
    (void)state;
    hga_plan *plan = plan_of_words("bpt k=4", 4096, 1);
    const stage_plan *s = &plan->stage[0];
    hga_id begin = 0, end = 0, pieces = 0;
    for (int64_t i = 0; i < plan->waves.n_items; i++) {
        const wave_item *item = &plan->waves.item[i];
        const phase *ph = &plan->phase[item->phase];
        if (ph->job == JOB_ROWS && ph->first == 0) begin = item->panel * ph->panel, end = begin + ph->panel;
        if (ph->job != JOB_PIECES) continue;
        const long_row *row = long_row_of(s, item->panel);
        hga_pos first = row->source + row->cut * (item->panel - row->first_piece);
        assert_in_range(first, begin, end - 1);
        pieces++;
    }
    assert_int_equal(pieces, s->n_pieces);
    assert_int_equal(pieces, 6 * 4096 / 64);
    hga_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_of_many_tokens_are_cut),
        cmocka_unit_test(rows_that_share_columns_are_not_cut),
        cmocka_unit_test(a_row_alone_in_its_panel_may_share_columns),
        cmocka_unit_test(pieces_come_with_their_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
