/* test_dense.c: dense attention is one block. */
#include "testing.h"

#include <stdlib.h>
#include <string.h>

static hga_graph *build(hga_id n_tokens, hga_id n_keys, int causal)
{
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build_dense(&(hga_dense){.n_tokens = n_tokens, .n_keys = n_keys, .causal = causal}, &g, &program));
    return g;
}

/* The sources of all rows, one after another. */
static void assert_sources(const hga_graph *g, const hga_id *sources, hga_pos n)
{
    hga_csr csr;
    hga_id n_nodes = hga_graph_nodes(g).n;
    assert_ok(hga_graph_rows(g, hga_graph_find_relation(g, "near"), 0, n_nodes, &csr));
    assert_int_equal(csr.ptr[n_nodes], n);
    assert_memory_equal(csr.src, sources, (size_t)n * sizeof *sources);
    hga_csr_clear(&csr);
}

static void every_token_sees_every_token(void **state)
{
    (void)state;
    hga_graph *g = build(3, 0, 0);
    assert_sources(g, (hga_id[]){0, 1, 2, 0, 1, 2, 0, 1, 2}, 9);
    hga_graph_destroy(g);
}

static void causal_tokens_see_themselves_and_earlier_ones(void **state)
{
    (void)state;
    hga_graph *g = build(4, 0, 1);
    assert_sources(g, (hga_id[]){0, 0, 1, 0, 1, 2, 0, 1, 2, 3}, 10);
    hga_graph_destroy(g);
}

static void the_first_rows_of_a_longer_causal_graph_are_the_shorter_graph(void **state)
{
    (void)state;
    hga_graph *shorter = build(4, 0, 1), *longer = build(9, 0, 1);
    int64_t n_shorter, n_longer;
    edge *few = all_rows(shorter, 0, &n_shorter), *many = all_rows(longer, 0, &n_longer);
    assert_true(n_shorter < n_longer);
    assert_same_edges("4 of 9 rows", many, n_shorter, few, n_shorter);
    free(few), free(many);
    hga_graph_destroy(shorter);
    hga_graph_destroy(longer);
}

static void cross_attention_puts_the_keys_behind_the_queries(void **state)
{
    (void)state;
    hga_graph *g = build(2, 3, 0);
    hga_nodes nodes = hga_graph_nodes(g);
    assert_int_equal(nodes.n, 5);
    assert_int_equal(nodes.query_first, 0);
    assert_int_equal(nodes.n_queries, 2);
    assert_int_equal(nodes.key_first, 2);
    assert_int_equal(nodes.n_keys, 3);
    const uint8_t sides[] = {HGA_SIDE_QUERY, HGA_SIDE_QUERY, HGA_SIDE_KEY, HGA_SIDE_KEY, HGA_SIDE_KEY};
    assert_memory_equal(nodes.side, sides, sizeof sides);
    assert_sources(g, (hga_id[]){2, 3, 4, 2, 3, 4}, 6);
    hga_graph_destroy(g);
}

static void causal_cross_attention_of_equal_lengths_is_lower(void **state)
{
    (void)state;
    hga_graph *g = build(2, 2, 1);
    assert_sources(g, (hga_id[]){2, 2, 3}, 3);
    hga_graph_destroy(g);
}

static void a_million_tokens_are_one_block(void **state)
{
    (void)state;
    hga_graph *g = build(1 << 20, 0, 0);
    hga_relation near = hga_graph_relation(g, 0);
    assert_int_equal(near.n_blocks, 1);
    assert_int_equal(near.n_explicit, 0);
    assert_true(near.n_edges == (hga_pos)1 << 40);
    hga_graph_destroy(g);
}

static void it_claims_what_it_is(void **state)
{
    (void)state;
    hga_graph *both = build(7, 0, 0), *causal = build(7, 0, 1);
    assert_int_equal(hga_graph_nodes(both).claims, HGA_CLAIM_SINGLE | HGA_CLAIM_COMPLETE);
    assert_int_equal(hga_graph_nodes(causal).claims, HGA_CLAIM_SINGLE | HGA_CLAIM_COMPLETE | HGA_CLAIM_CAUSAL);
    hga_graph_destroy(both);
    hga_graph_destroy(causal);
}

static void the_program_is_one_attend_stage_with_an_lse(void **state)
{
    (void)state;
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build_dense(&(hga_dense){.n_tokens = 3}, &g, &program));
    assert_int_equal(program.n_stages, 1);
    assert_int_equal(program.stage[0].message, HGA_SCORE);
    assert_int_equal(program.stage[0].by_mass, 0);
    assert_int_equal(program.has_lse, 1);
    hga_graph_destroy(g);
}

static void refused(hga_status status, hga_dense p, const char *number)
{
    hga_graph *g = (hga_graph *)&p;
    hga_program program;
    assert_status(status, hga_build_dense(&p, &g, &program));
    assert_null(g);
    assert_non_null(strstr(hga_error_detail(), number));
}

static void what_has_no_meaning_is_refused_with_its_number(void **state)
{
    (void)state;
    hga_dense p;
    hga_defaults(&p);
    refused(HGA_EINVAL, p, "tokens: 0");
    refused(HGA_EINVAL, (hga_dense){.n_tokens = 3, .n_keys = -2}, "keys: -2");
    refused(HGA_EUNSUPPORTED, (hga_dense){.n_tokens = 3, .n_keys = 4, .causal = 1}, "3 queries and 4 keys");
    refused(HGA_EOVERFLOW, (hga_dense){.n_tokens = INT32_MAX, .n_keys = 4}, "2147483647");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_sees_every_token),
        cmocka_unit_test(causal_tokens_see_themselves_and_earlier_ones),
        cmocka_unit_test(the_first_rows_of_a_longer_causal_graph_are_the_shorter_graph),
        cmocka_unit_test(cross_attention_puts_the_keys_behind_the_queries),
        cmocka_unit_test(causal_cross_attention_of_equal_lengths_is_lower),
        cmocka_unit_test(a_million_tokens_are_one_block),
        cmocka_unit_test(it_claims_what_it_is),
        cmocka_unit_test(the_program_is_one_attend_stage_with_an_lse),
        cmocka_unit_test(what_has_no_meaning_is_refused_with_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
