/* bench_cases.h: what `hga bench` runs: variants by name, on numbers made up for them. */
#ifndef CLI_BENCH_CASES_H
#define CLI_BENCH_CASES_H

#include "cases.h"
#include "variant.h"

enum { MAX_LIST = 64 };

/* "htransformer:block=32" taken apart. */
typedef struct bench_variant {
    char text[256]; /* name:parameter=value:.. */
    char parts[256];
    typed_variant typed;
    int by_chance;          /* see bench_case_make */
    const hga_shape *shape; /* whose heads choose, of routed; NULL: as --heads and --dim are by default */
    int file;               /* graph=FILE, which knows how many tokens it has */
} bench_variant;

/* "dense,hsa:branching=2,4,8:causal=1": an item that begins with a digit belongs to the one before. */
int bench_variants_read(const char *list, bench_variant *out, int *n);
/* One more, of `length` bytes, whatever commas it has. */
int bench_variant_add(const char *item, size_t length, bench_variant *out, int *n);

/* The graph and program of a variant on `tokens`, those of a file on its own; release with bench_case_clear. */
int bench_variant_build(const bench_variant *v, hga_id tokens, bench_case *out);

#endif
