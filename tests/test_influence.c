/* test_influence.c: the latest token that reaches an output, against sets of tokens carried along edge by edge. */
#include "ways.h"

/* ---- the oracle: bit t of set[f][v] says that token t reaches field f of node v; at most 64 tokens ---- */

typedef struct sets {
    const hga_graph *g;
    const hga_program *p;
    hga_nodes nodes;
    uint64_t at[HGA_FIELD_SLOTS][MOST_NODES];
} sets;

static void start(sets *s, const hga_graph *g, const hga_program *p)
{
    uint64_t tokens[MOST_NODES] = {0};
    memset(s, 0, sizeof *s);
    s->g = g, s->p = p, s->nodes = hga_graph_nodes(g);
    assert_in_range(s->nodes.n, 1, MOST_NODES);
    assert_in_range(s->nodes.n_queries, 1, 64);
    for (hga_id v = 0; v < s->nodes.n; v++) {
        if (v < s->nodes.level_ptr[1]) tokens[v] = UINT64_C(1) << (v - s->nodes.query_first);
        if (s->nodes.parent && s->nodes.parent[v] >= 0) tokens[s->nodes.parent[v]] |= tokens[v];
        for (hga_id f = 1; f <= p->n_fields; f++)
            if (is_input(g, &p->field[f], v)) s->at[f][v] = tokens[v];
    }
}

static uint64_t from_source(const sets *s, const hga_stage *t, hga_id u)
{
    switch (t->message) {
    case HGA_SCORE: return s->at[t->key][u] | s->at[t->value][u];
    case HGA_ENERGY: return s->at[t->out][u] | s->at[t->value][u];
    case HGA_GATE: return s->at[t->out][u] | s->at[t->keep][u];
    default: return s->at[t->value][u];
    }
}

static void write(sets *s, const hga_stage *t, hga_id v, uint64_t sources, int n_edges)
{
    uint64_t old = s->at[t->out][v];
    if (t->message == HGA_SCORE)
        sources |= (n_edges ? s->at[t->query][v] : 0) | (t->update == HGA_UPDATE_MERGE ? old : 0);
    if (t->message == HGA_STATE) sources |= old;
    if (t->message == HGA_GATE)
        sources |= s->at[t->value][v] | (s->at[t->value][v] ? s->at[t->gate][v] : 0), s->at[t->keep][v] = sources;
    if (!is_written(s->g, s->p, t, v)) return;
    s->at[t->out][v] = sources;
}

static void run(sets *s, const hga_stage *t)
{
    int64_t n;
    edge *e = stage_edges(s->g, t, &n);
    for (hga_id i = 0; i < s->nodes.n_levels; i++) {
        hga_id l = level_of_step(&s->nodes, t->order, i);
        for (hga_id v = s->nodes.level_ptr[l]; v < s->nodes.level_ptr[l + 1]; v++) {
            uint64_t sources = 0;
            int count = 0;
            for (int64_t k = 0; k < n; k++)
                if (e[k].dst == v) sources |= from_source(s, t, e[k].src), count++;
            if (is_row(s->g, s->p->field[t->out].rows, v)) write(s, t, v, sources, count);
        }
    }
    free(e);
}

static void assert_influence_is_the_oracles(const char *name, const hga_graph *g, const hga_program *p)
{
    static sets s;
    hga_id out = 0, token, sees, want_token = -1, want_sees = -1;
    hga_nodes nodes = hga_graph_nodes(g);
    if (nodes.query_first != nodes.key_first) return; /* later is said of one sequence */
    start(&s, g, p);
    for (hga_id i = 0; i < p->n_stages; i++) run(&s, &p->stage[i]);
    while (p->field[out].binding != HGA_IO_OUT) out++;
    for (hga_id t = s.nodes.n_queries - 1; t >= 0; t--) {
        uint64_t reaching = s.at[out][s.nodes.query_first + t];
        int last = reaching ? 63 - __builtin_clzll(reaching) : -1;
        if (last > t) want_token = t, want_sees = last;
    }
    assert_ok(hga_program_influence(p, g, &token, &sees));
    if (token != want_token || sees != want_sees)
        fail_msg("%s: token %d sees %d, want %d and %d", name, token, sees, want_token, want_sees);
}

static void influence_of_random_programs_is_the_oracles(void **state)
{
    (void)state;
    on_random_programs(150, assert_influence_is_the_oracles);
}

/* Each token takes the next one's value into a field of the program's own, of which nodes above then have means. */
static void tokens_of_a_field_that_is_coarsened_are_still_seen(void **state)
{
    (void)state;
    hga_builder *b = started(4, 0, 2);
    assert_ok(hga_builder_set_families(b, 4, 0, 4, 2));
    for (hga_id i = 0; i < 3; i++) assert_ok(hga_builder_add_edge(b, 0, i + 1, i, 0, 1));
    for (hga_id i = 0; i < 4; i++) assert_ok(hga_builder_add_edge(b, 1, i, i, 0, 1));
    problem p = {.name = "the next one's", .graph = finished(b), .shape = {.n_heads = 1, .dim = 1}};
    hga_id token, sees;
    hga_program_init(&p.program);
    hga_id v = field_on_nodes(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE),
           next = field_on_nodes(&p.program, "next", HGA_WIDTH_VALUE, HGA_INTERNAL),
           out = field_on_nodes(&p.program, "out", HGA_WIDTH_OUT, HGA_IO_OUT);
    assert_ok(hga_program_mean(&p.program, 0, v, next, 0));
    assert_ok(hga_program_coarsen(&p.program, next));
    assert_ok(hga_program_weighted_sum(&p.program, 1, next, out));
    problem_fill(&p, 1);
    float scale = 1, *sum = p.io.out.data, *value = p.io.value.data;
    p.io.type_scale.data = &scale, p.io.type_scale.rows = 1;
    problem_run(&p);
    for (int i = 0; i < 3; i++) assert_true(sum[i] == value[i + 1]);
    assert_ok(hga_program_influence(&p.program, p.graph, &token, &sees));
    assert_int_equal(token, 0);
    assert_int_equal(sees, 1);
    problem_clear(&p);
}

static void influence_of_drawn_programs_is_the_oracles(void **state)
{
    (void)state;
    int n = thinned(1500);
    assert_true(on_drawn_programs(n, NO_USER_STAGES, assert_influence_is_the_oracles) > n / 6);
}

static void influence_of_the_variants_is_the_oracles(void **state)
{
    (void)state;
    on_variants(3, assert_influence_is_the_oracles);
}

/* Except the one whose weights look ahead inside a subtree, as its documentation says. */
static void causal_variants_keep_their_claim(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++)
        for (uint64_t seed = 4; seed <= 6; seed++) {
            problem p;
            hga_id token, sees;
            variant_build(i, 300, seed, &(hga_shape){.n_heads = 1, .dim = 2, .pos_dim = 2}, &p);
            if (hga_graph_nodes(p.graph).claims & HGA_CLAIM_CAUSAL && i != variant_named("hsa_causal_self")) {
                assert_ok(hga_program_influence(&p.program, p.graph, &token, &sees));
                if (token >= 0) fail_msg("%s: token %d sees %d", p.name, token, sees);
            }
            problem_clear(&p);
        }
}

/* ---- facts ---- */

/* n tokens, one relation `near` of one block, plain attention over it. */
static void one_block(hga_id n, hga_shape_kind shape, hga_graph **g, hga_program *p)
{
    *g = blocks_over(n, &(hga_block){.n_dst = n, .n_src = n, .shape = shape}, 1);
    assert_ok(hga_program_attention(p, 0));
}

static void a_lower_triangle_is_causal(void **state)
{
    (void)state;
    hga_graph *g;
    hga_program p;
    hga_id token, sees;
    one_block(5, HGA_LOWER, &g, &p);
    assert_ok(hga_program_influence(&p, g, &token, &sees));
    assert_int_equal(token, -1);
    assert_int_equal(sees, -1);
    hga_graph_destroy(g);
}

static void all_pairs_are_not(void **state)
{
    (void)state;
    hga_graph *g;
    hga_program p;
    hga_id token, sees;
    one_block(5, HGA_ALL, &g, &p);
    assert_ok(hga_program_influence(&p, g, &token, &sees));
    assert_int_equal(token, 0);
    assert_int_equal(sees, 4);
    hga_graph_destroy(g);
}

/* Tokens 0 1 | 2 3 under nodes 4 5. Node 5 attends to node 4, and hands its state down. */
static hga_graph *two_families(void)
{
    hga_builder *b;
    hga_graph *g;
    hga_id near, first;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 4, NULL));
    assert_ok(hga_builder_add_level(b, 2, NULL));
    assert_ok(hga_builder_set_families(b, 4, 0, 4, 2));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_block(b, near, 5, 1, 4, 1, 0));
    assert_ok(hga_builder_add_relation(b, "first", &first));
    assert_ok(hga_builder_add_blocks(
        b, first, &(hga_block){.dst = 4, .n_dst = 1, .src = 0, .n_src = 1, .count = 2, .dst_step = 1, .src_step = 2}));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}

static void coarse_attention(hga_program *p, int query_is_mean)
{
    hga_program_init(p);
    hga_id q = field(p, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_NODES);
    hga_id k = field(p, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_NODES);
    hga_id v = field(p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES);
    hga_id out = field(p, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_NODES);
    assert_ok(query_is_mean ? hga_program_coarsen(p, q) : hga_program_coarsen_along(p, 1, q));
    assert_ok(hga_program_coarsen(p, k));
    assert_ok(hga_program_coarsen(p, v));
    assert_ok(hga_program_attend(p, 0, q, k, v, out, 1));
    assert_ok(hga_program_spread(p, HGA_TREE_DOWN, out));
}

/* Every edge looks back, and still token 2's output depends on token 3: through the query of their parent. */
static void a_mean_query_leaks_the_future(void **state)
{
    (void)state;
    hga_graph *g = two_families();
    hga_program p;
    hga_id token, sees;
    coarse_attention(&p, 1);
    assert_ok(hga_program_influence(&p, g, &token, &sees));
    assert_int_equal(token, 2);
    assert_int_equal(sees, 3);
    hga_graph_destroy(g);
}

static void a_first_childs_query_does_not(void **state)
{
    (void)state;
    hga_graph *g = two_families();
    hga_program p;
    hga_id token;
    coarse_attention(&p, 0);
    assert_ok(hga_program_influence(&p, g, &token, NULL));
    assert_int_equal(token, -1);
    hga_graph_destroy(g);
}

static void begin(void *s, const hga_end *v, hga_id head, void *ctx) { (void)s, (void)v, (void)head, (void)ctx; }
static void each(void *s, const hga_edge *e, hga_id head, void *ctx) { (void)s, (void)e, (void)head, (void)ctx; }
static void finish(const void *s, const hga_end *v, hga_id head, void *ctx) { (void)s, (void)v, (void)head, (void)ctx; }

static void a_user_stage_counts_as_reading_all_it_may(void **state)
{
    (void)state;
    hga_graph *g = two_families();
    hga_program p;
    hga_id token, sees;
    hga_program_init(&p);
    field(&p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES);
    field(&p, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_NODES);
    hga_stage up = {.name = "up",
                    .relation = HGA_TREE_UP,
                    .order = HGA_LEVELS_UP,
                    .message = HGA_MESSAGE_USER,
                    .reduce = HGA_REDUCE_USER,
                    .update = HGA_UPDATE_USER,
                    .out = 2,
                    .reads = 1 << 1 | 1 << 2,
                    .writes = 1 << 2,
                    .udf = {.begin = begin, .edge = each, .finish = finish}};
    hga_stage down = up;
    down.name[0] = 'd', down.relation = HGA_TREE_DOWN, down.order = HGA_LEVELS_DOWN;
    assert_ok(hga_program_add_stage(&p, &up));
    assert_ok(hga_program_influence(&p, g, &token, &sees));
    assert_int_equal(token, -1);
    assert_ok(hga_program_add_stage(&p, &down));
    assert_ok(hga_program_influence(&p, g, &token, &sees));
    assert_int_equal(token, 0);
    assert_int_equal(sees, 1);
    hga_graph_destroy(g);
}

static void cross_attention_has_no_order_of_tokens(void **state)
{
    (void)state;
    hga_builder *b;
    hga_graph *g;
    hga_program p;
    hga_id near, token;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 5, NULL));
    assert_ok(hga_builder_set_tokens(b, 0, 2, 2, 3));
    assert_ok(hga_builder_set_side(b, 0, 2, HGA_SIDE_QUERY));
    assert_ok(hga_builder_set_side(b, 2, 3, HGA_SIDE_KEY));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_block(b, near, 0, 2, 2, 3, 0));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    hga_program_init(&p);
    assert_ok(hga_program_attention(&p, near));
    assert_status(HGA_EUNSUPPORTED, hga_program_influence(&p, g, &token, NULL));
    hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lower_triangle_is_causal),
        cmocka_unit_test(all_pairs_are_not),
        cmocka_unit_test(a_mean_query_leaks_the_future),
        cmocka_unit_test(a_first_childs_query_does_not),
        cmocka_unit_test(a_user_stage_counts_as_reading_all_it_may),
        cmocka_unit_test(cross_attention_has_no_order_of_tokens),
        cmocka_unit_test(influence_of_random_programs_is_the_oracles),
        cmocka_unit_test(tokens_of_a_field_that_is_coarsened_are_still_seen),
        cmocka_unit_test(influence_of_drawn_programs_is_the_oracles),
        cmocka_unit_test(influence_of_the_variants_is_the_oracles),
        cmocka_unit_test(causal_variants_keep_their_claim),
    };
    return cmocka_run_group_tests_name("influence", tests, NULL, NULL);
}
