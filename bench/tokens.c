/* tokens.c: appends a context to a cache, then times tokens one by one. */
#include "tokens.h"

#include <stdlib.h>

#include "memory.h"
#include "numbers.h"

/* Tokens lengthen their context, so the timed tokens must be few beside it. */
enum { MOST_TOKENS = 1024, FEW_TOKENS = 64, CONTEXT_OVER_TOKENS = 16, PROMPT = 512, STREAM = 11 };

bench_rules bench_token_rules(const bench_rules *rules, hga_id context)
{
    const hga_id part = context / CONTEXT_OVER_TOKENS;
    return (bench_rules){.budget = rules->budget,
                         .repetitions = rules->repetitions,
                         .most = rules->repetitions   ? rules->repetitions
                                 : part < FEW_TOKENS  ? FEW_TOKENS
                                 : part > MOST_TOKENS ? MOST_TOKENS
                                                      : part,
                         .by_processor = 1};
}

/* ---- a cache ---- */

static hga_id kv_heads(const bench_feeding *f) { return f->shape.n_kv_heads ? f->shape.n_kv_heads : f->shape.n_heads; }

/* Appends the next n tokens, with any numbers. */
static hga_status feed(bench_feeding *f, hga_id n)
{
    int64_t rows = hga_decoder_rows(f->decoder, f->at, n, NULL, 0);
    int64_t q = (int64_t)f->shape.n_heads * f->shape.dim, kv = (int64_t)kv_heads(f) * f->shape.dim;
    hga_append a = {.cache = f->cache, .n_tokens = n, .io = f->io};
    a.io.query = (hga_tensor){.data = f->numbers, .rows = rows};
    a.io.key = (hga_tensor){.data = f->numbers + f->rows * q, .rows = rows};
    a.io.value = (hga_tensor){.data = f->numbers + f->rows * (q + kv), .rows = rows};
    a.io.out = (hga_tensor){.data = f->numbers + f->rows * (q + 2 * kv), .rows = rows};
    if (f->chooses && n > 1) a.io.out = (hga_tensor){0};
    hga_status st = hga_decoder_append(f->decoder, f->workspace, &a, 1);
    if (!st) f->at += n;
    return st;
}

static hga_status feed_one(void *context) { return feed(context, 1); }

static hga_id prompt_of(const bench_feeding *f, hga_id tokens)
{
    return tokens - f->at < PROMPT ? tokens - f->at : PROMPT;
}

/* Numbers for the longest append. */
static hga_status fill(bench_feeding *f, hga_id tokens)
{
    int64_t floats = 2 * ((int64_t)f->shape.n_heads + kv_heads(f)) * f->shape.dim;
    for (hga_id n; f->at < hga_decoder_tokens(f->decoder); f->at += n) {
        n = f->at < tokens ? prompt_of(f, tokens) : 1;
        int64_t rows = hga_decoder_rows(f->decoder, f->at, n, NULL, 0);
        if (rows > f->rows) f->rows = rows;
    }
    f->at = 0;
    hga_status st = bench_new(f->rows * floats, sizeof *f->numbers, &f->numbers);
    if (!st) numbers_fill(STREAM, 1, f->rows * floats, f->numbers);
    return st;
}

static hga_status feed_context(bench_feeding *f, hga_id tokens, hga_id threads, double *seconds)
{
    hga_status st = HGA_OK;
    bench_time start = bench_clock();
    while (!st && f->at < tokens) st = feed(f, prompt_of(f, tokens));
    bench_time took = bench_since(start);
    *seconds = (threads > 1 ? took.wall : took.thread) / tokens;
    return st;
}

hga_status bench_feeding_run(bench_feeding *f, hga_id tokens, const bench_rules *rules, hga_id threads,
                             bench_timing *out, double *prompt_seconds)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_decode_workspace_create(f->decoder, &f->workspace));
    HGA_TRY(hga_pages_create(f->decoder, 0, &f->pages));
    HGA_TRY(hga_cache_create(f->pages, &f->cache));
    HGA_TRY(fill(f, tokens));
    HGA_TRY(feed_context(f, tokens, threads, prompt_seconds));
    HGA_TRY(bench_repeat(feed_one, f, rules, threads, out));
    f->workspace_bytes = hga_decode_workspace_bytes(f->workspace);
done:
    return st;
}

void bench_feeding_close(bench_feeding *f)
{
    hga_cache_destroy(f->cache);
    hga_pages_destroy(f->pages);
    hga_decode_workspace_destroy(f->workspace);
    hga_decoder_destroy(f->decoder);
    free(f->numbers);
}
