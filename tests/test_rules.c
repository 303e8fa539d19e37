/* Every rule of hga_graph_rules against graphs that break it in one place, as no builder makes them. */
#include "testing.h"

#include "graph.h"
#include "within.h"

#include <math.h>
#include <string.h>

enum { TOKENS = 6, NODES = 10 };

/* Tokens 0 .. 5 are children of 6, 7, 6, 7, 8, 8, and those of 9. A block, and edges 1 -> 0, 3 -> 0 (types 0 and 2). */
static hga_graph *sound_graph(void)
{
    static const hga_id parent[] = {6, 7, 6, 7, 8, 8}, order[] = {2, 0, 1, 3, 4, 5, 6, 7, 8, 9};
    hga_builder *b;
    hga_graph *g;
    hga_id near, far;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, TOKENS, NULL));
    assert_ok(hga_builder_add_level(b, 3, NULL));
    assert_ok(hga_builder_add_level(b, 1, NULL));
    assert_ok(hga_builder_set_tokens(b, 0, 4, 4, 2));
    for (hga_id v = 0; v < TOKENS; v++) assert_ok(hga_builder_set_children(b, parent[v], v, 1));
    assert_ok(hga_builder_set_children(b, 9, 6, 3));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_block(b, near, 0, 2, 0, 3, 1));
    assert_ok(hga_builder_add_edge(b, near, 1, 0, 0, 1));
    assert_ok(hga_builder_add_edge(b, near, 3, 0, 0, 1));
    assert_ok(hga_builder_add_edge(b, near, 3, 0, 2, 1));
    assert_ok(hga_builder_add_relation(b, "far", &far));
    assert_ok(hga_builder_set_order(b, far, order, NODES, order, TOKENS));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}

static hga_status check(const hga_graph *g, const char *name)
{
    for (const hga_rule *rule = hga_graph_rules(); rule->name; rule++)
        if (!strcmp(rule->name, name)) return rule->check(g);
    fail_msg("no rule is named %s", name);
    return HGA_OK;
}

static void sound_graphs_keep_all_rules(void **state)
{
    (void)state;
    hga_graph *g = sound_graph();
    for (const hga_rule *rule = hga_graph_rules(); rule->name; rule++) {
        assert_true(strlen(rule->says) > 10);
        assert_ok(rule->check(g));
    }
    assert_int_equal(g->children.n, TOKENS + 3); /* the case below that lists are broken needs one */
    hga_graph_destroy(g);
}

/* A number of the graph, what it becomes, and what the rule says then; NULL: it is still sound. */
typedef struct fault {
    hga_id *at, by;
    const char *rule, *says;
} fault;

static void assert_found(hga_graph *g, const fault *f)
{
    hga_id kept = *f->at;
    *f->at = f->by;
    if (f->says) {
        assert_status(HGA_EGRAPH, check(g, f->rule));
        if (!strstr(hga_error_detail(), f->says)) fail_msg("\"%s\" does not say %s", hga_error_detail(), f->says);
    } else {
        assert_ok(check(g, f->rule));
    }
    *f->at = kept;
    assert_ok(check(g, f->rule));
}

static void rules_name_what_breaks_them(void **state)
{
    (void)state;
    hga_graph *g = sound_graph();
    stored_relation *near = &g->relation[0], *far = &g->relation[1];
    const fault faults[] = {
        {&g->node.level_ptr[1], 10, "levels_partition_the_nodes", "level 1 has -1 nodes"},
        {&g->node.level_ptr[0], 1, "levels_partition_the_nodes", "levels end at 10 of 10 nodes"},
        {&g->node.level_ptr[3], 9, "levels_partition_the_nodes", "levels end at 9 of 10 nodes"},
        {&g->node.level_ptr[2], 6, "levels_partition_the_nodes", NULL},
        {&g->node.parent[0], 5, "parents_are_higher", "parent 5 of node 0"},
        {&g->node.parent[6], 8, "parents_are_higher", "parent 8 of node 6"},
        {&g->node.parent[9], 9, "parents_are_higher", "parent 9 of node 9"},
        {&g->node.parent[0], NODES, "parents_are_higher", "parent 10 of node 0"},
        {&g->node.parent[0], -2, "parents_are_higher", "parent -2 of node 0"},
        {&g->node.parent[0], NODES - 1, "parents_are_higher", NULL},
        {&g->node.parent[0], -1, "parents_are_higher", NULL},
        {&g->node.parent[2], 7, "children_match_parents", "node 2 is listed as a child of 6"},
        {&g->children.list[0], 1, "children_match_parents", "node 1 is listed as a child of 6"},
        {&g->children.ptr[4], 8, "children_match_parents", "-1 more children"},
        {&g->node.span_last[9], TOKENS, "spans_are_tokens", "span 0 .. 6 of node 9"},
        {&g->node.span_first[0], -1, "spans_are_tokens", "span -1 .. 0 of node 0"},
        {&g->node.span_first[0], 1, "spans_are_tokens", NULL},
        {&g->token.query_first, -1, "queries_and_keys_are_tokens", "queries -1 + 4 leave the 6"},
        {&g->token.query_first, 3, "queries_and_keys_are_tokens", "queries 3 + 4 leave the 6"},
        {&g->token.n_queries, -1, "queries_and_keys_are_tokens", "queries 0 + -1"},
        {&g->token.query_first, 2, "queries_and_keys_are_tokens", NULL},
        {&g->token.key_first, -1, "queries_and_keys_are_tokens", "keys -1 + 2 leave the 6"},
        {&g->token.n_keys, 3, "queries_and_keys_are_tokens", "keys 4 + 3 leave the 6"},
        {&g->token.n_keys, -1, "queries_and_keys_are_tokens", "keys 4 + -1"},
        {&g->token.n_keys, 0, "queries_and_keys_are_tokens", NULL},
        {&far->order.dst[0], -1, "orders_are_permutations", "far: dst_order[0] = -1"},
        {&far->order.dst[0], NODES, "orders_are_permutations", "far: dst_order[0] = 10"},
        {&far->order.dst[0], 1, "orders_are_permutations", "far: dst_order[0] = 1"},
        {&far->order.src[5], -1, "orders_are_permutations", "far: src_order[5] = -1"},
        {&far->order.src[5], NODES, "orders_are_permutations", "far: src_order[5] = 10"},
        {&far->order.src[5], NODES - 1, "orders_are_permutations", NULL},
        {&near->blocks[0].n_dst, -1, "blocks_stay_inside", "near, block 0: a size"},
        {&near->blocks[0].n_src, -1, "blocks_stay_inside", "near, block 0: a size"},
        {&near->blocks[0].count, -1, "blocks_stay_inside", "near, block 0: a size"},
        {&near->blocks[0].dst_step, -1, "blocks_stay_inside", "near, block 0: a size"},
        {&near->blocks[0].src_step, -1, "blocks_stay_inside", "near, block 0: a size"},
        {&near->blocks[0].dst, -1, "blocks_stay_inside", "rows -1 .. 0 leave [0, 10)"},
        {&near->blocks[0].dst, 9, "blocks_stay_inside", "rows 9 .. 10 leave [0, 10)"},
        {&near->blocks[0].dst, 8, "blocks_stay_inside", NULL},
        {&near->blocks[0].src, -1, "blocks_stay_inside", "columns -1 .. 1 leave [0, 10)"},
        {&near->blocks[0].src, 8, "blocks_stay_inside", "columns 8 .. 10 leave [0, 10)"},
        {&near->blocks[0].src, 7, "blocks_stay_inside", NULL},
        {&near->blocks[0].type, -1, "blocks_stay_inside", "type -1 is out of range"},
        {&near->blocks[0].pos_of, NODES, "blocks_stay_inside", NULL},
        {&near->blocks[0].pos_of, NODES + 1, "blocks_stay_inside", "pos_of 11"},
        {&near->blocks[0].src_pos_of, NODES + 1, "blocks_stay_inside", "src_pos_of 11"},
        {&near->edges.src[0], -1, "explicit_rows_are_sorted", "edge 0: source -1 is not a node"},
        {&near->edges.src[2], NODES, "explicit_rows_are_sorted", "edge 2: source 10 is not a node"},
        {&near->edges.src[0], 4, "explicit_rows_are_sorted", "edges of row 0 are not in order"},
        {&near->edges.src[0], 3, "explicit_rows_are_sorted", "edges of row 0 are not in order"},
        {&near->edges.src[1], 2, "explicit_rows_are_sorted", NULL},
        {&near->edges.type[1], 2, "explicit_rows_are_sorted", "edges of row 0 are not in order"},
        {&near->edges.type[1], 1, "explicit_rows_are_sorted", NULL},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) assert_found(g, &faults[i]);
    hga_graph_destroy(g);
}

static void masses_and_weights_are_finite(void **state)
{
    static const float wrong[] = {-1, NAN, INFINITY, -INFINITY};
    (void)state;
    hga_graph *g = sound_graph();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        float mass = g->node.mass[3], weight = g->relation[0].blocks[0].weight;
        g->node.mass[3] = wrong[i];
        assert_status(HGA_EGRAPH, check(g, "masses_are_finite"));
        assert_non_null(strstr(hga_error_detail(), "of node 3 is not finite"));
        g->node.mass[3] = 0;
        assert_ok(check(g, "masses_are_finite"));
        g->node.mass[3] = mass;
        g->relation[0].blocks[0].weight = wrong[i];
        assert_status(HGA_EGRAPH, check(g, "blocks_stay_inside"));
        assert_non_null(strstr(hga_error_detail(), "is not positive and finite"));
        g->relation[0].blocks[0].weight = weight;
    }
    hga_graph_destroy(g);
}

static void shapes_and_names_are_known(void **state)
{
    (void)state;
    hga_graph *g = sound_graph();
    g->relation[0].blocks[0].shape = (hga_shape_kind)(HGA_BAND + 1);
    assert_status(HGA_EGRAPH, check(g, "blocks_stay_inside"));
    assert_non_null(strstr(hga_error_detail(), "is not a shape"));
    g->relation[0].blocks[0].shape = HGA_ALL;
    memcpy(g->relation[1].name, "near", sizeof "near");
    assert_status(HGA_EGRAPH, check(g, "relation_names_differ"));
    memcpy(g->relation[1].name, "far", sizeof "far");
    assert_ok(check(g, "relation_names_differ"));
    hga_graph_destroy(g);
}

/* What is in order needs no list of its own. */
static void children_in_order_need_no_list(void **state)
{
    (void)state;
    hga_builder *b;
    hga_graph *g;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 6, NULL));
    assert_ok(hga_builder_add_level(b, 2, NULL));
    assert_ok(hga_builder_set_families(b, 6, 0, 2, 3));
    assert_ok(hga_builder_finish(b, &g));
    assert_null(g->children.list);
    hga_builder_destroy(b), hga_graph_destroy(g);
}

/* Rules look at long lists by parts: a number outside is seen wherever it stands, and none where all are inside. */
static void a_number_outside_is_seen_wherever_it_stands(void **state)
{
    (void)state;
    enum { N = 200 };
    const struct {
        int32_t least, most, inside[2], outside[2];
    } lists[] = {{0, 6, {0, 6}, {-1, 7}},
                 {-1, 6, {-1, 6}, {-2, 7}},
                 {-1, -1, {-1, -1}, {INT32_MIN, INT32_MAX}},
                 {1, INT32_MAX, {1, INT32_MAX}, {0, INT32_MIN}}};
    int32_t x[N];
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (hga_id n = 0; n <= N; n += n < 70 ? 1 : 65) {
            for (hga_id i = 0; i < n; i++) x[i] = lists[k].inside[i % 2];
            assert_false(may_leave(x, n, lists[k].least, lists[k].most));
            for (hga_id i = 0; i < 2 * n; i++) {
                const int32_t kept = x[i / 2];
                x[i / 2] = lists[k].outside[i % 2];
                assert_true(may_leave(x, n, lists[k].least, lists[k].most));
                x[i / 2] = kept;
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_graphs_keep_all_rules),    cmocka_unit_test(rules_name_what_breaks_them),
        cmocka_unit_test(masses_and_weights_are_finite),  cmocka_unit_test(shapes_and_names_are_known),
        cmocka_unit_test(children_in_order_need_no_list), cmocka_unit_test(a_number_outside_is_seen_wherever_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
