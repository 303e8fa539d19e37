/* Programs of sums and means alone, which go back from end to end with all heads together. */
#include "by_hand.h"
#include "kernels.h"
#include "machine.h"
#include "slopes.h"

enum { TOKENS = 90, POOLS = 12, TYPES = 4 };

/* Tokens that are queries and keys, and pools over them: members of each pool lie all over the tokens, in an order of
   their own; rows without edges, one edge twice, weights, types, masses. */
static hga_graph *pools(uint64_t seed, int explicit_only)
{
    uint64_t rng = seed;
    hga_id first, member, path, order[TOKENS - 5];
    hga_builder *b = tokens_alone(TOKENS);
    assert_ok(hga_builder_add_level(b, POOLS, &first));
    assert_ok(hga_builder_add_relation(b, "member", &member));
    assert_ok(hga_builder_add_relation(b, "path", &path));
    for (hga_id i = 0; i < TOKENS; i++) assert_ok(hga_builder_set_mass(b, i, 0.5f + (float)(i % 5)));
    for (hga_id i = 0; i < TOKENS - 5; i++) order[i] = i * 7 % (TOKENS - 5);
    assert_ok(hga_builder_set_order(b, member, NULL, 0, order, TOKENS - 5));
    assert_ok(hga_builder_set_order(b, path, order, TOKENS - 5, NULL, 0));
    for (hga_id i = 0; i < POOLS - 2 && !explicit_only; i++) {
        hga_id at = random_below(&rng, TOKENS - 25), n = 1 + random_below(&rng, 20);
        assert_ok(hga_builder_add_block(b, member, first + i, 1, at, n, 0));
        assert_ok(hga_builder_add_block(b, path, at, n, first + i, 1, i % TYPES));
    }
    for (hga_id i = 0; i < 150; i++) {
        hga_id token = random_below(&rng, TOKENS - 1), pool = first + random_below(&rng, POOLS - 1);
        for (hga_id twice = 0; twice < 1 + (i == 7); twice++) {
            assert_ok(hga_builder_add_edge(b, member, token, pool, 0, 0.25f * (float)(1 + (token + pool) % 6)));
            assert_ok(hga_builder_add_edge(b, path, pool, token, i % TYPES, 0.5f));
        }
    }
    return finished(b);
}

/* Means into pools, sums among the tokens' pools and scaled sums back: two stages or, where `more` says so, three that
   look at the values twice. */
static problem pooling(uint64_t seed, hga_shape shape, int more)
{
    static const float scales[TYPES] = {0.5f, 0, -1.25f, 2};
    problem p = {.graph = pools(seed, seed % 4 == 3), .shape = shape};
    hga_id v, mean, out, sum;
    snprintf(p.name, sizeof p.name, "pools %llu", (unsigned long long)seed);
    hga_program_init(&p.program);
    v = field(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_KEYS);
    mean = field(&p.program, "mean", HGA_WIDTH_VALUE, HGA_INTERNAL, HGA_ROWS_ABOVE, HGA_ROWS_ABOVE);
    out = field(&p.program, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    assert_ok(hga_program_mean(&p.program, 0, v, mean, seed % 2 == 0));
    if (more) {
        sum = field(&p.program, "sum", HGA_WIDTH_VALUE, HGA_INTERNAL, HGA_ROWS_ABOVE, HGA_ROWS_ABOVE);
        assert_ok(hga_program_sum(&p.program, 0, v, sum));
    }
    assert_ok(hga_program_weighted_sum(&p.program, 1, more && seed % 2 ? sum : mean, out));
    problem_fill(&p, seed);
    p.io.type_scale.data = scales, p.io.type_scale.rows = TYPES;
    return p;
}

static const hga_shape shapes[] = {{.n_heads = 2, .dim = 16},
                                   {.n_heads = 6, .n_kv_heads = 2, .dim = 5, .dim_v = 19},
                                   {.n_heads = 3, .n_kv_heads = 1, .dim = 33, .dim_v = 70},
                                   {.n_heads = 4, .dim = 8, .dim_v = 3}};

static const char *way_of(const hga_graph *g, const hga_program *p)
{
    hga_plan *plan;
    assert_ok(hga_plan_create(g, p, &shapes[0], &(hga_options){.gradient = 1}, &plan));
    const char *way = way_back(plan);
    hga_plan_destroy(plan);
    return way;
}

/* Flat sums go this way, also where two look at the same rows; trees and attention do not. */
static void sums_alone_go_with_all_heads(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) {
        problem p = pooling(1, shapes[0], more);
        assert_string_equal(way_of(p.graph, &p.program), "sums from end to end, all heads together");
        problem_clear(&p);
    }
    problem tree = problem_named("coarse", 40, 1, &shapes[0]), attended = problem_named("fine", 40, 1, &shapes[0]);
    assert_string_equal(way_of(tree.graph, &tree.program), "sums from end to end, all heads together");
    assert_string_equal(way_of(attended.graph, &attended.program), "a head at a time");
    problem_clear(&tree), problem_clear(&attended);
}

/* The gradients of the plain way, those of the scales, one of which is 0, too, by every instruction set; the same bits
   at any number of threads. */
static void sums_have_plain_gradients(void **state)
{
    (void)state;
    static const char *const isas[] = {FLOAT_ISAS};
    for (uint64_t seed = 0; seed < 16; seed++) {
        problem p = pooling(seed, shapes[seed % 4], seed / 4 % 2 == 1);
        slope plain = slope_create(&p, seed), one = slope_create(&p, seed), more = slope_create(&p, seed);
        slope_run(&plain, (hga_options){.generic = 1});
        for (int i = 0; i < 3; i++) {
            if (isa_kernels(isas[i], &(const kernel_table *){NULL})) continue;
            slope_run(&one, (hga_options){.threads = 1, .isa = isas[i]});
            assert_same_slopes(&plain, &one, 2e-5);
        }
        slope_run(&one, (hga_options){.threads = 1});
        for (hga_id threads = 2; threads < 9; threads += 1 + threads / 2) {
            slope_run(&more, (hga_options){.threads = threads});
            assert_same_slopes(&one, &more, 0);
        }
        slope_clear(&plain), slope_clear(&one), slope_clear(&more), problem_clear(&p);
    }
}

/* A scale of 0 has a gradient, which is not 0: or it could not leave 0. */
static void a_scale_of_zero_has_a_gradient(void **state)
{
    (void)state;
    problem p = pooling(2, shapes[0], 0);
    slope s = slope_create(&p, 1);
    slope_run(&s, (hga_options){.threads = 1});
    assert_true(p.io.type_scale.data[1] == 0 && fabsf(s.of[SLOW_TYPE_SCALE][1]) > 1e-3f);
    slope_clear(&s), problem_clear(&p);
}

/* No field has a query, so its gradient would be zeros: as many rows as the tensor has, more than 32 bits count. */
static void refuse_zeros_over_the_values(problem *p, slope *s)
{
    hga_plan *plan;
    hga_workspace *own;
    hga_grad_io grad = s->grad;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &(hga_options){.gradient = 1}, &plan));
    assert_ok(hga_workspace_create(plan, &own));
    hga_io io = p->io;
    io.tape = memory(hga_plan_tape_bytes(plan), 1);
    assert_ok(hga_plan_execute(plan, own, &io));
    grad.d_query = (hga_tensor){.data = (void *)(uintptr_t)io.value.data, .rows = INT64_C(1) << 32, .head_stride = 1};
    assert_status(HGA_EINVAL, hga_plan_gradient(plan, own, &io, &grad));
    assert_non_null(strstr(hga_error_detail(), "the gradient of the query"));
    free(io.tape);
    hga_workspace_destroy(own), hga_plan_destroy(plan);
}

/* The caller's values, summed up at once by the scales of their types: of tensors of rows that have gaps, too. */
static void scaled_sums_of_the_values_themselves(void **state)
{
    (void)state;
    for (hga_id gap = 0; gap < 2; gap++) {
        problem p = {.name = "scaled values", .graph = pools(5, 0), .shape = shapes[0]};
        static const float scales[TYPES] = {0.5f, 3, -1.25f, 2};
        hga_program_init(&p.program);
        hga_id v = field_on_nodes(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE),
               out = field_on_nodes(&p.program, "out", HGA_WIDTH_OUT, HGA_IO_OUT);
        assert_ok(hga_program_weighted_sum(&p.program, 1, v, out));
        problem_fill(&p, 5);
        p.io.type_scale.data = scales, p.io.type_scale.rows = TYPES;
        slope plain = slope_create(&p, 1), fast = slope_create(&p, 1);
        slope_run(&plain, (hga_options){.generic = 1});
        const float *packed = p.io.value.data;
        int64_t columns = (int64_t)p.shape.n_heads * p.shape.dim;
        float *wide = memory((TOKENS + POOLS) * (columns + 8), sizeof *wide);
        for (int64_t i = 0; i < (TOKENS + POOLS) * columns; i++)
            wide[i / columns * (columns + 8) + i % columns] = packed[i];
        if (gap) p.io.value.data = wide, p.io.value.row_stride = columns + 8;
        slope_run(&fast, (hga_options){.threads = 2});
        assert_same_slopes(&plain, &fast, 2e-5);
        assert_true(fabsf(fast.of[SLOW_TYPE_SCALE][0]) > 1e-3f);
        refuse_zeros_over_the_values(&p, &fast);
        free(wide);
        slope_clear(&plain), slope_clear(&fast), problem_clear(&p);
    }
}

/* What was there stays under what is added, nothing is written that is not wanted, and rows may lie anywhere. */
static void gradients_are_added_to_rows_that_lie_anywhere(void **state)
{
    (void)state;
    enum { ROW = 700, HEAD = 100 };
    for (uint64_t which = 0; which < 8; which++) {
        problem p = pooling(which, shapes[which % 4], which > 3);
        slope all = slope_create(&p, which), some = slope_create(&p, which);
        hga_id heads = p.shape.n_kv_heads ? p.shape.n_kv_heads : p.shape.n_heads,
               columns = p.shape.dim_v ? p.shape.dim_v : p.shape.dim;
        float *wide = memory((int64_t)TOKENS * ROW, sizeof *wide);
        slope_run(&all, (hga_options){.threads = 1});
        for (int i = 0; i < TOKENS * ROW; i++) wide[i] = 1;
        some.grad.accumulate = 1, some.grad.d_type_scale = NULL;
        some.grad.d_value = (hga_tensor){.data = wide, .rows = TOKENS, .row_stride = ROW, .head_stride = HEAD};
        slope_run(&some, (hga_options){.threads = 2});
        for (int i = 0; i < TOKENS * ROW; i++) {
            int row = i / ROW, head = i % ROW / HEAD, column = i % HEAD, is_there = head < heads && column < columns;
            double want = 1;
            if (is_there) want += (double)all.of[SLOW_VALUE][(row * heads + head) * columns + column];
            assert_true(fabs((double)wide[i] - want) <= 2e-5 * fmax(1, fabs(want)));
        }
        some.grad.d_value.data = NULL, some.grad.accumulate = 0, some.grad.d_type_scale = some.of[SLOW_TYPE_SCALE];
        slope_run(&some, (hga_options){.threads = 2});
        assert_same_bits(p.name, some.of[SLOW_TYPE_SCALE], all.of[SLOW_TYPE_SCALE], TYPES);
        free(wide);
        slope_clear(&all), slope_clear(&some), problem_clear(&p);
    }
}

/* Of rows that are not asked for nothing is looked at. */
static void some_rows_give_what_they_give_alone(void **state)
{
    (void)state;
    enum { FIRST = 20, N = 30 };
    problem p = pooling(1, shapes[0], 1);
    slope whole = slope_create(&p, 1), some = slope_create(&p, 1);
    for (int64_t i = 0, row = out_count(&p) / TOKENS; i < out_count(&p); i++)
        if (i / row < FIRST || i / row >= FIRST + N) whole.d_out[i] = 0, some.d_out[i] = NAN;
    slope_run(&whole, (hga_options){.generic = 1});
    p.io.rows = SOME_ROWS(FIRST, N);
    slope_run(&some, (hga_options){.threads = 2, .rows = HGA_SOME_ROWS});
    assert_same_slopes(&whole, &some, 2e-5);
    slope_clear(&whole), slope_clear(&some), problem_clear(&p);
}

/* Two pools of all tokens, and all tokens have both; or, as a `star`, every pool has the first token alone, and each
   token one pool. */
static problem many_of_one(hga_id n, int star)
{
    static const float one = 1;
    problem p = {.shape = {.n_heads = 1, .dim = 16}};
    snprintf(p.name, sizeof p.name, star ? "star" : "two pools");
    hga_id first, member, path, pools = star ? n - 1 : 2;
    hga_builder *b = tokens_alone(n);
    assert_ok(hga_builder_add_level(b, pools, &first));
    assert_ok(hga_builder_add_relation(b, "member", &member));
    assert_ok(hga_builder_add_relation(b, "path", &path));
    for (hga_id i = 0; star && i < pools; i++) {
        assert_ok(hga_builder_add_edge(b, member, 0, first + i, 0, 1));
        assert_ok(hga_builder_add_edge(b, path, first + i, i, 0, 1));
    }
    if (!star) assert_ok(hga_builder_add_block(b, member, first, pools, 0, n, 0));
    if (!star) assert_ok(hga_builder_add_block(b, path, 0, n, first, pools, 0));
    p.graph = finished(b);
    hga_program_init(&p.program);
    hga_id v = field(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_KEYS),
           pool = field(&p.program, "pool", HGA_WIDTH_VALUE, HGA_INTERNAL, HGA_ROWS_ABOVE, HGA_ROWS_ABOVE),
           out = field(&p.program, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    assert_ok(hga_program_sum(&p.program, member, v, pool));
    assert_ok(hga_program_weighted_sum(&p.program, path, pool, out));
    problem_fill(&p, 1);
    p.io.type_scale.data = &one, p.io.type_scale.rows = 1;
    return p;
}

/* Sums of half a million numbers, there and back, are as exact as those of four thousand: in pieces that begin
   anywhere, too. */
static void sums_of_many_lose_nothing(void **state)
{
    (void)state;
    enum { MANY = 600000 };
    for (int star = 0; star < 2; star++) {
        problem p = many_of_one(MANY, star);
        slope s = slope_create(&p, 1);
        float *value = (float *)(uintptr_t)p.io.value.data;
        for (int64_t i = 0; i < s.n[SLOW_VALUE]; i++) value[i] = 0.1f;
        for (int64_t i = 0; i < out_count(&p); i++) s.d_out[i] = 0.1f;
        hga_options options = {.threads = 2, .cut_edges = MANY / 2 + 1};
        slope_run(&s, options);
        float *out = problem_out(&p, &options, NULL);
        double sum = (double)0.1f * (star ? 1 : 2 * MANY), input = (double)0.1f * (star ? MANY - 1 : 2 * MANY);
        assert_true(fabs((double)out[0] - sum) <= 6e-5 * sum);
        assert_true(fabs((double)s.of[SLOW_VALUE][0] - input) <= 6e-5 * input);
        free(out), slope_clear(&s), problem_clear(&p);
    }
}

/* Where a block has more edges than its rows have numbers, they are not listed: heads go back one by one. */
static void blocks_of_many_edges_go_another_way(void **state)
{
    (void)state;
    for (hga_id rows = 1; rows <= 64; rows *= 64) {
        hga_graph *g = blocks_over(256, &(hga_block){.n_dst = rows, .n_src = 256}, 1);
        hga_program p;
        hga_program_init(&p);
        hga_id v = field_on_nodes(&p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE),
               out = field_on_nodes(&p, "out", HGA_WIDTH_OUT, HGA_IO_OUT);
        assert_ok(hga_program_weighted_sum(&p, 0, v, out));
        assert_int_equal(strstr(way_of(g, &p), "sums") != NULL, rows == 1);
        hga_graph_destroy(g);
    }
}

/* Each allocation that fails is told, nothing stays behind, and what is taken at once is about what the plan says. */
static void memory_is_told_and_given_back(void **state)
{
    (void)state;
    problem p = pooling(2, shapes[0], 1);
    slope s = slope_create(&p, 1);
    assert_failures_are_told(&s, 0.7, 1.2);
    slope_clear(&s), problem_clear(&p);
}

/* ---- sums one after the other, a head at a time ---- */

/* So many edges that they are not listed: scaled sums of scaled sums, whose middle is as wide as the output, past a
   mean and a tensor of the caller's own where `more` says so. */
static problem scaled_twice(uint64_t seed, int more)
{
    enum { N = 64, ALL = 4 };
    static const float scales[ALL] = {0.0625f, 0.03125f, -0.046875f, 0};
    hga_builder *b = tokens_alone(N);
    hga_id near;
    problem p = {.shape = {.n_heads = 2, .n_kv_heads = 1, .dim = 3, .dim_v = 2}};
    snprintf(p.name, sizeof p.name, "scaled twice %llu, %d", (unsigned long long)seed, more);
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id i = 0; i < ALL; i++)
        assert_ok(hga_builder_add_block(b, near, i * N / ALL, N / ALL, 0, more ? N / 2 : N, i));
    p.graph = finished(b);
    hga_program *q = &p.program;
    hga_program_init(q);
    hga_id v = field(q, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES),
           m = field_on_nodes(q, "m", HGA_WIDTH_OUT, HGA_INTERNAL),
           out = field(q, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    assert_ok(hga_program_weighted_sum(q, near, v, m));
    if (more) {
        hga_id own = field_on_nodes(q, "own", HGA_WIDTH_OUT, HGA_IO_USER);
        assert_ok(hga_program_mean(q, near, m, own, 0));
        m = own;
    }
    assert_ok(hga_program_weighted_sum(q, near, m, out));
    problem_fill(&p, seed);
    p.io.type_scale.data = scales, p.io.type_scale.rows = ALL;
    p.io.user[0] = (hga_tensor){.data = p.owned[p.n_owned++] = memory((int64_t)N * 2 * 2, sizeof(float)), .rows = N};
    return p;
}

static void what_scales_read_is_made_again(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        problem p = scaled_twice(seed, seed % 2);
        slope plain = slope_create(&p, seed), fast = slope_create(&p, seed), none = slope_create(&p, seed);
        plain.n[SLOW_USER] = 0; /* not wanted: yet values ask past it */
        none.grad.d_value.data = NULL;
        slope_run(&plain, (hga_options){.generic = 1});
        slope_run(&fast, (hga_options){.threads = 1 + (hga_id)seed % 3});
        assert_same_slopes(&plain, &fast, 2e-5);
        slope_run(&none, (hga_options){.threads = 1});
        for (int64_t i = 0; i < none.n[SLOW_TYPE_SCALE]; i++)
            assert_true(none.of[SLOW_TYPE_SCALE][i] == fast.of[SLOW_TYPE_SCALE][i]);
        slope_clear(&plain), slope_clear(&fast), slope_clear(&none), problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_alone_go_with_all_heads),
        cmocka_unit_test(sums_have_plain_gradients),
        cmocka_unit_test(a_scale_of_zero_has_a_gradient),
        cmocka_unit_test(scaled_sums_of_the_values_themselves),
        cmocka_unit_test(gradients_are_added_to_rows_that_lie_anywhere),
        cmocka_unit_test(some_rows_give_what_they_give_alone),
        cmocka_unit_test(sums_of_many_lose_nothing),
        cmocka_unit_test(blocks_of_many_edges_go_another_way),
        cmocka_unit_test(memory_is_told_and_given_back),
        cmocka_unit_test(what_scales_read_is_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
