/* bench_shares.c: facts about the shares of the machine's limits that a row of hga bench has. */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench_report.h"

/* A case of 1e9 operations and bytes in a second on one thread; 1e9 a second that each limit allowed meanwhile. */
static json_t *row_beside(double fma, double pairs, double dram)
{
    const double possible[BENCH_LIMITS] = {[BENCH_FMA] = fma, [BENCH_PAIRS] = pairs, [BENCH_DRAM] = dram};
    bench_row r = {.variant = "dense", .parameters = "", .isa = "ref", .precision = "f32", .tokens = 8};
    r.shape = (hga_shape){.n_heads = 1, .dim = 8};
    r.m.cost = (hga_cost){.flops = 1e9, .bytes_min = 1e9, .edges = 64};
    r.m.threads = 1, r.m.time = (bench_timing){.seconds = 1, .busy = 1, .repeats = 3};
    r.peaks = (hga_peaks){.fma_gflops = 4, .dram_gbytes = 4};
    for (int i = 0; i < BENCH_LIMITS; i++) r.m.time.limit[i] = (bench_limit){possible[i], possible[i]};
    return bench_row_json(&r);
}

static void has(json_t *row, const char *key, double want)
{
    const json_t *value = json_object_get(row, key);
    assert_non_null(value);
    if (isnan(want))
        assert_true(json_is_null(value));
    else
        assert_true(fabs(json_number_value(value) - want) < 1e-12);
}

/* The row's mark, and the sentence below a table of it. */
static void marked(json_t *row, const char *mark, int sentences)
{
    char text[1000] = "";
    FILE *file = tmpfile();
    json_t *rows = json_pack("[o]", row);
    measured_explain(file, rows);
    rewind(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_string_equal(json_string_value(json_object_get(row, "mark")), mark);
    assert_int_equal(n > 0, sentences);
    assert_int_equal(strstr(text, "more than the machine was found to allow") != NULL, sentences);
    json_decref(rows);
}

static void a_share_is_work_over_what_was_possible(void **state)
{
    (void)state;
    json_t *row = row_beside(2, 0, 5);
    has(row, "share_of_peak", 0.5), has(row, "share_of_dram", 0.2), has(row, "share_of_bf16_peak", NAN);
    has(row, "share_of_context_peak", 0.25), has(row, "share_of_roofline", 0.5);
    marked(row, "", 0);
}

static void more_than_all_is_a_mark_and_no_number(void **state)
{
    (void)state;
    json_t *row = row_beside(0.8, 0, 0);
    has(row, "share_of_peak", NAN), has(row, "share_of_roofline", NAN), has(row, "peak_gflops", 0.8);
    marked(row, "!", 1);
    row = row_beside(2, 0, 0.9);
    has(row, "share_of_dram", NAN), has(row, "share_of_peak", 0.5);
    marked(row, "!", 1);
}

static void pairs_may_do_more_than_the_peak_of_float32(void **state)
{
    (void)state;
    json_t *row = row_beside(0.8, 1.6, 0);
    has(row, "share_of_peak", NAN), has(row, "share_of_bf16_peak", 0.625), has(row, "share_of_roofline", 0.625);
    marked(row, "", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_share_is_work_over_what_was_possible),
        cmocka_unit_test(more_than_all_is_a_mark_and_no_number),
        cmocka_unit_test(pairs_may_do_more_than_the_peak_of_float32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
