/* load.c: a whole file in memory, and whether it is text. */
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

hga_status check_fetched(const char *name, const void *bytes, int64_t n)
{
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1";
    if (n < (int64_t)sizeof pointer - 1 || memcmp(bytes, pointer, sizeof pointer - 1) != 0) return HGA_OK;
    return hga_fail(HGA_EFORMAT, "%s: is a pointer of Git LFS in place of the file: `git lfs pull` fetches that", name);
}

/* Appends all that is left of the file. */
static hga_status take_bytes(const hga_allocator *a, FILE *file, const char *name, char **text, int64_t *n,
                             int64_t *capacity)
{
    for (size_t got = 1; got > 0; *n += (int64_t)got) {
        hga_status st = hga_grow(a, text, capacity, *n, *n + 65536, 1);
        if (st) return st;
        errno = 0;
        got = fread(*text + *n, 1, (size_t)(*capacity - *n), file);
        if (ferror(file)) return hga_fail(HGA_EIO, "cannot read %s: %s", name, strerror(errno ? errno : EIO));
    }
    return HGA_OK;
}

/* Reads a file, or stdin, to its end. */
hga_status bytes_load(const hga_allocator *a, const char *path, const char *name, char **text, int64_t *n,
                      int64_t *capacity)
{
    int is_stdin = strcmp(path, "-") == 0;
    *text = NULL, *n = *capacity = 0;
    FILE *file = is_stdin ? stdin : fopen(path, "rb");
    if (!file) return hga_fail(errno == ENOMEM ? HGA_ENOMEM : HGA_EIO, "cannot read %s: %s", name, strerror(errno));
    hga_status st = take_bytes(a, file, name, text, n, capacity);
    if (!is_stdin) fclose(file);
    return st ? st : check_fetched(name, *text, *n);
}

int64_t mark_bytes(const char *text, int64_t n) { return n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; }

int64_t utf8_character(const char *at, int64_t n)
{
    const unsigned char *text = (const unsigned char *)at;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int64_t bytes = text[0] < 0x80 ? 1 : text[0] >> 5 == 6 ? 2 : text[0] >> 4 == 14 ? 3 : text[0] >> 3 == 30 ? 4 : 0;
    if (bytes == 0 || bytes > n) return 0;
    uint32_t code = bytes == 1 ? text[0] : text[0] & (0x7fu >> bytes);
    for (int64_t i = 1; i < bytes; i++) {
        if (text[i] >> 6 != 2) return 0;
        code = code << 6 | (text[i] & 63u);
    }
    return code < least[bytes] || code > 0x10ffff || code >> 11 == 27 ? 0 : bytes;
}

int is_utf8(const char *text, int64_t n)
{
    for (int64_t i = 0, bytes; i < n; i += bytes) {
        bytes = utf8_character(text + i, n - i);
        if (bytes == 0 || text[i] == 0) return 0;
    }
    return 1;
}
