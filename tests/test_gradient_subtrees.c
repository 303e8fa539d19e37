/* Gradients of trees go back a subtree at a time, as the caches hold: wherever trees are cut they are the plain ones,
   with equal bits at any thread count. */
#include "plan.h"
#include "by_hand.h"
#include "halves.h"
#include "subtree_cases.h"

enum { REGULAR, RAGGED, WITH_ROOTS, UNEVEN, BACKWARDS, N_TREES };

/* ---- trees ---- */

/* A level above `size` nodes from `first` on: families of two, or of one to five; some nodes have no children, those of
   uneven trees leave the last `left` nodes to a level higher up, or the first node has the last family. */
static hga_id add_parents(hga_builder *b, uint64_t *rng, int tree, hga_id first, hga_id size, hga_id *left)
{
    hga_id n = 0, at = 0, sizes[4096], parent;
    *left = tree == UNEVEN && size > 6 ? 2 + random_below(rng, 2) : 0;
    for (hga_id capacity = size - *left; at < capacity; n++) {
        hga_id each = tree == REGULAR ? 2 : 1 + random_below(rng, 5);
        at += sizes[n] = each < capacity - at ? each : capacity - at;
    }
    assert_ok(hga_builder_add_level(b, n, &parent));
    for (hga_id i = 0, child = first; i < n; child += sizes[i++])
        if (tree != WITH_ROOTS || random_below(rng, 6))
            assert_ok(hga_builder_set_children(b, parent + (tree == BACKWARDS ? n - 1 - i : i), child, sizes[i]));
    return n;
}

/* Levels until few nodes are left. Nodes that a level left go to the first of two levels further up. */
static hga_id add_tree(hga_builder *b, uint64_t *rng, int tree, hga_id n, hga_id *ptr)
{
    hga_id l = 0, left, was = 0, was_left = 0;
    ptr[0] = 0, ptr[1] = n;
    assert_ok(hga_builder_add_level(b, n, NULL));
    for (; l == 0 || ptr[l + 1] - ptr[l] > 3; l++, was_left = left) {
        ptr[l + 2] = ptr[l + 1] + add_parents(b, rng, tree, ptr[l], ptr[l + 1] - ptr[l], &left);
        if (was_left) assert_ok(hga_builder_set_children(b, ptr[l + 1], was, was_left));
        was = ptr[l + 1] - left;
    }
    return l + 1;
}

/* ---- what attends to what ---- */

/* Any nodes, one by one, of the same level or of all. */
static void add_far(hga_builder *b, uint64_t *rng, hga_id relation, hga_id levels, const hga_id *ptr, int across)
{
    for (hga_id i = 0; i < ptr[levels]; i++) {
        hga_id v = random_below(rng, ptr[levels]), l = 0;
        while (v >= ptr[l + 1]) l++;
        hga_id u = across ? random_below(rng, ptr[levels]) : ptr[l] + random_below(rng, ptr[l + 1] - ptr[l]);
        assert_ok(hga_builder_add_edge(b, relation, u, v, 0, 1));
    }
}

static problem tree_problem(uint64_t seed, hga_id n)
{
    uint64_t rng = seed;
    int tree = (int)(seed % N_TREES), relations = 1 + (int)(seed / 2 % 2), spreads = seed % 3 != 2;
    int sums = spreads ? 7 : (int)(seed / 3 % 3) == 0 ? 6 : 7;
    problem p = {.shape = shapes[seed / 5 % 3]};
    hga_id ptr[32], near, far;
    hga_builder *b;
    snprintf(p.name, sizeof p.name, "tree %llu of %d tokens", (unsigned long long)seed, n);
    assert_ok(hga_builder_create(NULL, &b));
    hga_id levels = add_tree(b, &rng, tree, n, ptr);
    assert_ok(hga_builder_add_relation(b, "near", &near));
    add_near(b, near, levels, ptr, seed % 8 < 4 ? 2 : 7);
    if (relations > 1) assert_ok(hga_builder_add_relation(b, "far", &far));
    if (relations > 1) add_far(b, &rng, far, levels, ptr, seed / 7 % 2 == 0);
    assert_ok(hga_builder_finish(b, &p.graph));
    hga_builder_destroy(b);
    describe(&p.program, sums, relations, spreads, spreads && seed % 2 ? HGA_ROWS_QUERIES : HGA_ROWS_NODES);
    problem_fill(&p, seed);
    return p;
}

/* ---- facts ---- */

static void trees_of_any_shape_are_plain_wherever_cut(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 90; seed++) {
        if (passed_over((int)seed)) continue;
        problem p = tree_problem(seed, seed % 12 < 2 ? 1700 : 20 + (hga_id)(seed % 7) * 45);
        assert_cuts_are_plain(&p, seed);
        problem_clear(&p);
    }
}

/* Means by mass, means and sums beside each other: each field has shares of its own. */
static void sums_of_each_kind_are_plain_wherever_cut(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2 * N_TREES; seed++) {
        problem p = tree_problem(6 * seed, 150);
        p.program.stage[1].by_mass = 0, p.program.stage[2].reduce = HGA_SUM;
        assert_cuts_are_plain(&p, seed);
        problem_clear(&p);
    }
}

/* Where edges are short and families side by side, subtrees far from each other share memory. */
static void subtrees_take_turns(void **state)
{
    (void)state;
    int turns = 0, known = 0;
    for (uint64_t seed = 0; seed < 24; seed++) {
        problem p = tree_problem(seed, 1700);
        hga_plan *plan;
        subtrees t;
        hga_options options = {.threads = 1, .gradient = 1, .gradient_subtree = 40};
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &options, &plan));
        const char *why;
        assert_ok(subtrees_create(plan, &t, &why));
        assert_null(why);
        turns += t.index != NULL, known += t.n > 1;
        if (t.index) assert_true(seed % N_TREES == REGULAR || seed % N_TREES == RAGGED);
        subtrees_clear(plan, &t);
        hga_plan_destroy(plan), problem_clear(&p);
    }
    assert_int_equal(known, 24);
    assert_true(turns >= 4);
}

static const char *const words[] = {"htransformer block=4",
                                    "htransformer block=5",
                                    "htransformer block=4 structure=siblings",
                                    "htransformer block=4 causal=1",
                                    "htransformer block=4 keys=90",
                                    "htransformer block=8 relative=1",
                                    "fenwick"};

static void variants_are_plain_wherever_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * sizeof words / sizeof *words; i++) {
        if (passed_over((int)i)) continue;
        problem p = {.shape = shapes[i % 3]};
        snprintf(p.name, sizeof p.name, "%s", words[i / 2]);
        assert_ok(hga_build(words[i / 2], i % 2 ? 203 : 64, &p.graph, &p.program));
        problem_fill(&p, i), problem_fill_tables(&p, i, 1, 1, 0);
        assert_cuts_are_plain(&p, i);
        problem_clear(&p);
    }
}

/* One key/value head for all, and several: query heads that read the same add what they give it in their order. */
static void threads_change_no_bit_of_subtrees(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 24; seed++) {
        if (passed_over((int)seed)) continue;
        problem p = tree_problem(seed, seed % 12 < 2 ? 1700 : 150);
        if (seed % 2) p.shape.n_kv_heads = 1;
        problem q = {.graph = p.graph, .program = p.program, .shape = p.shape};
        snprintf(q.name, sizeof q.name, "%s", p.name);
        p.graph = NULL, problem_clear(&p), problem_fill(&q, seed);
        slope one = slope_create(&q, seed), many = slope_create(&q, seed);
        for (hga_id cuts = 1; cuts <= 3; cuts += 2) {
            slope_run(&one, (hga_options){.threads = 1, .gradient_subtree = 20, .gradient_row_ranges = cuts});
            for (hga_id threads = 2; threads <= 5; threads += 1 + threads / 3) {
                slope_run(&many,
                          (hga_options){.threads = threads, .gradient_subtree = 20, .gradient_row_ranges = cuts});
                for (int j = 0; j < N_SLOW_INPUTS; j++) assert_same_bits(q.name, many.of[j], one.of[j], one.n[j]);
            }
        }
        slope_clear(&one), slope_clear(&many), problem_clear(&q);
    }
}

/* What is there is added to; numbers of 16 bits and rows with strides go where they belong. */
static void what_is_there_is_added_to(void **state)
{
    (void)state;
    problem p = {.shape = shapes[0]};
    snprintf(p.name, sizeof p.name, "added to");
    assert_ok(hga_build("htransformer block=4", 203, &p.graph, &p.program));
    problem_fill(&p, 1);
    slope once = slope_create(&p, 1), twice = slope_create(&p, 1);
    hga_options options = {.threads = 2, .gradient_subtree = 16};
    slope_run(&once, options), slope_run(&twice, options);
    twice.grad.accumulate = 1;
    slope_run(&twice, options);
    for (int i = SLOW_QUERY; i <= SLOW_VALUE; i++)
        for (int64_t j = 0; j < once.n[i]; j++)
            assert_true(fabsf(twice.of[i][j] - 2 * once.of[i][j]) <= 1e-6f * fmaxf(1, fabsf(once.of[i][j])));
    slope_clear(&once), slope_clear(&twice), problem_clear(&p);
}

/* No tokens, and perhaps nodes above none with an edge between them: there is nothing to cut, and tables have gradients
   of 0. */
static void a_tree_over_no_tokens_has_gradients(void **state)
{
    (void)state;
    for (hga_id n = 0; n < 2; n++) {
        hga_builder *b;
        hga_id relation;
        assert_ok(hga_builder_create(NULL, &b));
        for (int l = 0; l < 3; l++) assert_ok(hga_builder_add_level(b, l ? n : 0, NULL));
        assert_ok(hga_builder_add_relation(b, "near", &relation));
        if (n) assert_ok(hga_builder_set_children(b, 1, 0, 1));
        if (n) assert_ok(hga_builder_add_edge(b, relation, 1, 0, 0, 1));
        hga_graph *g = finished(b);
        hga_program program;
        hga_plan *plan;
        hga_workspace *workspace;
        assert_ok(hga_program_hierarchy(&program, g, &relation, 1));
        const hga_shape shape = {.n_heads = 2, .dim = 4};
        assert_ok(hga_plan_create(g, &program, &shape, &(hga_options){.gradient = 1}, &plan));
        assert_ok(hga_workspace_create(plan, &workspace));
        float nothing = 0, bias[2] = {1, 2}, d_bias[2] = {7, 7}, d_scale = 7;
        void *tape = memory(hga_plan_tape_bytes(plan) + 1, 1);
        const hga_tensor none = {.data = &nothing}, d_none = {.data = &(float){0}};
        hga_io io = {.query = none, .key = none, .value = none, .out = {.data = &(float){0}}, .tape = tape};
        io.rel_bias = (hga_table){.data = bias, .rows = 1};
        assert_ok(hga_plan_execute(plan, workspace, &io));
        assert_ok(hga_plan_gradient(plan, workspace, &io,
                                    &(hga_grad_io){.d_out = d_none, .d_scale = &d_scale, .d_rel_bias = d_bias}));
        assert_true(d_scale == 0 && d_bias[0] == 0 && d_bias[1] == 0);
        free(tape), hga_workspace_destroy(workspace), hga_plan_destroy(plan), hga_graph_destroy(g);
    }
}

/* Keys' gradients of 16 bits are those of all query heads that read them, rounded once. */
static void what_heads_add_up_is_rounded_once(void **state)
{
    (void)state;
    problem p = {.shape = {.n_heads = 8, .n_kv_heads = 1, .dim = 16}};
    snprintf(p.name, sizeof p.name, "rounded once");
    assert_ok(hga_build("htransformer block=4", 203, &p.graph, &p.program));
    problem_fill(&p, 1);
    slope exact = slope_create(&p, 1), rounded = slope_create(&p, 1);
    hga_options options = {.threads = 2, .gradient_subtree = 16};
    uint16_t *half = memory(rounded.n[SLOW_KEY], sizeof *half);
    rounded.grad.d_key.data = half, rounded.grad.d_key.dtype = HGA_BF16;
    slope_run(&exact, options), slope_run(&rounded, options);
    for (int64_t j = 0; j < exact.n[SLOW_KEY]; j++) {
        float want = exact.of[SLOW_KEY][j], found;
        widen_row(0, half + j, &found, 1);
        assert_true(fabsf(found - want) <= fabsf(want) / 256 + 1e-6f);
    }
    free(half), slope_clear(&exact), slope_clear(&rounded), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_of_any_shape_are_plain_wherever_cut),
        cmocka_unit_test(sums_of_each_kind_are_plain_wherever_cut),
        cmocka_unit_test(subtrees_take_turns),
        cmocka_unit_test(variants_are_plain_wherever_cut),
        cmocka_unit_test(threads_change_no_bit_of_subtrees),
        cmocka_unit_test(what_is_there_is_added_to),
        cmocka_unit_test(what_heads_add_up_is_rounded_once),
        cmocka_unit_test(a_tree_over_no_tokens_has_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
