/* test_allocation.c: what builders make, graphs and trees, where an allocation fails. */
#include "fuses.h"
#include "hga_files.h"

static hga_status make_dense(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    return settle(hga_build_dense(&(hga_dense){.n_tokens = 30, .n_keys = 20, .allocator = a}, &g, &p), &g);
}

static hga_status make_window(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    return settle(
        hga_build_window(&(hga_window){.n_tokens = 50, .left = 6, .right = 4, .global = 2, .stride = 2, .allocator = a},
                         &g, &p),
        &g);
}

static hga_status make_bpt(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    return settle(hga_build_bpt(&(hga_bpt){.n_tokens = 45, .k = 2, .clip = 3, .allocator = a}, &g, &p), &g);
}

static hga_status make_htransformer(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    return settle(hga_build_htransformer(&(hga_htransformer){.n_tokens = 45, .block = 3, .allocator = a}, &g, &p), &g);
}

static hga_status make_htransformer_causal(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    hga_htransformer h = {
        .n_tokens = 45, .block = 4, .structure = HGA_SIBLINGS, .causal = 1, .relative = 1, .allocator = a};
    return settle(hga_build_htransformer(&h, &g, &p), &g);
}

static hga_status make_htransformer_linear(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    return settle(
        hga_build_htransformer(
            &(hga_htransformer){.n_tokens = 45, .n_keys = 33, .block = 4, .linear = 1, .allocator = a}, &g, &p),
        &g);
}

static const int32_t leaf_of[12] = {3, 1, 0, -1, 2, 2, 1, 0, 3, 3, 1, 0};

static hga_status make_treeformer_fine(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    hga_treeformer t = {.n_queries = 12, .n_tree_heads = 1, .height = 2, .query_leaf = leaf_of, .allocator = a};
    return settle(hga_build_treeformer_fine(&t, &g, &p), &g);
}

static hga_status make_treeformer_coarse(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    hga_treeformer t = {.n_queries = 6, .n_tree_heads = 2, .height = 2, .query_leaf = leaf_of, .allocator = a};
    return settle(hga_build_treeformer_coarse(&t, &g, &p), &g);
}

static hga_status make_hsa_windows(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    return settle(
        hga_build_hsa(&(hga_hsa){.n_tokens = 40, .branching = (const hga_id[]){2, 3}, .n_branching = 2, .allocator = a},
                      &g, &p),
        &g);
}

/* Two trees: 6 (0 1 5 (2 3)) and 7 (4). */
static const hga_id parent_of[8] = {6, 6, 5, 5, 7, 6, -1, -1};

static hga_status make_hsa_parent(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    hga_id node_of[8];
    hga_hsa h = {.parent = parent_of, .n_parent = 8, .causal = 1, .self = 0, .node_of = node_of, .allocator = a};
    return settle(hga_build_hsa(&h, &g, &p), &g);
}

static hga_status make_fenwick(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    return settle(hga_build_fenwick(&(hga_fenwick){.n_tokens = 45, .allocator = a}, &g, &p), &g);
}

static hga_status make_dilated(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    const hga_id segments[] = {4, 9}, dilations[] = {1, 2};
    hga_dilated d = {.n_tokens = 30, .segments = segments, .n_segments = 2, .dilations = dilations, .n_dilations = 2};
    d.allocator = a;
    return settle(hga_build_dilated(&d, &g, &p), &g);
}

static hga_status make_segments(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    const int32_t query[] = {0, 0, -1, 1}, key[] = {0, -1, 1, 1, 2};
    hga_segmented s = {.n_tokens = 4, .n_keys = 5, .query_segment = query, .key_segment = key, .allocator = a};
    return settle(hga_build_segments(&s, &g, &p), &g);
}

static hga_status make_neighbourhood(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    const hga_id shape[] = {4, 3, 5}, two = 2;
    hga_neighbourhood x = {.shape = shape, .n_axes = 3, .kernel = &two, .n_kernel = 1, .allocator = a};
    x.dilation = &two, x.n_dilation = 1;
    return settle(hga_build_neighbourhood(&x, &g, &p), &g);
}

static hga_status make_routed(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    const int32_t choice[] = {0, -1, -1, 0, 1, -1, 0, 1, 2, 0, -1, -1, 0, 1, -1, 1, 2, -1};
    hga_routed r = {.n_tokens = 9, .block = 3, .query_block = 3, .n_choosers = 2, .causal = 1, .allocator = a};
    r.slots = 3, r.choice = choice;
    return settle(hga_build_routed(&r, &g, &p), &g);
}

static hga_status make_choice(const hga_allocator *a)
{
    float x[40] = {0};
    hga_selection how = {.block = 4, .query_block = 2, .threshold = 0.5};
    hga_select_input in = {.n_tokens = 20, .shape = {.n_heads = 2, .dim = 1}, .threads = 2, .allocator = a};
    in.query = in.key = (hga_tensor){.data = x, .rows = 20};
    hga_chosen c;
    hga_status st = hga_select_blocks(&how, &in, &c);
    if (st && c.block) return HGA_EGRAPH; /* empty after a failure */
    hga_chosen_clear(&c);
    how.query_block = 1, how.causal = 1, how.coarse = 8, how.coarse_k = 1;
    if (!st) st = hga_select_blocks(&how, &in, &c);
    hga_chosen_clear(&c);
    how.query_block = 2, how.coarse = 0, how.score = HGA_SELECT_SAMPLE, how.sample = 2;
    if (!st) st = hga_select_blocks(&how, &in, &c);
    hga_chosen_clear(&c);
    return st;
}

static hga_status make_draft(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_program p;
    const int32_t parent[] = {-1, 0, 0, 2};
    return settle(hga_build_draft(&(hga_draft){.n_tokens = 4, .prefix = 5, .parent = parent, .allocator = a}, &g, &p),
                  &g);
}

/* By hand: three levels, orders, blocks, and explicit edges with types, weights and a duplicate, and
   without types. */
static hga_status make_by_hand(const hga_allocator *a)
{
    hga_status st;
    hga_builder *b = NOWHERE;
    hga_graph *g = NULL;
    hga_id relation, sparse, plain;
    const hga_id order[] = {4, 2, 0, 1, 3};
    HGA_TRY(hga_builder_create(a, &b));
    HGA_TRY(hga_builder_add_level(b, 5, NULL));
    HGA_TRY(hga_builder_add_level(b, 2, NULL));
    HGA_TRY(hga_builder_add_level(b, 1, NULL));
    HGA_TRY(hga_builder_set_families(b, 5, 0, 5, 3));
    HGA_TRY(hga_builder_set_children(b, 7, 5, 2));
    HGA_TRY(hga_builder_set_mass(b, 2, 2));
    HGA_TRY(hga_builder_add_relation(b, "near", &relation));
    HGA_TRY(hga_builder_set_order(b, relation, order, 5, order, 5));
    HGA_TRY(hga_builder_add_blocks(b, relation,
                                   &(hga_block){.dst = 0, .n_dst = 2, .src = 0, .n_src = 3, .type = 1, .type_src = 1}));
    HGA_TRY(hga_builder_add_relation(b, "sparse", &sparse));
    for (hga_id i = 0; i < 40; i++)
        HGA_TRY(hga_builder_add_edge(b, sparse, i % 8, i * 3 % 8, i % 2, 1 + (float)(i % 8)));
    HGA_TRY(hga_builder_add_relation(b, "plain", &plain));
    HGA_TRY(hga_builder_sum_edges(b, plain));
    for (hga_id i = 0; i < 40; i++) HGA_TRY(hga_builder_add_edge(b, plain, i % 8, i * 3 % 8, 0, 1));
    g = NOWHERE;
    HGA_TRY(hga_builder_finish(b, &g));
done:
    hga_builder_destroy(b);
    return settle(st, &g);
}

/* Rows that are told: a window with edges here and there, and a mask of many blocks. */
static hga_status tell_rows(void *context, hga_id first, hga_id n, uint8_t *sees)
{
    (void)context;
    for (hga_id i = 0; i < n; i++)
        for (hga_id k = 0; k < 60; k++)
            sees[i * 60 + k] = (k <= first + i && first + i < k + 5) || (first + i) * 7 % 60 == k || k % 9 == i % 9;
    return HGA_OK;
}

static hga_status make_predicate(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    const hga_mask mask = {.n_queries = 50, .n_keys = 60, .sees = tell_rows, .rows_at_once = 8};
    return settle(hga_graph_from_predicate(a, &mask, &g), &g);
}

static hga_status tell_dilated(void *context, hga_id first, hga_id n, uint8_t *sees)
{
    (void)context;
    for (hga_id i = 0; i < n; i++)
        for (hga_id k = 0; k <= first + i; k++) sees[i * 40 + k] = (first + i - k) % 5 == 0;
    return HGA_OK;
}

static hga_status make_predicate_dilated(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    return settle(hga_graph_from_predicate(a, &(hga_mask){.n_queries = 40, .n_keys = 40, .sees = tell_dilated}, &g),
                  &g);
}

static hga_status make_names(const hga_allocator *a)
{
    hga_builder *b = NULL;
    hga_graph *g = NULL, *named = NULL, *kinds = NULL;
    hga_status st = HGA_OK;
    HGA_TRY(hga_builder_create(a, &b));
    HGA_TRY(hga_builder_add_level(b, 3, NULL));
    HGA_TRY(hga_builder_set_kinds(b, 0, 2, "text"));
    HGA_TRY(hga_builder_finish(b, &g));
    st = hga_graph_set_names(g, (const char *const[]){"a", NULL, "c"}, 3, &named);
    if (st && named) fail_msg("%s, and yet a graph", hga_status_name(st));
    if (!st) st = hga_graph_set_kinds(named, (const char *const[]){"sound", NULL, "picture"}, 3, &kinds);
    if (st && kinds) fail_msg("%s, and yet a graph of kinds", hga_status_name(st));
done:
    hga_builder_destroy(b);
    hga_graph_destroy(g), hga_graph_destroy(named), hga_graph_destroy(kinds);
    return st;
}

/* More kinds than there was room for at first. What failed is asked for again, of the same builder. */
static hga_status make_many_kinds(const hga_allocator *a)
{
    enum { KINDS = 40 };
    hga_builder *b = NULL;
    hga_graph *g = NULL;
    hga_status st, failed = HGA_OK;
    char name[8];
    HGA_TRY(hga_builder_create(a, &b));
    HGA_TRY(hga_builder_add_level(b, KINDS, NULL));
    for (hga_id v = 0; v < 2 * KINDS; v++) {
        snprintf(name, sizeof name, "%d", v % KINDS);
        st = hga_builder_set_kinds(b, v % KINDS, 1, name);
        if (st) failed = st, assert_int_equal(hga_builder_set_kinds(b, v % KINDS, 1, name), HGA_OK);
    }
    HGA_TRY(hga_builder_finish(b, &g));
    assert_int_equal(hga_graph_kinds(g).n, KINDS);
    for (hga_id v = 0; v < KINDS; v++) {
        snprintf(name, sizeof name, "%d", v);
        assert_int_equal(hga_graph_kinds(g).of[v], v);
        assert_string_equal(hga_graph_kinds(g).name[v], name);
    }
    st = failed;
done:
    hga_builder_destroy(b), hga_graph_destroy(g);
    return st;
}

/* A tree's gradient and what coarse attention asks of its paths. */
static hga_status make_route_gradient(const hga_allocator *a)
{
    static const float x[4] = {1, 2, 3, 4}, weights[6] = {1, -1, 1, 1, 2, 1}, bias[3] = {0}, given_path[2] = {1, 1};
    static const int32_t leaf[2] = {0, 3};
    float d_weights[6];
    hga_router r = {.height = 2, .dim = 2, .n_heads = 1, .weights = weights, .bias = bias};
    return hga_route_gradient(&r, &(hga_route_grad){.x = x,
                                                    .n = 2,
                                                    .row_stride = 2,
                                                    .leaf = leaf,
                                                    .d_path = given_path,
                                                    .d_weights = d_weights,
                                                    .allocator = a});
}

static hga_status make_coarse_gradient(const hga_allocator *a)
{
    static const float x[2] = {1, 2}, alpha[3] = {1, 1, 1};
    static const int32_t leaf[2] = {0, 3};
    float d_query[6];
    hga_treeformer t = {.n_queries = 2, .n_tree_heads = 1, .height = 2, .query_leaf = leaf, .allocator = a};
    return hga_coarse_gradient(
        &t, &(hga_coarse_grad){.dim_v = 1, .value = x, .d_out = x, .alpha = alpha, .d_query = d_query});
}

/* ---- trees found in data ---- */

static hga_status settle_tree(hga_status st, hga_tree *t)
{
    if (st && t->parent) fail_msg("%s, and yet a tree", hga_status_name(st));
    hga_tree_clear(t);
    return st;
}

static hga_status make_tree_text(const hga_allocator *a)
{
    static const char text[] = "CHAPTER I\n\nIt was late. Nobody came, or so it seemed.\n\nThen somebody "
                               "did.\n\nCHAPTER II\n\nHe knocked. Twice!\n";
    hga_tree t = {0};
    return settle_tree(hga_tree_text(a, text, sizeof text - 1, NULL, 0, &t), &t);
}

static hga_status make_tree_html(const hga_allocator *a)
{
    static const char text[] = "<title>A page</title><h1>One</h1><p>It was late. Nobody came.<ul><li>a<li>b c</ul>";
    hga_tree t = {0};
    return settle_tree(hga_tree_html(a, text, sizeof text - 1, &t), &t);
}

static hga_status make_tree_markdown(const hga_allocator *a)
{
    static const char text[] =
        "# One\n\nSome *words*. Others &amp; more.\n\n| a | b |\n|---|---|\n| `c` | <b>d</b> |\n\n- e\n- f\n";
    hga_tree t = {0};
    hga_status st = hga_tree_markdown(a, text, sizeof text - 1, &t);
    if (!st) assert_int_equal(t.n_leaves, 11);
    return settle_tree(st, &t);
}

static hga_status make_tree_linkage(const hga_allocator *a)
{
    hga_tree t = {0};
    return settle_tree(hga_tree_linkage(a, (const double[]){0, 2, .5, 2, 1, 3, .7, 3}, 2, &t), &t);
}

static hga_status make_tree_grid(const hga_allocator *a)
{
    hga_tree t = {0};
    hga_id cell[30];
    return settle_tree(hga_tree_grid(a, 5, 6, (const hga_id[]){2, 2}, 2, cell, &t), &t);
}

static hga_status make_tree_set(const hga_allocator *a)
{
    hga_tree t = {0};
    return settle_tree(hga_tree_set(a, 7, &t), &t);
}

static hga_status make_tree_record(const hga_allocator *a)
{
    hga_tree t = {0};
    return settle_tree(hga_tree_record(a, 3, (const hga_id[]){1, 4, 2}, &t), &t);
}

/* ---- the facts ---- */

/* With everything given back nothing is left. */
static int clear(void **state)
{
    (void)state;
    return lent.blocks || lent.bytes ? -1 : 0;
}

#define ALLOCATOR_FACTS(fact)                                                                                        \
    fact(dense) fact(fenwick) fact(dilated) fact(segments) fact(neighbourhood) fact(draft) fact(routed) fact(choice) \
        fact(window) fact(bpt) fact(htransformer) fact(htransformer_causal) fact(htransformer_linear)                \
            fact(treeformer_fine) fact(treeformer_coarse) fact(hsa_windows) fact(hsa_parent) fact(by_hand)           \
                fact(predicate) fact(predicate_dilated) fact(names) fact(many_kinds) fact(route_gradient)            \
                    fact(coarse_gradient) fact(tree_text) fact(tree_grid) fact(tree_set) fact(tree_record)           \
                        fact(tree_html) fact(tree_markdown) fact(tree_linkage)
#define MALLOC_FACTS(fact) \
    fact(dense) fact(window) fact(bpt) fact(htransformer) fact(hsa_parent) fact(treeformer_coarse) fact(by_hand)

ALLOCATOR_FACTS(BY_ALLOCATOR)
MALLOC_FACTS(BY_MALLOC)

/* ICU 72 does not free its own objects when an allocation fails in ubrk_open, so only the status is held to anything
   here. */
static void every_failing_malloc_inside_icu_is_reported(void **state)
{
    (void)state;
    every_malloc(make_tree_text, 1);
}

int main(void)
{
    const struct CMUnitTest facts[] = {ALLOCATOR_FACTS(ALLOCATOR_ROW) MALLOC_FACTS(MALLOC_ROW)
                                           cmocka_unit_test(every_failing_malloc_inside_icu_is_reported)};
    return cmocka_run_group_tests_name("allocation", facts, NULL, clear);
}
