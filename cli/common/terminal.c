/* terminal.c: what a terminal would obey is shown. */
#include "terminal.h"

#include <string.h>

#include "utf8.h"

/* One character from *text, which moves on, as it may be printed; returns its bytes. */
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

/* Writes text with what a terminal would obey made visible; `lines`: ends of lines stay. */
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

const char *terminal_show(const char *text, char *shown, size_t room)
{
    char one[8];
    size_t used = 0;
    while (*text) {
        size_t n = next_shown(&text, one);
        if (used + n >= room) break;
        memcpy(shown + used, one, n);
        used += n;
    }
    shown[used] = 0;
    return shown;
}
