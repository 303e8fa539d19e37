/* attend.h: hga attend: what was typed, and the files that it writes, in one process and in several. */
#ifndef CLI_ATTEND_H
#define CLI_ATTEND_H

#include "attend_gradients.h"

/* ---- what the heads of a call have chosen, and how much each block weighed ---- */

/* As typed, NULL where an option was not: --choice and --block-weights are written, --block-scores is read. */
typedef struct chosen_paths {
    const char *choice, *weights, *scores;
} chosen_paths;

/* A chooser's of a sample; weights [its heads][tokens][slots], NULL: not wanted. */
typedef struct chosen_part {
    chosen_blocks blocks;
    float *weights;
} chosen_part;

typedef struct chosen_files {
    chosen_paths typed;
    npy scores;
    hga_id samples, choosers, heads, tokens;
    chosen_part *part; /* [samples][choosers] */
} chosen_files;

/* Read what is given. */
int chosen_open(const chosen_paths *typed, const typed_variant *variant, const attend_io *all, hga_id choosers,
                chosen_files *f);
/* Keep what the model of a bound part has chosen, and what it weighs. */
int chosen_keep(hga_id sample, hga_id chooser, model *m, const hga_options *options, const attend_io *one,
                chosen_files *f);
/* What is wanted, into files. `like` has the samples' axis, or has not. */
int chosen_write(const tensor_file *like, const chosen_files *f, outfile *choice, outfile *weights);
void chosen_clear(chosen_files *f);

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
