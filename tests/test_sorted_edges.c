/* test_sorted_edges.c: edges by their ends, with 32-bit and with 64-bit positions, against sorting them plainly. */
#include "fuses.h"
#include "sorted_edges.h"
#include "testing.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 40, COLUMNS = 30, MOST = 600, FIRST = 5 };

typedef struct plain_edge {
    hga_id row, column;
    hga_pos number;
} plain_edge;

static int by_ends(const void *a, const void *b)
{
    const plain_edge *x = a, *y = b;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    if (x->column != y->column) return x->column < y->column ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static void assert_sorted(const sorted_edges *got, plain_edge *want, hga_pos n, hga_id rows, int numbered)
{
    hga_pos at = 0;
    qsort(want, (size_t)n, sizeof *want, by_ends);
    assert_int_equal(got->rows, rows);
    assert_int_equal(got->n, n);
    assert_int_equal(got->ptr[0], 0);
    assert_int_equal(got->ptr[rows], n);
    for (hga_id v = 0; v < rows; v++)
        for (; at < got->ptr[v + 1]; at++) {
            assert_int_equal(want[at].row, v);
            assert_int_equal(want[at].column, got->column[at]);
            if (numbered) assert_int_equal(want[at].number, got->number[at]);
        }
    assert_true(numbered || !got->number);
}

/* Sources that are few meet often: edges that stand twice keep their order. */
static hga_pos draw(hga_pos n, hga_id few, hga_id *row, hga_id *column)
{
    uint64_t seed = (uint64_t)n;
    for (hga_pos e = 0; e < n; e++) row[e] = random_below(&seed, ROWS), column[e] = FIRST + random_below(&seed, few);
    return n;
}

static void check(hga_pos n, hga_id few, int numbered, int is_wide)
{
    hga_id row[MOST], column[MOST];
    plain_edge want[MOST] = {{0}};
    sorted_edges sorted, turned;
    draw(n, few, row, column);
    for (hga_pos e = 0; e < n; e++) want[e] = (plain_edge){row[e], column[e], e};
    assert_ok(edges_sort(NULL, &(loose_edges){"near", ROWS, n, row, column, numbered, is_wide}, &sorted));
    assert_sorted(&sorted, want, n, ROWS, numbered);
    edges_by_row rows = {"near", ROWS, FIRST, COLUMNS, sorted.ptr, sorted.column, numbered, is_wide};
    assert_ok(edges_transpose(NULL, &rows, &turned));
    for (hga_id v = 0; v < ROWS; v++)
        for (hga_pos e = sorted.ptr[v]; e < sorted.ptr[v + 1]; e++)
            want[e] = (plain_edge){sorted.column[e] - FIRST, v, e};
    assert_sorted(&turned, want, n, COLUMNS, numbered);
    edges_clear(NULL, &turned), edges_clear(NULL, &sorted);
}

static void of_every_number_and_width(void **state)
{
    static const hga_pos counts[] = {0, 1, 2, 63, MOST};
    (void)state;
    for (int i = 0; i < 5; i++)
        for (unsigned bits = 0; bits < 8; bits++) check(counts[i], bits & 4 ? 2 : COLUMNS, bits & 1, bits >> 1 & 1);
}

/* Of 64-bit positions, which no graph that fits into a test has. */
static hga_status make_wide(const hga_allocator *a)
{
    hga_id row[MOST], column[MOST];
    sorted_edges sorted = {0}, turned = {0};
    draw(MOST, COLUMNS, row, column);
    hga_status st = edges_sort(a, &(loose_edges){"near", ROWS, MOST, row, column, 1, 1}, &sorted);
    edges_by_row rows = {"near", ROWS, FIRST, COLUMNS, sorted.ptr, sorted.column, 1, 1};
    if (!st) st = edges_transpose(a, &rows, &turned);
    edges_clear(a, &turned), edges_clear(a, &sorted);
    return st;
}

#define FACTS(fact) fact(wide)

FACTS(BY_ALLOCATOR)
FACTS(BY_MALLOC)

int main(void)
{
    const struct CMUnitTest facts[] = {cmocka_unit_test(of_every_number_and_width),
                                       FACTS(ALLOCATOR_ROW) FACTS(MALLOC_ROW)};
    return cmocka_run_group_tests_name("sorted_edges", facts, NULL, NULL);
}
