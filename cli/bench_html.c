/* bench_html.c: a run as a page. */
#include "bench_html.h"

#include <string.h>

#include "bench_chart.h"
#include "bench_tables.h"
#include "benchmarks_page.h"
#include "html.h"
#include "measured.h"

static const json_t *context_of(const json_t *document) { return json_object_get(document, "context"); }

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static double real_of(const json_t *row, const char *key) { return json_number_value(json_object_get(row, key)); }

/* ---- the head ---- */

static void put_day(FILE *file, const void *document)
{
    char day[11];
    snprintf(day, sizeof day, "%s", text_of(context_of(document), "date"));
    html_text(file, day);
}

/* what is to be measured again, before anybody quotes it */
static void put_notice(FILE *file, const void *document)
{
    const json_t *rows = json_object_get(document, "benchmarks");
    size_t i, n = 0;
    json_t *row;
    json_array_foreach(rows, i, row) n += json_is_true(json_object_get(row, "disturbed"));
    if (n == 0) return;
    fprintf(file,
            "<p class=\"notice\">%zu of %zu measurements were disturbed: their threads had less than %.0f %% of the "
            "processor. They are marked ! and drawn hollow.</p>\n",
            n, json_array_size(rows), 100 * BENCH_TRUSTED);
}

/* ---- plots, a section for each setting of threads, ISA, precision ---- */

static int same_setting(const json_t *a, const json_t *b)
{
    return json_equal(json_object_get(a, "threads"), json_object_get(b, "threads")) &&
           strcmp(text_of(a, "isa"), text_of(b, "isa")) == 0 &&
           strcmp(text_of(a, "precision"), text_of(b, "precision")) == 0 &&
           json_equal(json_object_get(a, "heads"), json_object_get(b, "heads")) &&
           json_equal(json_object_get(a, "dim"), json_object_get(b, "dim"));
}

static json_t *rows_like(const json_t *rows, const json_t *like)
{
    json_t *list = json_array(), *row;
    size_t i;
    json_array_foreach(rows, i, row) if (same_setting(row, like)) json_array_append(list, row);
    return list;
}

static void put_setting(FILE *file, const json_t *rows, const json_t *like)
{
    json_t *mine = rows_like(rows, like);
    int threads = (int)real_of(like, "threads");
    fprintf(file, "<h2>%d thread%s, ", threads, threads == 1 ? "" : "s");
    html_text(file, text_of(like, "isa"));
    fputs(", ", file);
    html_text(file, text_of(like, "precision"));
    fprintf(file, ", %.0f heads x %.0f</h2>\n<div class=\"charts\"><figure class=\"wide\">", real_of(like, "heads"),
            real_of(like, "dim"));
    bench_chart_time(file, &(time_rows){mine, NULL, "tokens", "Milliseconds against tokens, both logarithmic"});
    fputs("<figcaption>Milliseconds of one execution against tokens; bars are quartiles, peers dashed and faint."
          "</figcaption></figure>\n<figure class=\"wide\">",
          file);
    bench_chart_share(file, mine);
    fputs("<figcaption>Share of the fp32 peak at each longest length; useful operations only.</figcaption></figure>"
          "</div>\n",
          file);
    json_decref(mine);
}

static int is_first_of_setting(const json_t *rows, size_t at, const json_t *row)
{
    for (size_t i = 0; i < at; i++)
        if (same_setting(json_array_get(rows, i), row)) return 0;
    return 1;
}

static void put_plots(FILE *file, const void *document)
{
    const json_t *rows = json_object_get(document, "benchmarks");
    size_t i;
    json_t *row;
    if (json_is_true(json_object_get(document, "dry_run")) || json_object_get(document, "goals")) return;
    json_array_foreach(rows, i, row) if (text_of(row, "variant")[0] && is_first_of_setting(rows, i, row))
        put_setting(file, rows, row);
}

/* ---- tables ---- */

enum { MOST_OPEN_COLUMNS = 10 };

static int n_columns(const bench_table *t)
{
    int n = 0;
    while (t->columns[n].key) n++;
    return n;
}

/* A wide table shows the columns that people look at first; the others are folded. */
static int is_folded(const bench_table *t, const column *c)
{
    static const char *const first[] = {"variant", "parameters",    "tokens",        "edges", "seconds",
                                        "gflops",  "share_of_peak", "cpu_over_wall", "mark"};
    if (n_columns(t) <= MOST_OPEN_COLUMNS) return 0;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (strcmp(c->key, first[i]) == 0) return 0;
    return 1;
}

static void put_cell(FILE *file, const char *tag, const bench_table *t, const column *c, const char *text)
{
    const char *kind = strcmp(c->key, "mark") == 0 ? "mark" : table_stands_left(t->rows, c) ? "left" : "";
    const char *folded = is_folded(t, c) ? " folded" : "";
    fprintf(file, *kind || *folded ? "<%s class=\"%s%s\">" : "<%s>", tag, kind, folded);
    html_text(file, text);
    fprintf(file, "</%s>", tag);
}

static void put_table(FILE *file, const bench_table *t)
{
    char text[TABLE_CELL];
    size_t i;
    json_t *row;
    fputs("<h2>", file);
    html_text(file, t->title);
    fputs("</h2>\n<div class=\"wide\">", file);
    if (n_columns(t) > MOST_OPEN_COLUMNS)
        fputs("<label class=\"soft\"><input type=\"checkbox\"> all columns</label>", file);
    fputs("<table>\n<thead><tr>", file);
    for (const column *c = t->columns; c->key; c++) put_cell(file, "th", t, c, c->heading);
    fputs("</tr></thead>\n<tbody>\n", file);
    json_array_foreach(t->rows, i, row)
    {
        fputs("<tr>", file);
        for (const column *c = t->columns; c->key; c++) {
            table_cell(row, c, text);
            put_cell(file, "td", t, c, text);
        }
        fputs("</tr>\n", file);
    }
    fputs("</tbody></table></div>\n", file);
}

static void put_tables(FILE *file, const void *document)
{
    bench_table tables[BENCH_MOST_TABLES];
    int n = bench_tables_of(document, tables);
    for (int i = 0; i < n; i++) put_table(file, &tables[i]);
    bench_tables_clear(tables, n);
}

/* ---- the machine ---- */

static void put_fact(FILE *file, const char *name, const char *text)
{
    if (!*text) return;
    fprintf(file, "<dt>%s</dt><dd>", name);
    html_text(file, text);
    fputs("</dd>\n", file);
}

/* "L1 Data 32 KiB, .." */
static void put_caches(FILE *file, const json_t *caches)
{
    size_t i;
    json_t *cache;
    if (json_array_size(caches) == 0) return;
    fputs("<dt>caches</dt><dd>", file);
    json_array_foreach(caches, i, cache)
    {
        fprintf(file, "%sL%.0f ", i ? ", " : "", real_of(cache, "level"));
        html_text(file, text_of(cache, "type"));
        fprintf(file, " %.0f KiB", real_of(cache, "size") / 1024);
    }
    fputs("</dd>\n", file);
}

static void put_machine(FILE *file, const void *document)
{
    const json_t *c = context_of(document), *load = json_object_get(c, "load_avg");
    fputs("<dl>\n", file);
    put_fact(file, "CPU", text_of(c, "cpu_model"));
    fprintf(file, "<dt>cores</dt><dd>%.0f</dd>\n", real_of(c, "num_cpus"));
    put_caches(file, json_object_get(c, "caches"));
    if (json_array_size(load) > 0)
        fprintf(file, "<dt>load</dt><dd>%.2f over the last minute, when the run ended</dd>\n",
                json_number_value(json_array_get(load, 0)));
    put_fact(file, "governor", text_of(c, "governor"));
    put_fact(file, "compiler", text_of(c, "compiler"));
    put_fact(file, "hga", text_of(c, "hga_version"));
    put_fact(file, "commit", text_of(c, "hga_commit"));
    put_fact(file, "date", text_of(c, "date"));
    fputs("</dl>\n", file);
}

/* ---- the whole ---- */

int bench_html_put(FILE *file, const json_t *document)
{
    static const html_mark marks[] = {{"day", put_day},       {"notice", put_notice},   {"plots", put_plots},
                                      {"tables", put_tables}, {"machine", put_machine}, {NULL, NULL}};
    html_fill(file, benchmarks_page, marks, document);
    return ferror(file) ? complain(CLI_OUTSIDE, "the page cannot be written") : CLI_GOOD;
}
