/* utf8.c: where a character ends. */
#include "utf8.h"

/* How many bytes the UTF-8 character at `c` has, by RFC 3629; 0 when it is none. */
static size_t character_bytes(const unsigned char *c)
{
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

size_t utf8_bytes(const char *text) { return character_bytes((const unsigned char *)text); }
