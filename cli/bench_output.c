/* bench_output.c: one document, to every file that was asked for. */
#include "bench_output.h"

#include <string.h>

#include "arguments.h"
#include "bench_html.h"
#include "bench_tables.h"
#include "outfile.h"

/* ---- the command line ---- */

static int check_output(void *input);

static const option_row options[] = {
    {"json", TEXT(bench_output, json), "FILE", 0,
     "also write JSON in Google Benchmark's schema; - prints it instead of the table", 9},
    {"csv", TEXT(bench_output, csv), "FILE", 0, "also write every measurement as a line of CSV", 9},
    {"markdown", TEXT(bench_output, markdown), "FILE", 0, "also write the tables as Markdown", 9},
    {"report", TEXT(bench_output, report), "FILE", 0, "also write a page with plots and tables, one .html file", 9},
    {0},
};
const option_list bench_output_list = {.rows = options, .check = check_output};

/* ---- files ---- */

static int put_json(FILE *file, const json_t *document)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)document);
    return json_print(file, copy);
}

typedef struct sink {
    const char *option, *path;
    int (*put)(FILE *file, const json_t *document);
} sink;

enum { SINKS = 4 };
static void list_sinks(const bench_output *o, sink out[static SINKS])
{
    const sink all[SINKS] = {{"--json", o->json, put_json},
                             {"--csv", o->csv, bench_csv_put},
                             {"--markdown", o->markdown, bench_markdown_put},
                             {"--report", o->report, bench_html_put}};
    memcpy(out, all, sizeof all);
}

static int is_stdout(const sink *s) { return s->path && strcmp(s->path, "-") == 0; }

/* No two outputs share a file or standard output, and every file can be opened, before hours of measuring. */
static int check_output(void *input)
{
    const bench_output *o = input;
    sink all[SINKS];
    outfile_wish wishes[SINKS] = {{0}};
    const char *printed = NULL;
    list_sinks(o, all);
    for (int i = 0; i < SINKS; i++) {
        if (!all[i].path) continue;
        if (is_stdout(&all[i]) && printed)
            return complain(CLI_USAGE, "%s -: standard output has what %s writes", all[i].option, printed);
        if (is_stdout(&all[i])) printed = all[i].option;
        wishes[i] = (outfile_wish){all[i].option, all[i].path};
    }
    int apart = outfiles_apart(wishes, SINKS);
    if (apart) return apart;
    for (int i = 0; i < SINKS; i++) {
        if (!all[i].path || is_stdout(&all[i])) continue;
        outfile place = {0};
        int status = outfile_open(all[i].path, &place);
        outfile_drop(&place);
        if (status) return status;
    }
    return CLI_GOOD;
}

/* Writes the document in one format to a file that appears when it is complete. */
static int write_one(const sink *s, const json_t *document)
{
    outfile out = {0};
    int status = CLI_GOOD;
    TRY(outfile_open(s->path, &out));
    TRY(s->put(out.file, document));
    TRY(outfile_keep(&out));
done:
    outfile_drop(&out);
    return status;
}

int bench_output_write(const bench_output *o, const json_t *document)
{
    sink all[SINKS];
    int status = CLI_GOOD, printed = 0;
    list_sinks(o, all);
    for (int i = 0; i < SINKS; i++) printed |= is_stdout(&all[i]);
    if (!printed) TRY(bench_text_put(stdout, document));
    fflush(stdout);
    for (int i = 0; i < SINKS; i++)
        if (all[i].path) TRY(write_one(&all[i], document));
done:
    return status;
}
