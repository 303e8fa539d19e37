/* choose.c: hga choose, error against cost for many variants and parameters, on the user's tensors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "attend_io.h"
#include "choose_plot.h"
#include "command.h"
#include "drawing.h"
#include "measured.h"
#include "outfile.h"
#include "progress.h"
#include "table.h"
#include "terminal.h"
#include "trial.h"

enum { DEFAULT_SEED = 1, PROBE_TOKENS = 1024, PROBE_WEIGHTS = 1 << 26 };
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

typedef struct outcome {
    const contender *tried;
    trial t;
} outcome;

/* What all candidates are measured on and against. */
typedef struct bench {
    scene whole, probe; /* the probe is the first tokens, for attention rows; it borrows everything from the whole */
    call_files files;   /* what is done with scores, in files */
    hga_id dim_v;
    reference dense;
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

/* as many tokens as have attention rows in bounded memory */
static hga_id probe_tokens(const embedding *e)
{
    hga_id n = e->n < PROBE_TOKENS ? e->n : PROBE_TOKENS;
    while (n > 1 && (int64_t)n * n * e->heads > PROBE_WEIGHTS) n /= 2;
    return n;
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

static void bench_clear(bench *b)
{
    scene_clear(&b->whole);
    call_files_clear(&b->files);
    reference_clear(&b->dense);
}

/* ---- one candidate ---- */

static void make_probe(bench *b)
{
    b->probe = b->whole;
    b->probe.words.n = probe_tokens(&b->whole.words);
}

/* Keeps those that can be called as requested; of trees any shows it. */
static int keep_callable(const arguments *a, bench *b, contenders *all)
{
    for (int i = 0; i < all->n; i++) {
        const contender *c = &all->of[i];
        if (!c->height) continue;
        MUST(scene_route(&b->whole, c->height, c->medians, (uint64_t)a->seed));
        break;
    }
    make_probe(b);
    return contenders_keep(&b->probe, a->variants, all);
}

/* Error and cost on all tokens, and the divergence of attention's rows on the first ones. */
static int try_one(const arguments *a, bench *b, outcome *o)
{
    const embedding *e = &b->whole.words;
    const trial_setup setup = {.shape = {.n_heads = e->heads, .dim = e->dim, .dim_v = b->dim_v},
                               .options = a->options,
                               .rules = {.budget = a->seconds}};
    if (o->tried->height) MUST(scene_route(&b->whole, o->tried->height, o->tried->medians, (uint64_t)a->seed));
    make_probe(b);
    MUST(trial_run(&b->whole, o->tried, &setup, &b->dense, &o->t));
    MUST(trial_probe(&b->probe, o->tried, &a->options, &b->dense, &o->t));
    if (normaliser_makes_zeros(&a->call.normaliser)) o->t.divergence = NAN; /* of a zero it would be infinite */
    return CLI_GOOD;
}

/* Tries the candidates in order, with a progress bar. */
static int try_all(const arguments *a, bench *b, const contenders *all, outcome *results)
{
    int status = CLI_GOOD;
    progress bar = progress_start("candidates");
    for (int i = 0; i < all->n; i++) {
        progress_show((double)i / all->n, &bar);
        results[i].tried = &all->of[i];
        TRY(try_one(a, b, &results[i]));
        if (a->progress) fprintf(stderr, "%d of %d candidates\n", i + 1, all->n);
    }
done:
    progress_end(&bar);
    return status;
}

/* ---- the front ---- */

static plot_point point_of(const outcome *o)
{
    return (plot_point){.variant = o->tried->variant->name,
                        .parameters = o->tried->parameters,
                        .error = o->t.distance,
                        .cost = {1e3 * o->t.m.time.seconds, 1e-9 * o->t.m.cost.flops}};
}

/* Makes the points of all, in their order, and marks which are on the front. */
static void mark_front(const outcome *all, int n, plot_point *point)
{
    for (int i = 0; i < n; i++) point[i] = point_of(&all[i]);
    for (int cost = 0; cost < N_COSTS; cost++) choose_plot_mark(point, n, cost);
}

/* errors that are no numbers last, equals by time */
static int by_error(const void *a, const void *b)
{
    const outcome *x = a, *y = b;
    if (isnan(x->t.distance) != isnan(y->t.distance)) return isnan(x->t.distance) ? 1 : -1;
    if (x->t.distance < y->t.distance || x->t.distance > y->t.distance) return x->t.distance < y->t.distance ? -1 : 1;
    return (x->t.m.time.seconds > y->t.m.time.seconds) - (x->t.m.time.seconds < y->t.m.time.seconds);
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

static json_t *outcome_json(const outcome *o, const plot_point *p, const bench *b)
{
    static const char *const front[2][2] = {{"", "FLOP"}, {"time", "time FLOP"}};
    const int by_time = p->front[COST_TIME], by_flops = p->front[COST_FLOPS];
    json_t *row = json_pack("{s:s, s:s, s:s, s:b, s:b}", "variant", p->variant, "parameters", p->parameters, "front",
                            front[by_time][by_flops], "front_time", by_time, "front_flops", by_flops);
    return json_joined(row, trial_json(&o->t, b->whole.words.n, &b->dense));
}

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
static int print_results(const arguments *a, const bench *b, const outcome *all, int n, const plot_point *point)
{
    const embedding *e = &b->whole.words;
    json_t *rows = json_array();
    int status = CLI_GOOD;
    for (int i = 0; i < n; i++) TRY(row_append(rows, outcome_json(&all[i], &point[i], b)));
    if (a->json) {
        TRY(json_print(stdout,
                       json_pack("{s:i, s:i, s:i, s:i, s:b, s:i, s:I, s:o, s:O}", "tokens", e->n, "heads", e->heads,
                                 "dim", e->dim, "dim_v", b->dim_v, "causal", a->causal, "kl_tokens", probe_tokens(e),
                                 "seed", (json_int_t)a->seed, "call", call_json(&a->call), "rows", rows)));
        goto done;
    }
    printf("%d tokens, %d heads x %d%s", e->n, e->heads, e->dim, a->causal ? ", causal" : "");
    call_tell(stdout, &a->call, terminal_text);
    printf("; KL on the first %d tokens\n\n", probe_tokens(e));
    TRY(table_print(stdout, rows, columns));
    printf("\nfront: nothing else is both as near to dense attention (rel L2) and as cheap, in time or in FLOP.\n");
    if (a->causal) print_advice(e->n);
done:
    json_decref(rows);
    return status;
}

static int draw_results(const arguments *a, const bench *b, const outcome *all, int n, plot_point *point)
{
    const embedding *e = &b->whole.words;
    char title[256];
    snprintf(title, sizeof title, "Distance from dense attention on %.100s: %d tokens, %d head%s x %d%s, %d thread%s",
             file_name(a->paths.query), e->n, e->heads, e->heads == 1 ? "" : "s", e->dim, a->causal ? ", causal" : "",
             all[0].t.m.threads, all[0].t.m.threads == 1 ? "" : "s");
    return choose_plot_write(point, n, title, a->out);
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
    if (!a->paths.query) return complain(CLI_USAGE, "--query FILE is missing");
    if (!a->paths.key) return complain(CLI_USAGE, "--key FILE is missing");
    if (!a->paths.value) return complain(CLI_USAGE, "--value FILE is missing");
    MUST(drawing_check_path("-o", a->out));
    if (a->out) MUST(outfile_check(a->out));
    return contenders_swept(a->variants, 1, a->causal, &all); /* wrong names are reported before anything is read */
}

static const option_row options[] = {
    {"query", TEXT(arguments, paths.query), "FILE", 0,
     "query tensor of the tokens, [rows][dim] or [rows][heads][dim]; - is standard input", 1},
    {"key", TEXT(arguments, paths.key), "FILE", 0, "key tensor of as many rows; its heads divide the query's", 1},
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
    "dense attention among them; variants that cannot have them are left out, and named.\n\n"
    "Candidates are windows, bpt, htransformer and hsa with parameters from a few tokens up to where they see "
    "everything, as -p takes them, and Treeformers of several heights whose hyperplanes have seeded random directions "
    "and pass through the origin (split=random) or the median key of their node (split=median); coarse levels weigh "
    "alike. In bpt, where rows are nodes, a span has the mean of its tokens' rows.";

int run_choose(int argc, char **argv)
{
    const option_part parts[] = {
        {&machine_list, offsetof(arguments, options), NULL, 0},
        {call_list(CALL_OF_VARIANTS), offsetof(arguments, call), "What is done with scores:", 4},
        {0}};
    const option_list line = {.rows = options, .parts = parts, .check = check, .says = doc};
    arguments a = {.seconds = default_seconds, .seed = DEFAULT_SEED};
    contenders all;
    outcome *results = NULL;
    plot_point *points = NULL;
    bench b = {0};
    int status = CLI_GOOD;
    TRY(arguments_parse(&line, argc, argv, &a));
    TRY(bench_make(&a, &b));
    TRY(contenders_swept(a.variants, b.whole.words.n, a.causal, &all));
    call_plan(&a.call, &a.options);
    TRY(keep_callable(&a, &b, &all));
    TRY(take(all.n, sizeof *results, &results));
    TRY(take(all.n, sizeof *points, &points));
    TRY(try_all(&a, &b, &all, results));
    qsort(results, (size_t)all.n, sizeof *results, by_error);
    mark_front(results, all.n, points);
    TRY(print_results(&a, &b, results, all.n, points));
    if (a.out) TRY(draw_results(&a, &b, results, all.n, points));
done:
    free(results);
    free(points);
    bench_clear(&b);
    return status;
}
