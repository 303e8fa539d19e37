/* test_nested.c: images, sets and records as trees, with their position embeddings. */
#include "testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void assert_ids(const hga_id *got, const hga_id *want, hga_id n)
{
    for (hga_id i = 0; i < n; i++)
        if (got[i] != want[i]) fail_msg("[%d] is %d, not %d", i, got[i], want[i]);
}

static const float *pos(const hga_tree *t, hga_id node) { return t->pos + (int64_t)node * t->pos_dim; }

static float dot(const hga_tree *t, hga_id a, hga_id b)
{
    float s = 0;
    for (hga_id c = 0; c < t->pos_dim; c++) s += pos(t, a)[c] * pos(t, b)[c];
    return s;
}

static void assert_close(float got, double want)
{
    if (fabs((double)got - want) > 1e-6) fail_msg("%g, not %g", (double)got, want);
}

static const char *kind(const hga_tree *t, hga_id node) { return t->kind_name[t->kind[node]]; }

/* hsa numbers the nodes as the tree does */
static hga_graph *plant(const hga_tree *t, hga_program *p)
{
    hga_graph *g;
    hga_id *node_of = memory(t->n, sizeof *node_of);
    hga_hsa h;
    hga_defaults(&h);
    h.parent = t->parent, h.n_parent = t->n, h.n_tokens = t->n_leaves, h.node_of = node_of;
    assert_ok(hga_build_hsa(&h, &g, p));
    for (hga_id v = 0; v < t->n; v++) assert_int_equal(node_of[v], v);
    free(node_of);
    return g;
}

static void assert_plants(const hga_tree *t)
{
    hga_program p;
    hga_graph_destroy(plant(t, &p));
}

/* ---- images ---- */

/* 3 x 5 pixels in patches of 2 x 2:   0  1  2  3  4
                                       5  6  7  8  9
                                      10 11 12 13 14 */
static void an_image_is_patches_of_pixels(void **state)
{
    (void)state;
    const hga_id two[] = {2}, cells[] = {0, 1, 5, 6, 2, 3, 7, 8, 4, 9, 10, 11, 12, 13, 14};
    const hga_id parents[] = {15, 15, 15, 15, 16, 16, 16, 16, 17, 17, 18, 18, 19, 19, 20, 21, 21, 21, 21, 21, 21, -1};
    hga_id cell[15];
    hga_tree t;
    assert_ok(hga_tree_grid(NULL, 3, 5, two, 1, cell, &t));
    assert_int_equal(t.n, 22);
    assert_int_equal(t.n_leaves, 15);
    assert_ids(cell, cells, 15);
    assert_ids(t.parent, parents, 22);
    assert_string_equal(kind(&t, 0), "pixel");
    assert_string_equal(kind(&t, 15), "patch");
    assert_string_equal(kind(&t, 21), "image");
    assert_plants(&t);
    hga_tree_clear(&t);
}

/* Patches of patches: a leaf's cell lies inside its patch at every level, and every cell is there once. */
static void patches_are_nested(void **state)
{
    (void)state;
    enum { H = 13, W = 9 };
    const hga_id patch[] = {2, 3};
    hga_id cell[H * W];
    char seen[H * W] = {0};
    hga_tree t;
    assert_ok(hga_tree_grid(NULL, H, W, patch, 2, cell, &t));
    assert_int_equal(t.n, H * W + 7 * 5 + 3 * 2 + 1);
    for (hga_id i = 0; i < H * W; i++) {
        assert_false(seen[cell[i]]++);
        for (hga_id j = 0; j < i; j++) {
            int yi = cell[i] / W, xi = cell[i] % W, yj = cell[j] / W, xj = cell[j] % W;
            assert_int_equal(t.parent[i] == t.parent[j], yi / 2 == yj / 2 && xi / 2 == xj / 2);
            assert_int_equal(t.parent[t.parent[i]] == t.parent[t.parent[j]], yi / 6 == yj / 6 && xi / 6 == xj / 6);
        }
    }
    assert_plants(&t);
    hga_tree_clear(&t);
}

/* e(A).e(B) = cos(pi dy / h) + cos(pi dx / w) */
static void positions_fall_with_distance(void **state)
{
    (void)state;
    const hga_id two[] = {2};
    const double pi = acos(-1);
    hga_tree t;
    assert_ok(hga_tree_grid(NULL, 4, 6, two, 1, NULL, &t)); /* patches 24 .. 29: 2 rows of 3 */
    assert_int_equal(t.pos_dim, 4);
    assert_close(dot(&t, 0, 0), 2);
    assert_close(dot(&t, 0, 1), 1 + cos(pi / 2));
    assert_close(dot(&t, 0, 3), 2 * cos(pi / 2));
    assert_close(dot(&t, 24, 26), 1 + cos(2 * pi / 3));
    assert_close(dot(&t, 24, 28), cos(pi / 2) + cos(pi / 3));
    assert_close(dot(&t, 30, 30), 0); /* the root */
    hga_tree_clear(&t);
}

static void an_image_needs_no_patches(void **state)
{
    (void)state;
    hga_id cell[6];
    const hga_id in_order[] = {0, 1, 2, 3, 4, 5};
    hga_tree t;
    assert_ok(hga_tree_grid(NULL, 2, 3, NULL, 0, cell, &t));
    assert_int_equal(t.n, 7);
    assert_ids(cell, in_order, 6);
    hga_tree_clear(&t);
    assert_ok(hga_tree_grid(NULL, 1, 1, NULL, 0, cell, &t));
    assert_int_equal(t.n, 1);
    assert_int_equal(t.parent[0], -1);
    assert_int_equal(cell[0], 0);
    assert_plants(&t);
    hga_tree_clear(&t);
    const hga_id whole[] = {9}; /* one patch holds all: it is the root */
    assert_ok(hga_tree_grid(NULL, 2, 3, whole, 1, cell, &t));
    assert_int_equal(t.n, 7);
    hga_tree_clear(&t);
}

static void bad_images_are_named(void **state)
{
    (void)state;
    const hga_id zero[] = {2, 0}, one[] = {1};
    hga_tree t;
    assert_status(HGA_EINVAL, hga_tree_grid(NULL, 0, 5, NULL, 0, NULL, &t));
    assert_status(HGA_EINVAL, hga_tree_grid(NULL, 5, -1, NULL, 0, NULL, &t));
    assert_status(HGA_EINVAL, hga_tree_grid(NULL, 5, 5, zero, 2, NULL, &t));
    assert_non_null(strstr(hga_error_detail(), "patch[1] is 0"));
    assert_status(HGA_EINVAL, hga_tree_grid(NULL, 5, 5, NULL, 1, NULL, &t));
    assert_status(HGA_EOVERFLOW, hga_tree_grid(NULL, 1 << 20, 1 << 20, one, 1, NULL, &t));
    assert_null(t.parent);
}

/* ---- sets ---- */

static void a_set_is_one_family_without_positions(void **state)
{
    (void)state;
    const hga_id parents[] = {3, 3, 3, -1};
    hga_tree t;
    assert_ok(hga_tree_set(NULL, 3, &t));
    assert_int_equal(t.n, 4);
    assert_ids(t.parent, parents, 4);
    assert_null(t.pos);
    assert_string_equal(kind(&t, 2), "element");
    assert_string_equal(kind(&t, 3), "set");
    assert_plants(&t);
    hga_tree_clear(&t);
    assert_status(HGA_EINVAL, hga_tree_set(NULL, 0, &t));
}

/* ---- records ---- */

/* two fields: a key with two values, a key with one */
static void a_record_is_families_of_key_and_values(void **state)
{
    (void)state;
    const hga_id values[] = {2, 1}, parents[] = {5, 5, 5, 6, 6, 7, 7, -1};
    hga_tree t;
    assert_ok(hga_tree_record(NULL, 2, values, &t));
    assert_int_equal(t.n, 8);
    assert_int_equal(t.n_leaves, 5);
    assert_ids(t.parent, parents, 8);
    assert_string_equal(kind(&t, 0), "key");
    assert_string_equal(kind(&t, 1), "value");
    assert_string_equal(kind(&t, 3), "key");
    assert_string_equal(kind(&t, 5), "field");
    assert_string_equal(kind(&t, 7), "record");
    assert_plants(&t);
    hga_tree_clear(&t);
}

static void keys_are_apart_from_values_and_values_are_ordered(void **state)
{
    (void)state;
    const hga_id values[] = {3};
    hga_tree t;
    assert_ok(hga_tree_record(NULL, 1, values, &t)); /* key 0, values 1, 2, 3, field 4, root 5 */
    for (hga_id v = 1; v <= 3; v++) assert_close(dot(&t, 0, v), 0);
    assert_close(dot(&t, 0, 0), 1);
    assert_close(dot(&t, 1, 1), 1);
    assert_close(dot(&t, 1, 2), 0.5);
    assert_close(dot(&t, 1, 3), -0.5);
    assert_close(dot(&t, 4, 4), 0);
    hga_tree_clear(&t);
}

static void bad_records_are_named(void **state)
{
    (void)state;
    const hga_id values[] = {1, 0}, many[] = {INT32_MAX - 1, 5};
    hga_tree t;
    assert_status(HGA_EINVAL, hga_tree_record(NULL, 0, values, &t));
    assert_status(HGA_EINVAL, hga_tree_record(NULL, 2, NULL, &t));
    assert_status(HGA_EINVAL, hga_tree_record(NULL, 2, values, &t));
    assert_non_null(strstr(hga_error_detail(), "field 1 has 0 values"));
    assert_status(HGA_EOVERFLOW, hga_tree_record(NULL, 2, many, &t));
}

/* ---- all of them ---- */

static void clearing_twice_or_nothing_is_fine(void **state)
{
    (void)state;
    hga_tree t;
    assert_ok(hga_tree_set(NULL, 2, &t));
    hga_tree_clear(&t);
    hga_tree_clear(&t);
    hga_tree_clear(NULL);
    assert_null(t.parent);
}

/* An image with its own positions runs and equals the slow interpreter. */
static void an_image_runs_with_its_positions(void **state)
{
    (void)state;
    const hga_id two[] = {2, 2};
    hga_tree t;
    problem r = {.name = "image", .shape = {.n_heads = 2, .n_kv_heads = 1, .dim = 6, .dim_v = 5, .pos_dim = 4}};
    assert_ok(hga_tree_grid(NULL, 5, 7, two, 2, NULL, &t));
    r.graph = plant(&t, &r.program);
    problem_fill(&r, 3);
    r.io.node_pos.data = t.pos, r.io.node_pos.rows = hga_graph_nodes(r.graph).n;
    problem_run(&r);
    assert_equals_slow(&r, 2e-5);
    problem_clear(&r);
    hga_tree_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_image_is_patches_of_pixels),
        cmocka_unit_test(patches_are_nested),
        cmocka_unit_test(positions_fall_with_distance),
        cmocka_unit_test(an_image_needs_no_patches),
        cmocka_unit_test(bad_images_are_named),
        cmocka_unit_test(a_set_is_one_family_without_positions),
        cmocka_unit_test(a_record_is_families_of_key_and_values),
        cmocka_unit_test(keys_are_apart_from_values_and_values_are_ordered),
        cmocka_unit_test(bad_records_are_named),
        cmocka_unit_test(clearing_twice_or_nothing_is_fine),
        cmocka_unit_test(an_image_runs_with_its_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
