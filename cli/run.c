/* run.c: hga run, every variant on a text, in one table. */
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "command.h"
#include "measured.h"
#include "outfile.h"
#include "progress.h"
#include "report.h"
#include "table.h"
#include "terminal.h"
#include "trial.h"
#include "whole_file.h"

enum { DEFAULT_TOKENS = 8192, DEFAULT_SEED = 1 };
static const double case_seconds = 1; /* of repeats, for one variant, unless said otherwise */

typedef struct arguments {
    scene_text text;
    bench_rules rules;
    typed_call call;
    int json, dry_run;
    const char *variants; /* names with commas, NULL: all */
    const char *report;   /* where to write the page, NULL: nowhere */
} arguments;

/* The whole run. */
typedef struct run {
    arguments a;
    contenders all;
    char *text;
    call_files files;
    scene whole, probe; /* the text, and the first words, for the weights */
    bench_peaks peaks;
    json_t *rows, *levels; /* of the table; what the text is made of: kind -> number */
    report page;           /* zeroed without --report */
} run;

/* ---- the command line ---- */

static int take_path(char *word, void *input) { return take_once(word, &((arguments *)input)->text.name); }

static int write_no_report(const char *text, void *input)
{
    (void)text;
    ((arguments *)input)->report = NULL;
    return CLI_GOOD;
}

static int check(void *input)
{
    const arguments *a = input;
    if (a->report && strcmp(a->report, "-") == 0)
        return complain(CLI_USAGE, "--report -: standard output has the table");
    if (a->text.shape.n_kv_heads)
        return complain(CLI_USAGE, "--kv-heads: a run has as many key/value heads as query heads");
    return CLI_GOOD;
}

static const option_row options[] = {
    {"tokens,n", ID(arguments, text.words, 0, INT32_MAX), "N", 0,
     "use at most N words of the text, 0 for all (default: 8192)", 1},
    {"variants", TEXT(arguments, variants), "LIST", 0,
     "names with commas between them; dense is always there (default: all)", 1},
    {"seed", WHOLE(arguments, text.seed, 0, INT64_MAX), "N", 0, "seed of the features and projections (default: 1)", 1},
    {"report", TEXT(arguments, report), "FILE", 0,
     "the page with table, patterns, times against length, plans and viewers (default: report.html)", 2},
    {"no-report", READ(write_no_report), NULL, 0, "write no page, and measure no shorter texts", 2},
    {"dry-run", FLAG(arguments, dry_run), NULL, 0,
     "write no page: estimate from the first words the time and memory of a run", 9},
    {"json", FLAG(arguments, json), NULL, 0, "as JSON", 9},
    {0},
};

static const char doc[] =
    "Every variant on a text (UTF-8; - is standard input; default: the gospels that ship with the examples), in one "
    "table."
    "\vThe text is split into chapters, paragraphs, sentences and words as far as it has them. A word's features are "
    "its position and hashes of it and its pieces. Seeded random matrices make queries, keys and values of the "
    "features: the same text gives the same table, except for the times.\n\n"
    "edges are those of all attended relations. FLOP and ms are of one execution, after the graph and its plan are "
    "made. \"of peak\" is the share of this machine's measured fp32 peak. \"x dense\" and the errors compare a variant "
    "with the engine's own dense attention, a causal one with causal dense; --normaliser and the other options for "
    "scores apply to all variants, dense among them; variants that do not support them are left out, and listed. MB is "
    "graph, plan, workspace and tensors together. rel L2 is the distance of the output from dense attention's; KL is "
    "the mean over rows of KL(variant's attention || dense attention) in nats, measured on the first 1024 words. In "
    "bpt, where rows are nodes, a span has the mean of its words' rows.";

/* ---- the text ---- */

/* the text of the examples, beside the tool: never that of a source tree, which may be gone or another */
static void find_default(const char **path)
{
    static char index[PATH_MAX + sizeof TEXT_FROM_TOOL];
    ssize_t n = readlink("/proc/self/exe", index, PATH_MAX);
    *path = TEXT_FROM_TOOL;
    if (n <= 0 || n >= PATH_MAX) return;
    while (n > 0 && index[n - 1] != '/') n--;
    strcpy(index + n, TEXT_FROM_TOOL);
    *path = index;
}

/* ---- the table ---- */

static const column columns[] = {
    {"variant", "variant", NULL, 0},
    {"parameters", "parameters", NULL, 0},
    {"nodes", "nodes", NULL, 0},
    {"edges", "edges", NULL, 0},
    {"edges_per_token", "edges/token", "%.1f", 0},
    {"flops", "GFLOP", "%.3f", 1e-9},
    {"seconds", "ms", "%.2f", 1e3},
    {"gflops", "GFLOP/s", "%.1f", 0},
    {"share_of_peak", "of peak", "%.1f %%", 100},
    {"speedup", "x dense", "%.2f", 0},
    {"bytes", "MB", "%.1f", 1e-6},
    {"relative_l2", "rel L2", "%.4f", 0},
    {"mean_kl", "KL", "%.4f", 0},
    MEASURED_COLUMNS,
    {0},
};

static json_t *result_json(const contender *c, const trial *t, hga_id tokens, const hga_peaks *peaks)
{
    double gflops = t->m.cost.flops / t->m.time.seconds / 1e9, share = gflops / (peaks->fma_gflops * t->m.threads);
    json_t *row = json_pack("{s:s, s:s, s:b, s:f, s:o}", "variant", c->variant->name, "parameters", c->parameters,
                            "causal", c->causal, "gflops", gflops, "share_of_peak", measured_share(share));
    return measured_within(json_joined(row, trial_json(t, tokens)), share);
}

/* the number of units of each kind in the text */
static json_t *levels_json(const hga_tree *t)
{
    json_t *levels = json_object();
    for (hga_id k = 0; k < t->n_kinds; k++) {
        json_int_t count = 0;
        for (hga_id i = 0; i < t->n; i++) count += t->kind[i] == k;
        if (count) json_object_set_new(levels, t->kind_name[k], json_integer(count));
    }
    return levels;
}

/* the library's choice if no ISA was typed */
static const char *isa_name(const arguments *a) { return a->text.options.isa ? a->text.options.isa : default_isa(); }

/* "FILE: 2048 words in 5 chapters, 91 verses, 93 sentences; .." */
static void print_levels(const run *r)
{
    terminal_text(stdout, r->a.text.name);
    fputs(": ", stdout);
    report_summary(stdout, &r->a.text, r->levels, terminal_text);
    call_tell(stdout, &r->a.call, terminal_text);
    printf("; fp32 peak of a thread %.1f GFLOP/s\n\n", r->peaks.best.fma_gflops);
}

/* The table with the text's units above it, or one JSON document. */
static int print_results(const run *r)
{
    const arguments *a = &r->a;
    if (!a->json) {
        print_levels(r);
        MUST(table_print(stdout, r->rows, columns));
        measured_explain(stdout, r->rows);
        return CLI_GOOD;
    }
    return json_print(stdout, json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:o, s:O, s:f, s:o, s:O}", "text", a->text.name,
                                        "tokens", r->whole.words.n, "heads", a->text.shape.n_heads, "dim",
                                        a->text.shape.dim, "kl_tokens", r->probe.words.n, "seed",
                                        (json_int_t)a->text.seed, "modifiers", call_json(&a->call), "levels", r->levels,
                                        "peak_gflops_per_thread", r->peaks.best.fma_gflops, "peaks",
                                        measured_peaks_json(isa_name(a), &r->peaks), "rows", r->rows));
}

/* A row of a contender, and of its time against length. */
static int tell_result(void *context, const contender *c, const trial *t)
{
    run *r = context;
    const hga_id n = r->whole.words.n;
    MUST(row_append(r->rows, result_json(c, t, n, &r->peaks.best)));
    return r->a.report ? row_append(r->page.growth, growth_row(c, t, n)) : CLI_GOOD;
}

static int look_at_plan(void *context, const contender *c, const hga_graph *g, const hga_program *p,
                        const hga_plan *plan)
{
    run *r = context;
    return r->a.report ? report_case_fill(&r->page, c, g, p, plan) : CLI_GOOD;
}

/* ---- the report ---- */

/* Measures the prefixes of the text, and writes the page. */
static int write_report(run *r)
{
    report *page = &r->page;
    MUST(growth_measure(&r->a.text, &r->all, page->growth));
    page->kl_words = r->probe.words.n, page->all_words = &r->whole;
    page->rows = r->rows, page->columns = columns, page->levels = r->levels;
    page->call = &r->a.call, page->peaks = &r->peaks.best;
    return report_write(page, r->a.report);
}

/* ---- before anything runs ---- */
/* graphs and plans are of the whole text; executions are measured on its first words, and grow with the operations. */

static const double peak_seconds = 3; /* about what measuring this machine's limits takes */

/* The time of the prefixes, each repeated for a tenth of a second at least. */
static double prefix_time(const run *r, double once)
{
    const bench_rules rules = growth_rules();
    const hga_id n = r->whole.words.n;
    hga_id length[MAX_LENGTHS];
    double sum = 0;
    for (int l = r->a.report ? growth_lengths(n, length) : 0; l-- > 0;)
        if (length[l] < n) sum += measured_expected(&rules, once * length[l] / n);
    return sum;
}

/* A row of what one contender costs; weights are measured on the first words, PROBE_COLUMNS values an execution. */
static int estimate_one(const run *r, const contender *c)
{
    const trial_setup plans = {.shape = r->a.text.shape, .options = r->a.text.options, .plans_only = 1};
    const trial_setup runs = {.shape = r->a.text.shape, .options = r->a.text.options, .rules = {.repetitions = 3}};
    trial t = {0}, few = {0};
    double start = bench_seconds(), dim = r->a.text.shape.dim;
    MUST(trial_run(&r->whole, c, &plans, &t));
    double planned = bench_seconds() - start;
    MUST(trial_run(&r->probe, c, &runs, &few));
    double least = few.m.time.least, more = few.m.cost.flops > 0 ? t.m.cost.flops / few.m.cost.flops : 1,
           once = least * more;
    double all = planned + measured_expected(&r->a.rules, once) + prefix_time(r, once) +
                 least * ceil(r->probe.words.n / (double)PROBE_COLUMNS) * (dim + PROBE_COLUMNS) / (2 * dim);
    return row_append(r->rows,
                      json_pack("{s:s, s:s, s:i, s:I, s:f, s:I, s:f, s:f}", "variant", c->variant->name, "parameters",
                                c->parameters, "nodes", t.nodes, "edges", (json_int_t)t.m.cost.edges, "flops",
                                t.m.cost.flops, "bytes", (json_int_t)t.bytes, "estimated_seconds", once,
                                "estimated_case_seconds", all));
}

/* Estimates every contender, with a bar, since graphs are built for it. */
static int estimate_all(const run *r)
{
    int status = CLI_GOOD;
    progress bar = progress_start("estimating");
    for (int i = 0; i < r->all.n && !status; i++) {
        progress_show((double)i / r->all.n, &bar);
        status = estimate_one(r, &r->all.of[i]);
    }
    progress_end(&bar);
    return status;
}

/* Prints the estimate of --dry-run: all contenders' time, the memory of the largest. */
static int tell_estimate(run *r)
{
    static const column estimates[] = {
        {"variant", "variant", NULL, 0},
        {"parameters", "parameters", NULL, 0},
        {"nodes", "nodes", NULL, 0},
        {"edges", "edges", NULL, 0},
        {"flops", "GFLOP", "%.3f", 1e-9},
        {"bytes", "MB", "%.1f", 1e-6},
        {"estimated_seconds", "about ms each", "%.1f", 1e3},
        {"estimated_case_seconds", "in all about s", "%.1f", 0},
        {0},
    };
    double seconds = peak_seconds, bytes = 0;
    size_t i;
    json_t *row;
    MUST(estimate_all(r));
    json_array_foreach(r->rows, i, row)
    {
        seconds += row_number(row, "estimated_case_seconds");
        bytes = fmax(bytes, row_number(row, "bytes"));
    }
    if (r->a.json)
        return json_print(stdout, json_pack("{s:b, s:s, s:i, s:f, s:I, s:O}", "dry_run", 1, "text", r->a.text.name,
                                            "tokens", r->whole.words.n, "estimated_seconds", seconds, "bytes",
                                            (json_int_t)bytes, "rows", r->rows));
    MUST(table_print(stdout, r->rows, estimates));
    printf("\nThe run takes about %.0f s and %.0f MB beside the text's own tensors.\n", ceil(seconds),
           ceil(bytes * 1e-6));
    return CLI_GOOD;
}

/* ---- the command ---- */

/* Reads the text, makes its tensors, and keeps the contenders that can be called as requested. */
static int open_text(run *r)
{
    arguments *a = &r->a;
    scene_text *t = &a->text;
    if (!t->name) find_default(&t->name);
    MUST(whole_file_read(t->name, &r->text, &t->bytes));
    t->text = r->text, t->call = call_typed(&a->call) ? &a->call : NULL, t->files = &r->files;
    MUST(scene_make(t, t->words, &r->whole));
    t->words = r->whole.words.n;
    r->levels = levels_json(&r->whole.tree);
    MUST(scene_make(t, t->words < PROBE_WORDS ? t->words : PROBE_WORDS, &r->probe));
    call_plan(&a->call, &t->options);
    return contenders_keep(&r->probe, a->variants, &r->all);
}

/* Measures the machine's limits, all contenders, the table and, if requested, the page. */
static int measure(run *r)
{
    const arguments *a = &r->a;
    const trial_setup setup = {.shape = a->text.shape,
                               .options = a->text.options,
                               .rules = a->rules,
                               .look = look_at_plan,
                               .tell = tell_result,
                               .context = r};
    MUST(complain_of(bench_measure_peaks(a->text.options.isa, &a->rules, &r->peaks), CLI_USAGE, "peaks"));
    if (a->report) MUST(report_start(&a->text, &r->all, &r->page));
    MUST(trials_run(&r->whole, &r->probe, &r->all, &setup, "variants"));
    MUST(print_results(r));
    fflush(stdout);
    if (a->report) MUST(write_report(r));
    return CLI_GOOD;
}

int run_run(int argc, char **argv)
{
    const option_part parts[] = {{&shape_list, offsetof(arguments, text.shape), NULL, 0},
                                 {&machine_list, offsetof(arguments, text.options), NULL, 0},
                                 {&rules_list, offsetof(arguments, rules), NULL, 0},
                                 {call_list(CALL_OF_VARIANTS), offsetof(arguments, call), "Scores:", 4},
                                 {0}};
    const option_list line = {
        .rows = options, .parts = parts, .take = take_path, .check = check, .words = "[TEXT]", .says = doc};
    run r = {.rows = json_array()};
    int status = CLI_GOOD;
    r.a = (arguments){
        .text = {.words = DEFAULT_TOKENS, .seed = DEFAULT_SEED}, .report = "report.html", .rules.budget = case_seconds};
    TRY(arguments_parse(&line, argc, argv, &r.a));
    TRY(contenders_shown(r.a.variants, &r.all));
    if (r.a.report && !r.a.dry_run) TRY(outfile_check(r.a.report));
    TRY(open_text(&r));
    TRY(r.a.dry_run ? tell_estimate(&r) : measure(&r));
done:
    report_clear(&r.page);
    json_decref(r.rows);
    json_decref(r.levels);
    call_files_clear(&r.files);
    scene_clear(&r.probe);
    scene_clear(&r.whole);
    free(r.text);
    return status;
}
