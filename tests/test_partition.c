/* test_partition.c: parts that are balanced, complete, cheap to separate, and the same every time. */
#include "partition.h"
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct arrays {
    int64_t n, *ptr, *adj;
} arrays;

static void arrays_free(arrays *a) { free(a->ptr), free(a->adj); }

/* Vertices 0 .. n - 1 in a row. */
static arrays path(int64_t n)
{
    arrays a = {n, memory(n + 1, sizeof(int64_t)), memory(n, sizeof(int64_t))};
    for (int64_t v = 0; v < n; v++) {
        a.ptr[v + 1] = a.ptr[v];
        if (v + 1 < n) a.adj[a.ptr[v + 1]++] = v + 1; /* one direction only */
    }
    return a;
}

/* Edges from every vertex to `degree` random ones, loops and repetitions among them. */
static arrays random_arrays(uint64_t *rng, int64_t n, int64_t degree)
{
    arrays a = {n, memory(n + 1, sizeof(int64_t)), memory(n * degree + 1, sizeof(int64_t))};
    for (int64_t v = 0; v < n; v++) {
        a.ptr[v + 1] = a.ptr[v];
        for (int64_t i = random_below(rng, degree + 1); i > 0; i--) a.adj[a.ptr[v + 1]++] = random_below(rng, n);
    }
    return a;
}

static void assert_complete(const hga_id *part, int64_t n, hga_id n_parts)
{
    hga_id *count = memory(n_parts, sizeof *count), filled = 0;
    for (int64_t v = 0; v < n; v++) {
        assert_in_range(part[v], 0, n_parts - 1);
        filled += count[part[v]]++ == 0;
    }
    assert_int_equal(filled, n < n_parts ? n : n_parts);
    free(count);
}

static void one_part_takes_all(void **state)
{
    (void)state;
    arrays a = path(5);
    hga_id part[5] = {7, 7, 7, 7, 7};
    assert_ok(partition_graph(NULL, a.n, a.ptr, a.adj, NULL, NULL, 1, NULL, NULL, part));
    for (int v = 0; v < 5; v++) assert_int_equal(part[v], 0);
    arrays_free(&a);
}

static void fewer_vertices_than_parts_get_one_each(void **state)
{
    (void)state;
    arrays a = path(3);
    hga_id part[3];
    assert_ok(partition_graph(NULL, a.n, a.ptr, a.adj, NULL, NULL, 5, NULL, NULL, part));
    for (int v = 0; v < 3; v++) assert_int_equal(part[v], v);
    assert_ok(partition_graph(NULL, 0, a.ptr, a.adj, NULL, NULL, 5, NULL, NULL, part));
    arrays_free(&a);
}

static void a_path_is_cut_in_the_middle(void **state)
{
    (void)state;
    arrays a = path(100);
    hga_id part[100], changes = 0, in_first = 0;
    assert_ok(partition_graph(NULL, a.n, a.ptr, a.adj, NULL, NULL, 2, NULL, NULL, part));
    for (int v = 0; v < 100; v++) {
        in_first += part[v] == part[0];
        changes += v && part[v] != part[v - 1];
    }
    assert_int_equal(changes, 1);
    assert_in_range(in_first, 47, 53);
    arrays_free(&a);
}

static void heavy_edges_are_spared(void **state)
{
    (void)state;
    arrays a = path(10);
    int64_t weight[9] = {100, 100, 100, 100, 1, 100, 100, 100, 100};
    hga_id part[10];
    assert_ok(partition_graph(NULL, a.n, a.ptr, a.adj, NULL, weight, 2, NULL, NULL, part));
    assert_int_not_equal(part[4], part[5]);
    assert_int_equal(part[0], part[4]);
    assert_int_equal(part[5], part[9]);
    arrays_free(&a);
}

static void weights_are_balanced(void **state)
{
    (void)state;
    arrays a = path(60);
    int64_t weight[60], sum[3] = {0};
    hga_id part[60];
    for (int v = 0; v < 60; v++) weight[v] = INT64_C(1000000000000) * (1 + v % 3); /* more than 32 bits hold */
    assert_ok(partition_graph(NULL, a.n, a.ptr, a.adj, weight, NULL, 3, NULL, NULL, part));
    assert_complete(part, 60, 3);
    for (int v = 0; v < 60; v++) sum[part[v]] += weight[v] / 1000000000000;
    for (int p = 0; p < 3; p++) assert_in_range(sum[p], 36, 44);
    arrays_free(&a);
}

static void without_edges_weights_still_balance(void **state)
{
    (void)state;
    int64_t ptr[9] = {0}, weight[8] = {5, 1, 1, 1, 1, 1, 1, 5};
    hga_id part[8], want[8] = {0, 0, 0, 0, 1, 1, 1, 1};
    assert_ok(partition_graph(NULL, 8, ptr, NULL, weight, NULL, 2, NULL, NULL, part));
    assert_memory_equal(part, want, sizeof part);
}

static void one_giant_leaves_no_part_empty(void **state)
{
    (void)state;
    arrays a = path(9);
    int64_t weight[9] = {1, 1, 1, 1, INT64_C(1) << 40, 1, 1, 1, 1};
    hga_id part[9];
    for (hga_id parts = 2; parts <= 9; parts++) {
        assert_ok(partition_graph(NULL, a.n, a.ptr, a.adj, weight, NULL, parts, NULL, NULL, part));
        assert_complete(part, 9, parts);
    }
    arrays_free(&a);
}

static void no_weight_at_all_counts_as_equal_weight(void **state)
{
    (void)state;
    arrays a = path(20);
    int64_t zero[20] = {0};
    hga_id part[20];
    assert_ok(partition_graph(NULL, a.n, a.ptr, a.adj, zero, zero, 4, NULL, NULL, part));
    assert_complete(part, 20, 4);
    arrays_free(&a);
}

static void random_graphs_are_cut_completely_and_repeatably(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t rng = seed;
        int64_t n = 1 + random_below(&rng, 80);
        hga_id parts = 1 + random_below(&rng, 20), part[80], again[80];
        arrays a = random_arrays(&rng, n, random_below(&rng, 6));
        int64_t *vertex = memory(n, sizeof *vertex), *weight = memory(a.ptr[n] + 1, sizeof *weight);
        for (int64_t v = 0; v < n; v++)
            vertex[v] = random_below(&rng, 4) ? random_below(&rng, 5) : random_below(&rng, 100000);
        for (int64_t e = 0; e < a.ptr[n]; e++) weight[e] = random_below(&rng, 1000);
        assert_ok(partition_graph(NULL, n, a.ptr, a.adj, seed % 2 ? vertex : NULL, seed % 3 ? weight : NULL, parts,
                                  NULL, NULL, part));
        assert_complete(part, n, parts);
        assert_ok(partition_graph(NULL, n, a.ptr, a.adj, seed % 2 ? vertex : NULL, seed % 3 ? weight : NULL, parts,
                                  NULL, NULL, again));
        assert_memory_equal(part, again, (size_t)n * sizeof *part);
        free(vertex), free(weight);
        arrays_free(&a);
    }
}

static void wrong_arguments_are_named(void **state)
{
    (void)state;
    int64_t ptr[] = {0, 1, 2}, outside[] = {1, 2}, good[] = {1, 0}, falling[] = {0, 2, 1}, negative[] = {1, -4};
    hga_id part[2];
    assert_status(HGA_EINVAL, partition_graph(NULL, 2, ptr, good, NULL, NULL, 0, NULL, NULL, part));
    assert_status(HGA_EINVAL, partition_graph(NULL, 2, ptr, outside, NULL, NULL, 2, NULL, NULL, part));
    assert_non_null(strstr(hga_error_detail(), "edge 1 goes to vertex 2 of 2"));
    assert_status(HGA_EINVAL, partition_graph(NULL, 2, falling, good, NULL, NULL, 2, NULL, NULL, part));
    assert_status(HGA_EINVAL, partition_graph(NULL, 2, ptr, good, negative, NULL, 2, NULL, NULL, part));
    assert_non_null(strstr(hga_error_detail(), "vertex 1 weighs -4"));
    assert_status(HGA_EOVERFLOW, partition_graph(NULL, INT64_C(1) << 40, ptr, good, NULL, NULL, 2, NULL, NULL, part));
}

/* The fuse: allocation number `left` fails, and everything taken is given back. */
typedef struct fuse {
    _Atomic int left, blocks;
} fuse;

static void *burn(size_t bytes, void *context)
{
    fuse *f = context;
    if (f->left-- == 0) return NULL;
    f->blocks++;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void give_back(void *p, size_t bytes, void *context)
{
    (void)bytes;
    ((fuse *)context)->blocks--;
    free(p);
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    arrays a = path(40);
    hga_id part[40];
    hga_status st = HGA_ENOMEM;
    int n = 0;
    for (; st == HGA_ENOMEM && n < 1000; n++) {
        fuse f = {n, 0};
        st = partition_graph(&(hga_allocator){burn, give_back, &f}, a.n, a.ptr, a.adj, NULL, NULL, 4, NULL, NULL, part);
        assert_int_equal(f.blocks, 0);
    }
    assert_ok(st);
    assert_true(n > 10);
    arrays_free(&a);
}

static void nothing_is_printed(void **state)
{
    (void)state;
    char name[] = "silent_XXXXXX";
    int file = mkstemp(name), out = dup(1), err = dup(2);
    hga_status st = HGA_OK;
    fflush(NULL);
    dup2(file, 1), dup2(file, 2);
    for (uint64_t seed = 1; seed <= 50 && !st; seed++) {
        uint64_t rng = seed;
        hga_id part[60];
        int64_t weight[60];
        arrays a = random_arrays(&rng, 60, 1 + random_below(&rng, 3));
        for (int v = 0; v < 60; v++) weight[v] = random_below(&rng, 10) ? 1 : 100000;
        st = partition_graph(NULL, 60, a.ptr, a.adj, weight, NULL, 2 + random_below(&rng, 58), NULL, NULL, part);
        arrays_free(&a);
    }
    fflush(NULL);
    dup2(out, 1), dup2(err, 2);
    close(out), close(err);
    assert_ok(st);
    assert_int_equal(lseek(file, 0, SEEK_END), 0);
    close(file);
    unlink(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_part_takes_all),
        cmocka_unit_test(fewer_vertices_than_parts_get_one_each),
        cmocka_unit_test(a_path_is_cut_in_the_middle),
        cmocka_unit_test(heavy_edges_are_spared),
        cmocka_unit_test(weights_are_balanced),
        cmocka_unit_test(without_edges_weights_still_balance),
        cmocka_unit_test(one_giant_leaves_no_part_empty),
        cmocka_unit_test(no_weight_at_all_counts_as_equal_weight),
        cmocka_unit_test(random_graphs_are_cut_completely_and_repeatably),
        cmocka_unit_test(wrong_arguments_are_named),
        cmocka_unit_test(every_failing_allocation_is_survived),
        cmocka_unit_test(nothing_is_printed),
    };
    return cmocka_run_group_tests_name("partition", tests, NULL, NULL);
}
