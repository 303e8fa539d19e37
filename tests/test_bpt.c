/* test_bpt.c: the blocks of BP-Transformer against the loop that defines its edges. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hga_graph *build(hga_id n, hga_id k, hga_id clip, hga_bpt_rule rule, int causal)
{
    hga_graph *g;
    hga_program program;
    assert_ok(
        hga_build_bpt(&(hga_bpt){.n_tokens = n, .k = k, .clip = clip, .rule = rule, .causal = causal}, &g, &program));
    return g;
}

/* ---- the defining loop ---- */

typedef struct slow {
    hga_id size[33], first[34], n_levels, span;
    edge *e;
    int64_t n;
} slow;

static void emit(slow *s, hga_id src, hga_id dst, int32_t type)
{
    s->e[s->n++] = (edge){.src = src, .dst = dst, .type = type};
}

/* One leaf, as the authors emit: pointers l and r walk outwards k nodes a level, lo and ro remember a sibling left
   behind. */
static void walk(slow *s, const hga_bpt *p, hga_id i)
{
    hga_id k = p->k, l = i - 1, r = i + 1;
    int lo = 0, ro = 0;
    for (hga_id j = 0; j < s->n_levels; j++) {
        const hga_id *c = s->size, *off = s->first;
        int32_t base = (2 * k + 1) * (j < p->clip ? j : p->clip);
        for (hga_id t = 0; t < k; t++, r++, l--) {
            hga_id right = ro ? 2 * r + 1 : r, left = lo ? 2 * l : l;
            if (r < c[j]) {
                if (!p->causal && right < c[j - ro]) emit(s, off[j - ro] + right, i, base + 2 * t + 2);
                ro = 0;
            }
            if (l >= 0) emit(s, off[j - lo] + left, i, base + 2 * t + 1), lo = 0;
        }
        if (p->rule == HGA_BPT_TEXT && r % 2 == 1) {
            if (!p->causal && r < c[j]) emit(s, off[j] + r, i, base + 2 * k);
            r++;
        }
        if (p->rule == HGA_BPT_TEXT && l % 2 == 0) {
            if (l >= 0) emit(s, off[j] + l, i, base + 2 * k - 1);
            l--;
        }
        if (p->rule == HGA_BPT_SHIFTED) lo |= l % 2 == 0, ro |= r % 2 == 1;
        l = l >= 0 ? l / 2 : -((1 - l) / 2), r /= 2;
        emit(s, i, off[j] + (i >> j), base);
    }
}

static slow walk_all(const hga_bpt *p)
{
    slow s = {.size = {p->n_tokens}, .first = {0, p->n_tokens}, .n_levels = 1};
    for (; s.size[s.n_levels - 1] > 1; s.n_levels++) {
        s.size[s.n_levels] = (s.size[s.n_levels - 1] + 1) / 2;
        s.first[s.n_levels + 1] = s.first[s.n_levels] + s.size[s.n_levels];
    }
    s.e = memory((int64_t)p->n_tokens * s.n_levels * (2 * p->k + 3), sizeof *s.e);
    for (hga_id i = 0; i < p->n_tokens; i++) walk(&s, p, i);
    sort_edges(s.e, s.n);
    return s;
}

static void assert_is_the_loop(const hga_bpt *p)
{
    char what[100];
    snprintf(what, sizeof what, "n %d k %d clip %d rule %d causal %d", p->n_tokens, p->k, p->clip, (int)p->rule,
             p->causal);
    hga_graph *g = build(p->n_tokens, p->k, p->clip, p->rule, p->causal);
    slow want = walk_all(p);
    assert_int_equal(hga_graph_nodes(g).n, want.first[want.n_levels]);
    int64_t n_got;
    edge *got = all_rows(g, hga_graph_find_relation(g, "near"), &n_got);
    assert_same_edges(what, got, n_got, want.e, want.n);
    free(got), free(want.e);
    hga_graph_destroy(g);
}

/* ---- facts ---- */

static void three_tokens_by_hand(void **state)
{
    (void)state;
    /* levels 0 1 2 | 3 4 | 5. Token 0 sees token 1, then node 4; token 2 sees token 1, which leaves token 0 behind:
       level 1's slot 0 takes it */
    const edge want[] = {
        {.dst = 0, .src = 0, .type = 0}, {.dst = 0, .src = 1, .type = 2}, {.dst = 0, .src = 4, .type = 5},
        {.dst = 1, .src = 0, .type = 1}, {.dst = 1, .src = 1, .type = 0}, {.dst = 1, .src = 2, .type = 2},
        {.dst = 2, .src = 0, .type = 4}, {.dst = 2, .src = 1, .type = 1}, {.dst = 2, .src = 2, .type = 0},
        {.dst = 3, .src = 0, .type = 3}, {.dst = 3, .src = 1, .type = 3}, {.dst = 4, .src = 2, .type = 3},
        {.dst = 5, .src = 0, .type = 6}, {.dst = 5, .src = 1, .type = 6}, {.dst = 5, .src = 2, .type = 6}};
    hga_graph *g = build(3, 1, 10, HGA_BPT_SHIFTED, 0);
    int64_t n;
    edge *got = all_rows(g, 0, &n);
    assert_same_edges("three tokens", got, n, want, sizeof want / sizeof *want);
    free(got);
    hga_graph_destroy(g);
}

static void one_token_is_its_own_root(void **state)
{
    (void)state;
    for (int rule = HGA_BPT_SHIFTED; rule <= HGA_BPT_ALGORITHM1; rule++) {
        hga_graph *g = build(1, 4, 10, (hga_bpt_rule)rule, 0);
        assert_int_equal(hga_graph_nodes(g).n, 1);
        assert_int_equal(hga_graph_relation(g, 0).n_edges, 1);
        hga_graph_destroy(g);
    }
}

static void every_rule_is_its_loop(void **state)
{
    (void)state;
    const hga_id ks[] = {1, 2, 3, 4, 5, 7, 8, 16, 40, 200};
    uint64_t stream = 1;
    for (int t = 0; t < 900; t++) {
        hga_bpt p = {.n_tokens = 1 + random_below(&stream, 150),
                     .k = ks[random_below(&stream, 10)],
                     .clip = random_below(&stream, 7)};
        p.rule = (hga_bpt_rule)random_below(&stream, 3), p.causal = random_below(&stream, 2);
        assert_is_the_loop(&p);
    }
}

/* How often leaf i sees each token, through the spans it sees. */
static void cover(const hga_graph *g, hga_id i, int *times)
{
    hga_nodes nodes = hga_graph_nodes(g);
    hga_csr csr;
    assert_ok(hga_graph_rows(g, 0, i, 1, &csr));
    for (hga_pos e = 0; e < csr.ptr[1]; e++)
        for (hga_id u = nodes.span_first[csr.src[e]]; u <= nodes.span_last[csr.src[e]]; u++) times[u]++;
    hga_csr_clear(&csr);
}

static void leaves_cover_every_token_once_and_causal_ones_the_earlier(void **state)
{
    (void)state;
    uint64_t stream = 2;
    for (int t = 0; t < 200; t++) {
        hga_id n = 1 + random_below(&stream, 90), causal = random_below(&stream, 2);
        hga_graph *g = build(n, 1 + random_below(&stream, 9), 10,
                             random_below(&stream, 2) ? HGA_BPT_TEXT : HGA_BPT_SHIFTED, causal);
        for (hga_id i = 0; i < n; i++) {
            int times[90] = {0};
            cover(g, i, times);
            for (hga_id j = 0; j < n; j++) assert_int_equal(times[j], !causal || j <= i);
        }
        hga_graph_destroy(g);
    }
}

static void algorithm1_covers_a_token_twice(void **state)
{
    (void)state;
    hga_graph *g = build(8, 1, 10, HGA_BPT_ALGORITHM1, 1);
    int times[8] = {0};
    cover(g, 2, times);
    assert_true(times[0] > 1 || times[1] > 1);
    hga_graph_destroy(g);
}

/* A leaf's edges as (level, index in level, type). */
static void causal_leaves_keep_their_edges_when_tokens_are_appended(void **state)
{
    (void)state;
    for (hga_id n = 1; n < 40; n++) {
        hga_graph *shorter = build(n, 3, 10, HGA_BPT_SHIFTED, 1), *longer = build(n + 5, 3, 10, HGA_BPT_SHIFTED, 1);
        hga_csr a, b;
        assert_ok(hga_graph_rows(shorter, 0, 0, n, &a));
        assert_ok(hga_graph_rows(longer, 0, 0, n, &b));
        assert_int_equal(a.ptr[n], b.ptr[n]);
        for (hga_pos e = 0; e < a.ptr[n]; e++) {
            hga_id at_a, at_b;
            assert_int_equal(index_in_level(shorter, a.src[e], &at_a), index_in_level(longer, b.src[e], &at_b));
            assert_int_equal(at_a, at_b);
            assert_int_equal(a.type[e], b.type[e]);
        }
        hga_csr_clear(&a);
        hga_csr_clear(&b);
        hga_graph_destroy(shorter);
        hga_graph_destroy(longer);
    }
}

static void parents_halve_each_level(void **state)
{
    (void)state;
    hga_graph *g = build(5, 2, 10, HGA_BPT_SHIFTED, 0);
    const hga_id parent[] = {5, 5, 6, 6, 7, 8, 8, 9, 10, 10, -1};
    const float mass[] = {1, 1, 1, 1, 1, 2, 2, 1, 4, 1, 5};
    assert_memory_equal(hga_graph_nodes(g).parent, parent, sizeof parent);
    assert_memory_equal(hga_graph_nodes(g).mass, mass, sizeof mass);
    hga_graph_destroy(g);
}

static void nodes_and_tokens_count_each_other(void **state)
{
    (void)state;
    assert_int_equal(hga_bpt_nodes(1), 1);
    assert_int_equal(hga_bpt_nodes(2), 3);
    assert_int_equal(hga_bpt_nodes(5), 11);
    assert_int_equal(hga_bpt_nodes(100), 202);
    assert_int_equal(hga_bpt_nodes(0), -1);
    assert_int_equal(hga_bpt_nodes(INT32_MAX), -1);
    hga_id next = 1;
    for (hga_id n = 1; n <= 600; n++) {
        hga_id nodes = hga_bpt_nodes(n);
        for (; next < nodes; next++) assert_int_equal(hga_bpt_tokens(next), -1);
        assert_int_equal(hga_bpt_tokens(nodes), n);
        next = nodes + 1;
    }
    assert_int_equal(hga_bpt_tokens(0), -1);
    assert_int_equal(hga_bpt_tokens(INT32_MAX), (hga_id)1 << 30);
}

static void a_million_tokens_are_a_few_thousand_blocks(void **state)
{
    (void)state;
    for (int rule = HGA_BPT_SHIFTED; rule <= HGA_BPT_ALGORITHM1; rule++) {
        hga_graph *g = build(1 << 20, 64, 10, (hga_bpt_rule)rule, 0);
        hga_relation near = hga_graph_relation(g, 0);
        assert_int_equal(near.n_explicit, 0);
        assert_in_range(near.n_blocks, 100, 2 * 64 * 21);
        assert_true(near.n_edges > 1600000000);
        hga_graph_destroy(g);
    }
}

static void the_rows_of_every_tensor_are_nodes(void **state)
{
    (void)state;
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build_bpt(&(hga_bpt){.n_tokens = 9, .k = 2}, &g, &program));
    assert_int_equal(program.n_fields, 4);
    for (hga_id f = 1; f <= 4; f++) {
        assert_int_equal(program.field[f].io, HGA_ROWS_NODES);
        assert_int_equal(program.field[f].rows, HGA_ROWS_NODES);
    }
    assert_int_equal(program.n_stages, 1);
    assert_int_equal(program.stage[0].by_mass, 0);
    assert_int_equal(program.has_lse, 1);
    assert_int_equal(hga_graph_nodes(g).claims, HGA_CLAIM_SINGLE | HGA_CLAIM_COMPLETE);
    hga_graph_destroy(g);
}

static void refused(hga_status status, hga_bpt p, const char *number)
{
    hga_graph *g = (hga_graph *)&p;
    hga_program program;
    assert_status(status, hga_build_bpt(&p, &g, &program));
    assert_null(g);
    assert_non_null(strstr(hga_error_detail(), number));
}

static void what_has_no_meaning_is_refused_with_its_number(void **state)
{
    (void)state;
    hga_bpt p;
    hga_defaults(&p);
    refused(HGA_EINVAL, p, "tokens: 0");
    refused(HGA_EINVAL, (hga_bpt){.n_tokens = 4, .k = 0}, "k: 0");
    refused(HGA_EINVAL, (hga_bpt){.n_tokens = 4, .k = 1, .clip = -1}, "clip: -1");
    refused(HGA_EINVAL, (hga_bpt){.n_tokens = 4, .k = 1, .rule = (hga_bpt_rule)3}, "rule: 3");
    refused(HGA_EOVERFLOW, (hga_bpt){.n_tokens = INT32_MAX, .k = 1}, "2147483647");
    refused(HGA_EOVERFLOW, (hga_bpt){.n_tokens = 4, .k = INT32_MAX, .clip = 1}, "2147483647");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_tokens_by_hand),
        cmocka_unit_test(one_token_is_its_own_root),
        cmocka_unit_test(every_rule_is_its_loop),
        cmocka_unit_test(leaves_cover_every_token_once_and_causal_ones_the_earlier),
        cmocka_unit_test(algorithm1_covers_a_token_twice),
        cmocka_unit_test(causal_leaves_keep_their_edges_when_tokens_are_appended),
        cmocka_unit_test(parents_halve_each_level),
        cmocka_unit_test(nodes_and_tokens_count_each_other),
        cmocka_unit_test(a_million_tokens_are_a_few_thousand_blocks),
        cmocka_unit_test(the_rows_of_every_tensor_are_nodes),
        cmocka_unit_test(what_has_no_meaning_is_refused_with_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
