/* attend.h: hga attend: its arguments, and the files that it writes, in one process and in several. */
#ifndef CLI_ATTEND_H
#define CLI_ATTEND_H

#include "attend_io.h"

/* ---- attend_gradients.c: the backward pass: gradients that are read, required, computed and written ---- */

typedef enum gradient_of {
    GRADIENT_QUERY,
    GRADIENT_KEY,
    GRADIENT_VALUE,
    GRADIENT_TABLE, /* that of row t is GRADIENT_TABLE + t */
    N_GRADIENTS = GRADIENT_TABLE + HGA_N_TABLES
} gradient_of;

/* As typed, NULL where an option was not; and dropout, which forward and backward share. */
typedef struct gradient_arguments {
    const char *out, *lse, *edge_out, *requested[N_GRADIENTS];
    double dropout;
    int64_t seed;
    hga_id layer;
} gradient_arguments;

/* --grad-*, --dropout, --seed, --layer: input is a gradient_arguments. */
const option_list *gradient_list(void);
/* "rel-key", of --grad-rel-key; and that. */
const char *gradient_name(gradient_of of);
const char *gradient_option(gradient_of of);
/* Of a call's table, else NULL. */
const hga_call_row *gradient_row(gradient_of of);

/* Are any required? */
int gradients_requested(const gradient_arguments *typed);
/* Weights are dropped where there are any. */
int gradients_bind_dropout(const gradient_arguments *typed, const model *m, attend_io *one);
/* Checks that the arguments fit together and fit what attend reads and writes. */
int gradients_check(const gradient_arguments *typed, const attend_paths *paths, const typed_call *call);

/* Gradients of all samples: of query, key and value a slice a sample, of what samples share the sum. */
typedef struct attend_gradients {
    const gradient_arguments *typed;
    tensor_file out, edge_out; /* inputs */
    npy lse;                   /* input, [samples][rows][heads] */
    npy sum[N_GRADIENTS];      /* in the axes of its file; query, key and value have their tensors' */
} attend_gradients;

/* Reads the given gradients, --grad-out, or its sizes alone, by `read`. */
int gradients_open(const gradient_arguments *typed, const attend_io *all, tensor_reader read, attend_gradients *g);
/* Checks that they fit a bound sample. */
int gradients_check_inputs(const attend_gradients *g, const model *m, const attend_io *one);

/* The engine's arrays of a sample, [n]. */
typedef struct sample_gradients {
    float *of[N_GRADIENTS];
    int64_t n[N_GRADIENTS];
} sample_gradients;

/* A call's gradients, each in the array that `of` names. */
hga_grad_io gradients_bind(const hga_io *io, float *d_out, float *d_lse, float *const of[N_GRADIENTS]);
/* Runs forward with a tape, and backward; the caller owns the plan. */
int gradients_execute(const model *m, hga_options options, const hga_shape *shape, const hga_io *io,
                      const hga_grad_io *grad, hga_plan **plan);
/* Binds what the engine reads and writes for a sample; and adds its results to the sums. */
int gradients_open_sample(const model *m, const attend_io *all, const attend_io *one, hga_id sample,
                          attend_gradients *g, sample_gradients *s, hga_grad_io *grad);
void gradients_add_sample(const model *m, const attend_io *all, const attend_io *one, hga_id sample,
                          const sample_gradients *s, attend_gradients *g);
void gradients_close_sample(sample_gradients *s);
/* The tensor that it is the gradient of; NULL: samples share it. */
const tensor_file *gradient_tensor(const attend_io *a, gradient_of of);

/* Executes a bound sample and runs backward: writes its output where a's is, adds its gradients to the sums. */
int gradients_run(const model *m, const hga_options *options, const attend_io *all, hga_id sample, attend_io *one,
                  attend_gradients *g);
/* Writes them to their files. */
int gradients_write(const attend_io *all, element type, const attend_gradients *g, outfile file[static N_GRADIENTS]);
void gradients_clear(attend_gradients *g);

/* ---- what the heads of a call have chosen, and how much each block weighed ---- */

/* As typed, NULL where an option was not: --choice and --block-weights are written, --block-scores is read. */
typedef struct chosen_paths {
    const char *choice, *weights, *scores;
} chosen_paths;

/* A chooser's of a sample; weights [its heads][tokens][slots], NULL: not requested. */
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

/* Reads the files that were named. */
int chosen_open(const chosen_paths *typed, const typed_variant *variant, const attend_io *all, hga_id choosers,
                chosen_files *f);
/* Keeps what the model of a bound part has chosen, and its weights. */
int chosen_keep(hga_id sample, hga_id chooser, model *m, const hga_options *options, const attend_io *one,
                chosen_files *f);
/* Writes the files that were named. `like` has the samples' axis, or has not. */
int chosen_write(const tensor_file *like, const chosen_files *f, outfile *choice, outfile *weights);
void chosen_clear(chosen_files *f);

/* ---- check_gradient.c: hga check --gradient, gradients against differences ---- */

typedef struct gradient_check {
    const typed_variant *typed;
    const typed_call *call;
    attend_paths paths; /* query, key and value, or none of them: then tensors are random */
    int64_t seed;
    int json;
} gradient_check;

/* A table of each input's largest errors; CLI_FAILED where one is too large. */
int check_gradient(const gradient_check *c);

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

/* One call shared by mpirun's ranks, each of which reads, computes and writes its rows; files are as of one process. */
int attend_ranks(const typed_attend *a);

#endif
