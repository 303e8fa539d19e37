/* test_partitions.c: fenwick, dilated and segments against their definitions, word for word. */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- fenwick ---- */

static hga_graph *fenwick(hga_id n)
{
    hga_graph *g;
    hga_program program;
    hga_fenwick tree;
    hga_defaults(&tree);
    tree.n_tokens = n;
    assert_ok(hga_build_fenwick(&tree, &g, &program));
    assert_int_equal(program.has_lse, 1);
    return g;
}

/* token t: itself and, for every set bit l, node (t >> l) - 1 of level l */
static void fenwick_is_its_definition(void **state)
{
    (void)state;
    for (hga_id n = 1; n < 200; n++) {
        hga_graph *g = fenwick(n);
        hga_nodes nodes = hga_graph_nodes(g);
        int64_t n_got, n_want = 0;
        edge *got = all_rows(g, hga_graph_find_relation(g, "past"), &n_got), *want = memory(n * 32, sizeof *want);
        for (hga_id t = 0; t < n; t++) {
            want[n_want++] = (edge){.dst = t, .src = t};
            for (int l = 0; t >> l; l++)
                if (t >> l & 1) want[n_want++] = (edge){.dst = t, .src = nodes.level_ptr[l] + (t >> l) - 1};
        }
        sort_edges(want, n_want);
        assert_same_edges("fenwick", got, n_got, want, n_want);
        free(got), free(want);
        hga_graph_destroy(g);
    }
}

static void a_node_of_level_l_is_a_complete_span(void **state)
{
    (void)state;
    hga_graph *g = fenwick(45);
    hga_nodes nodes = hga_graph_nodes(g);
    assert_int_equal(nodes.n_levels, 6);
    for (hga_id l = 0; l < nodes.n_levels; l++) {
        assert_int_equal(nodes.level_ptr[l + 1] - nodes.level_ptr[l], 45 >> l);
        for (hga_id j = 0; j < 45 >> l; j++) {
            hga_id v = nodes.level_ptr[l] + j;
            assert_int_equal(nodes.span_first[v], j << l);
            assert_int_equal(nodes.span_last[v], ((j + 1) << l) - 1);
            assert_true(nodes.mass[v] == (float)(1 << l));
        }
    }
    hga_graph_destroy(g);
}

static void every_earlier_token_is_seen_through_one_node(void **state)
{
    (void)state;
    for (hga_id n = 1; n < 130; n += n < 20 ? 1 : 13) {
        hga_graph *g;
        hga_program program;
        hga_coverage c;
        assert_ok(hga_build_fenwick(&(hga_fenwick){.n_tokens = n}, &g, &program));
        assert_ok(hga_program_coverage(&program, g, 1, &c));
        assert_true(c.pairs == (hga_pos)n * (n + 1) / 2 && c.once == c.pairs && c.none == 0 && c.more == 0);
        hga_graph_destroy(g);
    }
}

/* 1 + popcount(t) edges in the mean half of twenty bits each */
static void a_million_tokens_are_kilobytes_of_blocks(void **state)
{
    (void)state;
    hga_graph *g = fenwick(1 << 20);
    hga_relation past = hga_graph_relation(g, 0);
    assert_true(past.n_edges == (hga_pos)(1 << 20) + (hga_pos)20 * (1 << 19));
    assert_int_equal(past.n_explicit, 0);
    assert_true(past.n_blocks * (hga_pos)sizeof(hga_block) < 8192);
    assert_null(past.dst_order);
    hga_graph_destroy(g);
}

static void the_first_rows_of_a_longer_text_stay(void **state)
{
    enum { SHORT = 77, LONG = 131, DIM = 6 };
    float *x = random_floats(3, 1, (int64_t)3 * LONG * DIM), out[2][LONG * DIM];
    (void)state;
    for (int i = 0; i < 2; i++) {
        hga_graph *g;
        hga_program program;
        hga_io io = {.query = {.data = x, .rows = LONG},
                     .key = {.data = x + LONG * DIM, .rows = LONG},
                     .value = {.data = x + 2 * LONG * DIM, .rows = LONG},
                     .out = {.data = out[i], .rows = LONG}};
        assert_ok(hga_build_fenwick(&(hga_fenwick){.n_tokens = i ? LONG : SHORT}, &g, &program));
        assert_ok(hga_attention(g, &program, &(hga_shape){.n_heads = 1, .dim = DIM}, NULL, &io));
        hga_graph_destroy(g);
    }
    assert_near_floats("77 of 131 rows", out[1], out[0], SHORT * DIM, 1e-6);
    free(x);
}

/* ---- dilated ---- */

static int branch_has(const hga_dilated *p, hga_id b, hga_id i, hga_id j)
{
    return i / p->segments[b] == j / p->segments[b] && (j - i) % p->dilations[b] == 0 && (!p->causal || j <= i);
}

static void assert_is_dilated(const hga_dilated *p)
{
    hga_graph *g;
    hga_program program;
    char what[96], name[32];
    assert_ok(hga_build_dilated(p, &g, &program));
    assert_int_equal(hga_graph_nodes(g).n_relations, p->n_segments);
    for (hga_id b = 0; b < p->n_segments; b++) {
        int64_t n_got, n_want = 0;
        snprintf(name, sizeof name, "branch_%d", b);
        snprintf(what, sizeof what, "%d tokens, segments of %d, dilation %d", p->n_tokens, p->segments[b],
                 p->dilations[b]);
        edge *got = all_rows(g, hga_graph_find_relation(g, name), &n_got),
             *want = memory((int64_t)p->n_tokens * p->n_tokens, sizeof *want);
        for (hga_id i = 0; i < p->n_tokens; i++)
            for (hga_id j = 0; j < p->n_tokens; j++)
                if (branch_has(p, b, i, j)) want[n_want++] = (edge){.dst = i, .src = j};
        assert_same_edges(what, got, n_got, want, n_want);
        free(got), free(want);
    }
    hga_graph_destroy(g);
}

static void branches_are_their_definition(void **state)
{
    (void)state;
    for (uint64_t seed = 1, t = 0; t < 1500; t++) {
        hga_id segments[] = {1 + random_below(&seed, 40), 1 + random_below(&seed, 12)},
               dilations[] = {1 + random_below(&seed, 9), 1 + random_below(&seed, 14)};
        assert_is_dilated(&(hga_dilated){.n_tokens = 1 + random_below(&seed, 50),
                                         .segments = segments,
                                         .n_segments = 2,
                                         .dilations = dilations,
                                         .n_dilations = 2,
                                         .causal = (int)(t % 2)});
    }
}

static void no_list_is_the_papers_geometric_sequence(void **state)
{
    static const hga_id segments[] = {64, 256, 1024}, dilations[] = {1, 4, 16};
    (void)state;
    hga_graph *plain, *typed;
    hga_program program;
    hga_dilated d = {.n_tokens = 1500, .segments = segments, .n_segments = 3, .dilations = dilations, .n_dilations = 3};
    hga_dilated standard;
    hga_defaults(&standard);
    standard.n_tokens = 1500;
    assert_ok(hga_build_dilated(&standard, &plain, &program));
    assert_ok(hga_build_dilated(&d, &typed, &program));
    for (hga_id b = 0; b < 3; b++)
        assert_true(hga_graph_relation(plain, b).n_edges == hga_graph_relation(typed, b).n_edges);
    hga_graph_destroy(plain), hga_graph_destroy(typed);
}

/* the softmax of token i over j with the number of branches that have the pair as its weight */
static void a_pair_of_several_branches_counts_as_often(void **state)
{
    enum { N = 70, DIM = 5 };
    static const hga_id segments[] = {7, 21, 64}, dilations[] = {1, 3, 8};
    (void)state;
    hga_dilated d = {.n_tokens = N, .segments = segments, .n_segments = 3, .dilations = dilations, .n_dilations = 3};
    for (d.causal = 0; d.causal < 2; d.causal++) {
        float *q = random_floats(1, 1, N * DIM), *k = random_floats(2, 1, N * DIM), *v = random_floats(3, 1, N * DIM),
              *bias = memory(N * N, sizeof *bias), *out = memory(N * DIM, sizeof *out);
        double *want = memory(N * DIM, sizeof *want);
        for (hga_id i = 0; i < N; i++)
            for (hga_id j = 0; j < N; j++) {
                static const float log_of[] = {-INFINITY, 0, 0.69314718f, 1.09861229f};
                bias[i * N + j] = log_of[branch_has(&d, 0, i, j) + branch_has(&d, 1, i, j) + branch_has(&d, 2, i, j)];
            }
        slow_dense(q, k, v, bias, N, N, 1, DIM, DIM, want);
        hga_graph *g;
        hga_program program;
        hga_io io = {.query = {.data = q, .rows = N},
                     .key = {.data = k, .rows = N},
                     .value = {.data = v, .rows = N},
                     .out = {.data = out, .rows = N}};
        assert_ok(hga_build_dilated(&d, &g, &program));
        assert_ok(hga_attention(g, &program, &(hga_shape){.n_heads = 1, .dim = DIM}, NULL, &io));
        assert_near("dilated", out, want, N * DIM, 2e-6);
        hga_graph_destroy(g);
        free(q), free(k), free(v), free(bias), free(out), free(want);
    }
}

/* ---- segments ---- */

static void assert_is_segmented(const hga_segmented *p)
{
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build_segments(p, &g, &program));
    const int32_t *key = p->n_keys ? p->key_segment : p->query_segment;
    hga_id n_keys = p->n_keys ? p->n_keys : p->n_tokens, key_first = p->n_keys && !p->causal ? p->n_tokens : 0;
    int64_t n_got, n_want = 0;
    edge *got = all_rows(g, 0, &n_got), *want = memory((int64_t)p->n_tokens * n_keys, sizeof *want);
    for (hga_id i = 0; i < p->n_tokens; i++)
        for (hga_id j = 0; j < n_keys; j++)
            if (p->query_segment[i] >= 0 && p->query_segment[i] == key[j] && (!p->causal || j <= i))
                want[n_want++] = (edge){.dst = i, .src = key_first + j};
    assert_same_edges("segments", got, n_got, want, n_want);
    assert_int_equal(hga_graph_relation(g, 0).n_explicit, 0);
    free(got), free(want);
    hga_graph_destroy(g);
}

/* segments with gaps between their numbers; `none` in 16 tokens are in no segment */
static void draw(uint64_t *stream, int32_t *segment, hga_id n, int none)
{
    for (int32_t i = 0, at = 0; i < n; i++) {
        if (random_below(stream, 4) == 0) at += 1 + random_below(stream, 3);
        segment[i] = random_below(stream, 16) < none ? -1 : at;
    }
}

static void segments_are_their_definition(void **state)
{
    (void)state;
    int32_t query[40], key[40];
    for (uint64_t seed = 1, t = 0; t < 2000; t++) {
        hga_segmented p = {.n_tokens = 1 + random_below(&seed, 40), .query_segment = query, .key_segment = key};
        if (t % 3) p.n_keys = 1 + random_below(&seed, 40);
        draw(&seed, query, p.n_tokens, t % 2 ? 3 : 0);
        draw(&seed, key, p.n_keys, t % 5 ? 0 : 3);
        assert_is_segmented(&p);
        p.causal = 1, p.key_segment = query;
        if (p.n_keys) p.n_keys = p.n_tokens;
        assert_is_segmented(&p);
    }
}

static void causal_segments_are_of_one_text(void **state)
{
    (void)state;
    static const int32_t query[] = {0, 0, 1, 2}, key[] = {0, 0, 2, 2};
    hga_segmented s = {.n_tokens = 4, .n_keys = 4, .query_segment = query, .key_segment = key, .causal = 1};
    hga_graph *g = NULL;
    hga_program program;
    assert_status(HGA_EINVAL, hga_build_segments(&s, &g, &program));
    assert_non_null(strstr(hga_error_detail(), "token 2 is in 2, but as a query in 1"));
    s.n_keys = 3;
    assert_status(HGA_EUNSUPPORTED, hga_build_segments(&s, &g, &program));
    s.key_segment = query, s.n_keys = 4;
    assert_ok(hga_build_segments(&s, &g, &program));
    assert_true(hga_graph_nodes(g).claims & HGA_CLAIM_CAUSAL);
    assert_int_equal(hga_graph_nodes(g).n, 4); /* so that it is self-attention, which decodes */
    hga_graph_destroy(g);
}

static void three_sentences_and_their_translation(void **state)
{
    (void)state;
    static const int32_t query[] = {0, 0, 1, 1, 1, 2}, key[] = {0, 1, 1, -1, 2, 2};
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build_segments(
        &(hga_segmented){.n_tokens = 6, .n_keys = 6, .query_segment = query, .key_segment = key}, &g, &program));
    hga_csr csr;
    assert_ok(hga_graph_rows(g, 0, 0, 6, &csr));
    static const hga_id source[] = {6, 6, 7, 8, 7, 8, 7, 8, 10, 11}; /* keys are nodes 6 to 11 */
    assert_int_equal(csr.ptr[6], 10);
    assert_memory_equal(csr.src, source, sizeof source);
    hga_csr_clear(&csr);
    hga_graph_destroy(g);
}

/* ---- what has no meaning ---- */

#define REFUSED(status, call, number)                        \
    do {                                                     \
        hga_graph *g = (hga_graph *)&(char){0};              \
        hga_program program;                                 \
        assert_status(status, call);                         \
        assert_null(g);                                      \
        assert_non_null(strstr(hga_error_detail(), number)); \
    } while (0)

static void what_has_no_meaning_is_refused_with_its_number(void **state)
{
    (void)state;
    static const hga_id list[] = {4, 0}, ones[25] = {1, 1};
    static const int32_t falls[] = {0, 2, -1, 1}, wrong[] = {0, -2};
    REFUSED(HGA_EINVAL, hga_build_fenwick(&(hga_fenwick){0}, &g, &program), "tokens: 0");
    REFUSED(HGA_EOVERFLOW, hga_build_fenwick(&(hga_fenwick){.n_tokens = INT32_MAX}, &g, &program), "2147483647");
    hga_dilated d = {.n_tokens = 5, .segments = list, .n_segments = 2, .dilations = ones, .n_dilations = 1};
    REFUSED(HGA_EINVAL, hga_build_dilated(&(hga_dilated){0}, &g, &program), "tokens: 0");
    REFUSED(HGA_EINVAL, hga_build_dilated(&d, &g, &program), "2 of them, but 1 dilations");
    d.n_dilations = 2;
    REFUSED(HGA_EINVAL, hga_build_dilated(&d, &g, &program), "segments: number 1 is 0");
    d.segments = ones, d.dilations = list;
    REFUSED(HGA_EINVAL, hga_build_dilated(&d, &g, &program), "dilations: number 1 is 0");
    d.n_segments = d.n_dilations = HGA_MAX_STAGES + 1;
    REFUSED(HGA_EINVAL, hga_build_dilated(&d, &g, &program), "25 of them");
    hga_segmented s = {.n_tokens = 4, .query_segment = falls};
    REFUSED(HGA_EINVAL, hga_build_segments(&s, &g, &program), "token 3 is in segment 1, after one in 2");
    s.query_segment = wrong, s.n_tokens = 2;
    REFUSED(HGA_EINVAL, hga_build_segments(&s, &g, &program), "token 1 is in -2");
    s.query_segment = ones, s.n_keys = 3;
    REFUSED(HGA_EINVAL, hga_build_segments(&s, &g, &program), "there are 3 keys");
    REFUSED(HGA_EINVAL, hga_build_segments(&(hga_segmented){.n_tokens = 3}, &g, &program), "query-segment: NULL");
}

/* ---- staircases ---- */

static hga_graph *stairs(hga_id n, const hga_staircase *s)
{
    hga_graph *g;
    hga_builder *b;
    hga_id relation;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, n, NULL));
    assert_ok(hga_builder_add_relation(b, "stairs", &relation));
    assert_ok(hga_builder_add_staircase(b, relation, s));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}

/* every instance by itself, pair by pair */
static void a_staircase_is_its_instances(void **state)
{
    enum { N = 24 };
    (void)state;
    for (uint64_t seed = 9, t = 0; t < 2000; t++) {
        hga_staircase s = {.row = random_below(&seed, 2 * N) - N, .n_rows = random_below(&seed, 9)};
        s.row_step = 1 + random_below(&seed, 9), s.col_step = 1 + random_below(&seed, 9);
        s.col = random_below(&seed, 2 * N) - N, s.n_cols = random_below(&seed, 9);
        s.row_begin = random_below(&seed, N), s.row_end = s.row_begin + random_below(&seed, N - s.row_begin + 1);
        s.col_begin = random_below(&seed, N), s.col_end = s.col_begin + random_below(&seed, N - s.col_begin + 1);
        s.type = 500, s.type_dst = random_below(&seed, 5) - 2, s.type_src = random_below(&seed, 5) - 2;
        hga_graph *g = stairs(N, &s);
        int64_t n_got, n_want = 0;
        edge *got = all_edges(g, 0, &n_got), *want = memory(100 * 81, sizeof *want);
        for (int64_t m = -50; m < 50; m++)
            for (int64_t r = 0; r < s.n_rows; r++)
                for (int64_t c = 0; c < s.n_cols; c++) {
                    int64_t row = s.row + m * s.row_step + r, col = s.col + m * s.col_step + c;
                    if (row < s.row_begin || row >= s.row_end || col < s.col_begin || col >= s.col_end) continue;
                    want[n_want++] = (edge){.dst = (hga_id)row, .src = (hga_id)col};
                    want[n_want - 1].type = (int32_t)(s.type + r * s.type_dst + c * s.type_src);
                }
        sort_edges(want, n_want);
        assert_same_edges("staircase", got, n_got, want, n_want);
        free(got), free(want);
        hga_graph_destroy(g);
    }
}

static void whole_instances_are_one_block(void **state)
{
    (void)state;
    hga_staircase s = {.n_rows = 3, .row_step = 3, .row_end = 3000, .n_cols = 3, .col_step = 3, .col_end = 3000};
    s.shape = HGA_LOWER;
    hga_graph *g = stairs(3000, &s);
    assert_int_equal(hga_graph_relation(g, 0).n_blocks, 1);
    assert_int_equal(hga_graph_relation(g, 0).n_edges, 6000);
    hga_graph_destroy(g);
}

static void staircases_that_cannot_be_are_refused(void **state)
{
    (void)state;
    hga_builder *b;
    hga_id near;
    hga_staircase fine = {.n_rows = 2, .row_step = 2, .row_end = 9, .n_cols = 2, .col_step = 2, .col_end = 9}, s = fine;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 9, NULL));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    s.row_step = 0;
    assert_status(HGA_EINVAL, hga_builder_add_staircase(b, near, &s));
    s = fine, s.col_begin = -3;
    assert_status(HGA_EINVAL, hga_builder_add_staircase(b, near, &s));
    assert_non_null(strstr(hga_error_detail(), "-3"));
    s = fine, s.shape = HGA_BAND;
    assert_status(HGA_EINVAL, hga_builder_add_staircase(b, near, &s));
    s = fine, s.shape = HGA_LOWER, s.row = s.col = 1; /* instance -1 has only its second row and column */
    assert_status(HGA_EINVAL, hga_builder_add_staircase(b, near, &s));
    assert_ok(hga_builder_add_staircase(b, near, &fine));
    hga_builder_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fenwick_is_its_definition),
        cmocka_unit_test(a_node_of_level_l_is_a_complete_span),
        cmocka_unit_test(every_earlier_token_is_seen_through_one_node),
        cmocka_unit_test(a_million_tokens_are_kilobytes_of_blocks),
        cmocka_unit_test(the_first_rows_of_a_longer_text_stay),
        cmocka_unit_test(branches_are_their_definition),
        cmocka_unit_test(no_list_is_the_papers_geometric_sequence),
        cmocka_unit_test(a_pair_of_several_branches_counts_as_often),
        cmocka_unit_test(segments_are_their_definition),
        cmocka_unit_test(causal_segments_are_of_one_text),
        cmocka_unit_test(three_sentences_and_their_translation),
        cmocka_unit_test(what_has_no_meaning_is_refused_with_its_number),
        cmocka_unit_test(a_staircase_is_its_instances),
        cmocka_unit_test(whole_instances_are_one_block),
        cmocka_unit_test(staircases_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
