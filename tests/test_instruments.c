/* test_instruments.c: under MemorySanitizer, memory is unwritten until somebody writes it, whatever packages do. */
#include "instruments.h"
#include "testing.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "output.h"
#include "written.h"

#ifdef WRITTEN_IS_SEEN
static void what_hga_new_gives_is_unwritten(void **state)
{
    (void)state;
    char *p;
    for (int recycled = 0; recycled < 2; recycled++) { /* free memory that was written and comes again, too */
        assert_ok(hga_new(NULL, 1000, 1, &p));
        for (int i = 0; i < 1000; i++) assert_int_equal(__msan_test_shadow(p + i, 1), 0);
        memset(p, 1, 500);
        assert_int_equal(__msan_test_shadow(p, 1000), 500);
        hga_delete(NULL, p, 1000, 1);
    }
    assert_ok(hga_new_zero(NULL, 1000, 1, &p));
    assert_int_equal(__msan_test_shadow(p, 1000), -1);
    hga_delete(NULL, p, 1000, 1);
}

/* Packages do not tell what they wrote, so what they get by malloc counts as written, after us, too. */
static void what_malloc_gives_is_written(void **state)
{
    (void)state;
    for (size_t bytes = 16; bytes < 1 << 20; bytes *= 4) {
        void *ours;
        assert_ok(hga_new(NULL, (int64_t)bytes, 1, &ours));
        hga_delete(NULL, ours, (int64_t)bytes, 1);
        char *theirs = malloc(bytes);
        assert_int_equal(__msan_test_shadow(theirs, bytes), -1);
        free(theirs);
    }
}

/* Ten bytes, of which some are written: into a file. */
static void put_ten(int written)
{
    output o;
    char *p;
    assert_ok(hga_new(NULL, 10, 1, &p));
    memset(p, 1, (size_t)written);
    assert_ok(output_open(&o, "ten"));
    output_bytes(&o, p, 10);
    assert_ok(output_close(&o, HGA_OK));
    hga_delete(NULL, p, 10, 1);
    remove("ten");
}

/* Whether a process outlives that. */
static int is_let_be(int written)
{
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        put_ten(written);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

static void unwritten_bytes_do_not_get_into_files(void **state)
{
    (void)state;
    assert_true(is_let_be(10));
    assert_false(is_let_be(9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_hga_new_gives_is_unwritten),
        cmocka_unit_test(what_malloc_gives_is_written),
        cmocka_unit_test(unwritten_bytes_do_not_get_into_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
static void memory_is_left_alone(void **state)
{
    (void)state;
    int x = 7;
    memory_is_unwritten(&x, sizeof x), memory_is_written(&x, sizeof x), memory_must_be_written(&x, sizeof x);
    assert_int_equal(x, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_is_left_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
