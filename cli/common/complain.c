/* complain.c: how the tool says that something is wrong. */
#include "complain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "terminal.h"

/* Prints one line, and nothing that a terminal obeys, whatever a file name holds. */
static void print_line(const char *text)
{
    fflush(stdout);
    fputs("hga: ", stderr);
    terminal_text(stderr, text);
    fputc('\n', stderr);
}

static char *kept;
static size_t kept_bytes;

void complain_keep(char *buffer, size_t bytes)
{
    kept = buffer, kept_bytes = bytes;
    if (bytes) *buffer = 0;
}

int complain(int status, const char *format, ...)
{
    char text[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (!kept)
        print_line(text);
    else if (!*kept)
        snprintf(kept, kept_bytes, "%s", text);
    return status;
}

/* The exit status of a library status; 0 means `blame`. */
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

const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(path, "-") == 0 ? "standard input" : slash && slash[1] ? slash + 1 : path;
}

int take(int64_t n, size_t size, void *out)
{
    if (hga_new_zero(NULL, n, size, out)) return complain(CLI_OUTSIDE, "out of memory: %s", hga_error_detail());
    return CLI_GOOD;
}
