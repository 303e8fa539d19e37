/* decode.c: hga decode, a causal variant fed token by token, or in chunks, as in text generation. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "command.h"
#include "decode_run.h"
#include "measured.h"
#include "outfile.h"

typedef struct arguments {
    typed_variant variant;
    hga_options options;
    typed_tensors tensors;
    typed_call call;
    typed_decoding decoding;
    int json;
} arguments;

/* ---- the command line ---- */

static int check_arguments(void *input)
{
    const arguments *a = input;
    MUST(tensors_check(&a->tensors));
    return decoding_check(&a->decoding, &a->tensors.paths);
}

static const option_row options[] = {{"json", FLAG(arguments, json), NULL, 0, "as JSON", 9}, {0}};

static const char doc[] =
    "Run a causal variant token by token, or in chunks: each append computes the rows of its tokens, and a cache holds "
    "what later tokens read.\v"
    "The output is that of `hga attend`, row by row; a row of a node (bpt) is written with its last token. Tensors of "
    "four axes are a batch: each sample has a cache, and one call appends to all. The table has microseconds a token "
    "of a sample: median, worst, and the medians of the first and the last thousand. It also has the largest size of a "
    "cache: with the last token that a cache can take, it frees all its rows.";

/* ---- the samples ---- */

/* Refuses batches of routed variants: routing reads a sample's own tensors, so its graph is its own. */
static int check_samples(const typed_variant *typed, const attend_io *all)
{
    const hga_variant *v = hga_variant_named(typed->name);
    if (all->query.samples == 1 || !(v && v->can & HGA_NEEDS_LEAVES)) return CLI_GOOD;
    return complain(CLI_USAGE, "decode: each sample of %s has a graph of its own, and there are %d samples", v->name,
                    all->query.samples);
}

/* All samples are decoded by the first one's graph. */
static int build(const arguments *a, const attend_io *all, model *m)
{
    attend_io first = attend_io_sample(all, 0);
    model_tensors tensors = attend_io_tensors(&first);
    MUST(check_samples(&a->variant, all));
    MUST(model_build(&a->variant, &tensors, m));
    variant_causal_hint(&a->variant, sizeof m->causal_hint, m->causal_hint);
    return call_put(&a->call, m);
}

/* Binds each sample to its tensors and feeds them all together. */
static int decode(const arguments *a, const attend_io *all, const model *m, attend_io *sample, decoded *d)
{
    for (hga_id i = 0; i < all->query.samples; i++) {
        sample[i] = attend_io_sample(all, i);
        MUST(attend_io_bind(&a->tensors.paths, &a->call, m, &sample[i]));
    }
    if (!a->tensors.quiet) tensor_file_say(&all->query);
    return decode_run(&a->decoding, m, &a->options, sample, all->query.samples, d);
}

/* ---- output ---- */

/* Opens the outputs before anything is computed. */
static int open_targets(const arguments *a, outfile *to)
{
    MUST(outfile_open(a->tensors.paths.out, &to[MADE_OUT]));
    if (a->tensors.paths.lse) MUST(outfile_open(a->tensors.paths.lse, &to[MADE_LSE]));
    if (a->decoding.save) MUST(outfile_check(a->decoding.save));
    return CLI_GOOD;
}

/* Writes the samples' rows in order, and flushes the file. */
static int write_rows(const arguments *a, const attend_io *all, const attend_io *sample, int made, outfile *to)
{
    const int64_t columns = attend_io_columns(all, made);
    int64_t floats = (int64_t)sample->out_rows * all->query.heads * (columns ? columns : 1);
    float *rows = NULL;
    int status = CLI_GOOD;
    TRY(take(all->query.samples * floats, sizeof *rows, &rows));
    for (hga_id i = 0; i < all->query.samples; i++)
        memcpy(rows + i * floats, sample[i].made[made], (size_t)floats * sizeof *rows);
    TRY(tensor_file_write(to, &all->query, sample->out_rows, columns, tensors_out_type(&a->tensors, &all->query),
                          rows));
    TRY(outfile_flush(to));
done:
    free(rows);
    return status;
}

/* Outputs are on the disk before the cache is written, and get their names last. */
static int write_files(const arguments *a, const attend_io *all, const attend_io *sample, const decoded *d, outfile *to)
{
    for (int i = MADE_OUT; i <= MADE_LSE; i++)
        if (to[i].file) MUST(write_rows(a, all, sample, i, &to[i]));
    if (d->saved) MUST(complain_of(hga_cache_write(d->saved, a->decoding.save), CLI_OUTSIDE, a->decoding.save));
    MUST(outfile_keep(&to[MADE_LSE]));
    return outfile_keep(&to[MADE_OUT]);
}

/* ---- the report ---- */

/* The most microseconds of a share of n tokens; NaN if there are none. */
static double quantile(const double *seconds, int64_t n, double share)
{
    double *sorted = NULL, is;
    if (n == 0 || take(n, sizeof *sorted, &sorted)) return NAN;
    memcpy(sorted, seconds, (size_t)n * sizeof *sorted);
    bench_sort(sorted, n);
    is = 1e6 * bench_quantile(sorted, (int)n, share);
    free(sorted);
    return is;
}

static json_t *levels_json(const decoded *d)
{
    json_t *levels = json_array();
    for (hga_id l = 0; l < d->n_levels; l++)
        json_array_append_new(levels, json_pack("{s:i, s:I}", "level", l, "rows", (json_int_t)d->level_rows[l]));
    return levels;
}

/* What was fed, how long a token took, and what the caches hold. */
static json_t *report(const arguments *a, const attend_io *all, const model *m, const decoded *d)
{
    enum { THOUSAND = 1000 };
    int64_t n = d->n_seconds, some = n < THOUSAND ? n : THOUSAND;
    json_t *row = json_pack("{s:s, s:i, s:i, s:i, s:i, s:s, s:b, s:i, s:I}", "variant", m->title, "tokens", d->tokens,
                            "samples", all->query.samples, "heads", all->query.heads, "dim", all->query.columns,
                            "chunks", a->decoding.chunks_text ? a->decoding.chunks_text : "1", "same", a->decoding.same,
                            "resumed", d->resumed, "appends", (json_int_t)d->appends);
    json_t *times =
        json_pack("{s:o, s:o, s:o, s:o}", "median_us", json_number(quantile(d->seconds, n, 0.5)), "worst_us",
                  json_number(quantile(d->seconds, n, 1)), "first_us", json_number(quantile(d->seconds, some, 0.5)),
                  "last_us", json_number(quantile(d->seconds + n - some, some, 0.5)));
    json_t *held = json_pack("{s:f, s:I, s:I, s:i, s:I, s:o}", "decoder_seconds", d->decoder_seconds, "workspace_bytes",
                             (json_int_t)d->workspace_bytes, "cache_bytes", (json_int_t)d->most_bytes, "cache_tokens",
                             d->most_at, "rows", (json_int_t)d->rows, "levels", levels_json(d));
    return json_joined(json_joined(row, times), held);
}

static const column columns[] = {
    {"tokens", "tokens", NULL, 0},    {"appends", "appends", NULL, 0},         {"median_us", "us a token", "%.1f", 0},
    {"worst_us", "worst", "%.1f", 0}, {"first_us", "first 1000", "%.1f", 0},   {"last_us", "last 1000", "%.1f", 0},
    {"rows", "rows held", NULL, 0},   {"cache_bytes", "cache bytes", NULL, 0}, {0}};
static const column level_columns[] = {{"level", "level", NULL, 0}, {"rows", "rows held", NULL, 0}, {0}};

/* Prints the document as JSON, or as a table of one row and one of levels, and releases it. */
static int tell(int as_json, json_t *document)
{
    int status = document ? CLI_GOOD : complain(CLI_OUTSIDE, "out of memory");
    if (status) return status;
    if (as_json) return json_print(stdout, document);
    json_t *rows = json_pack("[O]", document);
    status = table_print(stdout, rows, columns);
    if (!status) putchar('\n');
    if (!status) status = table_print(stdout, json_object_get(document, "levels"), level_columns);
    json_decref(rows);
    json_decref(document);
    return status;
}

int run_decode(int argc, char **argv)
{
    const option_part parts[] = {{&variant_list, offsetof(arguments, variant), NULL, 0},
                                 {&machine_list, offsetof(arguments, options), NULL, 0},
                                 {call_list(CALL_WITHOUT_EDGES), offsetof(arguments, call), "Scores:", 4},
                                 {&tensors_list, offsetof(arguments, tensors), NULL, 0},
                                 {&decoding_list, offsetof(arguments, decoding), NULL, 0},
                                 {0}};
    const option_list line = {
        .rows = options, .parts = parts, .check = check_arguments, .words = "VARIANT", .says = doc};
    arguments a = {0};
    attend_io all = {0}, *sample = NULL;
    decoded d = {0};
    outfile to[MADE_LSE + 1] = {0};
    model m = {0};
    int status = CLI_GOOD;
    a.variant.decodes = 1;
    TRY(arguments_parse(&line, argc, argv, &a));
    call_plan(&a.call, &a.options);
    TRY(attend_io_read(&a.tensors.paths, &a.call, a.tensors.layout, tensor_file_read, &all));
    TRY(open_targets(&a, to));
    TRY(build(&a, &all, &m));
    TRY(take(all.query.samples, sizeof *sample, &sample));
    TRY(decode(&a, &all, &m, sample, &d));
    TRY(write_files(&a, &all, sample, &d, to));
    TRY(tell(a.json, report(&a, &all, &m, &d)));
done:
    for (hga_id i = 0; sample && i < all.query.samples; i++) attend_io_clear(&sample[i]);
    decoded_clear(&d);
    model_clear(&m);
    for (int i = MADE_OUT; i <= MADE_LSE; i++) outfile_drop(&to[i]);
    free(sample);
    attend_io_clear(&all);
    return status;
}
