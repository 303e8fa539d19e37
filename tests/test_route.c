/* test_route.c: vectors down trees of hyperplanes, on numbers small enough to follow by hand, and against a plain walk
   in long double. */
#include "testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void a_positive_value_goes_right_and_zero_goes_left(void **state)
{
    (void)state;
    const float w[] = {1, 1, 1}, b[] = {0, 10, -10}; /* the root splits at 0, its children at -10 and 10 */
    const float x[] = {-11, -9, -10, 0, 0.5f, 10, 11};
    const int32_t want[] = {0, 1, 0, 1, 2, 2, 3};
    int32_t leaf[7];
    hga_router r = {.height = 2, .dim = 1, .n_heads = 1, .weights = w, .bias = b};
    assert_ok(hga_route(&r, x, 7, 1, 0, leaf));
    for (int i = 0; i < 7; i++) assert_int_equal(leaf[i], want[i]);
}

static void height_zero_has_one_leaf(void **state)
{
    (void)state;
    const float x[] = {1, 2};
    int32_t leaf[2] = {9, 9};
    hga_router r = {.height = 0, .dim = 1, .n_heads = 1};
    assert_ok(hga_route(&r, x, 2, 1, 0, leaf));
    assert_int_equal(leaf[0], 0);
    assert_int_equal(leaf[1], 0);
}

static void ties_of_a_k_ary_node_go_to_the_lowest_child(void **state)
{
    (void)state;
    /* root: 3 children by x; below child 1: bias decides between 2 children, equal for the others */
    const hga_id branching[] = {3, 2};
    const float w[] = {-1, 0, 1, 0, 0, 0, 0, 0, 0}, b[] = {0, 0, 0, 5, 5, 1, 2, 7, 7};
    const float x[] = {-2, 0, 2};
    const int32_t want[] = {0, 0, 4}; /* x = 0: all three agree, child 0 */
    int32_t leaf[3];
    hga_router r = {.height = 2, .dim = 1, .n_heads = 1, .branching = branching, .weights = w, .bias = b};
    assert_int_equal(hga_route_rows(2, branching), 9);
    assert_ok(hga_route(&r, x, 3, 1, 0, leaf));
    for (int i = 0; i < 3; i++) assert_int_equal(leaf[i], want[i]);
}

static void each_head_has_its_own_tree_and_strides_are_obeyed(void **state)
{
    (void)state;
    const float w[] = {1, -1}, b[] = {0, 0};
    const float x[] = {1, 99, 2, 99, -1, 99, -2, 99}; /* rows of 4, heads 2 apart */
    const int32_t want[] = {1, 0, 0, 1};
    int32_t leaf[4];
    hga_router r = {.height = 1, .dim = 1, .n_heads = 2, .weights = w, .bias = b};
    assert_ok(hga_route(&r, x, 2, 4, 2, leaf));
    for (int i = 0; i < 4; i++) assert_int_equal(leaf[i], want[i]);
}

/* 2^24 + 1 - 2^24 is 0 in float and 1 in double */
static void products_are_summed_in_double(void **state)
{
    (void)state;
    const float w[] = {16777216, 1, -16777216}, b[] = {-0.5f}, x[] = {1, 1, 1};
    int32_t leaf;
    hga_router r = {.height = 1, .dim = 3, .n_heads = 1, .weights = w, .bias = b};
    assert_ok(hga_route(&r, x, 1, 3, 0, &leaf));
    assert_int_equal(leaf, 1);
}

static void rows_are_counted(void **state)
{
    (void)state;
    const hga_id wide[] = {1 << 30, 1 << 30, 1 << 30}, zero[] = {2, 0};
    assert_int_equal(hga_route_rows(0, NULL), 0);
    assert_int_equal(hga_route_rows(5, NULL), 31);
    assert_int_equal(hga_route_rows(3, (const hga_id[]){2, 3, 4}), 2 + 2 * 3 + 6 * 4);
    assert_int_equal(hga_route_rows(-1, NULL), -1);
    assert_int_equal(hga_route_rows(200, NULL), -1);
    assert_int_equal(hga_route_rows(3, wide), -1);
    assert_int_equal(hga_route_rows(2, zero), -1);
}

/* the walk itself, written down once more */
static int32_t walk(const hga_router *r, hga_id head, const float *x)
{
    int64_t rows = hga_route_rows(r->height, r->branching), level_row = 0, nodes = 1, node = 0;
    for (hga_id l = 0; l < r->height; l++) {
        hga_id b = r->branching ? r->branching[l] : 2, planes = r->branching ? b : 1, child = 0;
        long double best = -INFINITY;
        for (hga_id c = 0; c < planes; c++) {
            int64_t row = head * rows + level_row + node * planes + c;
            long double f = r->bias[row];
            for (hga_id i = 0; i < r->dim; i++) f += (long double)r->weights[row * r->dim + i] * x[i];
            if (!r->branching)
                child = f > 0;
            else if (f > best)
                best = f, child = c;
        }
        level_row += nodes * planes, nodes *= b, node = node * b + child;
    }
    return (int32_t)node;
}

enum { HEADS = 3 };

static void check_leaves(const hga_router *r, const float *x, hga_id n)
{
    int32_t *leaf = malloc((size_t)n * HEADS * sizeof *leaf);
    assert_ok(hga_route(r, x, n, HEADS * r->dim, r->dim, leaf));
    for (hga_id i = 0; i < n * HEADS; i++) assert_int_equal(leaf[i], walk(r, i % HEADS, x + i * r->dim));
    free(leaf);
}

static void check_walks(const hga_id *branching, hga_id height, hga_id dim, hga_id n, uint64_t seed)
{
    int64_t rows = hga_route_rows(height, branching);
    float *w = random_floats(seed, 1, HEADS * rows * dim), *b = random_floats(seed + 1, 0.2, HEADS * rows);
    float *x = random_floats(seed + 2, 1, n * HEADS * dim);
    hga_router r = {.height = height, .dim = dim, .n_heads = HEADS, .branching = branching, .weights = w, .bias = b};
    check_leaves(&r, x, n);
    free(w), free(b), free(x);
}

static void random_trees_agree_with_a_plain_walk(void **state)
{
    (void)state;
    check_walks(NULL, 5, 7, 60, 100);
    check_walks(NULL, 6, 96, 60, 400);
    check_walks(NULL, 3, 16, 60, 500);
    check_walks((const hga_id[]){3, 1, 4}, 3, 7, 60, 200);
    check_walks((const hga_id[]){4, 4, 4}, 3, 83, 60, 600);
    check_walks((const hga_id[]){2, 2}, 2, 7, 60, 300);
}

/* so many rows for the tree's size that they go down together */
static void many_rows_agree_with_a_plain_walk(void **state)
{
    (void)state;
    const hga_id dim[] = {1, 7, 16, 64, 83, 96};
    for (size_t i = 0; i < sizeof dim / sizeof *dim; i++) check_walks(NULL, 5, dim[i], 261, 700 + 10 * i);
}

/* moves x to where w.x + b is 0 but for rounding */
/* Vectors of hyperplanes then lie across lines of the cache, or do not. */
static void hyperplanes_lie_anywhere_in_memory(void **state)
{
    (void)state;
    enum { HEIGHT = 4, DIM = 32, N = 256, PLANES = HEADS * ((1 << HEIGHT) - 1), FLOATS = 16 };
    float *input = random_floats(31, 1, PLANES * DIM), *b = random_floats(32, 0.2, PLANES);
    float *x = random_floats(33, 1, N * HEADS * DIM),
          *buffer = aligned_alloc(64, (PLANES * DIM + FLOATS) * sizeof *buffer);
    for (int off = 0; off < FLOATS; off++) {
        memcpy(buffer + off, input, PLANES * DIM * sizeof *buffer);
        hga_router r = {.height = HEIGHT, .dim = DIM, .n_heads = HEADS, .weights = buffer + off, .bias = b};
        check_leaves(&r, x, N);
        assert_memory_equal(buffer + off, input, PLANES * DIM * sizeof *buffer);
    }
    free(input), free(b), free(x), free(buffer);
}

static void put_on_plane(const float *w, float b, hga_id dim, float *x)
{
    double f = b, square = 0;
    for (hga_id c = 0; c < dim; c++) f += (double)w[c] * x[c], square += (double)w[c] * w[c];
    for (hga_id c = 0; c < dim; c++) x[c] -= (float)(f / square * w[c]);
}

static void check_narrow_walks(double size_w, double size_x)
{
    enum { DIM = 64, HEIGHT = 2, N = 67 };
    const hga_id planes = (hga_id)hga_route_rows(HEIGHT, NULL);
    float *w = random_floats(801, size_w, HEADS * planes * DIM), *b = random_floats(802, 0.2, HEADS * planes);
    float *x = random_floats(803, size_x, N * HEADS * DIM);
    for (hga_id i = 0; i < N * HEADS; i++) {
        hga_id root = i % HEADS * planes;
        put_on_plane(w + root * DIM, b[root], DIM, x + i * DIM);
    }
    check_leaves(&(hga_router){.height = HEIGHT, .dim = DIM, .n_heads = HEADS, .weights = w, .bias = b}, x, N);
    free(w), free(b), free(x);
}

/* float products would often have the wrong sign; small weights' bounds must not become 0 */
static void rows_on_the_root_plane_agree_with_a_plain_walk(void **state)
{
    (void)state;
    check_narrow_walks(1, 1);
    check_narrow_walks(1e-36, 1e36);
    check_narrow_walks(1e36, 1e-36);
}

/* Vectors so long that they are multiplied in float first: 16 times 2^24 + 1 - 2^24, and products that only double can
   hold. */
static void close_calls_are_decided_in_double(void **state)
{
    (void)state;
    enum { DIM = 48 };
    float w[2][DIM], x[DIM];
    const float b[] = {-15.5f, -16.5f};
    const hga_id two = 2;
    int32_t leaf;
    for (int c = 0; c < DIM; c++) x[c] = 1, w[0][c] = w[1][c] = c < 16 ? 16777216 : c < 32 ? 1 : -16777216;
    hga_router r = {.height = 1, .dim = DIM, .n_heads = 1, .weights = w[0], .bias = b};
    assert_ok(hga_route(&r, x, 1, DIM, 0, &leaf));
    assert_int_equal(leaf, 1);
    r.bias = b + 1;
    assert_ok(hga_route(&r, x, 1, DIM, 0, &leaf));
    assert_int_equal(leaf, 0);
    /* 2^24 - 2 is a float: the second child is larger by 2, less 1 of bias */
    r.bias = b, r.branching = &two, w[1][40] += 2;
    assert_ok(hga_route(&r, x, 1, DIM, 0, &leaf));
    assert_int_equal(leaf, 1);
    for (int c = 0; c < DIM; c++) x[c] = 1e30f, w[0][c] = w[1][c] = c == 20 ? 1e30f : 0;
    r.branching = NULL;
    assert_ok(hga_route(&r, x, 1, DIM, 0, &leaf));
    assert_int_equal(leaf, 1);
}

static void a_product_that_is_not_finite_names_its_row(void **state)
{
    (void)state;
    const float w[] = {1}, b[] = {0}, x[] = {1, 2, NAN};
    int32_t leaf[3];
    hga_router r = {.height = 1, .dim = 1, .n_heads = 1, .weights = w, .bias = b};
    assert_status(HGA_EINVAL, hga_route(&r, x, 3, 1, 0, leaf));
    assert_non_null(strstr(hga_error_detail(), "row 2"));
}

/* .. the first of them, by its first head, of many, and where only a weight is not */
static void of_many_rows_the_first_is_named(void **state)
{
    (void)state;
    enum { N = 80, DIM = 20 };
    float *w = random_floats(901, 1, HEADS * DIM), b[HEADS] = {0}, *x = random_floats(902, 1, N * HEADS * DIM);
    int32_t leaf[N * HEADS];
    hga_router r = {.height = 1, .dim = DIM, .n_heads = HEADS, .weights = w, .bias = b};
    x[(37 * HEADS + 2) * DIM + 3] = INFINITY, x[(37 * HEADS + 1) * DIM + 19] = NAN, x[(70 * HEADS + 0) * DIM] = NAN;
    assert_status(HGA_EINVAL, hga_route(&r, x, N, HEADS * DIM, DIM, leaf));
    assert_non_null(strstr(hga_error_detail(), "row 37, head 1"));
    w[2 * DIM + 5] = NAN;
    assert_status(HGA_EINVAL, hga_route(&r, x, N, HEADS * DIM, DIM, leaf));
    assert_non_null(strstr(hga_error_detail(), "row 0, head 2"));
    free(w), free(x);
}

static void bad_parameters_are_named(void **state)
{
    (void)state;
    const float w[] = {1}, b[] = {0}, x[] = {1};
    int32_t leaf;
    hga_router good = {.height = 1, .dim = 1, .n_heads = 1, .weights = w, .bias = b}, r;
    r = good, r.height = -1;
    assert_status(HGA_EINVAL, hga_route(&r, x, 1, 1, 0, &leaf));
    r = good, r.dim = 0;
    assert_status(HGA_EINVAL, hga_route(&r, x, 1, 1, 0, &leaf));
    r = good, r.n_heads = 0;
    assert_status(HGA_EINVAL, hga_route(&r, x, 1, 1, 0, &leaf));
    r = good, r.weights = NULL;
    assert_status(HGA_EINVAL, hga_route(&r, x, 1, 1, 0, &leaf));
    r = good, r.height = 31;
    assert_status(HGA_EOVERFLOW, hga_route(&r, x, 1, 1, 0, &leaf));
    assert_status(HGA_EINVAL, hga_route(&good, x, -1, 1, 0, &leaf));
    assert_status(HGA_EINVAL, hga_route(&good, NULL, 1, 1, 0, &leaf));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_positive_value_goes_right_and_zero_goes_left),
        cmocka_unit_test(height_zero_has_one_leaf),
        cmocka_unit_test(ties_of_a_k_ary_node_go_to_the_lowest_child),
        cmocka_unit_test(each_head_has_its_own_tree_and_strides_are_obeyed),
        cmocka_unit_test(products_are_summed_in_double),
        cmocka_unit_test(rows_are_counted),
        cmocka_unit_test(random_trees_agree_with_a_plain_walk),
        cmocka_unit_test(many_rows_agree_with_a_plain_walk),
        cmocka_unit_test(hyperplanes_lie_anywhere_in_memory),
        cmocka_unit_test(rows_on_the_root_plane_agree_with_a_plain_walk),
        cmocka_unit_test(close_calls_are_decided_in_double),
        cmocka_unit_test(a_product_that_is_not_finite_names_its_row),
        cmocka_unit_test(of_many_rows_the_first_is_named),
        cmocka_unit_test(bad_parameters_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
