/* bench_tables.c: columns of the benchmark's tables, and the three ways to write them. */
#include "bench_output.h"

#include <string.h>

#include "measured.h"

/* ---- columns ---- */

static const column peak_columns[] = {
    {"isa", "isa", NULL, 0},
    {"fma_gflops", "FMA GFLOP/s", "%.1f", 0},
    {"bf16_gflops", "bf16 GFLOP/s", "%.1f", 0},
    {"exp_gelements", "exp G/s", "%.2f", 0},
    {"l2_gbytes", "L2 GB/s", "%.1f", 0},
    {"dram_gbytes", "DRAM GB/s", "%.1f", 0},
    MEASURED_COLUMNS,
    {0},
};
/* What a case is. */
#define CASE_COLUMNS                                                                                       \
    {"variant", "variant", NULL, 0}, {"parameters", "parameters", NULL, 0}, {"tokens", "tokens", NULL, 0}, \
        {"nodes", "nodes", NULL, 0}, {"edges", "edges", NULL, 0}, {"threads", "threads", NULL, 0},         \
        {"isa", "isa", NULL, 0},                                                                           \
    {                                                                                                      \
        "precision", "prec", NULL, 0                                                                       \
    }
static const column columns[] = {
    CASE_COLUMNS,
    {"graph_seconds", "graph ms", "%.3f", 1e3},
    {"plan_seconds", "plan ms", "%.3f", 1e3},
    {"seconds", "ms", "%.3f", 1e3},
    {"seconds_min", "min ms", "%.3f", 1e3},
    {"seconds_q1", "q1", "%.3f", 1e3},
    {"seconds_q3", "q3", "%.3f", 1e3},
    {"repeats", "repeats", NULL, 0},
    {"gflops", "GFLOP/s", "%.1f", 0},
    {"peak_gflops", "peak then", "%.1f", 0},
    {"share_of_peak", "of peak", "%.1f %%", 100},
    {"ns_per_edge_head", "ns/edge/head", "%.2f", 0},
    {"gbytes_per_second", "GB/s", "%.2f", 0},
    {"share_of_roofline", "of roofline", "%.1f %%", 100},
    {"over_forward", "over forward", "%.2f", 0},
    {"bytes_workspace", "workspace MB", "%.1f", 1e-6},
    {"peak_rss_bytes", "peak RSS MB", "%.1f", 1e-6},
    MEASURED_COLUMNS,
    {0},
};
static const column dry_columns[] = {
    CASE_COLUMNS,
    {"flops", "GFLOP", "%.4f", 1e-9},
    {"bytes_tensors", "tensors MB", "%.1f", 1e-6},
    {"bytes_workspace", "workspace MB", "%.1f", 1e-6},
    {"bytes", "all MB", "%.1f", 1e-6},
    {"estimated_seconds", "about ms each", "%.1f", 1e3},
    {"estimated_case_seconds", "case about s", "%.1f", 0},
    {0},
};
static const column decode_columns[] = {
    {"variant", "variant", NULL, 0},
    {"parameters", "parameters", NULL, 0},
    {"tokens", "context", NULL, 0},
    {"threads", "threads", NULL, 0},
    {"isa", "isa", NULL, 0},
    {"precision", "prec", NULL, 0},
    {"seconds", "us a token", "%.1f", 1e6},
    {"mean_seconds", "mean", "%.1f", 1e6},
    {"worst_seconds", "worst", "%.1f", 1e6},
    {"flat_over", "flat over it", "%.2f", 0},
    {"prompt_seconds", "prompt us/token", "%.1f", 1e6},
    {"decoder_seconds", "decoder ms", "%.1f", 1e3},
    {"cache_rows", "rows held", NULL, 0},
    {"cache_bytes", "cache MB", "%.3f", 1e-6},
    {"bytes_workspace", "workspace MB", "%.1f", 1e-6},
    MEASURED_COLUMNS,
    {0},
};
static const column ranks_columns[] = {
    {"variant", "variant", NULL, 0},
    {"tokens", "tokens", NULL, 0},
    {"ranks", "ranks", NULL, 0},
    {"threads", "threads", NULL, 0},
    {"rows_predicted", "rows", "%.0f", 0},
    {"messages_predicted", "messages", "%.0f", 0},
    {"messages_measured", "measured", "%.0f", 0},
    {"bytes_predicted", "MB", "%.3f", 1e-6},
    {"bytes_measured", "measured", "%.3f", 1e-6},
    {"compute_seconds_predicted", "compute ms", "%.2f", 1e3},
    {"compute_seconds", "measured", "%.2f", 1e3},
    {"exchange_seconds_predicted", "exchange ms", "%.2f", 1e3},
    {"exchange_seconds", "measured", "%.2f", 1e3},
    {"seconds_predicted", "all ms", "%.2f", 1e3},
    {"seconds", "measured", "%.2f", 1e3},
    {0},
};
static const column scaling_columns[] = {
    {"variant", "scaling", NULL, 0},
    {"parameters", "parameters", NULL, 0},
    {"tokens", "tokens", NULL, 0},
    {"isa", "isa", NULL, 0},
    {"precision", "prec", NULL, 0},
    {"threads", "threads", NULL, 0},
    {"times", "times", "%.2f", 0},
    {"cpu_over_wall_alone", "cpu/wall of 1", "%.2f", 0},
    {"cpu_over_wall", "cpu/wall", "%.2f", 0},
    {"verdict", "verdict", NULL, 0},
    {0},
};
static const column overtake_columns[] = {
    {"variant", "overtakes dense", NULL, 0}, {"parameters", "parameters", NULL, 0},
    {"threads", "threads", NULL, 0},         {"isa", "isa", NULL, 0},
    {"precision", "prec", NULL, 0},          {"tokens", "at tokens", "%.0f", 0},
    {"or_shorter", "or shorter", NULL, 0},   {0},
};

/* ---- which tables ---- */

static void add(bench_table *tables, int *n, const char *title, const column *shown, json_t *rows)
{
    if (json_array_size(rows) > 0) tables[(*n)++] = (bench_table){title, shown, rows};
}

int bench_tables_of(const json_t *document, bench_table out[static BENCH_MOST_TABLES])
{
    json_t *rows = json_object_get(document, "benchmarks");
    int n = 0;
    add(out, &n, "This machine's limits, one thread", peak_columns,
        json_object_get(json_object_get(document, "context"), "peaks"));
    if (row_is(document, "decode"))
        add(out, &n, "Tokens one by one, behind a context", decode_columns, rows);
    else if (row_is(document, "ranks"))
        add(out, &n, "The busiest rank, predicted and measured", ranks_columns, rows);
    else
        add(out, &n, "Measurements", row_is(document, "dry_run") ? dry_columns : columns, rows);
    add(out, &n, "Threads over one", scaling_columns, json_object_get(document, "scaling"));
    add(out, &n, "Where each variant overtakes dense attention", overtake_columns,
        json_object_get(document, "overtakes_dense"));
    return n;
}

/* ---- for the terminal ---- */

int bench_text_put(FILE *file, const json_t *document)
{
    bench_table tables[BENCH_MOST_TABLES];
    int n = bench_tables_of(document, tables);
    for (int i = 0; i < n; i++) {
        if (i) fputc('\n', file);
        MUST(table_print(file, tables[i].rows, tables[i].columns));
        measured_explain(file, tables[i].rows);
    }
    return CLI_GOOD;
}

/* ---- Markdown ---- */

static void put_escaped(FILE *file, const char *text, const char *special, char escape)
{
    for (; *text; text++) {
        if (strchr(special, *text)) fputc(escape, file);
        fputc(*text, file);
    }
}

static void put_markdown_cell(FILE *file, const char *text)
{
    fputc(' ', file);
    put_escaped(file, text, "|\\", '\\');
    fputs(" |", file);
}

/* A heading, the columns aligned as on the terminal, and what marks mean. */
static void put_markdown_table(FILE *file, const bench_table *t)
{
    char text[TABLE_CELL];
    size_t i;
    json_t *row;
    fprintf(file, "### %s\n\n|", t->title);
    for (const column *c = t->columns; c->key; c++) put_markdown_cell(file, c->heading);
    fputs("\n|", file);
    for (const column *c = t->columns; c->key; c++) fputs(table_stands_left(t->rows, c) ? " :-- |" : " --: |", file);
    fputc('\n', file);
    json_array_foreach(t->rows, i, row)
    {
        fputc('|', file);
        for (const column *c = t->columns; c->key; c++) {
            table_cell(row, c, text);
            put_markdown_cell(file, text);
        }
        fputc('\n', file);
    }
    fputc('\n', file);
    measured_explain(file, t->rows);
}

int bench_markdown_put(FILE *file, const json_t *document)
{
    bench_table tables[BENCH_MOST_TABLES];
    int n = bench_tables_of(document, tables);
    for (int i = 0; i < n; i++) put_markdown_table(file, &tables[i]);
    return CLI_GOOD;
}

/* ---- CSV ---- */

/* A text as CSV has it, in quotes only where it needs them. */
static void put_quoted(FILE *file, const char *text)
{
    if (!strpbrk(text, ",\"\n\r")) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    put_escaped(file, text, "\"", '"');
    fputc('"', file);
}

/* Numbers with all their digits; what is missing is an empty cell. */
static void put_csv_value(FILE *file, const json_t *value)
{
    if (json_is_string(value))
        put_quoted(file, json_string_value(value));
    else if (json_is_integer(value))
        fprintf(file, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        fprintf(file, "%.9g", json_real_value(value));
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "true" : "false", file);
}

/* Every member that any row has, in the order in which they are met: a row of their names. */
static json_t *members_of(const json_t *rows)
{
    json_t *all = json_object(), *row, *value;
    const char *key;
    size_t i;
    json_array_foreach(rows, i, row) json_object_foreach(row, key, value)
        json_object_set_new(all, key, json_string(key));
    return all;
}

static void put_csv_row(FILE *file, json_t *members, const json_t *row)
{
    const char *key, *before = "";
    json_t *unused;
    json_object_foreach(members, key, unused)
    {
        fputs(before, file);
        put_csv_value(file, json_object_get(row, key));
        before = ",";
    }
    fputc('\n', file);
}

int bench_csv_put(FILE *file, const json_t *document)
{
    const json_t *rows = json_object_get(document, "benchmarks");
    json_t *members = members_of(rows), *row;
    size_t i;
    if (!members) return complain(CLI_OUTSIDE, "out of memory");
    put_csv_row(file, members, members);
    json_array_foreach(rows, i, row) put_csv_row(file, members, row);
    json_decref(members);
    return CLI_GOOD;
}
