/* NumPy's array files: headers that are written are read, numbers of every type are what they were, and archives give
   their arrays. */
#include "testing.h"

#include "hga_files.h"
#include "npy_format.h"
#include "npz.h"
#include "sixteen.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void headers_come_back(void **state)
{
    static const struct {
        char kind;
        int size;
    } types[] = {{'f', 2}, {'f', 4}, {'f', 8}, {'V', 2}, {'i', 1}, {'i', 8}, {'u', 4}, {'b', 1}, {'S', 3}, {'U', 12}};
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int n_dims = 0; n_dims <= HGA_NPY_DIMS; n_dims++) {
            char bytes[HGA_NPY_HEADER_BYTES];
            hga_npy h = {.kind = types[i].kind, .size = types[i].size, .n_dims = n_dims}, back;
            for (int d = 0; d < n_dims; d++) h.dim[d] = d < 2 ? 123456789 : 1;
            int n = hga_npy_header(&h, bytes);
            assert_int_equal(0, n % 64);
            FILE *stream = tmpfile();
            assert_non_null(stream);
            assert_int_equal(n, fwrite(bytes, 1, (size_t)n, stream));
            rewind(stream);
            assert_ok(hga_npy_read_header("it", stream, &back));
            assert_int_equal(n, ftell(stream));
            fclose(stream);
            h.count = n_dims == 0 ? 1 : n_dims == 1 ? 123456789 : 123456789LL * 123456789;
            assert_memory_equal(&h, &back, sizeof h);
        }
}

/* Every number of 16 bits, by the one conversion, in both orders of bytes. */
static void numbers_of_sixteen_bits_come_back(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++)
        for (int swapped = 0; swapped < 2; swapped++)
            for (uint32_t bits = 0; bits < 65536; bits++) {
                const hga_npy h = {.kind = kind ? 'V' : 'f', .size = 2, .swapped = swapped};
                uint8_t from[2], to[2];
                from[swapped] = (uint8_t)bits, from[!swapped] = (uint8_t)(bits >> 8);
                float want = kind ? widen_bf16((uint16_t)bits) : widen_f16((uint16_t)bits);
                double got;
                assert_ok(hga_npy_real(&h, from, &got));
                if (isnan(want)) {
                    assert_true(isnan(got));
                    continue;
                }
                if (got != (double)want) fail_msg("bits %x are %g, not %g", bits, got, (double)want);
                hga_npy_put(&h, want, to);
                assert_memory_equal(from, to, 2);
            }
}

static void wider_numbers_come_back(void **state)
{
    static const float numbers[] = {0, -0.0f, 1, -1.5f, 0x1p-149f, 3.4e38f, 1.f / 3, INFINITY};
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (int size = 4; size <= 8; size += 4)
            for (int swapped = 0; swapped < 2; swapped++) {
                const hga_npy h = {.kind = 'f', .size = size, .swapped = swapped};
                uint8_t bytes[8];
                double back;
                hga_npy_put(&h, numbers[i], bytes);
                assert_ok(hga_npy_real(&h, bytes, &back));
                assert_true(back == (double)numbers[i] && !signbit(back) == !signbit(numbers[i]));
            }
}

static void whole_numbers_are_read(void **state)
{
    const uint8_t bytes[8] = {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    int64_t x;
    double real;
    (void)state;
    for (int size = 1; size <= 8; size *= 2) {
        assert_ok(hga_npy_whole(&(hga_npy){.kind = 'i', .size = size}, bytes, &x));
        assert_int_equal(-2, x);
        hga_status st = hga_npy_whole(&(hga_npy){.kind = 'u', .size = size}, bytes, &x);
        assert_int_equal(size == 8 ? HGA_EFORMAT : HGA_OK, st);
        if (size < 8) assert_int_equal((INT64_C(1) << 8 * size) - 2, x);
    }
    assert_ok(hga_npy_whole(&(hga_npy){.kind = 'i', .size = 2, .swapped = 1}, bytes, &x));
    assert_int_equal(-257, x);
    assert_ok(hga_npy_real(&(hga_npy){.kind = 'i', .size = 4}, bytes, &real));
    assert_true(real == -2);
    assert_status(HGA_EFORMAT, hga_npy_whole(&(hga_npy){.kind = 'f', .size = 4}, bytes, &x));
    assert_status(HGA_EFORMAT, hga_npy_real(&(hga_npy){.kind = 'S', .size = 4}, bytes, &real));
}

/* The same archive as a file and in memory: its arrays by name, the whole of one, and its beginning. */
static void arrays_of_an_archive_are_read(void **state)
{
    static char seed[1 << 16], path[] = "test_npy.npz";
    npz *archive;
    uint8_t *bytes;
    int64_t n, capacity;
    (void)state;
    FILE *in = fopen(HGA_CORPUS "/import/npz", "rb"), *out = fopen(path, "wb");
    assert_non_null(in), assert_non_null(out);
    size_t all = fread(seed, 1, sizeof seed, in);
    const char *zip = strchr(seed, '\n') + 1; /* behind the line that tells the fuzzer its kind */
    all -= (size_t)(zip - seed);
    assert_int_equal(all, fwrite(zip, 1, all, out));
    assert_int_equal(0, fclose(in) | fclose(out));
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        assert_ok(npz_open(NULL, path, in_memory ? zip : NULL, (int64_t)all, &archive));
        int64_t count = npz_count(archive), data = 0;
        while (data < count && strcmp(npz_name(archive, data), "data") != 0) data++;
        assert_true(data < count);
        assert_null(npz_name(archive, count));
        assert_null(npz_name(archive, -1));
        assert_ok(npz_unpack(archive, data, INT64_MAX, &bytes, &n, &capacity));
        assert_true(n >= 8 && capacity >= n);
        assert_int_equal(n, npz_bytes(archive, data));
        assert_memory_equal("\x93NUMPY", bytes, 6);
        hga_delete(NULL, bytes, capacity, 1);
        assert_ok(npz_unpack(archive, data, 6, &bytes, &n, &capacity));
        assert_int_equal(6, n);
        assert_memory_equal("\x93NUMPY", bytes, 6);
        hga_delete(NULL, bytes, capacity, 1);
        assert_int_equal(-1, npz_bytes(archive, count));
        assert_status(HGA_EINVAL, npz_unpack(archive, count, INT64_MAX, &bytes, &n, &capacity));
        assert_null(bytes);
        npz_close(archive);
    }
    assert_status(HGA_EFORMAT, npz_open(NULL, "short", zip, (int64_t)all - 9, &archive));
    assert_null(archive);
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_come_back),
        cmocka_unit_test(numbers_of_sixteen_bits_come_back),
        cmocka_unit_test(wider_numbers_come_back),
        cmocka_unit_test(whole_numbers_are_read),
        cmocka_unit_test(arrays_of_an_archive_are_read),
    };
    return cmocka_run_group_tests_name("npy", tests, NULL, NULL);
}
