/* Families, whose members attend to each other alone: gradients of trees that go back family by family against the
   plain ones, and what their calls promise. */
#include "families.h"
#include "plan.h"
#include "halves.h"
#include "slopes.h"

static const hga_shape shapes[] = {{.n_heads = 2, .dim = 4},
                                   {.n_heads = 4, .n_kv_heads = 2, .dim = 6, .dim_v = 5},
                                   {.n_heads = 3, .n_kv_heads = 1, .dim = 16}};

typedef struct tree_kind {
    int self, causal;
} tree_kind;
static const tree_kind tree_kinds[] = {{0, 0}, {1, 0}, {1, 1}};
enum { N_KINDS_OF_TREES = 3 };

static problem tree_problem(hga_id *parent, hga_id n, tree_kind kind, const hga_shape *shape, uint64_t rng)
{
    problem p = {.shape = *shape};
    hga_hsa h;
    hga_defaults(&h);
    h.parent = parent, h.n_parent = n, h.self = kind.self, h.causal = kind.causal, h.mode = HGA_HSA_SELF;
    snprintf(p.name, sizeof p.name, "tree of %d nodes, self %d, causal %d", n, kind.self, kind.causal);
    assert_ok(hga_build_hsa(&h, &p.graph, &p.program));
    problem_fill(&p, rng);
    return p;
}

static problem problem_of(const char *words, hga_id n, const hga_shape *shape, uint64_t rng)
{
    problem p = {.shape = *shape};
    snprintf(p.name, sizeof p.name, "%s, %d tokens", words, n);
    assert_ok(hga_build(words, n, &p.graph, &p.program));
    problem_fill(&p, rng);
    return p;
}

/* Does a plan of it go family by family? */
static int goes_by_families(const problem *p)
{
    hga_plan *plan;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &(hga_options){.gradient = 1}, &plan));
    int goes = strcmp(way_back(plan), "a family of siblings at a time, all heads together") == 0;
    hga_plan_destroy(plan);
    return goes;
}

static void assert_is_plain(problem *p, uint64_t rng, hga_id threads)
{
    slope plain = slope_create(p, rng), fast = slope_create(p, rng);
    slope_run(&plain, (hga_options){.generic = 1});
    slope_run(&fast, (hga_options){.threads = threads});
    assert_same_slopes(&plain, &fast, 2e-5);
    slope_clear(&plain), slope_clear(&fast);
}

/* Any branching, lengths that are no multiple of it, single children, and trees of all kinds at random. */
static void trees_go_back_as_the_plain_ones(void **state)
{
    (void)state;
    static const char *const words[] = {"hsa branching=2", "hsa branching=2,4,8", "hsa branching=1,3",
                                        "hsa branching=60"};
    for (uint64_t i = 0; i < 4; i++)
        for (hga_id n = 2; n < 200; n += 61) {
            problem p = problem_of(words[i], n, &shapes[i % 3], i);
            assert_true(goes_by_families(&p));
            assert_is_plain(&p, i, 1 + (hga_id)i % 3);
            problem_clear(&p);
        }
    for (uint64_t rng = 0; rng < 60; rng++) {
        hga_id n, *parent = random_tree(rng, 2 + (hga_id)rng * 3, &n);
        problem p = tree_problem(parent, n, tree_kinds[rng % N_KINDS_OF_TREES], &shapes[rng / 3 % 3], rng);
        assert_true(goes_by_families(&p));
        assert_is_plain(&p, rng, 1 + (hga_id)(rng % 3));
        problem_clear(&p), free(parent);
    }
}

/* Several trees side by side, one of them a lone token, whose gradient is zero. */
static void a_lone_token_has_no_gradient(void **state)
{
    (void)state;
    hga_id parent[] = {6, 6, -1, 7, 7, 7, -1, -1};
    problem p = tree_problem(parent, 8, tree_kinds[0], &shapes[0], 4);
    assert_true(goes_by_families(&p));
    assert_is_plain(&p, 4, 1);
    slope s = slope_create(&p, 4);
    slope_run(&s, (hga_options){0});
    int zeros = 0;
    for (int64_t j = 0; j < s.n[SLOW_VALUE]; j++) zeros += s.of[SLOW_VALUE][j] == 0;
    assert_int_equal(zeros, p.shape.n_heads * p.shape.dim);
    slope_clear(&s), problem_clear(&p);
}

/* Families of 64 members and of one more; a lone token that attends to itself: what families do not know goes another
   way, to the same numbers. */
static void others_go_another_way(void **state)
{
    (void)state;
    problem many = problem_of("hsa branching=64", 150, &shapes[0], 1),
            more = problem_of("hsa branching=65", 150, &shapes[0], 1);
    assert_true(goes_by_families(&many) && !goes_by_families(&more));
    assert_is_plain(&many, 1, 2), assert_is_plain(&more, 1, 2);
    problem_clear(&many), problem_clear(&more);
    hga_id parent[] = {3, 3, -1, -1};
    problem alone = tree_problem(parent, 4, tree_kinds[1], &shapes[0], 4);
    assert_true(!goes_by_families(&alone));
    assert_is_plain(&alone, 4, 1);
    problem_clear(&alone);
    problem frontier = problem_of("hsa branching=3 causal=1", 50, &shapes[0], 1);
    assert_true(!goes_by_families(&frontier));
    problem_clear(&frontier);
}

static void give_positions(problem *p, uint64_t rng)
{
    p->io.node_pos.rows = hga_graph_nodes(p->graph).n;
    p->io.node_pos.data = p->owned[p->n_owned++] =
        random_floats(rng, 1, (int64_t)p->io.node_pos.rows * p->shape.pos_dim);
}

/* Positions, whose gradients are wanted, too. */
static void trees_with_positions_go_back_as_the_plain_ones(void **state)
{
    (void)state;
    for (uint64_t rng = 0; rng < 30; rng++) {
        hga_shape shape = shapes[rng % 3];
        shape.pos_dim = 1 + (hga_id)rng % 5;
        hga_id n, *parent = random_tree(rng, 2 + (hga_id)rng * 5, &n);
        problem p = tree_problem(parent, n, tree_kinds[rng / 3 % N_KINDS_OF_TREES], &shape, rng);
        give_positions(&p, rng);
        assert_is_plain(&p, rng, 1 + (hga_id)(rng % 3));
        problem_clear(&p), free(parent);
    }
}

/* Biases of types are not for families; the same plan takes them another way. */
static void what_a_call_brings_chooses_the_way(void **state)
{
    (void)state;
    problem p = problem_of("hsa branching=3,2", 40, &shapes[0], 5);
    assert_true(goes_by_families(&p));
    problem_fill_tables(&p, 5, 1, 1, 0);
    assert_true(p.io.rel_key.data && p.io.rel_bias.data);
    assert_is_plain(&p, 5, 1);
    problem_clear(&p);
}

/* One tensor of 16 bits among others of 32 goes another way, too. */
static void each_tensor_may_have_16_bits(void **state)
{
    (void)state;
    enum { N = 40 };
    for (int i = 0; i < 3; i++) {
        problem p = problem_of("hsa branching=3,2", N, &shapes[0], 5);
        hga_tensor *t = (hga_tensor *[]){&p.io.query, &p.io.key, &p.io.value}[i], wide = *t;
        hga_id n = N * shapes[0].n_heads * shapes[0].dim;
        uint16_t *half = memory(n, sizeof *half);
        for (hga_id at = 0; at < n; at += 16)
            narrow_row(1, (float *)wide.data + at, half + at, 16), widen_row(1, half + at, (float *)wide.data + at, 16);
        slope of_wide = slope_create(&p, 5), of_half = slope_create(&p, 5);
        slope_run(&of_wide, (hga_options){.threads = 1});
        *t = (hga_tensor){.data = half, .rows = wide.rows, .dtype = HGA_F16};
        slope_run(&of_half, (hga_options){.threads = 1});
        assert_same_slopes(&of_wide, &of_half, 2e-5);
        *t = wide;
        free(half), slope_clear(&of_wide), slope_clear(&of_half), problem_clear(&p);
    }
}

static void families_have_equal_bits_at_any_thread_count(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 3; i++) {
        problem p = problem_of("hsa branching=2,4,3", 3000 + 1000 * (hga_id)i, &shapes[i], i);
        slope one = slope_create(&p, i), many = slope_create(&p, i);
        slope_run(&one, (hga_options){.threads = 1});
        for (hga_id j = 0; j < 4; j++) {
            slope_run(&many, (hga_options){.threads = (hga_id[]){2, 3, 5, 8}[j]});
            for (int k = 0; k < N_SLOW_INPUTS; k++) assert_same_bits(p.name, many.of[k], one.of[k], one.n[k]);
        }
        slope_clear(&one), slope_clear(&many), problem_clear(&p);
    }
}

/* Each gradient alone has the bits that it has among all. */
static void families_skip_what_is_not_wanted(void **state)
{
    (void)state;
    problem p = problem_of("hsa branching=2,3", 100, &shapes[1], 7);
    slope all = slope_create(&p, 7), one = slope_create(&p, 7);
    slope_run(&all, (hga_options){.threads = 1});
    hga_grad_io every = one.grad;
    for (int i = SLOW_QUERY; i <= SLOW_VALUE; i++) {
        one.grad = (hga_grad_io){.d_out = every.d_out};
        hga_tensor *to[] = {&one.grad.d_query, &one.grad.d_key, &one.grad.d_value};
        *to[i - SLOW_QUERY] = (hga_tensor){.data = one.of[i], .rows = p.n_query};
        slope_run(&one, (hga_options){.threads = 1});
        assert_same_bits(p.name, one.of[i], all.of[i], all.n[i]);
    }
    slope_clear(&all), slope_clear(&one), problem_clear(&p);
}

/* Twice into the same arrays is twice the gradient; tensors whose heads lie apart change no bits. */
static void families_add_and_have_strides(void **state)
{
    (void)state;
    problem p = problem_of("hsa branching=2,3", 100, &shapes[0], 7);
    slope one = slope_create(&p, 7), apart = slope_create(&p, 7);
    slope_run(&one, (hga_options){.threads = 1});
    int64_t n = one.n[SLOW_QUERY], dim = p.shape.dim, heads = p.shape.n_heads;
    float *query = memory(n, sizeof *query);
    const float *was = p.io.query.data;
    for (int64_t i = 0; i < n; i++) query[(i / dim % heads * p.n_query + i / dim / heads) * dim + i % dim] = was[i];
    hga_tensor packed = p.io.query,
               by_head = {.data = query, .rows = p.n_query, .row_stride = dim, .head_stride = p.n_query * dim};
    p.io.query = by_head, apart.grad.d_key.row_stride = dim, apart.grad.d_key.head_stride = p.n_query * dim;
    slope_run(&apart, (hga_options){.threads = 1});
    p.io.query = packed;
    assert_same_bits(p.name, apart.of[SLOW_QUERY], one.of[SLOW_QUERY], n);
    for (int64_t i = 0; i < n; i++)
        assert_true(one.of[SLOW_KEY][i] ==
                    apart.of[SLOW_KEY][(i / dim % heads * p.n_query + i / dim / heads) * dim + i % dim]);
    one.grad.accumulate = 1;
    slope twice = slope_create(&p, 7);
    slope_run(&one, (hga_options){.threads = 1}), slope_run(&twice, (hga_options){.threads = 1});
    for (int i = 0; i < N_SLOW_INPUTS; i++)
        for (int64_t j = 0; j < twice.n[i]; j++) twice.of[i][j] *= 2;
    assert_same_slopes(&one, &twice, 1e-6);
    free(query), slope_clear(&one), slope_clear(&apart), slope_clear(&twice), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_go_back_as_the_plain_ones),
        cmocka_unit_test(trees_with_positions_go_back_as_the_plain_ones),
        cmocka_unit_test(a_lone_token_has_no_gradient),
        cmocka_unit_test(others_go_another_way),
        cmocka_unit_test(what_a_call_brings_chooses_the_way),
        cmocka_unit_test(each_tensor_may_have_16_bits),
        cmocka_unit_test(families_have_equal_bits_at_any_thread_count),
        cmocka_unit_test(families_skip_what_is_not_wanted),
        cmocka_unit_test(families_add_and_have_strides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
