/* test_window.c: the window against its one-line definition. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* the definition, word for word */
static int sees(const hga_window *p, hga_id i, hga_id j)
{
    if (p->causal && j > i) return 0;
    if (i < p->global || j < p->global) return 1;
    return (p->left < 0 || i - j <= p->left) && (p->right < 0 || j - i <= p->right) && (j - i) % p->stride == 0;
}

static hga_graph *build(const hga_window *p)
{
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build_window(p, &g, &program));
    assert_int_equal(program.n_stages, 1);
    assert_int_equal(program.has_lse, 1);
    return g;
}

static void assert_is_the_definition(const hga_window *p)
{
    char what[160];
    snprintf(what, sizeof what, "tokens %d keys %d left %d right %d global %d stride %d causal %d", p->n_tokens,
             p->n_keys, p->left, p->right, p->global, p->stride, p->causal);
    hga_graph *g = build(p);
    hga_nodes nodes = hga_graph_nodes(g);
    int64_t n_got, n_want = 0;
    edge *got = all_rows(g, hga_graph_find_relation(g, "near"), &n_got),
         *want = memory((int64_t)p->n_tokens * nodes.n_keys, sizeof *want);
    for (hga_id i = 0; i < p->n_tokens; i++)
        for (hga_id j = 0; j < nodes.n_keys; j++)
            if (sees(p, i, j)) want[n_want++] = (edge){.dst = i, .src = nodes.key_first + j};
    assert_same_edges(what, got, n_got, want, n_want);
    assert_int_equal(hga_graph_relation(g, 0).n_edges, n_want);
    free(got), free(want);
    hga_graph_destroy(g);
}

static void a_small_window_by_hand(void **state)
{
    (void)state;
    hga_graph *g = build(&(hga_window){.n_tokens = 4, .left = 1, .right = 1, .stride = 1});
    hga_csr csr;
    assert_ok(hga_graph_rows(g, 0, 0, 4, &csr));
    const hga_id sources[] = {0, 1, 0, 1, 2, 1, 2, 3, 2, 3};
    assert_int_equal(csr.ptr[4], 10);
    assert_memory_equal(csr.src, sources, sizeof sources);
    hga_csr_clear(&csr);
    hga_graph_destroy(g);
}

/* a number in [lo, hi] */
static hga_id draw(uint64_t *stream, hga_id lo, hga_id hi) { return lo + random_below(stream, (int64_t)hi - lo + 1); }

static void random_windows_are_the_definition(void **state)
{
    (void)state;
    uint64_t stream = 5;
    for (int t = 0; t < 3000; t++) {
        hga_window p = {.n_tokens = draw(&stream, 1, 30),
                        .left = draw(&stream, -1, 12),
                        .right = draw(&stream, -1, 12),
                        .stride = draw(&stream, 1, 9)};
        if (draw(&stream, 0, 1)) p.stride = 1;
        if (draw(&stream, 0, 1)) p.global = draw(&stream, 0, 34);
        p.causal = draw(&stream, 0, 1);
        if (draw(&stream, 0, 2) == 0) p.n_keys = p.causal ? p.n_tokens : draw(&stream, 1, 30);
        assert_is_the_definition(&p);
    }
}

static void limits_of_any_size_are_fine(void **state)
{
    (void)state;
    assert_is_the_definition(&(hga_window){.n_tokens = 9, .left = INT32_MAX, .right = INT32_MAX, .stride = 1});
    assert_is_the_definition(&(hga_window){.n_tokens = 9, .left = INT32_MAX, .right = -5, .stride = INT32_MAX});
    assert_is_the_definition(&(hga_window){.n_tokens = 9, .stride = 3, .global = INT32_MAX});
    assert_is_the_definition(
        &(hga_window){.n_tokens = 9, .left = INT32_MIN, .right = INT32_MIN, .stride = 2, .causal = 1});
    assert_is_the_definition(&(hga_window){.n_tokens = 1, .left = 3, .right = 3, .stride = 2});
}

static void a_million_tokens_are_a_few_blocks(void **state)
{
    (void)state;
    hga_window p;
    hga_defaults(&p);
    p.n_tokens = 1 << 20;
    hga_graph *plain = build(&p);
    p.stride = 7, p.global = 3;
    hga_graph *strided = build(&p);
    assert_int_equal(hga_graph_relation(plain, 0).n_blocks, 1);
    assert_int_equal(hga_graph_relation(plain, 0).n_explicit, 0);
    assert_true(hga_graph_relation(plain, 0).n_edges == (hga_pos)129 * (1 << 20) - 64 * 65);
    assert_in_range(hga_graph_relation(strided, 0).n_blocks, 1, 5);
    hga_graph_destroy(plain);
    hga_graph_destroy(strided);
}

static void it_claims_single_cover_only(void **state)
{
    (void)state;
    hga_graph *g = build(&(hga_window){.n_tokens = 5, .stride = 1}),
              *causal = build(&(hga_window){.n_tokens = 5, .stride = 1, .causal = 1});
    assert_int_equal(hga_graph_nodes(g).claims, HGA_CLAIM_SINGLE);
    assert_int_equal(hga_graph_nodes(causal).claims, HGA_CLAIM_SINGLE | HGA_CLAIM_CAUSAL);
    hga_graph_destroy(g);
    hga_graph_destroy(causal);
}

static void refused(hga_status status, hga_window p, const char *number)
{
    hga_graph *g = (hga_graph *)&p;
    hga_program program;
    assert_status(status, hga_build_window(&p, &g, &program));
    assert_null(g);
    assert_non_null(strstr(hga_error_detail(), number));
}

static void what_has_no_meaning_is_refused_with_its_number(void **state)
{
    (void)state;
    hga_window p;
    hga_defaults(&p);
    refused(HGA_EINVAL, p, "tokens: 0");
    refused(HGA_EINVAL, (hga_window){.n_tokens = 4, .stride = 0}, "stride: 0");
    refused(HGA_EINVAL, (hga_window){.n_tokens = 4, .stride = 1, .global = -7}, "global: -7");
    refused(HGA_EUNSUPPORTED, (hga_window){.n_tokens = 4, .n_keys = 5, .stride = 1, .causal = 1},
            "4 queries and 5 keys");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_window_by_hand),      cmocka_unit_test(random_windows_are_the_definition),
        cmocka_unit_test(limits_of_any_size_are_fine), cmocka_unit_test(a_million_tokens_are_a_few_blocks),
        cmocka_unit_test(it_claims_single_cover_only), cmocka_unit_test(what_has_no_meaning_is_refused_with_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
