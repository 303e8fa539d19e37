/* tuning.h: numbers that depend on the processor. They decide where rows are stored temporarily, never the order of
   sums: results have the same bits whatever they are. The order of sums is one set of numbers for all machines
   (semantics/sums.h). */
#ifndef TUNING_H
#define TUNING_H

#include "hga_base.h"

typedef struct tuning {
    /* A tile's keys and values are packed contiguously for so many groups of rows and heads that read them. */
    int64_t pack_readers;
    /* An output, or gradients, of so many bytes bypass the caches. */
    int64_t stream_output, stream_gradients;
    /* Keys and values of so many bytes, of nodes that edges name in any order, are prefetched as from memory. */
    int64_t far_sources;
    /* So many bytes of a lone row's keys and values are not prefetched where they are contiguous. */
    int64_t near_sources;
    /* The data of all panels between a token's first stage and its last should fit the second-level cache together:
       bytes of outputs of the tokens that a panel of the tree's rows stands for, and of queries, keys, values and
       outputs of those that a panel of attended rows stands for. */
    int64_t tree_bytes, attend_bytes;
    /* Where threads have blocks of tokens cyclically: bytes of a block's rows of coarsened fields, on all levels. */
    int64_t cyclic_bytes;
} tuning;

/* The processor, as it reports itself; "" and zeros where it does not. */
typedef struct processor {
    char maker[16]; /* "GenuineIntel" */
    hga_id family, model;
    int64_t second_cache, third_cache; /* bytes of one core's cache, and of the shared one */
} processor;
/* Found once in a process; the caches as far as the C library knows them. */
processor processor_here(void);

/* The first row of the table that fits a processor. */
tuning tuning_of(const processor *p);
/* Where that row was measured; NULL: nowhere, its numbers are those of others. */
const char *tuning_measured(const processor *p);
/* `text` as HGA_TUNING has it, "pack_readers=6,stream_output=0": replaces the named numbers of *t. NULL and "" replace
   nothing. HGA_EINVAL names what is wrong, and *t is unchanged. */
hga_status tuning_override(const char *text, tuning *t);
/* A plan's tuning: this processor, its row of the table, and whether HGA_TUNING has replaced some of it. */
typedef struct tuned {
    processor here;
    tuning is;
    int declared;
} tuned;

typedef struct tuning_words {
    char text[500];
} tuning_words;
/* "AuthenticAMD family 25, second cache 1024 kB: pack_readers 3, stream_output 33554432, ..; these numbers were
   measured on Zen 4 and 5" */
tuning_words tuned_say(const tuned *t);
/* The same as an object of jansson's; NULL: no memory. */
struct json_t *tuned_json(const tuned *t);

#endif
