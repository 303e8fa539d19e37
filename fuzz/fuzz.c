/* fuzz.c: failures, memory and files. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const hga_graph *graph;
static const hga_program *program;
static const drawn_call *in_hand;

void fuzz_set_input(const hga_graph *g, const hga_program *p) { graph = g, program = p; }

void fuzz_set_call(const drawn_call *c) { in_hand = c; }

static _Noreturn void fail(const char *format, va_list arguments)
{
    if (program) draw_describe(graph, program);
    if (in_hand) call_describe(in_hand);
    fputs("fuzz: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    abort();
}

void fuzz_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail(format, arguments);
}

void draw_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail(format, arguments);
}

void fuzz_memory_end(const filling *f, const char *who)
{
    if (f->live) fuzz_fail("%s left %lld blocks", who, (long long)f->live);
}

const char *fuzz_file(const uint8_t *data, size_t size)
{
    static int file = -1;
    static char path[64];
    if (file < 0) {
        file = memfd_create("fuzz", 0);
        if (file < 0) fuzz_fail("no memory file");
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    if (ftruncate(file, 0) || pwrite(file, data, size, 0) != (ssize_t)size) fuzz_fail("the memory file is not written");
    return path;
}

static char scratch[64];

static void remove_scratch(void) { unlink(scratch); }

const char *fuzz_scratch(void)
{
    if (!scratch[0]) {
        snprintf(scratch, sizeof scratch, "%s/fuzz-%ld.json", access("/dev/shm", W_OK) ? "." : "/dev/shm",
                 (long)getpid());
        atexit(remove_scratch);
    }
    return scratch;
}
