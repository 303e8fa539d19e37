/* bench.c: hga bench. The machine's limits first, then every variant at every length in every setting. */
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "bench_run.h"
#include "command.h"
#include "goals.h"
#include "outfile.h"
#include "peer.h"
#include "progress.h"

#define DEFAULT_VARIANTS "dense,window,bpt,htransformer,hsa:branching=2,4,8,16,treeformer-fine,treeformer-coarse"
#define DEFAULT_TOKENS   "256,1024,4096"

typedef struct arguments {
    const char *variants, *tokens, *threads, *isa, *precision, *json, *table, *only;
    unsigned peers;
    hga_shape shape;
    bench_rules rules;
    int dry_run;
} arguments;

/* The lists, read; each has one member at least. */
typedef struct lists {
    bench_variant variant[MAX_LIST];
    hga_id tokens[MAX_LIST], threads[MAX_LIST];
    char isa_text[256];
    const char *isa[MAX_LIST];
    hga_precision precision[MAX_LIST];
    hga_peaks peaks[MAX_LIST]; /* of each ISA */
    int n_variants, n_tokens, n_threads, n_isa, n_precision;
} lists;

/* ---- the command line ---- */

enum {
    KEY_VARIANTS = 0x2500,
    KEY_THREADS,
    KEY_ISA,
    KEY_PRECISION,
    KEY_JSON,
    KEY_DRY_RUN,
    KEY_PEERS,
    KEY_TABLE,
    KEY_CASE
};

static int check_arguments(const arguments *a)
{
    if (a->table && strcmp(a->table, "goals") != 0) return complain(CLI_USAGE, "--table: '%s' is not goals", a->table);
    if (a->only && !a->table) return complain(CLI_USAGE, "--case: names cases of --table goals");
    if (a->table && a->variants)
        return complain(CLI_USAGE, "--variants: --table goals has cases of its own; --case chooses among them");
    return CLI_GOOD;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->shape;
        state->child_inputs[1] = &a->rules;
        return 0;
    case KEY_VARIANTS: a->variants = value; return 0;
    case 'n': a->tokens = value; return 0;
    case KEY_THREADS: a->threads = value; return 0;
    case KEY_ISA: a->isa = value; return 0;
    case KEY_PRECISION: a->precision = value; return 0;
    case KEY_JSON: a->json = value; return 0;
    case KEY_DRY_RUN: a->dry_run = 1; return 0;
    case KEY_PEERS: return arguments_said(complain_of(peers_read(value, &a->peers), CLI_USAGE, "--peers"));
    case KEY_TABLE: a->table = value; return 0;
    case KEY_CASE: a->only = value; return 0;
    case ARGP_KEY_END: return arguments_said(check_arguments(a));
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"variants", KEY_VARIANTS, "LIST", 0,
     "variants, with parameters after colons, or random:degree=32 (default: " DEFAULT_VARIANTS ")", 1},
    {"tokens", 'n', "LIST", 0, "lengths (default: " DEFAULT_TOKENS ")", 1},
    {"threads", KEY_THREADS, "LIST", 0, "threads (default: OMP_NUM_THREADS, or the cores this process may use)", 8},
    {"isa", KEY_ISA, "LIST", 0,
     "instruction sets, words of `hga --version --json` (default: HGA_ISA, or the best here)", 8},
    {"precision", KEY_PRECISION, "LIST", 0, "f32 and bf16 (default: f32)", 8},
    {"json", KEY_JSON, "FILE", 0, "also write JSON in Google Benchmark's schema; - prints it instead of the table", 9},
    {"dry-run", KEY_DRY_RUN, NULL, 0, "print what would run and the memory it would take", 9},
    {"peers", KEY_PEERS, "LIST", 0,
     "also run other people's ways beside each case that they can do: openblas (dense), passes (scores, softmax, sums, "
     "as graph libraries do), "
     "graphblas, all; programs of several stages lend them their attended edges alone (default: none)",
     1},
    {"table", KEY_TABLE, "NAME", 0,
     "goals: the project's performance goals with what is reached and the best peer; cases have their own lengths (at "
     "most --tokens N), heads and "
     "threads",
     2},
    {"case", KEY_CASE, "TEXT", 0, "of that table, only cases whose name has TEXT", 2},
    {0},
};

static int read_isas(const char *text, lists *l)
{
    if (!text) text = default_isa();
    if (strlen(text) >= sizeof l->isa_text) return complain(CLI_USAGE, "--isa: the list is too long");
    strcpy(l->isa_text, text);
    for (char *word = l->isa_text, *next; word; word = next) {
        next = strchr(word, ',');
        if (next) *next++ = 0;
        if (l->n_isa == MAX_LIST) return complain(CLI_USAGE, "--isa: the list is too long");
        int status = read_isa("--isa", word, &l->isa[l->n_isa++]);
        if (status) return status;
    }
    return CLI_GOOD;
}

static int read_precisions(const char *text, lists *l)
{
    for (const char *word = text ? text : "f32";; word += strcspn(word, ",") + 1) {
        char one[16];
        size_t n = strcspn(word, ",");
        snprintf(one, sizeof one, "%.*s", (int)n, word);
        if (l->n_precision == MAX_LIST) return complain(CLI_USAGE, "--precision: the list is too long");
        int status = read_precision("--precision", one, &l->precision[l->n_precision++]);
        if (status || !word[n]) return status;
    }
}

static int read_lists(const arguments *a, lists *l)
{
    int status = CLI_GOOD;
    TRY(bench_variants_read(a->variants ? a->variants : DEFAULT_VARIANTS, l->variant, &l->n_variants));
    TRY(read_list("--tokens",
                  a->tokens  ? a->tokens
                  : a->table ? "8192"
                             : DEFAULT_TOKENS,
                  1, INT32_MAX, MAX_LIST, &l->n_tokens, l->tokens));
    l->n_threads = 1; /* 0: the library's default */
    if (a->threads) TRY(read_list("--threads", a->threads, 1, 65536, MAX_LIST, &l->n_threads, l->threads));
    TRY(read_isas(a->isa, l));
    TRY(read_precisions(a->precision, l));
done:
    return status;
}

/* ---- all cases ---- */

/* case i of the product of all lists; variants change fastest */
static bench_place place_of(const lists *l, const arguments *a, int i)
{
    bench_place p = {.shape = a->shape, .rules = a->rules, .dry_run = a->dry_run, .peers = a->peers};
    p.variant = &l->variant[i % l->n_variants];
    i /= l->n_variants;
    p.tokens = l->tokens[i % l->n_tokens];
    i /= l->n_tokens;
    p.options.threads = l->threads[i % l->n_threads];
    i /= l->n_threads;
    p.options.isa = l->isa[i % l->n_isa];
    p.peaks = l->peaks[i % l->n_isa];
    p.options.precision = l->precision[i / l->n_isa];
    return p;
}

static int run_all(const lists *l, const arguments *a, json_t *rows, int *failed)
{
    int all = l->n_variants * l->n_tokens * l->n_threads * l->n_isa * l->n_precision, status = CLI_GOOD;
    progress bar = progress_start("benchmarks");
    for (int i = 0; i < all && status == CLI_GOOD; i++) {
        bench_place p = place_of(l, a, i);
        progress_show((double)i / all, &bar);
        status = bench_run(&p, rows, failed);
    }
    progress_end(&bar);
    return status;
}

static int measure_peaks(lists *l, json_t *peaks)
{
    for (int i = 0; i < l->n_isa; i++) {
        bench_peaks measured;
        int status = complain_of(bench_measure_peaks(l->isa[i], &measured), CLI_USAGE, l->isa[i]);
        if (status) return status;
        l->peaks[i] = measured.best;
        json_array_append_new(peaks, measured_peaks_json(l->isa[i], &measured));
    }
    return CLI_GOOD;
}

/* ---- printing ---- */

static const column peak_columns[] = {
    {"isa", "isa", NULL, 0},
    {"fma_gflops", "FMA GFLOP/s", "%.1f", 0},
    {"exp_gelements", "exp G/s", "%.2f", 0},
    {"l2_gbytes", "L2 GB/s", "%.1f", 0},
    {"dram_gbytes", "DRAM GB/s", "%.1f", 0},
    MEASURED_COLUMNS,
    {0},
};
static const column columns[] = {
    {"variant", "variant", NULL, 0},
    {"parameters", "parameters", NULL, 0},
    {"tokens", "tokens", NULL, 0},
    {"nodes", "nodes", NULL, 0},
    {"edges", "edges", NULL, 0},
    {"threads", "threads", NULL, 0},
    {"isa", "isa", NULL, 0},
    {"precision", "prec", NULL, 0},
    {"graph_seconds", "graph ms", "%.3f", 1e3},
    {"plan_seconds", "plan ms", "%.3f", 1e3},
    {"seconds", "ms", "%.3f", 1e3},
    {"seconds_min", "min ms", "%.3f", 1e3},
    {"seconds_q1", "q1", "%.3f", 1e3},
    {"seconds_q3", "q3", "%.3f", 1e3},
    {"repeats", "repeats", NULL, 0},
    {"gflops", "GFLOP/s", "%.1f", 0},
    {"share_of_peak", "of peak", "%.1f %%", 100},
    {"ns_per_edge_head", "ns/edge/head", "%.2f", 0},
    {"gbytes_per_second", "GB/s", "%.2f", 0},
    {"share_of_roofline", "of roofline", "%.1f %%", 100},
    {"bytes_workspace", "workspace MB", "%.1f", 1e-6},
    {"peak_rss_bytes", "peak RSS MB", "%.1f", 1e-6},
    MEASURED_COLUMNS,
    {0},
};
static const column dry_columns[] = {
    {"variant", "variant", NULL, 0},
    {"parameters", "parameters", NULL, 0},
    {"tokens", "tokens", NULL, 0},
    {"nodes", "nodes", NULL, 0},
    {"edges", "edges", NULL, 0},
    {"threads", "threads", NULL, 0},
    {"isa", "isa", NULL, 0},
    {"precision", "prec", NULL, 0},
    {"flops", "GFLOP", "%.4f", 1e-9},
    {"bytes_tensors", "tensors MB", "%.1f", 1e-6},
    {"bytes_workspace", "workspace MB", "%.1f", 1e-6},
    {"bytes", "all MB", "%.1f", 1e-6},
    {0},
};
static const column overtake_columns[] = {
    {"variant", "overtakes dense", NULL, 0}, {"parameters", "parameters", NULL, 0},
    {"threads", "threads", NULL, 0},         {"isa", "isa", NULL, 0},
    {"precision", "prec", NULL, 0},          {"tokens", "at tokens", "%.0f", 0},
    {"or_shorter", "or shorter", NULL, 0},   {0},
};

static int print_tables(const arguments *a, const json_t *peaks, const json_t *rows, const json_t *overtakes)
{
    int status = CLI_GOOD;
    if (a->dry_run) return table_print(stdout, rows, dry_columns);
    TRY(table_print(stdout, peaks, peak_columns));
    putchar('\n');
    TRY(table_print(stdout, rows, columns));
    measured_explain(stdout, rows);
    if (json_array_size(overtakes) > 0) {
        putchar('\n');
        TRY(table_print(stdout, overtakes, overtake_columns));
    }
done:
    return status;
}

/* `extra`: what the kind of table adds beside the benchmarks */
static int write_json(const arguments *a, const char *program, json_t *peaks, json_t *rows, const char *name,
                      json_t *extra)
{
    outfile out = {0};
    int status = CLI_GOOD;
    TRY(outfile_open(a->json, &out));
    TRY(json_print(out.file,
                   json_pack("{s:o, s:O, s:O, s:b}", "context", bench_context_json(program, json_incref(peaks)),
                             "benchmarks", rows, name, extra, "dry_run", a->dry_run)));
    TRY(outfile_keep(&out));
done:
    outfile_drop(&out);
    return status;
}

static int prints_text(const arguments *a) { return !a->json || strcmp(a->json, "-") != 0; }

/* every case in every setting */
static int run_cases(const arguments *a, const lists *l, const char *program, json_t *peaks, json_t *rows, int *failed)
{
    json_t *overtakes = NULL;
    int status = CLI_GOOD;
    TRY(run_all(l, a, rows, failed));
    overtakes = a->dry_run ? json_array() : bench_overtakes(rows);
    if (prints_text(a)) TRY(print_tables(a, peaks, rows, overtakes));
    if (a->json) TRY(write_json(a, program, peaks, rows, "overtakes_dense", overtakes));
done:
    json_decref(overtakes);
    return status;
}

static int run_goals(const arguments *a, const lists *l, const char *program, json_t *peaks, json_t *rows, int *failed)
{
    goals_run r = {.only = a->only, .rows = rows, .goals = json_array()};
    int status = CLI_GOOD;
    if (l->n_tokens * l->n_threads * l->n_isa * l->n_precision > 1)
        TRY(complain(CLI_USAGE, "--table goals: takes one setting, not lists"));
    r.place = place_of(l, a, 0);
    if (!r.place.options.threads) r.place.options.threads = 1;
    if (a->tokens) r.most_tokens = l->tokens[0];
    TRY(goals_measure(&r));
    *failed = r.failed;
    if (prints_text(a) && !a->dry_run) {
        TRY(table_print(stdout, peaks, peak_columns));
        putchar('\n');
    }
    if (prints_text(a)) TRY(goals_print(&r));
    if (a->json) TRY(write_json(a, program, peaks, rows, "goals", r.goals));
done:
    json_decref(r.goals);
    return status;
}

int run_bench(int argc, char **argv)
{
    struct argp_child children[] = {{&shape_argp, 0, NULL, 0}, {&rules_argp, 0, NULL, 0}, {0}};
    struct argp argp = {
        options,
        parse,
        NULL,
        "Benchmark tables: this machine's limits, then each case with warm-up, repeats until stable, and medians.",
        children,
        NULL,
        NULL};
    arguments a = {0};
    lists *l = NULL;
    json_t *rows = json_array(), *peaks = json_array();
    int status = CLI_GOOD, failed = 0;
    TRY(arguments_parse(&argp, argc, argv, &a));
    TRY(take(1, sizeof *l, &l));
    TRY(read_lists(&a, l));
    if ((a.peers || a.table) && !a.dry_run) peer_openblas_tune(argc, argv);
    if (!a.dry_run) TRY(measure_peaks(l, peaks));
    TRY((a.table ? run_goals : run_cases)(&a, l, argv[0], peaks, rows, &failed));
    if (failed) status = CLI_FAILED; /* said when it was found */
done:
    json_decref(peaks);
    json_decref(rows);
    free(l);
    return status;
}
