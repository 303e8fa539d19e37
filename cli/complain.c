/* complain.c: how the tool says that something is wrong. */
#include "complain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* one line whatever a file name holds */
static void print_line(char *text)
{
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '\r') *c = ' ';
    fflush(stdout);
    fprintf(stderr, "hga: %s\n", text);
}

int complain(int status, const char *format, ...)
{
    char text[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    print_line(text);
    return status;
}

/* where a library status leads; 0 stands for `blame` */
static int exit_status(hga_status st, int blame)
{
    switch (st) {
    case HGA_OK: return CLI_GOOD;
    case HGA_EUNSUPPORTED: return CLI_USAGE;
    case HGA_EFORMAT: return CLI_DATA;
    case HGA_EIO: return blame == CLI_DATA ? CLI_DATA : CLI_OUTSIDE;
    case HGA_ENOMEM:
    case HGA_EEXTERNAL: return CLI_OUTSIDE;
    default: return blame;
    }
}

int complain_of(hga_status st, int blame, const char *about)
{
    if (st == HGA_OK) return CLI_GOOD;
    const char *detail = hga_error_detail();
    if (strstr(detail, about)) return complain(exit_status(st, blame), "%s", detail);
    return complain(exit_status(st, blame), "%s: %s", about, detail);
}

int take(int64_t n, size_t size, void *out)
{
    void *memory = NULL;
    memcpy(out, &memory, sizeof memory);
    int64_t bytes = 0;
    if (n < 0 || __builtin_mul_overflow(n, (int64_t)size, &bytes) || bytes > INT64_MAX - 64)
        return complain(CLI_OUTSIDE, "out of memory: %lld elements of %zu bytes", (long long)n, size);
    if (bytes == 0) return CLI_GOOD;
    size_t whole = ((size_t)bytes + 63) / 64 * 64;
    memory = aligned_alloc(64, whole);
    if (!memory) return complain(CLI_OUTSIDE, "out of memory: %lld bytes", (long long)bytes);
    memset(memory, 0, whole);
    memcpy(out, &memory, sizeof memory);
    return CLI_GOOD;
}
