/* bench_decode.c: times tokens one by one after a context: processor time on one thread, wall time on several. */
#include "bench_run.h"

#include <math.h>

#include "tokens.h"

/* ---- rows of the table ---- */

/* A row, whose times are of a token; cache_bytes 0 and rows 0: unknown. */
typedef struct decode_row {
    bench_row row;
    double decoder_seconds, prompt_seconds, flat; /* prompt's are a token's */
    int64_t cache_bytes, cache_rows;
    int same_bits;
} decode_row;

static json_t *case_json(const decode_row *d)
{
    const bench_row *r = &d->row;
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:s, s:s, s:I, s:I, s:I, s:b}", "variant", r->variant, "parameters",
                     r->parameters, "tokens", r->tokens, "heads", r->shape.n_heads, "dim", r->shape.dim, "isa", r->isa,
                     "precision", r->precision, "cache_bytes", (json_int_t)d->cache_bytes, "cache_rows",
                     (json_int_t)d->cache_rows, "bytes_workspace", (json_int_t)r->m.workspace_bytes, "same_bits",
                     d->same_bits);
}

/* Times of a token and of what comes before it; disturbed, if threads did not have processors to themselves. */
static json_t *times_json(const decode_row *r)
{
    const bench_timing *t = &r->row.m.time;
    int disturbed = t->busy < BENCH_TRUSTED;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:o, s:f, s:f, s:b, s:s}", "seconds", t->seconds, "mean_seconds",
                     t->mean, "worst_seconds", t->most, "graph_seconds", r->row.graph_seconds, "decoder_seconds",
                     r->decoder_seconds, "prompt_seconds", json_number(r->prompt_seconds > 0 ? r->prompt_seconds : NAN),
                     "flat_over", r->flat / t->seconds, "cpu_over_wall", t->busy, "disturbed", disturbed, "mark",
                     disturbed ? "!" : "");
}

static int append_row(const decode_row *r, json_t *rows)
{
    const bench_timing *t = &r->row.m.time;
    json_t *row =
        bench_google_json(bench_row_name("decode:", &r->row), r->row.m.threads, t->repeats, t->seconds, t->mean);
    row = json_joined(row, case_json(r));
    return row_append(rows, t->repeats ? json_joined(row, times_json(r)) : row);
}

/* ---- a flat cache ---- */

/* Dense attention of one query, which reads all keys and values from contiguous memory. */
int bench_decode_flat(const bench_setup *p, json_t *rows, double *seconds)
{
    hga_dense dense = {.n_tokens = 1, .n_keys = p->tokens};
    hga_id kv = p->shape.n_kv_heads ? p->shape.n_kv_heads : p->shape.n_heads;
    const bench_rules rules = bench_token_rules(&p->rules, p->tokens);
    decode_row r = {.row = bench_row_of(p), .same_bits = 1}; /* it is one pass */
    const char *name = r.row.variant = "flat cache";
    bench_case c = {0};
    int status = CLI_GOOD;
    r.row.parameters = "";
    r.cache_rows = 2 * (int64_t)p->tokens, r.cache_bytes = r.cache_rows * kv * p->shape.dim * (int64_t)sizeof(float);
    TRY(complain_of(hga_build_dense(&dense, &c.graph, &c.program), CLI_OUTSIDE, name));
    TRY(complain_of(hga_plan_create(c.graph, &c.program, &p->shape, &p->options, &c.plan), CLI_USAGE, name));
    r.row.m.workspace_bytes = hga_plan_workspace_bytes(c.plan);
    r.row.m.threads = hga_plan_threads(c.plan);
    if (!p->dry_run) {
        TRY(complain_of(hga_workspace_create(c.plan, &c.workspace), CLI_OUTSIDE, name));
        TRY(complain_of(bench_case_tensors(&c, &p->shape, 1), CLI_OUTSIDE, name));
        TRY(complain_of(bench_case_time(&c, &rules, &r.row.m.time), CLI_OUTSIDE, name));
    }
    *seconds = r.flat = r.row.m.time.seconds;
    TRY(append_row(&r, rows));
done:
    bench_case_clear(&c);
    return status;
}

/* ---- a variant ---- */

/* Opens the decoder, and finds how much a cache holds right before the context's last token. */
static int open_feeding(const bench_setup *p, const bench_case *c, const model *chosen, bench_feeding *f, decode_row *r)
{
    hga_decode_options o = {.plan = p->options, .same_bits = p->same_bits, .prefill = chosen->prefill};
    f->chooses = chosen->how.block > 0, f->shape = p->shape;
    if (f->chooses) o.selection = &chosen->how;
    r->same_bits = o.same_bits;
    double start = bench_seconds();
    MUST(complain_of(hga_decoder_create(c->graph, &c->program, &p->shape, &o, &f->decoder), CLI_USAGE,
                     p->variant->text));
    r->decoder_seconds = bench_seconds() - start;
    /* Before the context's last token, which may be the last of many spans and release all that was in them. */
    r->cache_bytes = hga_decoder_cache_bytes(f->decoder, p->tokens - 1);
    r->cache_rows = hga_decoder_cache_rows(f->decoder, p->tokens - 1);
    return CLI_GOOD;
}

/* Builds the graph of tokens that choose as they come. */
static int build_choosing(const bench_setup *p, hga_id tokens, bench_case *c, model *chosen)
{
    char text[16];
    typed_variant typed = p->variant->typed;
    snprintf(text, sizeof text, "%d", tokens);
    typed.tokens = text, typed.decodes = 1;
    MUST(model_build(&typed, NULL, chosen));
    c->graph = hga_graph_retain(chosen->graph), c->program = chosen->program;
    return bench_put(p, c);
}

/* Builds a graph for the context, the warm-up and the tokens that are timed. */
static int build(const bench_setup *p, int most, bench_case *c, model *chosen)
{
    const hga_variant *v = hga_variant_named(p->variant->typed.name);
    if (p->tokens > INT32_MAX - most - 1)
        return complain(CLI_USAGE, "--tokens: %d and %d more are too many", p->tokens, most + 1);
    if (v && v->can & HGA_NEEDS_CHOICE) return build_choosing(p, p->tokens + most + 1, c, chosen);
    return bench_build(p, p->tokens + most + 1, c);
}

/* Builds, measures the context and its tokens, and appends one row; a dry run has no times. */
int bench_decode_run(const bench_setup *p, double flat, json_t *rows)
{
    const bench_rules rules = bench_token_rules(&p->rules, p->tokens);
    decode_row r = {.row = bench_row_of(p), .flat = flat};
    bench_case c = {0};
    model chosen = {0};
    bench_feeding f = {0};
    call_files files = {0};
    int status = CLI_GOOD;
    r.row.m.threads = p->options.threads;
    double start = bench_seconds();
    TRY(build(p, rules.most, &c, &chosen));
    r.row.graph_seconds = bench_seconds() - start;
    TRY(open_feeding(p, &c, &chosen, &f, &r));
    TRY(bench_bind(p, &c, &files));
    f.io = c.io, f.io.type_scale.data = c.type_scale, f.io.type_scale.rows = c.n_type_scale;
    if (!p->dry_run)
        TRY(complain_of(bench_feeding_run(&f, p->tokens, &rules, r.row.m.threads, &r.row.m.time, &r.prompt_seconds),
                        CLI_USAGE, p->variant->text));
    r.row.m.workspace_bytes = f.workspace_bytes;
    TRY(append_row(&r, rows));
done:
    bench_feeding_close(&f);
    call_files_clear(&files);
    bench_case_clear(&c);
    model_clear(&chosen);
    return status;
}
