/* scan.c: lines, words and numbers of a text in memory, independent of the locale. */
#include "import.h"
#include "scan.h"
#include "load.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hga_status scan_wrong(const import *x, const char *format, ...)
{
    char what[300];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return hga_fail(HGA_EFORMAT, "%s: line %lld: %s", x->name, (long long)x->reader.line, what);
}

/* Starts after a byte order mark; converts lines that end with \r alone. */
hga_status scan_start(import *x)
{
    static const char utf16[2][3] = {"\xff\xfe", "\xfe\xff"};
    if (x->file.n >= 2 && (memcmp(x->reader.at, utf16[0], 2) == 0 || memcmp(x->reader.at, utf16[1], 2) == 0))
        return scan_wrong(x, "the text is UTF-16, as its byte order mark says; UTF-8 is read");
    x->reader.at += mark_bytes(x->reader.at, x->file.n);
    if (x->file.n && !memchr(x->file.at, '\n', (size_t)x->file.n))
        for (int64_t i = 0; i < x->file.n; i++)
            if (x->file.at[i] == '\r') x->file.at[i] = '\n';
    return HGA_OK;
}

void scan_blanks(import *x)
{
    while (x->reader.at < x->reader.end && (*x->reader.at == ' ' || *x->reader.at == '\t' || *x->reader.at == '\r'))
        x->reader.at++;
}

int scan_at_line_end(const import *x) { return x->reader.at == x->reader.end || *x->reader.at == '\n'; }

int scan_next_line(import *x)
{
    const char *stop =
        x->reader.at < x->reader.end ? memchr(x->reader.at, '\n', (size_t)(x->reader.end - x->reader.at)) : NULL;
    x->reader.at = stop ? stop + 1 : x->reader.end;
    x->reader.line += stop != NULL;
    return x->reader.at < x->reader.end;
}

static int is_between(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',' || c == ';'; }

/* The number of bytes up to the next separator. */
static int64_t word_length(const import *x)
{
    const char *end = x->reader.at;
    while (end < x->reader.end && !is_between(*end)) end++;
    return end - x->reader.at;
}

/* Returns 0 if the n characters are not an integer of 64 bits. */
int scan_text_integer(const char *text, int64_t n, int64_t *out)
{
    int64_t value = 0, i = n > 0 && (text[0] == '-' || text[0] == '+');
    if (i == n) return 0;
    for (; i < n; i++) {
        int64_t digit = text[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return 0;
    }
    *out = text[0] == '-' ? -value : value;
    return 1;
}

/* strtod accepts the locale's decimal point and hexadecimal numbers, so it is not used directly. */
int scan_text_real(const char *text, int64_t n, double *out)
{
    const char *point = localeconv()->decimal_point;
    char local[128], *end;
    size_t length = 0, points = strlen(point);
    for (int64_t i = 0; i < n; i++) {
        if (length + points + 1 >= sizeof local || !text[i] || text[i] == 'x' || text[i] == 'X') return 0;
        if (text[i] == '.')
            memcpy(local + length, point, points), length += points;
        else
            local[length++] = text[i];
    }
    local[length] = 0;
    *out = strtod(local, &end);
    return length > 0 && *end == 0 && !strchr(" \t\r\n", local[0]);
}

/* Reads the next word as an integer; `what` is its name in errors. */
hga_status scan_integer(import *x, const char *what, int64_t least, int64_t most, int64_t *out)
{
    scan_blanks(x);
    int64_t n = word_length(x);
    if (n == 0) return scan_wrong(x, "%s is missing", what);
    if (!scan_text_integer(x->reader.at, n, out))
        return scan_wrong(x, "%s: '%.*s' is not a whole number", what, (int)(n < 40 ? n : 40), x->reader.at);
    if (*out < least || *out > most)
        return scan_wrong(x, "%s: %lld is not one of %lld .. %lld", what, (long long)*out, (long long)least,
                          (long long)most);
    x->reader.at += n;
    return HGA_OK;
}

hga_status scan_real(import *x, const char *what, double *out)
{
    scan_blanks(x);
    int64_t n = word_length(x);
    if (n == 0) return scan_wrong(x, "%s is missing", what);
    if (!scan_text_real(x->reader.at, n, out))
        return scan_wrong(x, "%s: '%.*s' is not a number", what, (int)(n < 40 ? n : 40), x->reader.at);
    x->reader.at += n;
    return HGA_OK;
}

hga_status scan_weight(const import *x, const char *text, int64_t n, double *out)
{
    if (scan_text_real(text, n, out)) return HGA_OK;
    if (n > 1 && (*text == '\'' || *text == '"') && text[n - 1] == *text) text++, n -= 2;
    return scan_wrong(x, "weight '%.*s' is not a number; " WITHOUT_WEIGHTS, (int)(n < 40 ? n : 40), text);
}

int64_t scan_word(import *x, char *out, int64_t capacity)
{
    scan_blanks(x);
    int64_t n = word_length(x), is_copied = n < capacity - 1 ? n : capacity - 1;
    memcpy(out, x->reader.at, (size_t)is_copied);
    out[is_copied] = 0;
    x->reader.at += n;
    return n;
}
