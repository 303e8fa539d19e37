/* html_table.c: rows and columns as <table>. */
#include "html_table.h"

#include <string.h>

enum { MOST_OPEN_COLUMNS = 10 };

static int is_wide(const column *columns)
{
    int n = 0;
    while (columns[n].key) n++;
    return n > MOST_OPEN_COLUMNS;
}

/* Not among what people look at first. */
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
