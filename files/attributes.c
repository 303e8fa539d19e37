/* attributes.c: the attribute names of a file, and which of them were understood, as one line. */
#include "import.h"
#include "import_names.h"

#include <stdio.h>
#include <string.h>

enum { MOST_NOTES = 40, MOST_NAME = 40 };

/* The index of the note of that name; n_notes if there is none. */
static int64_t find_note(const import *x, const char *of, const char *name, int64_t n)
{
    int64_t i = 0;
    for (; i < x->notes.n; i++) {
        const char *known = x->text.at + x->notes.list[i].name;
        if (strcmp(x->notes.list[i].of, of) == 0 && strlen(known) == (size_t)n && memcmp(known, name, (size_t)n) == 0)
            break;
    }
    return i;
}

/* Names beyond the limit share one note. */
hga_status import_note_name(import *x, const char *of, const char *name, int64_t n, int understood)
{
    hga_status st = HGA_OK;
    int64_t at;
    if (n > MOST_NAME)
        for (n = MOST_NAME; n > 0 && (name[n] & 0xc0) == 0x80;) n--;
    if (x->notes.n >= MOST_NOTES && find_note(x, of, name, n) == x->notes.n) of = "", name = "others", n = 6;
    int64_t i = find_note(x, of, name, n);
    if (i < x->notes.n) return x->notes.list[i].understood &= understood, HGA_OK;
    HGA_TRY(import_text(x, name, n, &at));
    HGA_TRY(hga_grow(x->allocator, &x->notes.list, &x->notes.capacity, i, i + 1, sizeof *x->notes.list));
    x->notes.list[x->notes.n++] = (import_note){of, at, understood};
done:
    return st;
}

typedef struct line {
    char text[MOST_NOTES * 2 * (MOST_NAME + 20)];
    int n;
} line;

static void put_text(line *l, const char *text)
{
    for (; *text && l->n + 1 < (int)sizeof l->text; text++) l->text[l->n++] = (unsigned char)*text < ' ' ? ' ' : *text;
    l->text[l->n] = 0;
}

/* "understood: weight (edges), label (nodes)" */
static void put_names(const import *x, line *l, int understood, const char *title)
{
    int n = 0;
    for (int64_t i = 0; i < x->notes.n; i++) {
        const import_note *note = &x->notes.list[i];
        if (note->understood != understood) continue;
        put_text(l, n++ ? ", " : l->n ? "; " : ""), put_text(l, n > 1 ? "" : title);
        put_text(l, *(x->text.at + note->name) ? x->text.at + note->name : "without a name");
        if (*note->of) put_text(l, " ("), put_text(l, note->of), put_text(l, ")");
    }
}

/* The line for the caller; NULL where the file has no names. */
hga_status import_tell_names(const import *x, char **out)
{
    line l = {.n = 0};
    *out = NULL;
    put_names(x, &l, 1, "understood: ");
    put_names(x, &l, 0, "passed over: ");
    if (!l.n) return HGA_OK;
    hga_status st = hga_new(NULL, (int64_t)l.n + 1, 1, out);
    if (!st) memcpy(*out, l.text, (size_t)l.n + 1);
    return st;
}
