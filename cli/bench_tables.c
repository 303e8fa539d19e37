/* bench_tables.c: columns of the benchmark's tables, and which of them a document has. */
#include "bench_output.h"

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
    {"same_bits", "same", NULL, 0},
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

int bench_tables_print(const json_t *document)
{
    bench_table tables[BENCH_MOST_TABLES];
    int n = bench_tables_of(document, tables);
    for (int i = 0; i < n; i++) {
        if (i) putchar('\n');
        MUST(table_print(stdout, tables[i].rows, tables[i].columns));
        measured_explain(stdout, tables[i].rows);
    }
    return CLI_GOOD;
}
