/* tokens.h: the time of a token after a context: calls timed one by one, and a cache to append to. */
#ifndef BENCH_TOKENS_H
#define BENCH_TOKENS_H

#include "timing.h"

/* Calls, timed one by one: processor time on one thread, wall time on several. */
typedef struct bench_tokens {
    double *seconds; /* [n], for free() */
    int n, most;
    double budget;
    hga_id threads;
    bench_time all;
} bench_tokens;

/* Allocates as many as the rules say, or else so few that the context stays about as long. */
hga_status bench_tokens_open(const bench_rules *rules, hga_id context, hga_id threads, bench_tokens *t);
/* Warms up, and calls until there are enough, or the budget is used up. */
hga_status bench_tokens_time(hga_status (*once)(void *context), void *context, bench_tokens *t);

/* A decoder's cache; the decoder, the shape, the tables of io and `chooses` are the caller's to set. */
typedef struct bench_feeding {
    hga_decoder *decoder;
    hga_decode_workspace *workspace;
    hga_pages *pages;
    hga_cache *cache;
    hga_shape shape;
    hga_io io;      /* tables */
    float *numbers; /* query, key, value, out: `rows` of each */
    int64_t rows, workspace_bytes;
    hga_id at;
    int chooses; /* tokens do: rows of the output cost them more than the prompt's tokens, and these are not needed */
} bench_feeding;

/* Appends a context of so many random tokens, timing seconds per token, and then tokens one by one. */
hga_status bench_feeding_run(bench_feeding *f, hga_id tokens, bench_tokens *t, double *prompt_seconds);
/* Destroys the decoder, too. */
void bench_feeding_close(bench_feeding *f);

#endif
