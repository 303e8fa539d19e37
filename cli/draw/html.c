/* html.c: escaping, series of numbers, templates. */
#include "html.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- characters ---- */

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

/* Hand over character after character: `escape` writes those it must, and says so. */
static void put_characters(FILE *file, const char *text, int (*escape)(FILE *, unsigned char))
{
    const unsigned char *c = (const unsigned char *)text;
    while (*c) {
        size_t n = character_bytes(c);
        if (n == 0)
            fputs("\xEF\xBF\xBD", file), c++;
        else if (!escape(file, *c))
            fwrite(c, 1, n, file), c += n;
        else
            c++;
    }
}

char *html_clean(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    char *clean = malloc(3 * strlen(text) + 1), *to = clean;
    while (clean && *c) {
        size_t n = character_bytes(c);
        if (n == 0) {
            memcpy(to, "\xEF\xBF\xBD", 3), to += 3, c++;
            continue;
        }
        memcpy(to, c, n);
        if (*c < 0x20 || *c == 0x7F) *to = ' ';
        to += n, c += n;
    }
    if (clean) *to = 0;
    return clean;
}

const char *html_short(const char *text, int most, char shortened[static 80])
{
    const unsigned char *c = (const unsigned char *)text;
    for (int i = 0; i < most && *c; i++) {
        size_t n = character_bytes(c);
        c += n ? n : 1;
    }
    if (!*c) return text;
    snprintf(shortened, 80, "%.*s..", (int)(c - (const unsigned char *)text), text);
    return shortened;
}

static int escape_html(FILE *file, unsigned char c)
{
    switch (c) {
    case '&': return fputs("&amp;", file), 1;
    case '<': return fputs("&lt;", file), 1;
    case '>': return fputs("&gt;", file), 1;
    case '"': return fputs("&quot;", file), 1;
    case '\'': return fputs("&#39;", file), 1;
    case '\n':
    case '\t': return 0;
    default: return c < 0x20 || c == 0x7F ? fputc(' ', file), 1 : 0;
    }
}

static int escape_json(FILE *file, unsigned char c)
{
    if (c >= 0x20 && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&') return 0;
    fprintf(file, "\\u%04x", (unsigned)c);
    return 1;
}

void html_text(FILE *file, const char *text) { put_characters(file, text, escape_html); }

void html_json_string(FILE *file, const char *text)
{
    fputc('"', file);
    put_characters(file, text, escape_json);
    fputc('"', file);
}

/* ---- series ---- */

void html_json_series(FILE *file, const int64_t *value, int64_t n)
{
    fputc('[', file);
    for (int64_t i = 0, before = 0, run; i < n; i += run) {
        int64_t step = value[i] - before;
        for (run = 1; i + run < n && value[i + run] - value[i + run - 1] == step; run++) continue;
        if (i) fputc(',', file);
        if (run > 1)
            fprintf(file, "[%" PRId64 ",%" PRId64 "]", step, run);
        else
            fprintf(file, "%" PRId64, step);
        before = value[i + run - 1];
    }
    fputc(']', file);
}

/* ---- templates ---- */

static const html_mark *find_mark(const html_mark *marks, const char *name, size_t length)
{
    while (marks->name && (strlen(marks->name) != length || memcmp(marks->name, name, length) != 0)) marks++;
    return marks->name ? marks : NULL;
}

void html_fill(FILE *file, const char *page, const html_mark *marks, const void *context)
{
    for (const char *open; (open = strstr(page, "{{")) != NULL;) {
        const char *name = open + 2, *close = strstr(name, "}}");
        const html_mark *mark = close ? find_mark(marks, name, (size_t)(close - name)) : NULL;
        assert(mark);
        if (!mark) break;
        fwrite(page, 1, (size_t)(open - page), file);
        mark->write(file, context);
        page = close + 2;
    }
    fputs(page, file);
}
