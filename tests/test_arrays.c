/* Arrays of files, by their names, whichever kind of file it is: the numbers are those that were written, and what is
   wrong is told before any is read. tests/test_tensors.sh has files that numpy wrote. */
#include "testing.h"

#include "hga_files.h"
#include "npy_format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 6 };
static const float numbers[N] = {0, 1, -1.5f, 0.25f, 1024, -2};
static const char path[] = "test_arrays.file";

static void put(const void *bytes, size_t n, const char *mode)
{
    FILE *file = fopen(path, mode);
    assert_non_null(file);
    assert_int_equal(n, fwrite(bytes, 1, n, file));
    assert_int_equal(0, fclose(file));
}

static void put_elements(const hga_npy *h)
{
    for (int i = 0; i < N; i++) {
        uint8_t bytes[8];
        hga_npy_put(h, numbers[i], bytes);
        put(bytes, (size_t)h->size, "ab");
    }
}

/* [2][3] of that kind and size. */
static void put_npy(char kind, int size, int fortran)
{
    char bytes[HGA_NPY_HEADER_BYTES], *order;
    hga_npy h = {.kind = kind, .size = size, .n_dims = 2, .dim = {2, 3}};
    int n = hga_npy_header(&h, bytes);
    if (fortran && (order = strstr(bytes + 10, "False, "))) memcpy(order, "True,  ", 7);
    put(bytes, (size_t)n, "wb");
    put_elements(&h);
}

static void put_safetensors(const char *header)
{
    uint8_t size[8] = {(uint8_t)strlen(header)};
    put(size, 8, "wb");
    put(header, strlen(header), "ab");
}

static hga_arrays *opened(void)
{
    hga_arrays *x = NULL;
    assert_ok(hga_arrays_open(NULL, path, &x));
    return x;
}

static void real_numbers_of_every_type_are_read(void **state)
{
    static const struct {
        char kind;
        int size;
        const char *type;
    } types[] = {{'f', 2, "float16"}, {'V', 2, "bfloat16"}, {'f', 4, "float32"}, {'f', 8, "float64"}};
    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        float got[N];
        char type[HGA_NPY_TYPE_BYTES];
        int32_t whole;
        hga_array is;
        put_npy(types[t].kind, types[t].size, 0);
        hga_arrays *x = opened();
        assert_int_equal(1, hga_arrays_count(x));
        assert_int_equal(0, hga_arrays_find(x, ""));
        assert_int_equal(-1, hga_arrays_find(x, "a"));
        assert_null(hga_arrays_about(x, "made"));
        assert_ok(hga_arrays_look(x, 0, &is));
        assert_string_equal("", is.name);
        assert_null(is.type);
        assert_int_equal(N, is.has.count);
        assert_string_equal(types[t].type, hga_npy_type(&is.has, type));
        assert_ok(hga_arrays_real(x, 0, 0, N, got));
        assert_same_bits("all", got, numbers, N);
        assert_ok(hga_arrays_real(x, 0, 2, 3, got));
        assert_same_bits("a part", got, numbers + 2, 3);
        assert_status(HGA_EINVAL, hga_arrays_real(x, 0, 4, 3, got));
        assert_status(HGA_EINVAL, hga_arrays_real(x, 1, 0, 0, NULL));
        assert_status(HGA_EINVAL, hga_arrays_look(x, -1, &is));
        assert_status(HGA_EFORMAT, hga_arrays_whole(x, 0, 0, 1, &whole));
        hga_arrays_close(x);
    }
}

/* Columns one after the other come row by row. */
static void fortrans_order_becomes_cs(void **state)
{
    static const float want[N] = {0, -1.5f, 1024, 1, 0.25f, -2};
    float got[N];
    const float *kept, *again;
    (void)state;
    put_npy('f', 4, 1);
    hga_arrays *x = opened();
    assert_ok(hga_arrays_real(x, 0, 0, N, got));
    assert_same_bits("row by row", got, want, N);
    assert_status(HGA_EINVAL, hga_arrays_real(x, 0, 0, 3, got));
    assert_ok(hga_arrays_floats(x, 0, &kept));
    assert_ok(hga_arrays_floats(x, 0, &again));
    assert_same_bits("kept", kept, want, N);
    assert_ptr_equal(kept, again);
    hga_arrays_close(x);
}

static const char header[] = "{\"__metadata__\": {\"made\": \"here\"},"
                             "\"b\": {\"dtype\": \"F32\", \"shape\": [3, 2], \"data_offsets\": [8, 32]},"
                             "\"a\": {\"dtype\": \"F8_E4M3\", \"shape\": [8], \"data_offsets\": [0, 8]}}";

static void tensors_are_found_by_name(void **state)
{
    const float *got;
    hga_array is;
    (void)state;
    put_safetensors(header);
    put("12345678", 8, "ab");
    put_elements(&(hga_npy){.kind = 'f', .size = 4});
    hga_arrays *x = opened();
    assert_string_equal("here", hga_arrays_about(x, "made"));
    assert_null(hga_arrays_about(x, "by"));
    assert_int_equal(2, hga_arrays_count(x));
    assert_int_equal(-1, hga_arrays_find(x, "__metadata__"));
    assert_ok(hga_arrays_floats(x, hga_arrays_find(x, "b"), &got));
    assert_same_bits("b", got, numbers, N);
    assert_ok(hga_arrays_look(x, hga_arrays_find(x, "a"), &is));
    assert_string_equal("F8_E4M3", is.type);
    assert_int_equal(0, is.has.kind);
    assert_status(HGA_EFORMAT, hga_arrays_floats(x, hga_arrays_find(x, "a"), &got));
    assert_null(got);
    hga_arrays_close(x);
    put("1", 1, "ab");
    assert_status(HGA_EFORMAT, hga_arrays_open(NULL, path, &x));
    assert_null(x);
}

static void whole_numbers_must_fit(void **state)
{
    char bytes[HGA_NPY_HEADER_BYTES];
    int32_t got[3];
    const int64_t whole[3] = {-7, INT32_MAX, INT64_C(1) << 31};
    (void)state;
    put(bytes, (size_t)hga_npy_header(&(hga_npy){.kind = 'i', .size = 8, .n_dims = 1, .dim = {3}}, bytes), "wb");
    put(whole, sizeof whole, "ab");
    hga_arrays *x = opened();
    assert_ok(hga_arrays_whole(x, 0, 0, 2, got));
    assert_int_equal(-7, got[0]);
    assert_int_equal(INT32_MAX, got[1]);
    assert_status(HGA_EFORMAT, hga_arrays_whole(x, 0, 0, 3, got));
    assert_non_null(strstr(hga_error_detail(), "element (2,) is 2147483648"));
    hga_arrays_close(x);
}

static void what_float32_has_no_number_for_is_named(void **state)
{
    char bytes[HGA_NPY_HEADER_BYTES];
    const double wide[4] = {INFINITY, 1, -1e300, 2};
    float got[4];
    (void)state;
    put(bytes, (size_t)hga_npy_header(&(hga_npy){.kind = 'f', .size = 8, .n_dims = 2, .dim = {2, 2}}, bytes), "wb");
    put(wide, sizeof wide, "ab");
    hga_arrays *x = opened();
    assert_ok(hga_arrays_real(x, 0, 0, 2, got));
    assert_true(isinf(got[0]));
    assert_status(HGA_EFORMAT, hga_arrays_real(x, 0, 0, 4, got));
    assert_non_null(strstr(hga_error_detail(), "element (1, 0) is too large for float32"));
    hga_arrays_close(x);
}

static void elements_must_be_there(void **state)
{
    float got[N];
    hga_arrays *x;
    (void)state;
    put_npy('f', 4, 0);
    put("1", 1, "ab");
    x = opened();
    assert_status(HGA_EFORMAT, hga_arrays_real(x, 0, 0, 0, got));
    hga_arrays_close(x);
    for (size_t n = 0; n < 128; n += 9) {
        char bytes[HGA_NPY_HEADER_BYTES];
        hga_npy_header(&(hga_npy){.kind = 'f', .size = 4, .n_dims = 2, .dim = {2, 3}}, bytes);
        put(bytes, n, "wb");
        assert_status(HGA_EFORMAT, hga_arrays_open(NULL, path, &x));
        assert_null(x);
    }
    assert_status(HGA_EIO, hga_arrays_open(NULL, ".", &x));
    assert_int_equal(0, remove(path));
    assert_status(HGA_EIO, hga_arrays_open(NULL, path, &x));
    hga_arrays_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_numbers_of_every_type_are_read),
        cmocka_unit_test(fortrans_order_becomes_cs),
        cmocka_unit_test(tensors_are_found_by_name),
        cmocka_unit_test(whole_numbers_must_fit),
        cmocka_unit_test(what_float32_has_no_number_for_is_named),
        cmocka_unit_test(elements_must_be_there),
    };
    return cmocka_run_group_tests_name("arrays", tests, NULL, NULL);
}
