/* attend.h: hga attend: what was typed, and the files that it writes, in one process and in several. */
#ifndef CLI_ATTEND_H
#define CLI_ATTEND_H

#include "attend_gradients.h"
#include "chosen_files.h"

/* What was typed. */
typedef struct typed_attend {
    typed_variant variant;
    hga_options options;
    typed_tensors tensors;
    gradient_arguments gradients;
    typed_call call;
    const char *node_map;
    chosen_paths chosen;
} typed_attend;

/* The files, in the order opposite to that in which they get their names. */
enum { TO_MADE, TO_NODE_MAP = N_MADE, TO_CHOICE, TO_WEIGHTS, TO_GRADIENTS, N_TARGETS = TO_GRADIENTS + N_GRADIENTS };
void attend_targets(const typed_attend *a, outfile_wish wish[static N_TARGETS]);

/* One call that the ranks of mpirun share: every rank reads its rows of the tensors, computes them and writes them; the
   files are those of one process. */
int attend_ranks(const typed_attend *a);

#endif
