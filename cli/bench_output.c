/* bench_output.c: one document, to every requested file. */
#include "bench_output.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "bench_page.h"
#include "arguments.h"
#include "html.h"
#include "measured.h"
#include "outfile.h"
#include "row_charts.h"

/* ---- the command line ---- */

static int check_output(void *input);

static const option_row options[] = {
    {"json", TEXT(bench_output, json), "FILE", 0,
     "also write JSON in Google Benchmark's schema; - prints it instead of the table", 9},
    {"report", TEXT(bench_output, report), "FILE", 0, "also write a page with plots and tables, one .html file", 9},
    {0},
};
const option_list bench_output_list = {.rows = options, .check = check_output};

static const json_t *context_of(const json_t *document) { return json_object_get(document, "context"); }

/* ---- the page ---- */

/* a notice of rows that should be measured again before they are quoted */
static void put_notice(FILE *file, const void *document)
{
    const json_t *rows = json_object_get(document, "benchmarks");
    size_t n = rows_that_are(rows, "disturbed");
    if (n == 0) return;
    fprintf(file,
            "<p class=\"notice\">%zu of %zu measurements were disturbed: their threads had less than %.0f %% of the "
            "processor. They are marked ! and drawn hollow.</p>\n",
            n, json_array_size(rows), 100 * BENCH_TRUSTED);
}

#define SETTING "threads isa precision heads dim"

static json_t *rows_like(const json_t *rows, const json_t *like)
{
    json_t *list = json_array(), *row;
    size_t i;
    json_array_foreach(rows, i, row) if (rows_agree(row, like, SETTING)) json_array_append(list, row);
    return list;
}

/* Both charts for the rows of one setting: threads, instruction set, precision and shape. */
static void put_setting(FILE *file, const json_t *rows, const json_t *like)
{
    json_t *mine = rows_like(rows, like);
    int threads = (int)row_number(like, "threads");
    fprintf(file, "<h2>%d thread%s, ", threads, threads == 1 ? "" : "s");
    html_text(file, row_text(like, "isa"));
    fputs(", ", file);
    html_text(file, row_text(like, "precision"));
    fprintf(file, ", %.0f heads x %.0f</h2>\n<div class=\"charts\"><figure class=\"wide\">", row_number(like, "heads"),
            row_number(like, "dim"));
    chart_put_times(file, &(time_rows){mine, NULL, "tokens", "Milliseconds against tokens, both logarithmic"});
    fputs("<figcaption>Milliseconds of one execution against tokens; bars are quartiles, peers dashed and "
          "faint.</figcaption></figure>\n<figure class=\"wide\">",
          file);
    chart_put_shares(file, mine);
    fputs("<figcaption>Share of the fp32 peak at each longest length; useful operations "
          "only.</figcaption></figure></div>\n",
          file);
    json_decref(mine);
}

static void put_plots(FILE *file, const void *document)
{
    const json_t *rows = json_object_get(document, "benchmarks");
    size_t i;
    json_t *row;
    if (row_is(document, "dry_run")) return;
    json_array_foreach(rows, i, row) if (row_text(row, "variant")[0] && row_is_first(rows, i, SETTING))
        put_setting(file, rows, row);
}

/* ---- tables ---- */

/* The same tables as on the terminal. */
static void put_tables(FILE *file, const void *document)
{
    bench_table tables[BENCH_MOST_TABLES];
    int n = bench_tables_of(document, tables);
    for (int i = 0; i < n; i++) {
        fputs("<h2>", file);
        html_text(file, tables[i].title);
        fputs("</h2>\n<div class=\"wide\">", file);
        html_table_put(file, tables[i].rows, tables[i].columns, 0);
        fputs("</div>\n", file);
    }
}

/* "L1 Data 32 KiB, .." */
static json_t *caches_text(const json_t *caches)
{
    json_t *text = json_string(""), *cache;
    size_t i;
    json_array_foreach(caches, i, cache)
    {
        json_t *more =
            json_sprintf("%s%sL%.0f %s %.0f KiB", json_string_value(text), i ? ", " : "", row_number(cache, "level"),
                         row_text(cache, "type"), row_number(cache, "size") / 1024);
        json_decref(text);
        text = more;
    }
    return text;
}

/* The machine and the build, as a list of terms. */
static void put_machine(FILE *file, const void *document)
{
    static const column facts[] = {
        {"cpu_model", "CPU", NULL, 0},     {"num_cpus", "cores", NULL, 0},
        {"caches", "caches", NULL, 0},     {"load", "load", NULL, 0},
        {"governor", "governor", NULL, 0}, {"compiler", "compiler", NULL, 0},
        {"hga_version", "hga", NULL, 0},   {"hga_commit", "commit", NULL, 0},
        {"date", "date", NULL, 0},         {0},
    };
    json_t *c = json_copy((json_t *)(uintptr_t)context_of(document)), *load = json_object_get(c, "load_avg");
    if (json_array_size(load) > 0)
        json_object_set_new(
            c, "load",
            json_sprintf("%.2f over the last minute, when the run ended", json_number_value(json_array_get(load, 0))));
    json_object_set_new(c, "caches", caches_text(json_object_get(c, "caches")));
    html_facts_put(file, c, facts);
    json_decref(c);
}

static int put_page(FILE *file, const void *document)
{
    char title[32];
    snprintf(title, sizeof title, "hga bench, %.10s", row_text(context_of(document), "date"));
    const html_mark marks[] = {{"title", title, NULL},       {"notice", NULL, put_notice},   {"plots", NULL, put_plots},
                               {"tables", NULL, put_tables}, {"machine", NULL, put_machine}, {0}};
    html_fill(file, bench_page, marks, document);
    return CLI_GOOD;
}

/* ---- files ---- */

/* Checks before hours of measuring that the two share no file and not standard output, and that each can be opened. */
static int check_output(void *input)
{
    const bench_output *o = input;
    MUST(outfiles_distinct((outfile_wish[]){{"--json", o->json}, {"--report", o->report}}, 2));
    if (o->json) MUST(outfile_check(o->json));
    return o->report ? outfile_check(o->report) : CLI_GOOD;
}

static int put_json(FILE *file, const void *d) { return json_print(file, json_incref((json_t *)(uintptr_t)d)); }

static int is_stdout(const char *path) { return path && strcmp(path, "-") == 0; }

int bench_output_write(const bench_output *o, json_t *document)
{
    if (!is_stdout(o->json) && !is_stdout(o->report)) MUST(bench_tables_print(document));
    fflush(stdout);
    if (o->json) MUST(outfile_write(o->json, put_json, document));
    return o->report ? outfile_write(o->report, put_page, document) : CLI_GOOD;
}
