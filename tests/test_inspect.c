/* test_inspect.c: rows, levels and layers against following every token along every edge, forwards, as sets of at most
   64 tokens. */
#include "follow.h"

#include <stdio.h>
#include <string.h>

/* ---- levels ---- */

static void assert_levels(const char *name, const world *w)
{
    static uint64_t out[MOST_NODES], set[MOST_TOKENS][MOST_TOKENS];
    hga_levels_count c;
    memset(set, 0, sizeof set);
    for (hga_id l = 0; l < w->nodes.n_levels; l++) {
        answer(w, &(question){w->below, l, -1, -1}, out);
        for (hga_id i = 0; i < w->nodes.n_queries; i++)
            for (hga_id j = 0; j < w->nodes.n_keys; j++)
                if (out[w->nodes.query_first + i] >> j & 1) set[i][j] |= UINT64_C(1) << l;
    }
    assert_ok(hga_program_levels(w->p, w->g, &c));
    for (hga_id i = 0; i < w->nodes.n_queries; i++)
        for (hga_id j = 0; j < w->nodes.n_keys; j++)
            for (hga_id k = 0; k <= c.n && set[i][j]; k++) {
                if (k == c.n)
                    fail_msg("%s: token %d sees %d by levels %llx, which are not among the %d sets", name, i, j,
                             (unsigned long long)set[i][j], c.n);
                if (c.levels[k] != set[i][j]) continue;
                c.pairs[k]--;
                break;
            }
    for (hga_id k = 0; k < c.n; k++)
        if (c.pairs[k])
            fail_msg("%s: %lld pairs too many by levels %llx", name, (long long)c.pairs[k],
                     (unsigned long long)c.levels[k]);
    for (hga_id k = 1; k < c.n; k++) assert_true(c.levels[k - 1] < c.levels[k]);
    hga_levels_count_clear(&c);
}

/* ---- rows ---- */

typedef struct seen_list {
    hga_seen *seen;
    int64_t n;
} seen_list;

static hga_status collect(const hga_seen *seen, void *context)
{
    seen_list *list = context;
    list->seen = realloc(list->seen, (size_t)(list->n + 1) * sizeof *list->seen);
    assert_non_null(list->seen);
    list->seen[list->n++] = *seen;
    return HGA_OK;
}

static void assert_seen(const char *name, const world *w, const hga_seen *got, hga_id stage, const edge *want)
{
    hga_id first = w->nodes.span_first[want->src] - w->nodes.key_first,
           last = w->nodes.span_last[want->src] - w->nodes.key_first;
    if (got->stage != stage || got->destination != want->dst || got->source != want->src || got->type != want->type)
        fail_msg("%s: edge %d -> %d type %d of stage %d, not %d -> %d type %d of stage %d", name, got->source,
                 got->destination, got->type, got->stage, want->src, want->dst, want->type, stage);
    assert_int_equal(got->level, hga_graph_level(w->g, want->dst));
    assert_int_equal(got->source_level, hga_graph_level(w->g, want->src));
    if (first >= 0 && first <= last && last < w->nodes.n_keys) {
        assert_int_equal(got->key_first, first);
        assert_int_equal(got->key_last, last);
    }
}

/* Does a mark left by a stage on a node come out at the token? */
static void mark_rows(const world *w, uint8_t reaches[HGA_MAX_STAGES][MOST_NODES], hga_id token)
{
    static uint64_t out[MOST_NODES];
    int scores = 0;
    for (hga_id i = 0; i < w->p->n_stages; i++) scores |= w->p->stage[i].reduce == HGA_SOFTMAX;
    for (hga_id i = 0; i < w->p->n_stages; i++)
        for (hga_id v = 0; v < w->nodes.n; v++) {
            int shown = scores ? (w->attends >> i & 1u) != 0 : w->p->stage[i].relation >= 0;
            reaches[i][v] = 0;
            if (!shown || !w->row[w->p->stage[i].out][v]) continue;
            answer(w, &(question){NULL, -1, i, v}, out);
            reaches[i][v] = out[w->nodes.query_first + token] & 1;
        }
}

static void assert_row(const char *name, const world *w, hga_id token)
{
    static uint8_t reaches[HGA_MAX_STAGES][MOST_NODES];
    seen_list list = {0};
    int64_t at = 0;
    mark_rows(w, reaches, token);
    assert_ok(hga_program_row(w->p, w->g, token, collect, &list));
    for (hga_id v = 0; v < w->nodes.n; v++)
        for (hga_id i = 0; i < w->p->n_stages; i++)
            for (const edge *e = first_edge(w, i, v); reaches[i][v] && e < w->e[i] + w->n_edges[i] && e->dst == v;
                 e++) {
                if (at == list.n) fail_msg("%s: token %d lacks edge %d -> %d of stage %d", name, token, e->src, v, i);
                assert_seen(name, w, &list.seen[at++], i, e);
            }
    if (at < list.n) fail_msg("%s: token %d has %lld edges too many", name, token, (long long)(list.n - at));
    free(list.seen);
}

/* ---- layers ---- */

static int has_all(const world *w, const uint64_t *x, int causal)
{
    for (hga_id i = 0; i < w->nodes.n_queries; i++)
        for (hga_id j = 0; j < w->nodes.n_queries; j++)
            if (j != i && !(causal && j > i) && !(x[i] >> j & 1)) return 0;
    return 1;
}

/* The next layer is given what came out, and on nodes without output what their tokens have. */
static void next_input(const world *w, const uint64_t *x, uint64_t *input)
{
    for (hga_id v = 0; v < w->nodes.n; v++) {
        input[v] = w->goes_on[v] ? x[v] : 0;
        for (hga_id j = 0; j < w->nodes.n_keys && !w->goes_on[v]; j++)
            if (w->below[v] >> j & 1) input[v] |= x[j];
    }
}

static hga_id layers_of(const world *w, int causal, hga_id most)
{
    static uint64_t x[MOST_NODES], input[MOST_NODES], out[MOST_NODES];
    memcpy(x, w->below, sizeof x);
    for (hga_id k = 1;; k++) {
        int grows = 0;
        next_input(w, x, input);
        answer(w, &(question){input, -1, -1, -1}, out);
        for (hga_id v = 0; v < w->nodes.n; v++) {
            grows |= w->goes_on[v] && (out[v] & ~x[v]) != 0;
            if (w->goes_on[v]) x[v] |= out[v];
        }
        if (has_all(w, x, causal)) return k <= most ? k : 0;
        if (!grows) return -1;
    }
}

static void assert_layers(const char *name, const world *w)
{
    hga_id got;
    if (w->nodes.query_first != w->nodes.key_first) {
        assert_status(HGA_EUNSUPPORTED, hga_program_layers(w->p, w->g, 0, 9, &got));
        return;
    }
    for (int causal = 0; causal < 2; causal++)
        for (hga_id most = 2; most <= 1000; most += 998) {
            hga_id want = layers_of(w, causal, most);
            assert_ok(hga_program_layers(w->p, w->g, causal, most, &got));
            if (got != want) fail_msg("%s, causal %d, at most %d: %d layers, not %d", name, causal, most, got, want);
        }
}

/* ---- everything that small graphs can be ---- */

static void random_worlds(void (*look)(const char *name, const world *w))
{
    static world w;
    for (uint64_t seed = 1; seed <= (uint64_t)thinned(200); seed++) {
        uint64_t rng = seed;
        hga_graph *g = random_graph(seed, 1 + random_below(&rng, 40), 1 + (unsigned)random_below(&rng, 63));
        hga_program p = random_program(&rng);
        char name[64];
        snprintf(name, sizeof name, "seed %d", (int)seed);
        take_apart(&w, g, &p);
        look(name, &w);
        put_away(&w);
        hga_graph_destroy(g);
    }
}

static void all_variants(void (*look)(const char *name, const world *w))
{
    static world w;
    for (int i = 0; i < n_variants(); i++)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            problem p;
            variant_build(i, 1 + (hga_id)(seed * 9), seed, &(hga_shape){.n_heads = 1, .dim = 2, .pos_dim = 2}, &p);
            if (fits(p.graph)) {
                take_apart(&w, p.graph, &p.program);
                look(p.name, &w);
                put_away(&w);
            }
            problem_clear(&p);
        }
}

static void assert_some_rows(const char *name, const world *w)
{
    hga_id n = w->nodes.n_queries;
    assert_row(name, w, 0);
    if (n > 1) assert_row(name, w, n / 2), assert_row(name, w, n - 1);
}

static void levels_of_random_programs_are_the_oracles(void **state)
{
    (void)state;
    random_worlds(assert_levels);
}

static void levels_of_the_variants_are_the_oracles(void **state)
{
    (void)state;
    all_variants(assert_levels);
}

static void rows_of_random_programs_are_the_oracles(void **state)
{
    (void)state;
    random_worlds(assert_some_rows);
}

static void rows_of_the_variants_are_the_oracles(void **state)
{
    (void)state;
    all_variants(assert_some_rows);
}

static void layers_of_random_programs_are_the_oracles(void **state)
{
    (void)state;
    random_worlds(assert_layers);
}

static void layers_of_the_variants_are_the_oracles(void **state)
{
    (void)state;
    all_variants(assert_layers);
}

/* ---- facts ---- */

static hga_id window_layers(hga_id n, hga_id left, hga_id right, hga_id stride, int causal, hga_id most)
{
    hga_window w;
    hga_defaults(&w);
    hga_graph *g;
    hga_program p;
    hga_id layers;
    w.n_tokens = n, w.left = left, w.right = right, w.stride = stride, w.causal = causal;
    assert_ok(hga_build_window(&w, &g, &p));
    assert_ok(hga_program_layers(&p, g, causal, most, &layers));
    if (layers > 1) { /* which one interval joined does not tell */
        hga_id none;
        assert_status(HGA_EUNSUPPORTED, hga_program_layers_within(&p, g, causal, most, 1, &none));
        assert_non_null(strstr(hga_error_detail(), "in the time given"));
    }
    hga_graph_destroy(g);
    return layers;
}

static void a_window_moves_on_by_its_width_each_layer(void **state)
{
    (void)state;
    assert_int_equal(window_layers(10, 1, 1, 1, 0, 100), 9);
    assert_int_equal(window_layers(10, 2, 2, 1, 0, 100), 5);
    assert_int_equal(window_layers(10, 2, 1, 1, 1, 100), 5);
    assert_int_equal(window_layers(10, 9, 9, 1, 0, 100), 1);
    assert_int_equal(window_layers(200000, 64, 64, 1, 0, 100000), 3125);
}

static void layers_beyond_the_most_are_zero_and_unreachable_tokens_minus_one(void **state)
{
    (void)state;
    assert_int_equal(window_layers(10, 1, 1, 1, 0, 8), 0);
    assert_int_equal(window_layers(10, 3, 0, 1, 0, 100), -1);
    assert_int_equal(window_layers(10, 9, 9, 2, 0, 100), -1);
}

/* Four tokens in two sections: a token sees its section by token and the other section as a whole. */
static hga_graph *sections(hga_program *p)
{
    hga_builder *b;
    hga_graph *g;
    hga_id section, near, far;
    hga_id q, k, v, state;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 4, NULL));
    assert_ok(hga_builder_add_level(b, 2, &section));
    assert_ok(hga_builder_set_families(b, section, 0, 4, 2));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_blocks(b, near,
                                     &(hga_block){.n_dst = 2, .n_src = 2, .count = 2, .dst_step = 2, .src_step = 2}));
    assert_ok(hga_builder_add_relation(b, "far", &far));
    assert_ok(hga_builder_add_blocks(
        b, far,
        &(hga_block){.dst = section, .n_dst = 2, .src = section, .n_src = 2, .shape = HGA_OFF_DIAGONAL, .type = 3}));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    hga_program_init(p);
    q = field(p, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_NODES);
    k = field(p, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_QUERIES, HGA_ROWS_NODES);
    v = field(p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_QUERIES, HGA_ROWS_NODES);
    state = field(p, "state", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_NODES);
    for (hga_id f = q; f <= v; f++) assert_ok(hga_program_coarsen(p, f));
    assert_ok(hga_program_attend(p, near, q, k, v, state, 1));
    assert_ok(hga_program_attend_more(p, far, q, k, v, state, 1));
    assert_ok(hga_program_spread(p, HGA_TREE_DOWN, state));
    return g;
}

static void a_token_sees_its_section_and_the_other_as_a_whole(void **state)
{
    (void)state;
    hga_program p;
    hga_graph *g = sections(&p);
    seen_list list = {0};
    hga_levels_count c;
    hga_id layers;
    assert_ok(hga_program_row(&p, g, 2, collect, &list));
    assert_int_equal(list.n, 3);
    assert_int_equal(list.seen[0].source, 2);
    assert_int_equal(list.seen[1].source, 3);
    assert_int_equal(list.seen[2].destination, 5);
    assert_int_equal(list.seen[2].source, 4);
    assert_int_equal(list.seen[2].source_level, 1);
    assert_int_equal(list.seen[2].type, 3);
    assert_int_equal(list.seen[2].key_first, 0);
    assert_int_equal(list.seen[2].key_last, 1);
    assert_ok(hga_program_levels(&p, g, &c));
    assert_int_equal(c.n, 2);
    assert_int_equal(c.levels[0], 1);
    assert_int_equal(c.pairs[0], 8);
    assert_int_equal(c.levels[1], 2);
    assert_int_equal(c.pairs[1], 8);
    assert_ok(hga_program_layers(&p, g, 0, 4, &layers));
    assert_int_equal(layers, 1);
    hga_levels_count_clear(&c);
    free(list.seen);
    hga_graph_destroy(g);
}

static hga_status stop(const hga_seen *seen, void *context)
{
    (void)seen;
    ++*(int *)context;
    return HGA_EIO;
}

static void a_visitor_stops_a_row(void **state)
{
    (void)state;
    hga_program p;
    hga_graph *g = sections(&p);
    int n = 0;
    assert_int_equal(hga_program_row(&p, g, 0, stop, &n), HGA_EIO);
    assert_int_equal(n, 1);
    hga_graph_destroy(g);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    hga_program p;
    hga_graph *g = sections(&p);
    hga_id layers;
    seen_list list = {0};
    assert_status(HGA_EINVAL, hga_program_row(&p, g, 4, collect, &list));
    assert_status(HGA_EINVAL, hga_program_row(&p, g, -1, collect, &list));
    assert_status(HGA_EINVAL, hga_program_row(&p, g, 0, NULL, NULL));
    assert_status(HGA_EINVAL, hga_program_levels(&p, g, NULL));
    assert_status(HGA_EINVAL, hga_program_layers(&p, g, 0, 0, &layers));
    assert_status(HGA_EINVAL, hga_program_layers(&p, g, 0, 1, NULL));
    assert_int_equal(list.n, 0);
    hga_levels_count_clear(NULL);
    hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_sees_its_section_and_the_other_as_a_whole),
        cmocka_unit_test(a_visitor_stops_a_row),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_window_moves_on_by_its_width_each_layer),
        cmocka_unit_test(layers_beyond_the_most_are_zero_and_unreachable_tokens_minus_one),
        cmocka_unit_test(levels_of_random_programs_are_the_oracles),
        cmocka_unit_test(levels_of_the_variants_are_the_oracles),
        cmocka_unit_test(rows_of_random_programs_are_the_oracles),
        cmocka_unit_test(rows_of_the_variants_are_the_oracles),
        cmocka_unit_test(layers_of_random_programs_are_the_oracles),
        cmocka_unit_test(layers_of_the_variants_are_the_oracles),
    };
    return cmocka_run_group_tests_name("inspect", tests, NULL, NULL);
}
