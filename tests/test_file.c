/* What becomes of a file that others write to before it has its name. */
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "testing.h"

static void holds(const char *path, const char *text)
{
    char found[64] = "";
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    found[fread(found, 1, sizeof found - 1, file)] = 0;
    fclose(file);
    assert_string_equal(found, text);
}

/* as another process would */
static void write_at(const char *path, long at, const char *text)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void others_write_to_a_shared_file_before_it_has_its_name(void **state)
{
    hga_file f;
    (void)state;
    assert_ok(hga_file_open(&f, "shared.txt"));
    assert_ok(hga_file_share(&f));
    assert_int_not_equal(access("shared.txt", F_OK), 0);
    assert_true(fputs("one ", f.stream) >= 0);
    assert_ok(hga_file_flush(&f));
    write_at(f.temporary, 4, "two");
    assert_ok(hga_file_share(&f)); /* again, nothing happens */
    assert_ok(hga_file_keep(&f));
    holds("shared.txt", "one two");
    assert_int_equal(unlink("shared.txt"), 0);
}

static void it_replaces_a_file_as_a_whole(void **state)
{
    hga_file f;
    (void)state;
    assert_ok(hga_file_open(&f, "shared.txt"));
    assert_true(fputs("old", f.stream) >= 0);
    assert_ok(hga_file_keep(&f));
    assert_ok(hga_file_open(&f, "shared.txt"));
    assert_ok(hga_file_share(&f));
    write_at(f.temporary, 0, "newer");
    holds("shared.txt", "old");
    assert_ok(hga_file_keep(&f));
    holds("shared.txt", "newer");
    assert_int_equal(unlink("shared.txt"), 0);
}

static void nothing_is_left_of_one_that_is_dropped(void **state)
{
    hga_file f;
    char name[HGA_PATH_BYTES];
    (void)state;
    assert_ok(hga_file_open(&f, "shared.txt"));
    assert_ok(hga_file_share(&f));
    memcpy(name, f.temporary, sizeof name);
    assert_int_equal(access(name, F_OK), 0);
    hga_file_drop(&f);
    assert_int_not_equal(access(name, F_OK), 0);
    assert_int_not_equal(access("shared.txt", F_OK), 0);
}

static void what_is_written_as_it_comes_is_not_shared(void **state)
{
    hga_file f;
    (void)state;
    assert_ok(hga_file_open(&f, "/dev/null"));
    assert_status(HGA_EINVAL, hga_file_share(&f));
    assert_non_null(strstr(hga_error_detail(), "/dev/null cannot be shared"));
    hga_file_drop(&f);
    assert_status(HGA_EINVAL, hga_file_share(&f));
}

/* Later writes find nothing to flush, and the stream knows no reason. */
static void a_full_device_is_named_as_such_however_much_is_written(void **state)
{
    static const char bytes[1 << 16];
    (void)state;
    for (size_t n = 1; n <= sizeof bytes; n *= 2) {
        hga_file f;
        assert_ok(hga_file_open(&f, "/dev/full"));
        (void)!fwrite(bytes, 1, n, f.stream);
        (void)!fwrite(bytes, 1, n, f.stream);
        assert_status(HGA_EIO, hga_file_keep(&f));
        assert_string_equal(hga_error_detail(), "cannot write /dev/full: No space left on device");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_write_to_a_shared_file_before_it_has_its_name),
        cmocka_unit_test(it_replaces_a_file_as_a_whole),
        cmocka_unit_test(nothing_is_left_of_one_that_is_dropped),
        cmocka_unit_test(what_is_written_as_it_comes_is_not_shared),
        cmocka_unit_test(a_full_device_is_named_as_such_however_much_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
