/* terminal.c: characters that a terminal would obey are made visible. */
#include "terminal.h"

#include <string.h>

size_t utf8_bytes(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    static const struct form {
        unsigned char first, last, low, high; /* of the first byte; of the second one */
        size_t bytes;
    } forms[] = {
        {0x01, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const struct form *f = &forms[i];
        if (c[0] < f->first || c[0] > f->last) continue;
        if (f->bytes > 1 && (c[1] < f->low || c[1] > f->high)) return 0;
        for (size_t b = 2; b < f->bytes; b++)
            if ((c[b] & 0xC0) != 0x80) return 0;
        return f->bytes;
    }
    return 0;
}

/* Copies one character of *text as it may be printed, and advances *text; returns its bytes. */
static size_t next_shown(const char **text, char shown[static 8])
{
    const unsigned char *c = (const unsigned char *)*text;
    const char *letter = *c ? strchr("\nn\tt\rr", *c) : NULL;
    size_t n = utf8_bytes(*text);
    if (letter && *c < 0x20) {
        shown[0] = '\\', shown[1] = letter[1], ++*text;
        return 2;
    }
    if (n == 0 || *c < 0x20 || *c == 0x7F || (n == 2 && c[0] == 0xC2 && c[1] < 0xA0)) {
        int value = n == 2 ? c[1] : *c;
        *text += n ? n : 1;
        return (size_t)snprintf(shown, 8, "\\x%02x", (unsigned)value);
    }
    memcpy(shown, c, n);
    *text += n;
    return n;
}

/* Writes text with what a terminal would obey made visible; `lines`: newlines stay. */
static void put(FILE *file, const char *text, int lines)
{
    char shown[8];
    while (*text) {
        size_t n = lines && *text == '\n' ? 0 : next_shown(&text, shown);
        if (n == 0)
            fputc(*text++, file);
        else
            fwrite(shown, 1, n, file);
    }
}

void terminal_text(FILE *file, const char *text) { put(file, text, 0); }

void terminal_lines(FILE *file, const char *text) { put(file, text, 1); }

const char *terminal_show(const char *text, char *shown, size_t capacity)
{
    char one[8];
    size_t used = 0;
    while (*text) {
        size_t n = next_shown(&text, one);
        if (used + n >= capacity) break;
        memcpy(shown + used, one, n);
        used += n;
    }
    shown[used] = 0;
    return shown;
}
