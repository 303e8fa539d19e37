/* bench_run.h: one case of a benchmark: executions, tokens one by one, ranks. */
#ifndef CLI_BENCH_RUN_H
#define CLI_BENCH_RUN_H

#include "bench_report.h"
#include "typed_call.h"
#include "cases.h"

enum { MAX_LIST = 64 };

/* "htransformer:block=32" taken apart. */
typedef struct bench_variant {
    char text[256];         /* name:parameter=value:.. */
    const char *parameters; /* of the text */
    char parts[256];
    typed_variant typed;
    int by_chance; /* see bench_case_make */
    int file;      /* graph=FILE, which knows how many tokens it has */
} bench_variant;

/* "dense,hsa:branching=2,4,8:causal=1": an item that begins with a digit belongs to the one before. */
int bench_variants_read(const char *list, bench_variant *out, int *n);
/* Adds one, of `length` bytes, whatever commas it has. */
int bench_variant_add(const char *item, size_t length, bench_variant *out, int *n);

/* What to run, and how. */
typedef struct bench_setup {
    const bench_variant *variant;
    hga_id tokens;
    hga_shape shape;
    hga_options options; /* threads 0: the library's default */
    hga_peaks peaks;     /* of options.isa */
    bench_rules rules;
    const typed_call *call;
    const call_files *files; /* its, read; NULL: each case reads them */
    int by_memory;           /* judged by the bandwidth of memory, whatever it is limited by */
    int relative;            /* with relative keys */
    int gradient;            /* and a row of the backward pass */
    int same_bits;           /* tokens one by one have the bits of one pass */
    int dry_run;             /* measure nothing, only say what would run */
    unsigned peers;          /* to run beside it, see peers_read */
} bench_setup;

/* Builds the graph and program of its variant on `tokens`, those of a file on its own, and sets what was typed for
   the program; release with bench_case_clear. */
int bench_build(const bench_setup *p, hga_id tokens, bench_case *out);
/* Its second half: sets what was typed in the program. */
int bench_put(const bench_setup *p, bench_case *c);
/* Binds the rest to the call, from arrays that `files` keeps. */
int bench_bind(const bench_setup *p, bench_case *c, call_files *files);

/* A row with what a setup says of it. */
bench_row bench_row_of(const bench_setup *p);
/* Measure a case and append its rows, ours first. *failed counts the peers whose results were wrong. */
int bench_run(const bench_setup *p, json_t *rows, int *failed);

/* ---- bench_decode.c: tokens one by one after a context, beside a flat cache ---- */

#define DEFAULT_DECODED                                                                                          \
    "window:left=256:right=0:causal=1,htransformer:causal=1,hsa:branching=4:causal=1,hsa:branching=16:causal=1," \
    "fenwick"

/* A flat cache of p->tokens: one query against so many keys and values, by the same engine. Appends its row, and
   sets *seconds to the median of a token (0 of a dry run). Ignores the setup's variant. */
int bench_decode_flat(const bench_setup *p, json_t *rows, double *seconds);
/* The setup's variant after as many tokens; `flat` is the flat cache's time of a token. */
int bench_decode_run(const bench_setup *p, double flat, json_t *rows);

/* ---- bench_ranks.c: what the ranks of mpirun send and how long they take ---- */

/* What a message meets here: as typed, or, where that is 0, as measured between the first rank and the last. */
typedef struct bench_link {
    double latency_us, gbits;
} bench_link;
int bench_link_measure(bench_link *link);

/* All ranks call it together; rank 0 appends the row. */
int bench_ranks_run(const bench_setup *p, const bench_link *link, json_t *rows);

#endif
