/* table.c: aligned columns of text, and JSON. */
#include "table.h"

#include <math.h>
#include <string.h>

#include "terminal.h"

enum { CELL = TABLE_CELL, MAX_COLUMNS = 32 };

/* Text without control characters, yes or no, or a number in the column's format and scale. */
void table_cell(const json_t *row, const column *c, char text[static CELL])
{
    const json_t *value = json_object_get(row, c->key);
    if (json_is_string(value))
        terminal_show(json_string_value(value), text, CELL);
    else if (json_is_boolean(value))
        snprintf(text, CELL, "%s", json_is_true(value) ? "yes" : "no");
    else if (json_is_integer(value) && !c->format)
        snprintf(text, CELL, "%lld", (long long)json_integer_value(value));
    else if (json_is_number(value))
        snprintf(text, CELL, c->format ? c->format : "%g", json_number_value(value) * (c->scale != 0 ? c->scale : 1));
    else
        snprintf(text, CELL, "-");
}

/* characters, not bytes: continuation bytes of UTF-8 have no width */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++) width += (*text & 0xC0) != 0x80;
    return width;
}

static void print_cell(FILE *file, const char *text, int width, int left, int last)
{
    int pad = width - width_of(text);
    if (left)
        fprintf(file, "%s%*s", text, last ? 0 : pad, "");
    else
        fprintf(file, "%*s%s", pad, "", text);
    fputs(last ? "\n" : "  ", file);
}

/* texts are left aligned, numbers right */
int table_stands_left(const json_t *rows, const column *c)
{
    return json_is_string(json_object_get(json_array_get(rows, 0), c->key));
}

/* Columns are as wide as their widest cell. */
int table_print(FILE *file, const json_t *rows, const column *columns)
{
    int width[MAX_COLUMNS], n = 0;
    char text[CELL];
    size_t i;
    json_t *row;
    for (; columns[n].key; n++) {
        width[n] = width_of(columns[n].heading);
        json_array_foreach(rows, i, row)
        {
            table_cell(row, &columns[n], text);
            if (width_of(text) > width[n]) width[n] = width_of(text);
        }
    }
    for (int c = 0; c < n; c++)
        print_cell(file, columns[c].heading, width[c], table_stands_left(rows, &columns[c]), c == n - 1);
    json_array_foreach(rows, i, row)
    {
        for (int c = 0; c < n; c++) {
            table_cell(row, &columns[c], text);
            print_cell(file, text, width[c], table_stands_left(rows, &columns[c]), c == n - 1);
        }
    }
    return ferror(file) ? complain(CLI_OUTSIDE, "the table cannot be written") : CLI_GOOD;
}

int json_print(FILE *file, json_t *document)
{
    json_t *whole = json_pack("{s:i}", "schema", TABLE_SCHEMA);
    int failed = !document || !whole || json_object_update(whole, document) != 0;
    json_decref(document);
    if (!failed)
        failed = json_dumpf(whole, file, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) != 0 || fputc('\n', file) == EOF;
    json_decref(whole);
    if (failed && file != stdout && ferror(file)) return CLI_GOOD;
    return failed ? complain(CLI_OUTSIDE, "the JSON cannot be written, or memory ran out") : CLI_GOOD;
}

const char *row_text(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

double row_number(const json_t *row, const char *key) { return json_number_value(json_object_get(row, key)); }

long long row_whole(const json_t *row, const char *key) { return json_integer_value(json_object_get(row, key)); }

int row_is(const json_t *row, const char *key) { return json_is_true(json_object_get(row, key)); }

size_t rows_that_are(const json_t *rows, const char *key)
{
    size_t i, n = 0;
    json_t *row;
    json_array_foreach(rows, i, row) n += json_is_true(json_object_get(row, key));
    return n;
}

int rows_agree(const json_t *a, const json_t *b, const char *keys)
{
    for (size_t n; *keys; keys += n, keys += *keys == ' ') {
        char key[64];
        n = strcspn(keys, " ");
        snprintf(key, sizeof key, "%.*s", (int)n, keys);
        const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
        if (x != y && !json_equal(x, y)) return 0;
    }
    return 1;
}

int row_is_first(const json_t *rows, size_t at, const char *keys)
{
    for (size_t i = 0; i < at; i++)
        if (rows_agree(json_array_get(rows, i), json_array_get(rows, at), keys)) return 0;
    return 1;
}

int row_append(json_t *rows, json_t *row)
{
    return json_array_append_new(rows, row) ? complain(CLI_OUTSIDE, "out of memory") : CLI_GOOD;
}

json_t *json_words(const char *words)
{
    json_t *list = json_array();
    for (const char *w = words; *w; w += strcspn(w, " "), w += strspn(w, " "))
        json_array_append_new(list, json_stringn(w, strcspn(w, " ")));
    return list;
}

json_t *json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }
