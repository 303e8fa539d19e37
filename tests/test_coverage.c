/* test_coverage.c: the sweep over intervals against counting every pair along every way. */
#include "by_hand.h"
#include "ways.h"

static hga_coverage count(const ways *w, int causal)
{
    hga_coverage all = {.token = -1, .other = -1};
    int self = w->nodes.query_first == w->nodes.key_first;
    for (hga_id i = 0; i < w->nodes.n_queries; i++)
        for (hga_id j = 0; j < w->nodes.n_keys; j++) {
            int64_t times = ways_between(w, i, j);
            if (j > i) all.later += times > 0;
            if (causal && j > i) continue;
            all.pairs++, all.none += times == 0, all.once += times == 1, all.more += times > 1;
            all.none_diagonal += self && i == j && times == 0;
        }
    return all;
}

static void assert_coverage_is_the_oracles(const char *name, const hga_graph *g, const hga_program *p)
{
    static ways w;
    ways_count(&w, g, p);
    for (int causal = 0; causal < 2; causal++) {
        hga_coverage got, want = count(&w, causal);
        assert_ok(hga_program_coverage(p, g, causal, &got));
        if (got.pairs != want.pairs || got.none != want.none || got.once != want.once || got.more != want.more ||
            got.later != want.later || got.none_diagonal != want.none_diagonal)
            fail_msg("%s, causal %d: %lld pairs, none %lld once %lld more %lld later %lld diagonal %lld; want %lld: "
                     "%lld %lld %lld %lld %lld",
                     name, causal, (long long)got.pairs, (long long)got.none, (long long)got.once, (long long)got.more,
                     (long long)got.later, (long long)got.none_diagonal, (long long)want.pairs, (long long)want.none,
                     (long long)want.once, (long long)want.more, (long long)want.later, (long long)want.none_diagonal);
        if (got.more)
            assert_true(ways_between(&w, got.token, got.other) > 1);
        else if (got.none)
            assert_int_equal(ways_between(&w, got.token, got.other), 0);
        else
            assert_int_equal(got.token, -1);
        if (causal && got.token >= 0) assert_true(got.other <= got.token);
        int self = w.nodes.query_first == w.nodes.key_first; /* else query 2 and key 2 are two tokens */
        if (self && !got.more && got.none > got.none_diagonal) assert_int_not_equal(got.token, got.other);
    }
}

static void coverage_of_random_programs_is_the_oracles(void **state)
{
    (void)state;
    on_random_programs(150, assert_coverage_is_the_oracles);
}

static void coverage_of_drawn_programs_is_the_oracles(void **state)
{
    (void)state;
    int n = thinned(1500);
    assert_true(on_drawn_programs(n, NO_USER_STAGES, assert_coverage_is_the_oracles) > n / 6);
}

static void coverage_of_the_variants_is_the_oracles(void **state)
{
    (void)state;
    on_variants(4, assert_coverage_is_the_oracles);
}

/* A graph keeps what it promises. The algorithm as its paper prints it is there for study and covers pairs twice. */
static void the_variants_keep_their_claims(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++)
        for (uint64_t seed = 4; seed <= 6; seed++) {
            problem p;
            hga_coverage c;
            variant_build(i, 300, seed, &(hga_shape){.n_heads = 1, .dim = 2, .pos_dim = 2}, &p);
            uint32_t claims = hga_graph_nodes(p.graph).claims;
            if (i == variant_named("bpt_algorithm1")) claims = 0;
            assert_ok(hga_program_coverage(&p.program, p.graph, (claims & HGA_CLAIM_CAUSAL) != 0, &c));
            if ((claims & HGA_CLAIM_SINGLE && c.more) || (claims & HGA_CLAIM_COMPLETE && c.none > c.none_diagonal) ||
                (claims & HGA_CLAIM_CAUSAL && c.later))
                fail_msg("%s claims %u: more %lld, none %lld of which diagonal %lld, later %lld; %d and %d", p.name,
                         claims, (long long)c.more, (long long)c.none, (long long)c.none_diagonal, (long long)c.later,
                         c.token, c.other);
            problem_clear(&p);
        }
}

/* ---- facts ---- */

static void attention_over(hga_id n, const hga_block *block, int n_blocks, hga_coverage *c, int causal)
{
    hga_graph *g = blocks_over(n, block, n_blocks);
    hga_program p;
    assert_ok(hga_program_attention(&p, 0));
    assert_ok(hga_program_coverage(&p, g, causal, c));
    hga_graph_destroy(g);
}

static void all_pairs_are_covered_once(void **state)
{
    (void)state;
    hga_coverage c;
    attention_over(6, &(hga_block){.n_dst = 6, .n_src = 6}, 1, &c, 0);
    assert_int_equal(c.pairs, 36);
    assert_int_equal(c.once, 36);
    assert_int_equal(c.later, 15);
    assert_int_equal(c.token, -1);
}

static void a_lower_triangle_covers_the_earlier_ones(void **state)
{
    (void)state;
    hga_coverage c;
    attention_over(6, &(hga_block){.n_dst = 6, .n_src = 6, .shape = HGA_LOWER}, 1, &c, 1);
    assert_int_equal(c.pairs, 21);
    assert_int_equal(c.once, 21);
    assert_int_equal(c.later, 0);
}

static void a_pair_given_twice_is_shown(void **state)
{
    (void)state;
    hga_coverage c;
    hga_block twice[] = {{.n_dst = 4, .n_src = 4, .type = 1}, {.dst = 2, .n_dst = 1, .src = 1, .n_src = 2}};
    attention_over(4, twice, 2, &c, 0);
    assert_int_equal(c.more, 2);
    assert_int_equal(c.once, 14);
    assert_int_equal(c.token, 2);
    assert_int_equal(c.other, 1);
}

static void a_token_and_itself_is_shown_last(void **state)
{
    (void)state;
    hga_coverage c;
    attention_over(3, &(hga_block){.n_dst = 3, .n_src = 3, .shape = HGA_OFF_DIAGONAL}, 1, &c, 0);
    assert_int_equal(c.none, 3);
    assert_int_equal(c.none_diagonal, 3);
    assert_int_equal(c.token, 0);
    assert_int_equal(c.other, 0);
    attention_over(3, &(hga_block){.n_dst = 3, .n_src = 3, .shape = HGA_STRICT_LOWER}, 1, &c, 0);
    assert_int_equal(c.none, 6);
    assert_int_equal(c.token, 0);
    assert_int_equal(c.other, 1);
}

static void without_edges_nothing_is_covered(void **state)
{
    (void)state;
    hga_coverage c;
    attention_over(3, NULL, 0, &c, 0);
    assert_int_equal(c.none, 9);
    assert_int_equal(c.once, 0);
}

/* ---- stages in place ---- */

/* A program that sums values up into `out`, which only nodes above the tokens have, and then means of it in place. */
static hga_program means_above(void)
{
    hga_program p;
    hga_program_init(&p);
    (void)field(&p, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    hga_id value = field(&p, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES);
    hga_id out = field(&p, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_ABOVE, HGA_ROWS_ABOVE);
    assert_ok(hga_program_coarsen(&p, value));
    assert_ok(hga_program_weighted_sum(&p, 0, value, out));
    assert_ok(hga_program_mean(&p, 0, out, out, 0));
    return p;
}

/* Only rows that a stage writes must have their edges from levels that it wrote before: here a token has one to itself.
   (It was followed until the stack was full.) */
static void rows_that_a_stage_does_not_write_are_not_followed(void **state)
{
    (void)state;
    hga_builder *b = started(4, 0, 2);
    assert_ok(hga_builder_set_families(b, 4, 0, 4, 2));
    assert_ok(hga_builder_add_edge(b, 0, 3, 3, 0, 1));
    hga_graph *g = finished(b);
    hga_program p = means_above();
    hga_coverage c;
    assert_ok(hga_program_coverage(&p, g, 0, &c));
    assert_int_equal(c.pairs, 16);
    assert_coverage_is_the_oracles("means above", g, &p);
    hga_graph_destroy(g);
}

/* More levels than a stack has room for calls. */
static void what_comes_down_a_long_chain_is_covered(void **state)
{
    enum { LEVELS = 200000 };
    (void)state;
    hga_builder *b;
    assert_ok(hga_builder_create(NULL, &b));
    for (hga_id l = 0; l < LEVELS; l++) assert_ok(hga_builder_add_level(b, 1, NULL));
    for (hga_id v = 1; v < LEVELS; v++) assert_ok(hga_builder_set_children(b, v, v - 1, 1));
    assert_ok(hga_builder_add_relation(b, "to the root", NULL));
    assert_ok(hga_builder_add_edge(b, 0, 0, LEVELS - 1, 0, 1));
    hga_graph *g = finished(b);
    hga_program p;
    hga_program_init(&p);
    hga_id query = field(&p, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_NODES);
    hga_id key = field(&p, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_KEYS);
    hga_id value = field(&p, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_KEYS);
    hga_id out = field(&p, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_NODES);
    assert_ok(hga_program_coarsen(&p, query));
    assert_ok(hga_program_attend(&p, 0, query, key, value, out, 0));
    assert_ok(hga_program_spread(&p, HGA_TREE_DOWN, out));
    hga_coverage c;
    assert_ok(hga_program_coverage(&p, g, 0, &c));
    assert_int_equal(c.pairs, 1);
    assert_int_equal(c.once, 1);
    hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pairs_are_covered_once),
        cmocka_unit_test(a_lower_triangle_covers_the_earlier_ones),
        cmocka_unit_test(a_pair_given_twice_is_shown),
        cmocka_unit_test(a_token_and_itself_is_shown_last),
        cmocka_unit_test(without_edges_nothing_is_covered),
        cmocka_unit_test(coverage_of_random_programs_is_the_oracles),
        cmocka_unit_test(coverage_of_drawn_programs_is_the_oracles),
        cmocka_unit_test(coverage_of_the_variants_is_the_oracles),
        cmocka_unit_test(the_variants_keep_their_claims),
        cmocka_unit_test(rows_that_a_stage_does_not_write_are_not_followed),
        cmocka_unit_test(what_comes_down_a_long_chain_is_covered),
    };
    return cmocka_run_group_tests_name("coverage", tests, NULL, NULL);
}
