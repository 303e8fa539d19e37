/* tokens.h: the time of a token after a context, and a cache to append to. */
#ifndef BENCH_TOKENS_H
#define BENCH_TOKENS_H

#include "timing.h"

/* Of tokens one by one: as many as the rules say, or else, within their budget, so few that the context stays about as
   long, at most `most`; processor time on one thread. */
bench_rules bench_token_rules(const bench_rules *rules, hga_id context);

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
hga_status bench_feeding_run(bench_feeding *f, hga_id tokens, const bench_rules *rules, hga_id threads,
                             bench_timing *out, double *prompt_seconds);
/* Destroys the decoder, too. */
void bench_feeding_close(bench_feeding *f);

#endif
