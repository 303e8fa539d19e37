/* fuzz.h: what the fuzzers share: files, memory, and the oracles of a program on a graph. A fuzzer is a file with
   LLVMFuzzerTestOneInput; with clang it is linked with libFuzzer, else with main.c. */
#ifndef HGA_FUZZ_H
#define HGA_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "calls.h"
#include "filling.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Say what is wrong and abort, which keeps the input; first, the graph, program and call that were set, if any. */
void fuzz_set_input(const hga_graph *g, const hga_program *p);
void fuzz_set_call(const drawn_call *c);
_Noreturn void fuzz_fail(const char *format, ...) HGA_PRINTF(1, 2);

/* ---- memory and files ---- */

/* Aborts when a block was not given back. */
void fuzz_memory_end(const filling *f, const char *who);

/* A path that reads these bytes, valid until the next call. */
const char *fuzz_file(const uint8_t *data, size_t size);
/* A path of this process's own for a file to be written, the same in every call. */
const char *fuzz_scratch(void);

/* ---- oracles ---- */

/* Programs that were executed, for the last line of main.c: a fuzzer whose inputs are all refused finds nothing. And
   how many went back the fast way. */
extern long fuzz_n_executed, fuzz_n_back;

/* A call of the program on the graph, drawn from the choices, if the plan accepts it; held to what calls.h says. */
void fuzz_execute(const hga_graph *g, const hga_program *p, choices *c);
/* The pattern's rectangles, the coverage and the levels count the same pairs. */
void fuzz_inspect(const hga_graph *g, const hga_program *p);
/* A graph that was accepted keeps every rule. */
void fuzz_check_rules(const hga_graph *g);
/* It has the same text after it was written as JSON, read and written again. */
void fuzz_write_and_read(const hga_graph *g, const hga_allocator *a);
/* Is the graph small enough for that? */
int fuzz_is_small(const hga_graph *g);

#endif
