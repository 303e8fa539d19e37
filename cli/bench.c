/* bench.c: hga bench. The machine's limits first, then every variant at every length in every setting. */
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "whole_file.h"
#include "bench_run.h"
#include "bench_output.h"
#include "command.h"
#include "measured.h"
#include "peer.h"
#include "progress.h"
#include "world.h"

/* Those that score the sources of a relation, and all. */
#define DEFAULT_RELATIVE "dense,window,bpt,htransformer,hsa:branching=2,4,8,16,treeformer-fine"
#define DEFAULT_VARIANTS DEFAULT_RELATIVE ",treeformer-coarse"
#define DEFAULT_SHARED   "window,htransformer,hsa:branching=4,dense"
#define DEFAULT_TOKENS   "256,1024,4096"

typedef struct arguments {
    const char *variants, *graph, *tokens, *threads, *isa, *precision, *from;
    bench_output out;
    bench_setup all; /* what every case has */
    int decode, ranks;
    bench_link link; /* as typed, then as measured */
    typed_call call;
    call_files files; /* of the call */
} arguments;

enum { LIST_WORD = 16 };
/* The lists, read; each has one member at least. */
typedef struct lists {
    bench_variant variant[MAX_LIST];
    hga_id tokens[MAX_LIST], threads[MAX_LIST];
    char isa[MAX_LIST][LIST_WORD], precision[MAX_LIST][LIST_WORD];
    hga_peaks peaks[MAX_LIST]; /* of each ISA */
    int n_variants, n_tokens, n_threads, n_isa, n_precision;
} lists;

/* ---- the command line ---- */

/* A run shown again is not measured; ranks are measured alone; decoding excludes options of whole calls. */
static int check_arguments(void *input)
{
    const arguments *a = input;
    const char *besides = a->from ? arguments_present_besides("from", &bench_output_list) : NULL;
    if (besides) return complain(CLI_USAGE, "--from: shows a run again and measures nothing, without --%s", besides);
    const char *with =
        arguments_present(a->ranks ? "graph peers rel-key gradient decode dry-run" : "graph peers rel-key gradient");
    if (!a->ranks && world_ranks() > 1)
        return complain(CLI_USAGE, "bench: without --ranks it works in one process, and mpirun has started %d",
                        world_ranks());
    if (!a->ranks && arguments_present("latency gbits")) return complain(CLI_USAGE, "--latency, --gbits: need --ranks");
    if (a->ranks && with) return complain(CLI_USAGE, "--ranks: measures forward passes, without --%s", with);
    if (a->ranks && world_ranks() == 1)
        return complain(CLI_USAGE, "--ranks: measures the processes that mpirun starts, and this is one; `hga explain "
                                   "VARIANT --ranks P` predicts what P would do");
    if (a->all.same_bits && !a->decode) return complain(CLI_USAGE, "--same: needs --decode");
    return a->decode && with ? complain(CLI_USAGE, "--decode: times tokens, without --%s", with) : CLI_GOOD;
}

static void start(void *input) { ((arguments *)input)->all.options.bind = HGA_BIND_AUTO; }

static int read_peers(const char *text, void *input)
{
    return complain_of(peers_read(text, &((arguments *)input)->all.peers), CLI_USAGE, "--peers");
}

static const option_row options[] = {
    {"variants", TEXT(arguments, variants), "LIST", 0,
     "variants, with parameters after colons, or random:degree=32 (default: " DEFAULT_VARIANTS ")", 1},
    {"graph", TEXT(arguments, graph), "FILE", 0,
     "a graph from a file, as graph=FILE in --variants, with parameters after colons (FILE:tree=metis:8,8:order=rcm); "
     "it runs once, on its own number of tokens",
     1},
    {"tokens,n", TEXT(arguments, tokens), "LIST", 0, "lengths (default: " DEFAULT_TOKENS ")", 1},
    {"threads", TEXT(arguments, threads), "LIST", 0,
     "threads (default: OMP_NUM_THREADS, or the cores this process may use)", 8},
    {"isa", TEXT(arguments, isa), "LIST", 0,
     "ref, avx2, avx512, avx512bf16, neon or neonbf16: instruction sets (default: HGA_ISA, or the best here)", 8},
    {"precision", TEXT(arguments, precision), "LIST", 0,
     "f32 or bf16: bf16 keeps keys and values in 16 bits (default: f32)", 8},
    {"bind", CHOICE(arguments, all.options.bind, BIND_WORDS), "WHEN", 0, BIND_HELP, 8},
    {"from", TEXT(arguments, from), "RUN.json", 0, "measure nothing: show a run that --json wrote", 9},
    {"dry-run", FLAG(arguments, all.dry_run), NULL, 0,
     "print what would run, the memory it would take, and about how long", 9},
    {"peers", READ(read_peers), "LIST", 0,
     "also time other implementations on the same case: openblas (dense), passes (scores, softmax, sums, as graph "
     "libraries do), graphblas, all; where a program has several stages, they run the attended edges alone (default: "
     "none)",
     1},
    {"dim-v", ID(arguments, all.shape.dim_v, 1, MAX_DIM), "D", 0, "dimension of a value (default: --dim)", 7},
    {"rel-key", FLAG(arguments, all.relative), NULL, 0,
     "with random relative keys, a row for each type of the first attended relation (then by default without "
     "treeformer-coarse, which has no scores)",
     1},
    {"gradient", FLAG(arguments, all.gradient), NULL, 0,
     "also time the backward pass: a row gradient:VARIANT below each case, in turns with the forward pass, and its "
     "time over forward's (programs with user stages have none)",
     1},
    {"by-memory", FLAG(arguments, all.by_memory), NULL, 0,
     "compare each case with the memory bandwidth (rows in order and at random), measured in turns with it, even if "
     "arithmetic limits the case",
     1},
    {"decode", FLAG(arguments, decode), NULL, 0,
     "time causal variants token by token: --tokens are contexts, after which tokens are appended one by one. Beside "
     "them is a flat cache, one query against all keys. Without --threads: processor time on one thread; with more: "
     "wall time (default variants: " DEFAULT_DECODED ")",
     2},
    {"same", FLAG(arguments, all.same_bits), NULL, 0,
     "with --decode: rows have the bits of one pass over all tokens (default: within 2e-6)", 2},
    {"ranks", FLAG(arguments, ranks), NULL, 0,
     "under mpirun: run one sequence on all processes. Shows what the busiest sends and how long it takes, beside the "
     "prediction of `hga explain --ranks`: processor time of computing, wall time of the exchange (default "
     "variants: " DEFAULT_SHARED ")",
     2},
    {"latency", ABOVE_0(arguments, link.latency_us), "US", 0,
     "with --ranks: predict with US microseconds per message (default: measured between the first rank and the last)",
     2},
    {"gbits", ABOVE_0(arguments, link.gbits), "G", 0,
     "with --ranks: predict with G gigabits per second (default: measured)", 2},
    {0},
};

/* Words with commas between them, each one of those that are known. */
static int read_words(const char *what, const char *list, const char *known, char word[MAX_LIST][LIST_WORD], int *n)
{
    for (int which; list; ++*n) {
        if (*n == MAX_LIST) return complain(CLI_USAGE, "%s: the list is too long", what);
        list_next(&list, word[*n], LIST_WORD);
        MUST(read_choice(what, known, word[*n], &which));
    }
    return CLI_GOOD;
}

/* Adds --graph to --variants, or uses it alone. */
static int read_variants(const arguments *a, lists *l)
{
    char item[sizeof l->variant->text];
    int status = CLI_GOOD;
    const char *named = a->variants       ? a->variants
                        : a->decode       ? DEFAULT_DECODED
                        : a->ranks        ? DEFAULT_SHARED
                        : a->all.relative ? DEFAULT_RELATIVE
                                          : DEFAULT_VARIANTS;
    if (a->variants || !a->graph) status = bench_variants_read(named, l->variant, &l->n_variants);
    if (status || !a->graph) return status;
    int n = snprintf(item, sizeof item, "graph=%s", a->graph);
    if (n >= (int)sizeof item)
        return complain(CLI_USAGE, "--graph: '%s' has %d bytes; at most %zu fit", a->graph, n - 6, sizeof item - 7);
    return bench_variant_add(item, (size_t)n, l->variant, &l->n_variants);
}

/* All that is combined with each other: variants, lengths, threads, instruction sets, precisions. */
static int read_lists(const arguments *a, lists *l)
{
    MUST(read_variants(a, l));
    MUST(
        read_list("--tokens", a->tokens ? a->tokens : DEFAULT_TOKENS, 1, INT32_MAX, MAX_LIST, &l->n_tokens, l->tokens));
    l->n_threads = 1; /* 0: the library's default */
    if (a->threads) MUST(read_list("--threads", a->threads, 1, 4096, MAX_LIST, &l->n_threads, l->threads));
    MUST(read_words("--isa", a->isa ? a->isa : default_isa(), hga_isa_list(), l->isa, &l->n_isa));
    return read_words("--precision", a->precision ? a->precision : "f32", PRECISION_WORDS, l->precision,
                      &l->n_precision);
}

/* ---- all cases ---- */

/* case i of the product of all lists; variants change fastest */
static bench_setup place_of(const lists *l, const arguments *a, int i)
{
    bench_setup p = a->all;
    p.call = &a->call, p.files = &a->files;
    p.variant = &l->variant[i % l->n_variants];
    i /= l->n_variants;
    p.tokens = l->tokens[i % l->n_tokens];
    i /= l->n_tokens;
    p.options.threads = l->threads[i % l->n_threads];
    i /= l->n_threads;
    p.options.isa = l->isa[i % l->n_isa];
    p.peaks = l->peaks[i % l->n_isa];
    p.options.precision = (hga_precision)choice_of(PRECISION_WORDS, l->precision[i / l->n_isa]);
    call_plan(&a->call, &p.options);
    return p;
}

/* Decoding has a flat cache before the variants of a setting, and one thread by default. */
static int run_place(const arguments *a, bench_setup *p, int is_first, double *flat, json_t *rows, int *failed)
{
    if (a->ranks) return bench_ranks_run(p, &a->link, rows);
    if (!a->decode) return bench_run(p, rows, failed);
    if (p->variant->file)
        return complain(CLI_USAGE, "--decode: %s has one length, and tokens to come have none", p->variant->text);
    if (!p->options.threads) p->options.threads = 1;
    if (is_first) MUST(bench_decode_flat(p, rows, flat));
    return bench_decode_run(p, *flat, rows);
}

/* A file's graph has one length, whatever lengths the others have. */
static int was_run(const lists *l, int i)
{
    return l->variant[i % l->n_variants].file && i / l->n_variants % l->n_tokens > 0;
}

/* All combinations, in the order in which tables show them; a graph from a file has one length, and runs once. */
static int run_all(const lists *l, const arguments *a, json_t *rows, int *failed)
{
    int all = l->n_variants * l->n_tokens * l->n_threads * l->n_isa * l->n_precision, status = CLI_GOOD;
    double flat = 0;
    progress bar = progress_start("benchmarks");
    for (int i = 0; i < all && status == CLI_GOOD; i++) {
        bench_setup p = place_of(l, a, i);
        if (!a->decode && was_run(l, i)) continue;
        progress_show((double)i / all, &bar);
        status = run_place(a, &p, i % l->n_variants == 0, &flat, rows, failed);
    }
    progress_end(&bar);
    return status;
}

/* Measures the machine's limits with each instruction set; rows have shares of them. */
static int measure_peaks(lists *l, const bench_rules *rules, json_t *peaks)
{
    for (int i = 0; i < l->n_isa; i++) {
        bench_peaks measured;
        MUST(complain_of(bench_measure_peaks(l->isa[i], rules, &measured), CLI_USAGE, l->isa[i]));
        l->peaks[i] = measured.best;
        json_array_append_new(peaks, measured_peaks_json(l->isa[i], &measured));
    }
    return CLI_GOOD;
}

/* ---- the document ---- */

/* the results, the machine and what follows from them; NULL when memory ran out */
static json_t *document_of(const arguments *a, const char *program, json_t *peaks, json_t *rows)
{
    json_t *doc = json_pack("{s:o, s:O, s:b}", "context", bench_context_json(program, json_incref(peaks)), "benchmarks",
                            rows, "dry_run", a->all.dry_run);
    if (a->decode) return json_joined(doc, json_pack("{s:b}", "decode", 1));
    if (a->ranks) return json_joined(doc, json_pack("{s:b}", "ranks", 1));
    if (a->all.dry_run) return doc;
    return json_joined(
        doc, json_pack("{s:o, s:o}", "scaling", bench_scaling(rows), "overtakes_dense", bench_overtakes(rows)));
}

static int write_document(const arguments *a, json_t *document)
{
    int status = CLI_GOOD;
    if (!document) status = complain(CLI_OUTSIDE, "out of memory");
    if (document && world_speaks()) status = bench_output_write(&a->out, document);
    json_decref(document);
    return status;
}

/* Shows a document that was written before. */
static int show_again(const arguments *a)
{
    json_t *document;
    MUST(json_file_read(a->from, &document));
    json_t *rows = json_object_get(document, "benchmarks");
    measured_hold(rows);
    if (json_is_array(rows)) return write_document(a, document);
    json_decref(document);
    return complain(CLI_DATA, "%s: has no list of benchmarks", a->from);
}

int run_bench(int argc, char **argv)
{
    const option_part parts[] = {{&shape_list, offsetof(arguments, all.shape), NULL, 0},
                                 {&rules_list, offsetof(arguments, all.rules), NULL, 0},
                                 {&bench_output_list, offsetof(arguments, out), NULL, 0},
                                 {call_list(CALL_OF_SHAPE), offsetof(arguments, call), "Scores:", 4},
                                 {0}};
    const option_list line = {
        .rows = options,
        .parts = parts,
        .start = start,
        .check = check_arguments,
        .says =
            "Benchmark tables: this machine's limits, then each case with warm-up, repeats until stable, and medians."};
    arguments a = {0};
    lists *l = NULL;
    json_t *rows = json_array(), *peaks = json_array();
    int status = CLI_GOOD, failed = 0;
    TRY(arguments_parse(&line, argc, argv, &a));
    if (a.from) {
        status = show_again(&a);
        goto done;
    }
    TRY(take(1, sizeof *l, &l));
    TRY(read_lists(&a, l));
    if (a.all.peers && !a.all.dry_run) peer_openblas_tune(argc, argv);
    if (!a.all.dry_run) TRY(call_files_read(&a.call, &a.files));
    if (a.ranks) TRY(bench_link_measure(&a.link));
    if (!a.all.dry_run && !a.ranks) TRY(measure_peaks(l, &a.all.rules, peaks));
    TRY(run_all(l, &a, rows, &failed));
    TRY(write_document(&a, document_of(&a, argv[0], peaks, rows)));
    if (failed) status = CLI_FAILED; /* reported when it was found */
done:
    call_files_clear(&a.files);
    json_decref(peaks);
    json_decref(rows);
    free(l);
    return status;
}
