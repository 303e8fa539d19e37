/* draws.h: graphs, programs and the words of variants, drawn from choices; for property tests, the fuzzers and Python's
   tests alike. No test framework is needed here: who links this says how a failure ends. */
#ifndef HGA_DRAWS_H
#define HGA_DRAWS_H

#include "choices.h"
#include "hga.h"

/* Says what is wrong and does not return; each program that draws brings its own. */
_Noreturn void draw_fail(const char *format, ...) HGA_PRINTF(1, 2);

/* A random graph: levels, families, sides, relations of blocks and edges with orders; NULL where the rules refuse it.
   */
hga_graph *draw_graph(choices *c, const hga_allocator *a);
/* A random program over it; a plan may still refuse what it asks for. 0: no program. */
int draw_program(choices *c, const hga_graph *g, hga_program *p);
/* User functions, with adjoints or without, for a stage that reads the fields of `reads` and writes those of `writes`.
   */
hga_udf draw_user_functions(choices *c, uint32_t reads, uint32_t writes);
/* The words of a variant and a number of tokens, as hga_build takes them; it may refuse the combination. */
hga_id draw_words(choices *c, char *words, size_t bytes);
/* A graph with its program: a random one, or a variant of the library's, those that route tokens among them. 0: what
   was drawn is refused. */
int draw_hierarchy(choices *c, const hga_allocator *a, hga_graph **g, hga_program *p);

/* .. whose tokens see none that come later, for the most part; or any program over such a graph. */
int draw_causal(choices *c, int any_program, hga_graph **g, hga_program *p);

/* The graph and the program on stderr, in a few lines. */
void draw_describe(const hga_graph *g, const hga_program *p);

#endif
