/* test_intervals.c: the algebra of multisets as lists of intervals. */
#include "intervals.h"
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The sum of `n` intervals, each a list of its own, as text: "0-3x2 5-5". */
static const char *sum_of(hga_pos most, const interval *one, int n)
{
    static char text[400];
    interval_sum s = {.most = most};
    const interval *list;
    int64_t size;
    text[0] = 0;
    for (int i = 0; i < n; i++) assert_ok(interval_add(&s, one[i]));
    assert_ok(interval_take(&s, &list, &size));
    for (int64_t i = 0; i < size; i++) {
        size_t at = strlen(text);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%d-%d", i ? " " : "", list[i].first, list[i].last);
        if (list[i].times > 1) at += (size_t)snprintf(text + at, sizeof text - at, "x%lld", (long long)list[i].times);
        if (list[i].tags) snprintf(text + at, sizeof text - at, "/%llx", (unsigned long long)list[i].tags);
    }
    interval_sum_clear(&s);
    return text;
}
#define SUM(most, ...) \
    sum_of(most, (interval[]){__VA_ARGS__}, (int)(sizeof(interval[]){__VA_ARGS__} / sizeof(interval)))

static void nothing_adds_up_to_nothing(void **state)
{
    (void)state;
    assert_string_equal(sum_of(0, NULL, 0), "");
}

static void neighbours_that_are_alike_are_one(void **state)
{
    (void)state;
    assert_string_equal(SUM(0, {0, 3, 1, 0}, {4, 9, 1, 0}), "0-9");
    assert_string_equal(SUM(0, {4, 9, 1, 0}, {0, 3, 1, 0}), "0-9");
    assert_string_equal(SUM(0, {0, 3, 1, 0}, {4, 9, 2, 0}), "0-3 4-9x2");
    assert_string_equal(SUM(0, {0, 3, 1, 0}, {5, 9, 1, 0}), "0-3 5-9");
}

static void times_add_up_where_intervals_meet(void **state)
{
    (void)state;
    assert_string_equal(SUM(0, {0, 9, 1, 0}, {3, 5, 2, 0}), "0-2 3-5x3 6-9");
    assert_string_equal(SUM(0, {0, 5, 1, 0}, {3, 9, 1, 0}), "0-2 3-5x2 6-9");
    assert_string_equal(SUM(0, {3, 9, 1, 0}, {0, 5, 1, 0}), "0-2 3-5x2 6-9");
    assert_string_equal(SUM(0, {0, 5, 1, 0}, {0, 5, 1, 0}, {0, 5, 1, 0}), "0-5x3");
}

static void times_stay_at_the_most(void **state)
{
    (void)state;
    assert_string_equal(SUM(2, {0, 9, 1, 0}, {0, 4, 1, 0}, {0, 2, 1, 0}), "0-4x2 5-9");
    assert_true(interval_times(INTERVAL_MANY, 3) == INTERVAL_MANY && interval_times(6, 7) == 42);
    assert_true(interval_times(INT64_MAX, INT64_MAX) == INTERVAL_MANY);
}

static void tags_unite_where_intervals_meet(void **state)
{
    (void)state;
    assert_string_equal(SUM(0, {0, 5, 1, 1}, {3, 9, 1, 2}), "0-2/1 3-5x2/3 6-9/2");
    assert_string_equal(SUM(0, {0, 3, 1, 1}, {4, 9, 1, 2}), "0-3/1 4-9/2");
}

/* Random intervals against counting every number, whatever order they come in. */
static void sums_are_those_of_counting(void **state)
{
    (void)state;
    enum { NUMBERS = 40 };
    uint64_t rng = 3;
    for (int round = 0; round < 500; round++) {
        interval_sum s = {0};
        int64_t count[NUMBERS] = {0}, size, at = 0;
        const interval *list;
        for (int i = random_below(&rng, 30); i > 0; i--) {
            hga_id first = random_below(&rng, NUMBERS), last = first + random_below(&rng, NUMBERS - first);
            for (hga_id k = first; k <= last; k++) count[k] += 1 + i % 3;
            assert_ok(interval_add(&s, (interval){first, last, 1 + i % 3, 0}));
        }
        assert_ok(interval_take(&s, &list, &size));
        for (hga_id k = 0; k < NUMBERS; k++) {
            while (at < size && list[at].last < k) at++;
            assert_true(count[k] == (at < size && list[at].first <= k ? list[at].times : 0));
        }
        for (int64_t i = 1; i < size; i++)
            assert_true(list[i - 1].last + (list[i - 1].times == list[i].times) < list[i].first);
        interval_sum_clear(&s);
    }
}

static void a_place_that_is_left_is_taken_again(void **state)
{
    (void)state;
    const interval three[] = {{0, 0, 1, 0}, {2, 2, 1, 0}, {4, 4, 1, 0}}, *four = three;
    interval_lists l;
    assert_ok(interval_lists_create(3, &l));
    assert_ok(interval_lodge(&l, 0, three, 3));
    assert_ok(interval_lodge(&l, 1, four, 2));
    int64_t capacity = l.n_pool, place = l.start[0];
    interval_leave(&l, 0);
    assert_null(interval_list(&l, 0));
    assert_ok(interval_lodge(&l, 2, three, 3));
    assert_true(l.n_pool == capacity && l.start[2] == place && l.size[2] == 3);
    assert_memory_equal(interval_list(&l, 2), three, sizeof three);
    interval_lists_clear(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_adds_up_to_nothing),          cmocka_unit_test(neighbours_that_are_alike_are_one),
        cmocka_unit_test(times_add_up_where_intervals_meet),   cmocka_unit_test(times_stay_at_the_most),
        cmocka_unit_test(tags_unite_where_intervals_meet),     cmocka_unit_test(sums_are_those_of_counting),
        cmocka_unit_test(a_place_that_is_left_is_taken_again),
    };
    return cmocka_run_group_tests_name("intervals", tests, NULL, NULL);
}
