/* bench_cases.h: what `hga bench` runs: variants by name, on numbers made up for them. */
#ifndef CLI_BENCH_CASES_H
#define CLI_BENCH_CASES_H

#include "variant.h"

enum { MAX_LIST = 64 };

/* "htransformer:block=32" taken apart. */
typedef struct bench_variant {
    char text[256]; /* as typed */
    char parts[256];
    typed_variant typed;
    hga_id height; /* of a tree; -1: by the number of tokens */
    hga_id degree; /* of a random graph; 0: it is none */
    int tree, coarse;
} bench_variant;

/* "dense,hsa:branching=2,4,8:causal=1": an item that begins with a digit belongs to the one before. */
int bench_variants_read(const char *list, bench_variant *out, int *n);

/* The graph of a variant on `tokens`; trees get leaves by chance, "random:degree=32" as many edges a row from sources
   by chance. */
int bench_model(const bench_variant *v, hga_id tokens, model *out);

/* Random tensors for a model. */
typedef struct bench_tensors {
    float *memory;
    hga_io io;
    int64_t bytes;
} bench_tensors;
/* Bytes and pointers' offsets are known without memory: with `allocate` 0 only `bytes` is filled. */
int bench_tensors_make(const model *m, const hga_shape *shape, int allocate, bench_tensors *out);
void bench_tensors_clear(bench_tensors *t);

#endif
