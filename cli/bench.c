/* bench.c: hga bench. The machine's limits first, then every variant at every length in every setting. */
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "bench_cases.h"
#include "bench_report.h"
#include "command.h"
#include "outfile.h"
#include "progress.h"

#define DEFAULT_VARIANTS "dense,window,bpt,htransformer,hsa:branching=2,4,8,16,treeformer-fine,treeformer-coarse"
#define DEFAULT_TOKENS   "256,1024,4096"

typedef struct arguments {
    const char *variants, *tokens, *threads, *isa, *precision, *json;
    hga_shape shape;
    double seconds;
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

enum { KEY_VARIANTS = 0x2500, KEY_THREADS, KEY_ISA, KEY_PRECISION, KEY_JSON, KEY_DRY_RUN, KEY_SECONDS, KEY_TABLE };

static int read_seconds(const char *text, arguments *a)
{
    int status = read_number("--seconds", text, &a->seconds);
    if (status == CLI_GOOD && a->seconds <= 0) return complain(CLI_USAGE, "--seconds: %s is not above 0", text);
    return status;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->shape; return 0;
    case KEY_VARIANTS: a->variants = value; return 0;
    case 'n': a->tokens = value; return 0;
    case KEY_THREADS: a->threads = value; return 0;
    case KEY_ISA: a->isa = value; return 0;
    case KEY_PRECISION: a->precision = value; return 0;
    case KEY_JSON: a->json = value; return 0;
    case KEY_DRY_RUN: a->dry_run = 1; return 0;
    case KEY_SECONDS: return arguments_said(read_seconds(value, a));
    case KEY_TABLE: return arguments_said(complain(CLI_USAGE, "--table: this version has no table '%s'", value));
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"variants", KEY_VARIANTS, "LIST", 0, "variants, with parameters after colons (default: " DEFAULT_VARIANTS ")", 1},
    {"tokens", 'n', "LIST", 0, "lengths (default: " DEFAULT_TOKENS ")", 1},
    {"threads", KEY_THREADS, "LIST", 0, "threads (default: OMP_NUM_THREADS, or the cores this process may use)", 8},
    {"isa", KEY_ISA, "LIST", 0, "instruction sets, words of `hga --version --json` (default: HGA_ISA, or the best here)", 8},
    {"precision", KEY_PRECISION, "LIST", 0, "f32 and bf16 (default: f32)", 8},
    {"seconds", KEY_SECONDS, "S", 0, "at most so long for one case, warm-up apart (default: 2)", 8},
    {"json", KEY_JSON, "FILE", 0, "also write JSON in Google Benchmark's schema; - prints it instead of the table", 9},
    {"dry-run", KEY_DRY_RUN, NULL, 0, "print what would run and the memory it would take", 9},
    {"table", KEY_TABLE, "NAME", OPTION_HIDDEN, NULL, 9},
    {0},
};

/* the best instruction set of this machine is the last of the list */
static const char *default_isa(void)
{
    const char *forced = getenv("HGA_ISA"), *last = strrchr(hga_isa_list(), ' ');
    return forced && *forced ? forced : last ? last + 1 : hga_isa_list();
}

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
    TRY(read_list("--tokens", a->tokens ? a->tokens : DEFAULT_TOKENS, 1, INT32_MAX, MAX_LIST, &l->n_tokens, l->tokens));
    l->n_threads = 1; /* 0: the library's default */
    if (a->threads) TRY(read_list("--threads", a->threads, 1, 65536, MAX_LIST, &l->n_threads, l->threads));
    TRY(read_isas(a->isa, l));
    TRY(read_precisions(a->precision, l));
done:
    return status;
}

/* ---- one case ---- */

typedef struct place {
    const bench_variant *variant;
    hga_id tokens, threads;
    int isa;
    hga_precision precision;
} place;

static const char *parameters_of(const bench_variant *v)
{
    const char *colon = strchr(v->text, ':');
    return colon ? colon + 1 : "";
}

static void describe(const place *p, const model *m, const lists *l, const hga_shape *shape, bench_row *r)
{
    r->variant = p->variant->typed.name;
    r->parameters = parameters_of(p->variant);
    r->isa = l->isa[p->isa];
    r->precision = p->precision == HGA_PRECISION_BF16 ? "bf16" : "f32";
    r->tokens = p->tokens;
    r->nodes = hga_graph_nodes(m->graph).n;
    hga_id relation = main_relation(&m->program);
    r->edges = relation < 0 ? 0 : hga_graph_relation(m->graph, relation).n_edges;
    r->shape = *shape;
    r->peaks = l->peaks[p->isa];
}

static int run_case(const place *p, const lists *l, const arguments *a, bench_row *r)
{
    model m = {0};
    hga_plan *plan = NULL;
    bench_tensors t = {0};
    int status = CLI_GOOD;
    reset_peak_resident();
    double start = seconds_now();
    TRY(bench_model(p->variant, p->tokens, &m));
    r->graph_seconds = seconds_now() - start;
    describe(p, &m, l, &a->shape, r);
    job j = {m.graph, &m.program, a->shape, {.threads = p->threads, .isa = l->isa[p->isa], .precision = p->precision}, p->variant->text};
    TRY(measure_plan(&j, &plan, &r->m));
    TRY(bench_tensors_make(&m, &a->shape, !a->dry_run, &t));
    r->tensor_bytes = t.bytes;
    if (!a->dry_run) TRY(measure_execution(&j, plan, &t.io, a->seconds, &r->m));
    r->peak_rss_bytes = peak_resident();
done:
    bench_tensors_clear(&t);
    hga_plan_destroy(plan);
    model_clear(&m);
    return status;
}

/* ---- all cases ---- */

static json_t *dry_row(const bench_row *r)
{
    int64_t all = r->tensor_bytes + r->m.workspace_bytes + r->m.graph_bytes + r->m.plan_bytes;
    return json_pack("{s:s, s:s, s:i, s:i, s:I, s:i, s:s, s:s, s:f, s:I, s:I, s:I}", "variant", r->variant, "parameters", r->parameters, "tokens",
                     r->tokens, "nodes", r->nodes, "edges", (json_int_t)r->edges, "threads", r->m.threads, "isa", r->isa, "precision", r->precision,
                     "flops", r->m.cost.flops, "bytes_tensors", (json_int_t)r->tensor_bytes, "bytes_workspace", (json_int_t)r->m.workspace_bytes,
                     "bytes", (json_int_t)all);
}

static int run_all(const lists *l, const arguments *a, json_t *rows)
{
    int all = l->n_variants * l->n_tokens * l->n_threads * l->n_isa * l->n_precision, status = CLI_GOOD;
    progress bar = progress_start("benchmarks");
    for (int i = 0; i < all; i++) {
        int rest = i;
        bench_row r = {0};
        place p = {.variant = &l->variant[rest % l->n_variants]};
        rest /= l->n_variants;
        p.tokens = l->tokens[rest % l->n_tokens];
        rest /= l->n_tokens;
        p.threads = l->threads[rest % l->n_threads];
        rest /= l->n_threads;
        p.isa = rest % l->n_isa;
        p.precision = l->precision[rest / l->n_isa];
        progress_show((double)i / all, &bar);
        TRY(run_case(&p, l, a, &r));
        if (json_array_append_new(rows, a->dry_run ? dry_row(&r) : bench_row_json(&r)) != 0) TRY(complain(CLI_OUTSIDE, "out of memory"));
    }
done:
    progress_end(&bar);
    return status;
}

static int measure_peaks(lists *l, json_t *peaks)
{
    for (int i = 0; i < l->n_isa; i++) {
        int status = complain_of(hga_measure_peaks(l->isa[i], &l->peaks[i]), CLI_USAGE, l->isa[i]);
        if (status) return status;
        const hga_peaks *p = &l->peaks[i];
        json_array_append_new(peaks, json_pack("{s:s, s:f, s:f, s:f, s:f}", "isa", l->isa[i], "fma_gflops", p->fma_gflops, "exp_gelements",
                                               p->exp_gelements, "l2_gbytes", p->l2_gbytes, "dram_gbytes", p->dram_gbytes));
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
    {"seconds_spread", "spread", "%.3f", 1e3},
    {"gflops", "GFLOP/s", "%.1f", 0},
    {"share_of_peak", "of peak", "%.1f %%", 100},
    {"ns_per_edge_head", "ns/edge/head", "%.2f", 0},
    {"gbytes_per_second", "GB/s", "%.2f", 0},
    {"share_of_roofline", "of roofline", "%.1f %%", 100},
    {"bytes_workspace", "workspace MB", "%.1f", 1e-6},
    {"peak_rss_bytes", "peak RSS MB", "%.1f", 1e-6},
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
    {"variant", "overtakes dense", NULL, 0}, {"parameters", "parameters", NULL, 0}, {"threads", "threads", NULL, 0},       {"isa", "isa", NULL, 0},
    {"precision", "prec", NULL, 0},          {"tokens", "at tokens", "%.0f", 0},    {"or_shorter", "or shorter", NULL, 0}, {0},
};

static int print_tables(const arguments *a, const json_t *peaks, const json_t *rows, const json_t *overtakes)
{
    int status = CLI_GOOD;
    if (a->dry_run) return table_print(stdout, rows, dry_columns);
    TRY(table_print(stdout, peaks, peak_columns));
    putchar('\n');
    TRY(table_print(stdout, rows, columns));
    if (json_array_size(overtakes) > 0) {
        putchar('\n');
        TRY(table_print(stdout, overtakes, overtake_columns));
    }
done:
    return status;
}

static int write_json(const arguments *a, const char *program, json_t *peaks, json_t *rows, json_t *overtakes)
{
    outfile out = {0};
    int status = CLI_GOOD;
    TRY(outfile_open(a->json, &out));
    TRY(json_print(out.file, json_pack("{s:o, s:O, s:O, s:b}", "context", bench_context(program, json_incref(peaks)), "benchmarks", rows,
                                       "overtakes_dense", overtakes, "dry_run", a->dry_run)));
    TRY(outfile_keep(&out));
done:
    outfile_drop(&out);
    return status;
}

int run_bench(int argc, char **argv)
{
    struct argp_child children[] = {{&shape_argp, 0, NULL, 0}, {0}};
    struct argp argp = {
        options,  parse, NULL, "Benchmark tables: this machine's limits, then each case with warm-up, repeats until stable, and medians.",
        children, NULL,  NULL};
    arguments a = {.seconds = 2};
    lists *l = NULL;
    json_t *rows = json_array(), *peaks = json_array(), *overtakes = NULL;
    int status = CLI_GOOD;
    TRY(arguments_parse(&argp, argc, argv, &a));
    TRY(take(1, sizeof *l, &l));
    TRY(read_lists(&a, l));
    if (!a.dry_run) TRY(measure_peaks(l, peaks));
    TRY(run_all(l, &a, rows));
    overtakes = a.dry_run ? json_array() : bench_overtakes(rows);
    if (!a.json || strcmp(a.json, "-") != 0) TRY(print_tables(&a, peaks, rows, overtakes));
    if (a.json) TRY(write_json(&a, argv[0], peaks, rows, overtakes));
done:
    json_decref(overtakes);
    json_decref(peaks);
    json_decref(rows);
    free(l);
    return status;
}
