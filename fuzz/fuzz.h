/* fuzz.h: what the fuzzers share: choices made of bytes, an allocator that fills and counts, and the oracles of a
   program on a graph. A fuzzer is a file with LLVMFuzzerTestOneInput; with clang it is linked with libFuzzer, else with
   main.c. */
#ifndef HGA_FUZZ_H
#define HGA_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "filling.h"
#include "hga.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Say what is wrong and abort, which keeps the input; first, the graph and program that were set, if any. */
void fuzz_set_input(const hga_graph *g, const hga_program *p);
_Noreturn void fuzz_fail(const char *format, ...) HGA_PRINTF(1, 2);

/* ---- choices: the input as a stream of decisions, 0 for ever once it has ended ---- */

typedef struct choices {
    const uint8_t *data;
    size_t size, at;
} choices;

/* One of 0 .. n - 1. */
hga_id choose(choices *c, hga_id n);
/* One time in n, never when the input has ended. */
int rarely(choices *c, hga_id n);

/* ---- memory and files ---- */

/* Aborts when a block was not given back. */
void fuzz_memory_end(const filling *f, const char *who);

/* A path that reads these bytes, valid until the next call. */
const char *fuzz_file(const uint8_t *data, size_t size);
/* A path of this process's own for a file to be written, the same in every call. */
const char *fuzz_scratch(void);

/* ---- oracles ---- */

/* Programs that were executed, for the last line of main.c: a fuzzer whose inputs are all refused finds nothing. */
extern long fuzz_n_executed;

/* Run the program on the graph with a shape, options and tensors of the choices, if the plan accepts it: the same bits
   whatever the allocator's bytes, the threads and updates of the plan there and back were, the plain executor's values,
   no block left. */
void fuzz_execute(const hga_graph *g, const hga_program *p, choices *c);
/* Its gradients on several threads, on one (the same bits) and plain (near), with the tables and numbers of rows of
   `like`. How many went the fast way: */
void fuzz_go_back(const hga_graph *g, const hga_program *p, const hga_shape *s, const hga_io *like,
                  hga_options options);
extern long fuzz_n_back;
/* The pattern's rectangles, the coverage and the levels count the same pairs. */
void fuzz_inspect(const hga_graph *g, const hga_program *p);
/* A graph that was accepted keeps every rule. */
void fuzz_check_rules(const hga_graph *g);
/* It has the same text after it was written as JSON, read and written again. */
void fuzz_write_and_read(const hga_graph *g, const hga_allocator *a);
/* Is the graph small enough for that? */
int fuzz_is_small(const hga_graph *g);
/* User functions for a stage that reads the fields of `reads` and writes those of `writes`; at most 4 at a time. */
hga_udf fuzz_user_functions(const hga_program *p, uint32_t reads, uint32_t writes);
/* The columns of the user functions' fields are those of this shape. */
void fuzz_user_shape(const hga_shape *shape);

#endif
