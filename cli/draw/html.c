/* html.c: escaping, tables, templates. */
#include "html.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "terminal.h"

/* ---- characters ---- */

/* Passes on character after character: `escape` writes those it must, and returns 1 for these. */
static void put_characters(FILE *file, const char *text, int (*escape)(FILE *, unsigned char))
{
    const unsigned char *c = (const unsigned char *)text;
    while (*c) {
        size_t n = utf8_bytes((const char *)c);
        const int unfit = n == 3 && c[0] == 0xEF && c[1] == 0xBF && c[2] >= 0xBE; /* U+FFFE and U+FFFF: XML has none */
        if (n == 0 || unfit)
            fputs("\xEF\xBF\xBD", file), c += n ? n : 1;
        else if (!escape(file, *c))
            fwrite(c, 1, n, file), c += n;
        else
            c++;
    }
}

/* Writes what stands for a character that HTML would not show as it is; 0: the character may be written itself. */
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

/* ---- tables ---- */

enum { MOST_OPEN_COLUMNS = 10 };

static int is_wide(const column *columns)
{
    int n = 0;
    while (columns[n].key) n++;
    return n > MOST_OPEN_COLUMNS;
}

/* Not among the columns that a reader needs first. */
static int is_folded(const column *c)
{
    static const char *const first[] = {"variant", "parameters",    "tokens",        "edges", "seconds",
                                        "gflops",  "share_of_peak", "cpu_over_wall", "mark"};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (strcmp(c->key, first[i]) == 0) return 0;
    return 1;
}

/* link -1: none */
static void put_cell(FILE *file, const char *tag, const json_t *rows, const column *c, int folds, int link,
                     const char *text)
{
    const char *kind = strcmp(c->key, "mark") == 0 ? "mark" : table_stands_left(rows, c) ? "left" : "";
    const char *folded = folds && is_folded(c) ? " folded" : "";
    fprintf(file, *kind || *folded ? "<%s class=\"%s%s\">" : "<%s>", tag, kind, folded);
    if (link >= 0) fprintf(file, "<a href=\"#v%d\">", link);
    html_text(file, text);
    fprintf(file, link >= 0 ? "</a></%s>" : "</%s>", tag);
}

void html_table_put(FILE *file, const json_t *rows, const column *columns, int links)
{
    char text[TABLE_CELL];
    size_t i;
    json_t *row;
    int folds = !links && is_wide(columns);
    if (folds) fputs("<label class=\"soft\"><input type=\"checkbox\"> all columns</label>", file);
    fputs("<table>\n<thead><tr>", file);
    for (const column *c = columns; c->key; c++) put_cell(file, "th", rows, c, folds, -1, c->heading);
    fputs("</tr></thead>\n<tbody>\n", file);
    json_array_foreach(rows, i, row)
    {
        fputs(row_is(row, "disturbed") ? "<tr class=\"disturbed\">" : "<tr>", file);
        for (const column *c = columns; c->key; c++) {
            table_cell(row, c, text);
            put_cell(file, "td", rows, c, folds, links && c == columns ? (int)i : -1, text);
        }
        fputs("</tr>\n", file);
    }
    fputs("</tbody></table>\n", file);
}

void html_facts_put(FILE *file, const json_t *row, const column *columns)
{
    char text[TABLE_CELL];
    fputs("<dl>\n", file);
    for (const column *c = columns; c->key; c++) {
        const char *words = json_string_value(json_object_get(row, c->key));
        if (!json_object_get(row, c->key) || (words && !*words)) continue;
        table_cell(row, c, text);
        fprintf(file, "<dt>%s</dt><dd>", c->heading);
        html_text(file, words ? words : text); /* a cell is short */
        fputs("</dd>\n", file);
    }
    fputs("</dl>\n", file);
}

/* ---- pages ---- */

int html_keep(void (*put)(FILE *file, const void *context), const void *context, char **text)
{
    size_t bytes;
    FILE *memory = open_memstream(text, &bytes);
    if (memory) put(memory, context);
    return memory && fclose(memory) == 0 ? CLI_GOOD : complain(CLI_OUTSIDE, "out of memory: a page");
}

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
        mark->text ? html_text(file, mark->text) : mark->write(file, context);
        page = close + 2;
    }
    fputs(page, file);
}
