/* test_preorder.c: the nodes of a forest depth first. */
#include "fuses.h"

#include "testing.h"

static void down_from_each_root_along_the_siblings(void **state)
{
    (void)state;
    /*      4        1
           / \       |
          0   6      5
         / \
        3   2                 */
    static const hga_id parent[] = {4, -1, 0, 0, -1, 1, 4}, want[] = {1, 5, 4, 0, 2, 3, 6};
    hga_id order[7];
    assert_ok(hga_forest_preorder(NULL, 7, parent, order));
    assert_memory_equal(order, want, sizeof want);
}

/* The definition: a node, then its children by increasing id, each with all that is below it. */
static hga_id define(const hga_id *parent, hga_id n, hga_id v, hga_id at, hga_id *order)
{
    order[at++] = v;
    for (hga_id c = 0; c < n; c++)
        if (parent[c] == v) at = define(parent, n, c, at, order);
    return at;
}

static void random_forests_are_in_the_order_of_the_definition(void **state)
{
    (void)state;
    enum { MOST = 40 };
    uint64_t seed = 5;
    for (int round = 0; round < 300; round++) {
        hga_id n = random_below(&seed, MOST) + 1, parent[MOST], name[MOST], order[MOST], want[MOST], at = 0;
        for (hga_id i = 0; i < n; i++) name[i] = i;
        for (hga_id i = n - 1; i > 0; i--) {
            hga_id j = random_below(&seed, i + 1), x = name[i];
            name[i] = name[j], name[j] = x;
        }
        for (hga_id i = 0; i < n; i++) /* under one of those before it, or a root */
            parent[name[i]] = i && random_below(&seed, 5) ? name[random_below(&seed, i)] : -1;
        for (hga_id v = 0; v < n; v++)
            if (parent[v] < 0) at = define(parent, n, v, at, want);
        assert_ok(hga_forest_preorder(NULL, n, parent, order));
        assert_memory_equal(order, want, (size_t)n * sizeof *want);
    }
}

static void no_nodes_are_in_order(void **state)
{
    (void)state;
    assert_ok(hga_forest_preorder(NULL, 0, NULL, NULL));
}

static void refused(hga_id n, const hga_id *parent, const char *text)
{
    hga_id order[4];
    assert_status(HGA_EINVAL, hga_forest_preorder(NULL, n, parent, order));
    if (!strstr(hga_error_detail(), text)) fail_msg("'%s' does not say: %s", hga_error_detail(), text);
}

static void what_is_no_forest_is_refused(void **state)
{
    (void)state;
    refused(-1, NULL, "a forest of -1 nodes");
    refused(3, (hga_id[]){1, -1, 3}, "parent of node 2: 3 is not a node (0 .. 2) nor -1");
    refused(3, (hga_id[]){1, -1, -2}, "parent of node 2: -2");
    refused(2, (hga_id[]){-1, 1}, "node 1 is its own ancestor");
    refused(4, (hga_id[]){1, 2, 1, -1}, "is its own ancestor"); /* 0 depends on the ring of 1 and 2 */
    assert_null(strstr(hga_error_detail(), "node 0"));
}

static hga_status make_preorder(const hga_allocator *a)
{
    hga_id order[3];
    return hga_forest_preorder(a, 3, (hga_id[]){2, 2, -1}, order);
}
BY_ALLOCATOR(preorder)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(down_from_each_root_along_the_siblings),
                                       cmocka_unit_test(random_forests_are_in_the_order_of_the_definition),
                                       cmocka_unit_test(no_nodes_are_in_order),
                                       cmocka_unit_test(what_is_no_forest_is_refused), ALLOCATOR_ROW(preorder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
