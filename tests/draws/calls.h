/* calls.h: one generator of calls. A call is a program on a graph with a shape, options, tensors of drawn layouts and
   types, tables, requested rows, samples, requested gradients; everything is drawn together. call_hold runs it in
   several ways and holds what comes out to what must be true of any call. */
#ifndef HGA_CALLS_H
#define HGA_CALLS_H

#include "brought.h"
#include "draws.h"
#include "options.h"

enum { MOST_SAMPLES = 3, MOST_HEADS = 64, MOST_COLUMNS = 32, MOST_ARRAYS = 40 + 2 * HGA_MAX_USER_TENSORS };

typedef enum array_use {
    ARRAY_READ,    /* forward and backward */
    ARRAY_WRITTEN, /* forward, and read backward */
    ARRAY_INPUT,   /* gradients of what was written */
    ARRAY_OUTPUT   /* gradients */
} array_use;

/* One array of the caller's: exactly as long as it must be, so that a sanitiser sees a step beyond. A tensor, or a
   table, which is one row of one head. */
typedef struct array {
    const char *name;
    array_use use;
    int is_tensor, by_row; /* by_row: a call may request some of its rows */
    size_t at;             /* the hga_tensor, or the pointer, in hga_io or hga_grad_io */
    int64_t rows, columns;
    hga_id heads;
    ptrdiff_t row_stride, head_stride, fold_stride;
    int64_t fold; /* 0: rows are not folded */
    int packed;   /* strides are passed as 0 0 */
    hga_dtype dtype;
    int64_t elements; /* gaps included */
    /* rows from here on of a tensor of the user's are written by a stage, and not read before; else as many as rows */
    int64_t written_from;
} array;

/* Rows of an array: one interval, or two of which the second is after the first. */
typedef struct asked {
    hga_interval interval[2];
} asked;

/* Tables of edges. */
enum { EDGES_BIAS, EDGES_KEY, EDGES_VALUE, N_OF_EDGES };

typedef struct drawn_call drawn_call;
/* Somebody's own idea of the results: `io` has packed float32 tensors but for the output, which is as drawn. */
typedef void call_oracle(const drawn_call *c, const hga_io *io);

struct drawn_call {
    const hga_graph *graph;
    const hga_program *program;
    hga_program own; /* what `program` is, where its scores were changed */
    operands modifiers;
    float sink[MOST_HEADS], slopes[MOST_HEADS], additive[MOST_HEADS * MOST_COLUMNS]; /* what modifiers points at */
    hga_shape shape;
    hga_options options;
    hga_io io; /* what is not an array: scale, seed, layer, numbers of rows of tables */
    int n_samples, in_batch;
    asked asked[MOST_SAMPLES]; /* of out, of no rows: all */
    int several;               /* a request for three rows or more leaves out those in the middle */
    hga_rows rows[MOST_SAMPLES];
    int64_t out_rows;
    int accumulate, updated;
    int few;         /* options */
    uint64_t wanted; /* arrays, by number */
    uint64_t seed;   /* of the numbers */
    trait_set wish;  /* options that are to be there, as far as graph and program let them */
    int n_arrays;
    array drawn[MOST_ARRAYS], plain[MOST_ARRAYS]; /* as drawn; and packed in float32 */
    float *of_edges[N_OF_EDGES];                  /* numbers of the edge alone; NULL: there are none */
    int n_before_edges;                           /* arrays, without keys and features of edges, which come last */
    call_oracle *oracle;
};

/* Draw everything that is not drawn yet; call_clear gives back. With a wish options are there that it names, as far as
   graph and program let them. */
void call_draw(choices *c, const hga_graph *g, const hga_program *p, drawn_call *out);
void call_draw_wish(choices *c, const hga_graph *g, const hga_program *p, const trait_set *wish, drawn_call *out);
void call_clear(drawn_call *c);
/* The same call with defaults spelt where it leaves zero: dim_v, isa, cut_edges, scale, rows, strides. */
void call_spell(const drawn_call *c, drawn_call *to);
/* Biases of edges are numbers of a seed like others. */
void call_forget_biases(drawn_call *c);
/* Without keys and features of edges. */
void call_drop_edges(drawn_call *c);
/* Whether weights are sigmoids and the call's products are those of bfloat16 pairs, which round them. */
int sums_rounded_sigmoids(const drawn_call *c);
/* Rows of the output to request, sample by sample, where calls of the plan may request some. */
void call_draw_rows(choices *c, drawn_call *call);
/* Rows of some tensors are folded, as the number says. */
void call_draw_folds(drawn_call *call, uint64_t at);
/* Where a row begins, in elements. */
int64_t array_row(const array *a, int64_t row);
/* Options that a plan on ranks refuses. */
enum { RANKS_WITHOUT_SOME_ROWS = 1, RANKS_WITHOUT_ROWS_THAT_STAY = 2, RANKS_WITHOUT_KEPT_FIELDS = 4 };
/* .. and a decoder, or an append. */
enum {
    DECODING_WITHOUT_GRADIENTS = 1,
    DECODING_WITHOUT_DROPOUT = 2,
    DECODING_WITHOUT_KEPT_FIELDS = 4,
    DECODING_WITHOUT_EDGE_BIAS = 8,
    DECODING_WITHOUT_SOME_ROWS = 16,
    DECODING_WITHOUT_TYPES = 32,
    DECODING_WITHOUT_RANKS = 64,
    DECODING_WITHOUT_FOLDS = 128,
    DECODING_WITHOUT_EDGE_KEY = 256,
    DECODING_WITHOUT_EDGE_VALUE = 512
};

/* What holds for every call; returns what became of it. */
typedef struct call_fate {
    hga_status forward, backward;       /* of the call as it was drawn */
    int fast;                           /* gradients did not run in the plain solver */
    char refused[160];                  /* why not, where one of them is not HGA_OK */
    hga_status on_ranks, back_on_ranks; /* of all rows */
    char refused_on_ranks[160];
    unsigned ranks_without; /* of its options those that ranks have refused */
    hga_status decoded;
    char refused_decoding[160];
    unsigned decoding_without;
} call_fate;
call_fate call_hold(const drawn_call *c);
/* On ranks, where `fate` says that the call runs: rows have the bits of one process. */
void call_hold_on_ranks(const drawn_call *c, call_fate *fate);
/* Token by token, where `fate` says that the call runs: rows are those of the full pass. */
void call_hold_decoding(const drawn_call *c, call_fate *fate);
/* The options of a call in words, on stderr. */
void call_describe(const drawn_call *c);

/* ---- arrays and what they hold ---- */

/* The blocks of a run, by sample and array; NULL where a call has none. */
typedef struct call_memory {
    void *block[MOST_SAMPLES][MOST_ARRAYS];
} call_memory;

/* Requested rows of out of a sample; rows [first, first + n) of any array. */
asked asked_of(const drawn_call *c, int sample, int whole);
asked asked_between(int64_t first, int64_t n);
/* How many rows, and the i-th of them. */
int64_t asked_count(asked rows);
int64_t asked_row(asked rows, int64_t i);
/* Rows of what is read that a stage writes: some of the user's own tensors. */
asked rows_written(const array *a);

/* How a run's arrays are laid out and filled. */
typedef struct filled {
    const array *arrays;
    int byte;       /* of what is not an input: gaps, what is to be written, rows that are not requested */
    int whole;      /* all rows are requested, and those that were not have no gradient */
    int accumulate; /* requested gradients hold numbers already */
    uint64_t wanted;
} filled;
void memory_fill(const drawn_call *c, const filled *f, call_memory *m);
void memory_clear(call_memory *m);
/* Only what was requested has changed since `before`, which was filled the same way. */
void memory_check(const drawn_call *c, const filled *f, const char *when, const call_memory *m, int written,
                  int wanted);
float memory_at(const array *a, const void *block, int64_t row, hga_id head, int64_t column);
/* The numbers that array a of a sample holds at first, and their seed. */
uint64_t array_seed(const drawn_call *c, int a, int sample);
void array_numbers(const drawn_call *c, int a, int sample, float *out);
/* A number as an array of that type would hold it. */
float rounded(hga_dtype type, float x);
/* Tensors and pointers of a sample. */
void call_io(const drawn_call *c, const filled *f, const call_memory *m, int sample, hga_io *io, hga_grad_io *grad);

/* ---- one run ---- */

typedef struct way {
    const char *name;
    hga_options options;
    filled filled;
    int alone;   /* sample by sample, each in a workspace of its own */
    int updated; /* the plan was another graph's before, and is so again before a gradient */
    int again;   /* gradients once more, after a call without tables */
} way;

typedef struct outcome {
    filled filled;
    hga_status forward, backward;
    int fast;
    char refused[160];
    call_memory memory;
} outcome;
outcome call_run(const drawn_call *c, const way *w);
void outcome_clear(outcome *o);
/* Both have the same statuses and the same numbers wherever something was requested: bits, or values as near as
   `forward` and `backward` say. */
void outcomes_compare(const drawn_call *c, const char *what, const outcome *a, const outcome *b, double forward,
                      double backward);

#endif
