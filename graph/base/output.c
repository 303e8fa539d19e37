/* output.c: numbers as text to a file that appears whole or not at all. */
#include "output.h"
#include "written.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* ---- a file ---- */

hga_status output_open(output *o, const char *path)
{
    o->used = 0, o->error = 0;
    return hga_file_open(&o->file, path);
}

hga_status output_check(const output *o)
{
    return o->error ? hga_fail(HGA_EIO, "cannot write %s: %s", o->file.path, strerror(o->error)) : HGA_OK;
}

static void put_bytes(output *o, const void *bytes, size_t n)
{
    if (o->error || n == 0) return;
    errno = 0;
    memory_must_be_written(bytes, n);
    if (fwrite(bytes, 1, n, o->file.stream) != n) o->error = errno ? errno : EIO;
}

static void put_waiting(output *o)
{
    put_bytes(o, o->buffer, o->used);
    o->used = 0;
}

hga_status output_close(output *o, hga_status st)
{
    if (!o->file.stream) return st;
    if (!st) put_waiting(o), st = output_check(o);
    if (!st) return hga_file_keep(&o->file);
    hga_file_drop(&o->file);
    return st;
}

/* ---- text ---- */

void output_bytes(output *o, const void *bytes, size_t n)
{
    if (n > sizeof o->buffer - o->used) put_waiting(o);
    if (n > sizeof o->buffer) {
        put_bytes(o, bytes, n);
    } else {
        memcpy(o->buffer + o->used, bytes, n);
        o->used += n;
    }
}

void output_text(output *o, const char *text) { output_bytes(o, text, strlen(text)); }

void output_integer(output *o, int64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) output_bytes(o, "-", 1);
    output_bytes(o, digits + at, sizeof digits - at);
}

/* Replace the locale's decimal point by a full stop. */
static void use_full_stop(char *text)
{
    const char *point = localeconv()->decimal_point;
    size_t length = strlen(point);
    char *at = length ? strstr(text, point) : NULL;
    if (!at) return;
    *at = '.';
    memmove(at + 1, at + length, strlen(at + length) + 1);
}

char *digits_text(float value, int digits, char *text)
{
    snprintf(text, REAL_BYTES, "%.*g", digits, (double)value);
    use_full_stop(text);
    return text;
}

char *real_text(float value, char *text)
{
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, REAL_BYTES, "%.*g", digits, (double)value);
        if ((float)strtod(text, NULL) == value) break;
    }
    use_full_stop(text);
    return text;
}

void output_real(output *o, float value)
{
    char text[REAL_BYTES];
    output_text(o, real_text(value, text));
}
