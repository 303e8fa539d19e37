/* test_gradient_draws.c: in the backward pass heads leave each other what dropout drew for them: that changes no
   number, however many heads there are, whoever comes first, and whatever was drawn before. */
#include "slopes.h"

static void assert_same_bits_of_all(const slope *a, const slope *b)
{
    for (int i = 0; i < N_SLOW_INPUTS; i++) assert_same_bits(a->p->name, b->of[i], a->of[i], a->n[i]);
}

/* As the plain way, edge by edge; with equal bits for threads side by side and together on one head. */
static void check_threads(problem *p)
{
    slope plain = slope_create(p, 7), fast = slope_create(p, 7), more = slope_create(p, 7);
    slope_run(&plain, (hga_options){.generic = 1, .threads = 1, .dropout = 0.3f});
    slope_run(&fast, (hga_options){.threads = 1, .dropout = 0.3f});
    assert_same_slopes(&plain, &fast, 4e-5);
    for (hga_id threads = 2; threads < 4; threads++) {
        slope_run(&more, (hga_options){.threads = threads, .dropout = 0.3f});
        assert_same_bits_of_all(&fast, &more);
    }
    slope_run(&fast, (hga_options){.threads = 1, .dropout = 0.3f, .gradient_row_ranges = 4});
    slope_run(&more, (hga_options){.threads = 3, .dropout = 0.3f, .gradient_row_ranges = 4});
    assert_same_slopes(&plain, &fast, 4e-5);
    assert_same_bits_of_all(&fast, &more);
    slope_clear(&plain), slope_clear(&fast), slope_clear(&more);
}

/* One workspace, call after call, with other seeds and layers and with the first again. */
static void check_seeds(problem *p, hga_id threads)
{
    static const uint64_t seeds[] = {3, 4, 4, (uint64_t)4 << 32, 3};
    static const uint32_t layers[] = {0, 0, 1, 1, 0};
    static const hga_id first[] = {0, 0, 0, 3, 0};
    hga_options options = {.threads = threads, .dropout = 0.2f};
    seat at = seat_of(p, options);
    slope fresh = slope_create(p, 2), again = slope_create(p, 2);
    for (int i = 0; i < 5; i++) {
        p->io.seed = seeds[i], p->io.layer = layers[i], p->io.first_head = first[i];
        slope_run(&fresh, options);
        assert_ok(seat_run_anew(&at, &again));
        assert_same_bits_of_all(&fresh, &again);
    }
    slope_clear(&fresh), slope_clear(&again), seat_clear(&at);
}

static const char *const words[] = {"dense",    "window left=20 right=9",       "bpt k=2", "htransformer block=8",
                                    "bpt k=20", "htransformer block=8 causal=1"};
enum { N_WORDS = sizeof words / sizeof words[0], TOKENS = 230 };

static problem problem_of(const char *word, hga_shape shape, int tables)
{
    problem p = {.shape = shape};
    snprintf(p.name, sizeof p.name, "%s, %d heads, %d of keys", word, shape.n_heads, shape.n_kv_heads);
    assert_ok(hga_build(word, shortened(TOKENS), &p.graph, &p.program));
    problem_fill(&p, 1);
    if (tables) problem_fill_tables(&p, 1, 1, 1, 0);
    p.io.seed = 9;
    return p;
}

/* Wide heads, whose draws all find room, and narrow ones, of which many are drawn again. */
static void each_problem(void (*check)(problem *p, int i))
{
    static const hga_id heads[][2] = {{1, 1}, {7, 7}, {8, 8}, {9, 9}, {16, 16}, {8, 1}, {12, 3}, {20, 1}};
    enum { N_HEADS = sizeof heads / sizeof heads[0] };
    for (int i = 0; i < N_WORDS * N_HEADS; i++) {
        if (passed_over(i)) continue;
        const hga_id *h = heads[i % N_HEADS];
        hga_shape shape = {.n_heads = h[0], .n_kv_heads = h[1], .dim = i % 2 ? 24 : 2, .dim_v = i % 2 ? 24 : 1};
        problem p = problem_of(words[i / N_HEADS], shape, i / N_HEADS % 2 == 0 && i % 3 == 0);
        check(&p, i);
        problem_clear(&p);
    }
}

static void by_threads(problem *p, int i)
{
    (void)i;
    check_threads(p);
}

static void by_seeds(problem *p, int i) { check_seeds(p, 1 + i % 3); }

static void heads_share_what_was_drawn(void **state)
{
    (void)state;
    each_problem(by_threads);
}

static void another_seed_draws_anew(void **state)
{
    (void)state;
    each_problem(by_seeds);
}

/* Rows that are asked for alone: groups have other rows than they had when the workspace found them. */
static void rows_alone_drop_the_same(void **state)
{
    (void)state;
    for (int i = 0; i < N_WORDS; i++) {
        problem p = problem_of(words[i], (hga_shape){.n_heads = 8, .dim = 16}, 0);
        hga_options options = {.threads = 1 + i % 2, .dropout = 0.2f, .rows = HGA_SOME_ROWS};
        seat at = seat_of(&p, options);
        slope fresh = slope_create(&p, 2), again = slope_create(&p, 2);
        for (int j = 0; j < 4; j++) {
            p.io.rows = j % 2 ? SOME_ROWS(37, 50) : NULL;
            slope_run(&fresh, options);
            assert_ok(seat_run_anew(&at, &again));
            assert_same_bits_of_all(&fresh, &again);
        }
        slope_clear(&fresh), slope_clear(&again), seat_clear(&at), problem_clear(&p);
    }
}

/* A call that found no memory on its way leaves nothing half drawn. */
static void a_failed_call_is_forgotten(void **state)
{
    (void)state;
    problem p = problem_of("bpt k=2", (hga_shape){.n_heads = 4, .n_kv_heads = 2, .dim = 6, .dim_v = 5}, 0);
    slope fresh = slope_create(&p, 1), again = slope_create(&p, 1);
    slope_run(&fresh, (hga_options){.threads = 1, .dropout = 0.2f});
    hga_status st = HGA_ENOMEM;
    for (int64_t fails = 1; st; fails++) {
        filling m = {.byte = 0xff};
        hga_allocator a = filling_allocator(&m);
        seat at = seat_of(&p, (hga_options){.threads = 1, .dropout = 0.2f, .allocator = &a});
        m.asked = 0;
        m.fails_from = fails;
        st = seat_run_anew(&at, &again);
        m.fails_from = 0;
        assert_ok(seat_run_anew(&at, &again));
        assert_same_bits_of_all(&fresh, &again);
        seat_clear(&at);
        assert_int_equal(m.live, 0);
    }
    slope_clear(&fresh), slope_clear(&again), problem_clear(&p);
}

/* What a workspace keeps of a call, in bytes. */
static int64_t bytes_kept(problem *p, float dropout)
{
    filling m = {.byte = 0xff};
    hga_allocator a = filling_allocator(&m);
    slope s = slope_create(p, 1);
    seat at = seat_of(p, (hga_options){.threads = 1, .dropout = dropout, .allocator = &a});
    int64_t before = m.bytes;
    assert_ok(seat_run_anew(&at, &s));
    before = m.bytes - before;
    seat_clear(&at), slope_clear(&s);
    return before;
}

/* Draws stay beside what calls without dropout keep, of dense attention more than there is room for: a quarter of the
   tensors and their gradients, and half of that again where a list has grown. */
static void draws_take_the_room_they_are_told(void **state)
{
    (void)state;
    problem p = problem_of("dense", (hga_shape){.n_heads = 8, .dim = 2, .dim_v = 1}, 0);
    int64_t tensors = 4 * (int64_t)hga_graph_nodes(p.graph).n * 8 * (2 + 1) * (int64_t)sizeof(float),
            more = bytes_kept(&p, 0.2f) - bytes_kept(&p, 0);
    if (!(more > 0 && more <= tensors / 4 * 3 / 2 + tensors / 16))
        fail_msg("%lld bytes of draws beside %lld of tensors", (long long)more, (long long)tensors);
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_share_what_was_drawn),        cmocka_unit_test(another_seed_draws_anew),
        cmocka_unit_test(rows_alone_drop_the_same),          cmocka_unit_test(a_failed_call_is_forgotten),
        cmocka_unit_test(draws_take_the_room_they_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
