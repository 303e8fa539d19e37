/* choose.c: hga choose, error against cost for many variants and parameters, on the user's tensors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "attend_io.h"
#include "command.h"
#include "measured.h"
#include "outfile.h"
#include "row_charts.h"
#include "table.h"
#include "terminal.h"
#include "trial.h"

enum { DEFAULT_SEED = 1 };
static const double default_seconds = 0.25; /* of repeats, for one candidate */

typedef struct arguments {
    attend_paths paths;
    const char *variants, *out;
    hga_options options;
    typed_call call;
    double seconds;
    int64_t seed;
    tensor_layout layout;
    int causal, json, quiet, progress;
} arguments;

/* What all candidates are measured on, and their rows, by error. */
typedef struct bench {
    const arguments *a;
    contenders all;
    scene whole;
    call_files files; /* what is done with scores, in files */
    hga_id dim_v;
    json_t *rows;
} bench;

/* ---- tensors ---- */

static int check_rows(const attend_io *io)
{
    if (io->query.rows == io->key.rows) return CLI_GOOD;
    return complain(CLI_DATA, "%s: has %d rows, the query in %s has %d; the variants are compared on self-attention",
                    io->key.array.path, io->key.rows, io->query.array.path, io->query.rows);
}

/* the array itself if heads are as many, so that nothing is copied */
static int take_tensor(tensor_file *t, hga_id heads, float **out)
{
    if (t->heads != heads) return tensor_file_widen(t, heads, out);
    *out = t->array.real;
    t->array.real = NULL;
    return CLI_GOOD;
}

/* One sample's tensors as the scene's words; keys and values are repeated for heads that share them. */
static int bench_make(const arguments *a, bench *b)
{
    attend_io io = {0};
    int status = CLI_GOOD;
    embedding *e = &b->whole.words;
    TRY(attend_io_read(&a->paths, NULL, a->layout, tensor_file_read, &io));
    TRY(check_rows(&io));
    if (io.query.samples > 1)
        TRY(complain(CLI_DATA, "%s: is a batch of %d; one sample is needed here", io.query.array.path,
                     io.query.samples));
    if (!a->quiet) tensor_file_say(&io.query);
    *e = (embedding){.n = io.query.rows, .heads = io.query.heads, .dim = io.query.columns};
    b->dim_v = io.value.columns;
    TRY(take_tensor(&io.query, e->heads, &e->query));
    TRY(take_tensor(&io.key, e->heads, &e->key));
    TRY(take_tensor(&io.value, e->heads, &e->value));
    if (call_typed(&a->call)) b->whole.call = &a->call, b->whole.files = &b->files;
done:
    attend_io_clear(&io);
    return status;
}

/* Keeps those that can be called as requested; of trees any shows it. */
static int keep_callable(bench *b)
{
    for (int i = 0; i < b->all.n; i++) {
        const contender *c = &b->all.of[i];
        if (!c->height) continue;
        MUST(scene_route(&b->whole, c->height, c->medians, (uint64_t)b->a->seed));
        break;
    }
    const scene start = scene_start(&b->whole);
    return contenders_keep(&start, b->a->variants, &b->all);
}

/* ---- a candidate's row ---- */

static double error_of(const json_t *row)
{
    return json_is_number(json_object_get(row, "relative_l2")) ? row_number(row, "relative_l2") : INFINITY;
}

/* errors that are no numbers last, equals by time */
static int is_before(const json_t *a, const json_t *b)
{
    const double x = error_of(a), y = error_of(b);
    return x < y || (x <= y && row_number(a, "seconds") < row_number(b, "seconds"));
}

/* The row among the others, by error; the fronts are marked once all are there. */
static int tell_result(void *context, const contender *c, const trial *t)
{
    bench *b = context;
    json_t *row = json_pack("{s:s, s:s, s:s, s:b, s:b}", "variant", c->variant->name, "parameters", c->parameters,
                            "front", "", "front_time", 0, "front_flops", 0);
    size_t at = json_array_size(b->rows);
    row = json_joined(row, trial_json(t, b->whole.words.n));
    while (at > 0 && is_before(row, json_array_get(b->rows, at - 1))) at--;
    if (json_array_insert_new(b->rows, at, row)) return complain(CLI_OUTSIDE, "out of memory");
    if (b->a->progress) fprintf(stderr, "%zu of %d candidates\n", json_array_size(b->rows), b->all.n);
    return CLI_GOOD;
}

/* ---- the table ---- */

static const column columns[] = {
    {"variant", "variant", NULL, 0},
    {"parameters", "parameters", NULL, 0},
    {"relative_l2", "rel L2", "%.5f", 0},
    {"mean_kl", "KL", "%.5f", 0},
    {"edges_per_token", "edges/token", "%.1f", 0},
    {"flops", "GFLOP", "%.4g", 1e-9},
    {"seconds", "ms", "%.3f", 1e3},
    {"speedup", "x dense", "%.2f", 0},
    {"bytes", "MB", "%.1f", 1e-6},
    {"front", "front", NULL, 0},
    {0},
};

/* What the study of docs/models.md found for a causal model that was trained with dense attention; the test
   compares. Blocks of 16 and so many of them hold a quarter of the keys; the first and the own block are two of at
   least four. */
static void print_advice(hga_id n)
{
    enum { TOKENS_PER_BLOCK_SEEN = 120, FEWEST = 4 };
    hga_id k = n / TOKENS_PER_BLOCK_SEEN;
    if (k < FEWEST) return; /* so few tokens have no quarter that is worth choosing */
    printf("\nIn a pretrained causal model begin with hga.transformers.calibrate, in Python, and "
           "hga:routed:block=16:score=sample:prefill=16:budgets=@FILE: heads that need few keys see few. "
           "Without such a file begin with routed:block=16:k=%d (docs/models.md).\n",
           k);
}

/* The candidates in order of their error, and which of them are on the front. */
static int print_results(const bench *b)
{
    const arguments *a = b->a;
    const embedding *e = &b->whole.words;
    const hga_id kl_tokens = scene_start(&b->whole).words.n;
    if (a->json)
        return json_print(stdout,
                          json_pack("{s:i, s:i, s:i, s:i, s:b, s:i, s:I, s:o, s:O}", "tokens", e->n, "heads", e->heads,
                                    "dim", e->dim, "dim_v", b->dim_v, "causal", a->causal, "kl_tokens", kl_tokens,
                                    "seed", (json_int_t)a->seed, "call", call_json(&a->call), "rows", b->rows));
    printf("%d tokens, %d heads x %d%s", e->n, e->heads, e->dim, a->causal ? ", causal" : "");
    call_tell(stdout, &a->call, terminal_text);
    printf("; KL on the first %d tokens\n\n", kl_tokens);
    MUST(table_print(stdout, b->rows, columns));
    printf("\nfront: nothing else is both as near to dense attention (rel L2) and as cheap, in time or in FLOP.\n");
    if (a->causal) print_advice(e->n);
    return CLI_GOOD;
}

static int draw_results(const bench *b)
{
    const embedding *e = &b->whole.words;
    const int threads = (int)row_number(json_array_get(b->rows, 0), "threads");
    char title[256];
    snprintf(title, sizeof title, "Distance from dense attention on %.100s: %d tokens, %d head%s x %d%s, %d thread%s",
             file_name(b->a->paths.query), e->n, e->heads, e->heads == 1 ? "" : "s", e->dim,
             b->a->causal ? ", causal" : "", threads, threads == 1 ? "" : "s");
    return chart_write_errors(b->rows, title, b->a->out);
}

/* ---- the command ---- */

static int read_seconds(const char *text, void *input)
{
    arguments *a = input;
    MUST(read_number("--seconds", text, &a->seconds));
    if (a->seconds < 0 || a->seconds > 3600) return complain(CLI_USAGE, "--seconds: %s is not in 0 .. 3600", text);
    return CLI_GOOD;
}

/* Reports wrong names and paths before tensors are read. */
static int check(void *input)
{
    const arguments *a = input;
    contenders all;
    MUST(paths_check(&a->paths));
    MUST(drawing_check_path("-o", a->out));
    if (a->out) MUST(outfile_check(a->out));
    return contenders_swept(a->variants, 1, a->causal, &all); /* wrong names are reported before anything is read */
}

static const option_row options[] = {
    {"query", TEXT(arguments, paths.query), "FILE", 0,
     "query tensor of the tokens, [rows][dim] or [rows][heads][dim]; - is standard input", 1},
    {"key", TEXT(arguments, paths.key), "FILE", 0,
     "key tensor of as many rows; its number of heads divides the query's", 1},
    {"value", TEXT(arguments, paths.value), "FILE", 0, "value tensor, with the key's rows and heads", 1},
    {"causal", FLAG(arguments, causal), NULL, 0, "no token sees a later one; compared with causal dense attention", 2},
    {"variants", TEXT(arguments, variants), "LIST", 0, "names with commas between them (default: all)", 2},
    {"seconds", READ(read_seconds), "S", 0, "seconds of repeats for each candidate (default: 0.25)", 3},
    {"seed", WHOLE(arguments, seed, 0, INT64_MAX), "N", 0,
     "seed of the directions of Treeformer's hyperplanes (default: 1)", 3},
    {"layout", CHOICE(arguments, layout, LAYOUT_WORDS), "L", 0,
     "of the tensors: nhd, or hnd, heads first, as torch has it (default: nhd)", 1},
    {"quiet", FLAG(arguments, quiet), NULL, 0, "leave out the line on stderr that says how the tensors were read", 9},
    {"progress", FLAG(arguments, progress), NULL, 0, "write a line to stderr after each candidate: how many are done",
     9},
    {"output,o", TEXT(arguments, out), "FILE", 0, "draw error against time and against FLOP, as .svg or .png", 9},
    {"json", FLAG(arguments, json), NULL, 0, "as JSON", 9},
    {0},
};

static const char doc[] =
    "Variants and their parameters against dense attention on given tensors: error, FLOP and time, sorted by "
    "error.\vrel L2 is the distance of the output from dense attention's, KL the mean over attention rows of "
    "KL(variant || dense) in nats, on the first 1024 tokens (fewer with many heads). FLOP and ms are of one execution, "
    "after the graph and its plan are made; a key head that several query heads share is measured as if each had its "
    "own. MB is graph, plan, workspace and tensors together. --softcap and the other options for scores apply to all, "
    "dense attention among them; variants that do not support them are left out, and listed.\n\n"
    "Candidates are windows, bpt, htransformer and hsa with parameters from a few tokens up to where they see "
    "everything, as -p takes them, and Treeformers of several heights whose hyperplanes have seeded random directions "
    "and pass through the origin (split=random) or the median key of their node (split=median); all levels of "
    "treeformer-coarse have the same weight. In bpt, where rows are nodes, a span has the mean of its tokens' rows.";

int run_choose(int argc, char **argv)
{
    const option_part parts[] = {{&machine_list, offsetof(arguments, options), NULL, 0},
                                 {call_list(CALL_OF_VARIANTS), offsetof(arguments, call), "Scores:", 4},
                                 {0}};
    const option_list line = {.rows = options, .parts = parts, .check = check, .says = doc};
    arguments a = {.seconds = default_seconds, .seed = DEFAULT_SEED};
    bench b = {.a = &a, .rows = json_array()};
    int status = CLI_GOOD;
    TRY(arguments_parse(&line, argc, argv, &a));
    TRY(bench_make(&a, &b));
    TRY(contenders_swept(a.variants, b.whole.words.n, a.causal, &b.all));
    call_plan(&a.call, &a.options);
    TRY(keep_callable(&b));
    const embedding *e = &b.whole.words;
    const trial_setup setup = {.shape = {.n_heads = e->heads, .dim = e->dim, .dim_v = b.dim_v},
                               .options = a.options,
                               .rules = {.budget = a.seconds},
                               .seed = (uint64_t)a.seed,
                               .tell = tell_result,
                               .context = &b};
    TRY(trials_run(&b.whole, NULL, &b.all, &setup, "candidates"));
    chart_mark_fronts(b.rows);
    TRY(print_results(&b));
    if (a.out) TRY(draw_results(&b));
done:
    json_decref(b.rows);
    scene_clear(&b.whole);
    call_files_clear(&b.files);
    return status;
}
