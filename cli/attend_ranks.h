/* attend_ranks.h: one call of `hga attend` that the ranks of mpirun share. */
#ifndef CLI_ATTEND_RANKS_H
#define CLI_ATTEND_RANKS_H

#include "attend_gradients.h"
#include "chosen_files.h"
#include "typed_tensors.h"

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

/* Every rank reads its rows of the tensors, computes them and writes them: the files are those of one process. */
int attend_ranks(const typed_attend *a);

#endif
